#include "engine/graph/constant.h"

#include <algorithm>
#include <cstring>

#include "engine/base/half.h"

namespace hone::graph {

bool TensorType::is_static() const {
  return std::all_of(dims.begin(), dims.end(), [](const Dim& d) { return d.is_static(); });
}

int64_t TensorType::elements() const {
  constexpr int64_t kMost = int64_t{1} << 62;
  int64_t product = 1;
  bool empty = false, too_many = false;
  for (const Dim& d : dims) {
    if (!d.is_static() || d.value() < 0) return -1;
    empty |= d.value() == 0;
    too_many |= __builtin_mul_overflow(product, std::max<int64_t>(d.value(), 1), &product) || product > kMost;
  }
  if (empty) return 0;
  return too_many ? -1 : product;
}

std::string to_string(const TensorType& type) {
  std::string text(dtype_name(type.dtype));
  text += '[';
  for (size_t i = 0; i < type.dims.size(); ++i) text += (i ? ", " : "") + to_string(type.dims[i]);
  return text + ']';
}

// ---- constants ----

Constant Constant::copy_of(TensorType type, Bytes elements) {
  auto storage = std::make_shared<std::vector<std::byte>>(elements.begin(), elements.end());
  Constant c;
  c.type = std::move(type);
  c.data = *storage;
  c.owner = std::move(storage);
  return c;
}

Constant Constant::f32(TensorType type, std::span<const float> elements) {
  return copy_of(std::move(type), std::as_bytes(elements));
}

Constant Constant::s32(TensorType type, std::span<const int32_t> elements) {
  return copy_of(std::move(type), std::as_bytes(elements));
}

Constant Constant::splat_f32(TensorType type, float value) {
  Constant c = f32(std::move(type), {&value, 1});
  c.splat = true;
  return c;
}

Constant Constant::of_runs(TensorType type, std::vector<Bytes> runs, std::shared_ptr<const void> owner) {
  std::vector<Bytes> joined;
  for (const Bytes run : runs) {
    if (run.empty()) continue;
    if (!joined.empty() && joined.back().data() + joined.back().size() == run.data()) {
      joined.back() = {joined.back().data(), joined.back().size() + run.size()};
    } else {
      joined.push_back(run);
    }
  }
  Constant c;
  c.type = std::move(type);
  c.owner = std::move(owner);
  if (joined.size() == 1) c.data = joined[0];
  if (joined.size() > 1) c.runs = std::make_shared<const std::vector<Bytes>>(std::move(joined));
  return c;
}

std::span<const Bytes> Constant::pieces() const {
  return runs ? std::span<const Bytes>(*runs) : std::span<const Bytes>(&data, 1);
}

int64_t Constant::stored_bytes() const {
  int64_t bytes = 0;
  for (const Bytes piece : pieces()) bytes += static_cast<int64_t>(piece.size());
  return bytes;
}

void Constant::write_out(std::byte* to) const {
  if (!splat) {
    for (const Bytes piece : pieces()) to = std::copy(piece.begin(), piece.end(), to);
    return;
  }
  for (int64_t i = type.elements(); i > 0; --i) to = std::copy(data.begin(), data.end(), to);
}

Constant Constant::contiguous() const {
  if (!runs) return *this;
  auto storage = std::make_shared<std::vector<std::byte>>(static_cast<size_t>(stored_bytes()));
  write_out(storage->data());
  Constant c = *this;
  c.runs = nullptr;
  c.data = *storage;
  c.owner = std::move(storage);
  return c;
}

const std::byte* Constant::at(int64_t i) const {
  auto byte = static_cast<size_t>(splat ? 0 : i * dtype_bytes(type.dtype));
  if (!runs) return data.data() + byte;
  auto run = runs->begin();
  for (; byte >= run->size(); ++run) byte -= run->size();
  return run->data() + byte;
}

namespace {

template <typename T>
T read(const std::byte* from) {
  T v = 0;
  std::memcpy(&v, from, sizeof v);
  return v;
}

}  // namespace

float Constant::f32_at(int64_t i) const { return read<float>(at(i)); }
int32_t Constant::s32_at(int64_t i) const { return read<int32_t>(at(i)); }
uint16_t Constant::bits16_at(int64_t i) const { return read<uint16_t>(at(i)); }
uint8_t Constant::u8_at(int64_t i) const { return read<uint8_t>(at(i)); }

double Constant::number_at(int64_t i) const {
  switch (type.dtype) {
    case DType::kF32:
      return f32_at(i);
    case DType::kS32:
      return s32_at(i);
    case DType::kU8:
      return u8_at(i);
    case DType::kBf16:
      return bf16_to_f32(bits16_at(i));
    case DType::kF16:
      return f16_to_f32(bits16_at(i));
  }
  return 0;
}

// ---- runs ----

void RunCutter::skip(int64_t bytes) { move(bytes, nullptr); }
void RunCutter::take(int64_t bytes, std::vector<Bytes>* to) { move(bytes, to); }

void RunCutter::move(int64_t bytes, std::vector<Bytes>* to) {
  while (bytes > 0 && piece_ < pieces_.size()) {
    const Bytes piece = pieces_[piece_];
    const int64_t here = std::min(bytes, static_cast<int64_t>(piece.size()) - at_);
    if (to != nullptr && here > 0) to->push_back(piece.subspan(static_cast<size_t>(at_), static_cast<size_t>(here)));
    at_ += here;
    bytes -= here;
    if (at_ == static_cast<int64_t>(piece.size())) ++piece_, at_ = 0;
  }
}

}  // namespace hone::graph
