// See problem_text.h.
#include "kernels/text/problem_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

namespace hone::text {

std::string float_text(float v) {
  char buffer[32];
  const auto end = std::to_chars(buffer, buffer + sizeof buffer, v);
  return {buffer, end.ptr};
}

std::string caret_display(std::string_view text, const Status& error) {
  constexpr std::string_view kMark = " at column ";
  const size_t mark = error.message().rfind(kMark);
  if (mark == std::string::npos) return "";
  size_t column = 0;
  const std::string_view digits = std::string_view(error.message()).substr(mark + kMark.size());
  std::from_chars(digits.data(), digits.data() + digits.size(), column);
  if (column < 1 || column > text.size() + 1) return "";
  // The bytes before the column take more room when escaped.
  return fmt::format("{}\n{}^", printable(text), std::string(printable(text.substr(0, column - 1)).size(), ' '));
}

Status ProblemCursor::report(Code code, const std::string& what, std::optional<size_t> column) const {
  const std::string at = column ? fmt::format(" at column {}", *column + 1) : "";
  return {code, fmt::format("problem '{}': {}{}; grammar: {}", printable(text_), what, at, grammar_)};
}

bool ProblemCursor::fail(const std::string& what, size_t column, Code code) {
  error_ = report(code, what, column);
  return false;
}

bool ProblemCursor::accept(char c) {
  if (done() || text_[at_] != c) return false;
  ++at_;
  return true;
}

std::string ProblemCursor::found() const { return done() ? "the end" : "'" + printable(text_.substr(at_, 1)) + "'"; }

std::string_view ProblemCursor::until(std::string_view stops) {
  const size_t end = std::min(text_.find_first_of(stops, at_), text_.size());
  const std::string_view part = text_.substr(at_, end - at_);
  at_ = end;
  return part;
}

std::string_view ProblemCursor::word() {
  const size_t start = at_;
  while (!done() && ((peek() >= 'a' && peek() <= 'z') || (peek() >= '0' && peek() <= '9') || peek() == '_')) ++at_;
  return text_.substr(start, at_ - start);
}

bool ProblemCursor::head(std::string_view op, std::span<const DType> dtypes, DType* dtype) {
  if (text_.empty()) return fail("is empty", 0);
  if (const std::string_view name = until(":"); name != op) {
    return fail(fmt::format("op '{}' is not supported; ops: {}", printable(name), op), 0, Code::kUnsupported);
  }
  if (!accept(':')) return fail(fmt::format("expected ':' and a dtype after '{}', found the end", op), at_);
  const size_t column = at_;
  const std::string_view name = until(":");
  const auto known = std::ranges::find(dtypes, name, dtype_name);
  if (known == dtypes.end()) {
    std::string names;
    for (const DType d : dtypes) names += fmt::format("{}{}", names.empty() ? "" : ", ", dtype_name(d));
    return fail(fmt::format("dtype '{}' is not supported by {}; dtypes: {}", printable(name), op, names), column,
                Code::kUnsupported);
  }
  *dtype = *known;
  return accept(':') || fail("expected ':' and the sizes after the dtype, found the end", at_);
}

bool ProblemCursor::key(std::span<const std::string_view> keys, size_t* index) {
  const size_t column = at_;
  const std::string_view name = word();
  if (name.empty()) return fail("expected a key, found " + found(), at_);
  const auto at = std::find(keys.begin(), keys.end(), name);
  if (at == keys.end()) return fail(fmt::format("unknown key '{}'", printable(name)), column);
  *index = static_cast<size_t>(at - keys.begin());
  if (seen(*index)) return fail(fmt::format("key '{}' appears twice", name), column);
  seen_.resize(keys.size());
  seen_[*index] = true;
  return accept('=') || fail(fmt::format("expected '=' after '{}', found {}", name, found()), at_);
}

bool ProblemCursor::end_of_keys(std::span<const std::string_view> keys, std::span<const size_t> needed) {
  if (!done() && peek() != ':') return fail("expected ',' or ':', found " + found(), at_);
  for (size_t i : needed)
    if (!seen(i)) return fail(fmt::format("key '{}' is missing", keys[i]), at_);
  return true;
}

bool ProblemCursor::choice(std::span<const std::string_view> names, std::string_view what, std::string_view of,
                           size_t* index) {
  const size_t column = at_;
  const std::string_view name = word();
  const auto at = std::find(names.begin(), names.end(), name);
  *index = static_cast<size_t>(at - names.begin());
  if (at != names.end()) return true;
  return fail(fmt::format("unknown {} '{}'{} ({} or {})", what, name.empty() ? found() : printable(name), of,
                          fmt::join(names.first(names.size() - 1), ", "), names.back()),
              column);
}

bool ProblemCursor::integer(int64_t* out) {
  const size_t column = at_;
  if (peek() == '-') return fail("negative numbers are not allowed", column);
  const char* end = text_.data() + text_.size();
  const auto [ptr, ec] = std::from_chars(text_.data() + at_, end, *out);
  if (ec == std::errc::invalid_argument) return fail("expected a number, found " + found(), column);
  at_ = static_cast<size_t>(ptr - text_.data());
  if (ec == std::errc::result_out_of_range) {
    return fail(fmt::format("{} is too large (sizes are 64 bit)", printable(text_.substr(column, at_ - column))),
                column);
  }
  return true;
}

bool ProblemCursor::real(float* out) {
  const size_t column = at_;
  const std::string_view part = until(",:");
  const char* end = part.data() + part.size();
  const auto [ptr, ec] = std::from_chars(part.data(), end, *out);
  const bool letters = part.find_first_not_of("0123456789+-.e") != std::string_view::npos;  // "inf", "nan"
  if (ec == std::errc() && ptr == end && !letters) return true;
  return fail(fmt::format("'{}' is not a decimal number that a float can hold", printable(part)), column);
}

bool ProblemCursor::add(Axis* axis, int64_t value, size_t column) {
  if (static_cast<int64_t>(axis->values.size()) >= kMaxProblems) {
    return fail(fmt::format("more than {} problems", kMaxProblems), column);
  }
  axis->values.push_back(value);
  return true;
}

bool ProblemCursor::values(Axis* axis) {
  const size_t column = at_;
  if (peek() == '{') {
    if (!lists_) return fail("a list where one problem is wanted", column);
    return list(axis);
  }
  int64_t first = 0;
  if (!integer(&first)) return false;
  if (peek() != '-') return add(axis, first, column);
  if (!lists_) return fail("a range where one problem is wanted", column);
  return range(axis, first, column);
}

bool ProblemCursor::list(Axis* axis) {
  ++at_;
  do {
    const size_t column = at_;
    int64_t value = 0;
    if (!integer(&value) || !add(axis, value, column)) return false;
  } while (accept(','));
  return accept('}') || fail("expected ',' or '}', found " + found(), at_);
}

bool ProblemCursor::range(Axis* axis, int64_t first, size_t column) {
  ++at_;
  int64_t last = 0, step = 1;
  if (!integer(&last)) return false;
  const char kind = peek();
  if (kind == '+' || kind == '*') {
    const size_t step_column = ++at_;
    if (!integer(&step)) return false;
    if (kind == '+' && step < 1) return fail("the step must be at least 1", step_column);
    if (kind == '*' && step < 2) return fail("the factor must be at least 2", step_column);
  }
  if (last < first) return fail("the range ends before it begins", column);
  if (kind == '*' && first < 1) return fail("a range with a factor must begin at 1 or more", column);
  for (int64_t v = first;;) {
    if (!add(axis, v, column)) return false;
    if (kind == '*' ? v > last / step : v > last - step) return true;
    v = kind == '*' ? v * step : v + step;
  }
}

}  // namespace hone::text
