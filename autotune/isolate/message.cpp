// See message.h. Each message lists its fields once, for both directions: `fields` is given a Writer or a Reader.
#include "autotune/isolate/message.h"

#include <cstring>
#include <utility>

namespace hone::autotune {
namespace {

class Writer {
 public:
  void number(int64_t value) { out_.append(reinterpret_cast<const char*>(&value), sizeof value); }
  template <typename T>
  void integer(const T& value) {
    number(static_cast<int64_t>(value));
  }
  template <typename T>
  void enumerator(const T& value, T) {
    number(static_cast<int64_t>(value));
  }
  void real(const double& value) { out_.append(reinterpret_cast<const char*>(&value), sizeof value); }
  void text(const std::string& value) {
    number(static_cast<int64_t>(value.size()));
    out_ += value;
  }
  void detail(const std::string& value) { text(value.substr(0, kMostDetail)); }
  template <typename T, typename F>
  void list(const std::vector<T>& values, F each) {
    number(static_cast<int64_t>(values.size()));
    for (const T& value : values) each(*this, value);
  }
  std::string take() { return std::move(out_); }

 private:
  std::string out_;
};

class Reader {
 public:
  explicit Reader(std::string_view in) : in_(in) {}

  int64_t number() {
    int64_t value = 0;
    raw(&value, sizeof value);
    return value;
  }
  template <typename T>
  void integer(T& value) {
    const int64_t wide = number();
    value = static_cast<T>(wide);
    good_ = good_ && static_cast<int64_t>(value) == wide;
  }
  template <typename T>
  void enumerator(T& value, T last) {
    const int64_t wide = number();
    good_ = good_ && wide >= 0 && wide <= static_cast<int64_t>(last);
    if (good_) value = static_cast<T>(wide);
  }
  void real(double& value) { raw(&value, sizeof value); }
  void text(std::string& value) {
    const auto size = static_cast<size_t>(number());
    good_ = good_ && size <= in_.size();
    if (!good_) return;
    value.assign(in_.substr(0, size));
    in_.remove_prefix(size);
  }
  void detail(std::string& value) { text(value); }
  template <typename T, typename F>
  void list(std::vector<T>& values, F each) {
    const auto size = static_cast<size_t>(number());
    good_ = good_ && size <= kMostArms;
    if (!good_) return;
    values.resize(size);
    for (T& value : values) each(*this, value);
  }
  bool good_to_the_end() const { return good_ && in_.empty(); }

 private:
  void raw(void* value, size_t size) {
    good_ = good_ && size <= in_.size();
    if (!good_) return;
    std::memcpy(value, in_.data(), size);
    in_.remove_prefix(size);
  }

  std::string_view in_;
  bool good_ = true;
};

// `M` is a message, const when written.
template <typename A, typename M>
void prepared(A& a, M& m) {
  a.enumerator(m.outcome, db::Outcome::kRefused);
  a.detail(m.detail);
}

template <typename A, typename M>
void fields(A& a, M& m) {
  using T = std::remove_const_t<M>;
  if constexpr (std::is_same_v<T, HelloMessage>) {
    a.text(m.engine);
  } else if constexpr (std::is_same_v<T, ProblemMessage>) {
    a.text(m.text);
    a.integer(m.cold);
    a.integer(m.seed);
    a.real(m.peak.f32_gflops_1t);
    a.real(m.peak.f32_gflops_all);
    a.real(m.peak.bf16_gflops_1t);
    a.real(m.peak.bf16_gflops_all);
    a.real(m.peak.read_gbs_1t);
    a.real(m.peak.read_gbs_all);
    a.real(m.peak.l2_gbs_1t);
    a.integer(m.cpus);
    a.enumerator(m.schedule, runtime::ScheduleKind::kDedicated);
  } else if constexpr (std::is_same_v<T, PrepareMessage>) {
    a.integer(m.candidate);
    a.text(m.program);
    a.text(m.codegen);
    a.integer(m.threads);
  } else if constexpr (std::is_same_v<T, RoundMessage>) {
    a.list(m.arms, [](A& b, auto& arm) { b.integer(arm); });
  } else if constexpr (std::is_same_v<T, ReleaseMessage>) {
    a.integer(m.candidate);
  } else if constexpr (std::is_same_v<T, PrepareAnswer>) {
    prepared(a, m.prepared);
  } else {
    static_assert(std::is_same_v<T, RoundAnswer>);
    a.integer(m.wall_ns);
    a.list(m.timings, [](A& b, auto& timing) {
      b.integer(timing.ns);
      b.integer(timing.wall_ns);
      prepared(b, timing);
    });
  }
}

void fields(Writer& w, const SetUpAnswer& m) {
  w.enumerator(m.status.code(), Code::kInternal);
  w.detail(m.status.message());
}

void fields(Reader& r, SetUpAnswer& m) {
  Code code = Code::kOk;
  std::string text;
  r.enumerator(code, Code::kInternal);
  r.detail(text);
  m.status = code == Code::kOk ? Status() : Status(code, text);
}

// The alternative with this index, read.
template <size_t I = 0>
std::optional<Message> read_alternative(int64_t index, Reader& reader) {
  if constexpr (I < std::variant_size_v<Message>) {
    if (index != static_cast<int64_t>(I)) return read_alternative<I + 1>(index, reader);
    std::variant_alternative_t<I, Message> message;
    fields(reader, message);
    if (reader.good_to_the_end()) return message;
  }
  return std::nullopt;
}

}  // namespace

std::string encode(const Message& message) {
  Writer writer;
  writer.number(static_cast<int64_t>(message.index()));
  std::visit([&](const auto& m) { fields(writer, m); }, message);
  return writer.take();
}

std::optional<Message> decode(std::string_view bytes) {
  Reader reader(bytes);
  const int64_t index = reader.number();
  return read_alternative(index, reader);
}

}  // namespace hone::autotune
