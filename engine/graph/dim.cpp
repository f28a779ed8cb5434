#include "engine/graph/dim.h"

#include <fmt/format.h>

#include <cctype>
#include <charconv>

#include "engine/base/printable.h"

namespace hone::graph {

Dim Dim::symbol(std::string name, int64_t factor) {
  Dim d;
  if (factor != 0) d.terms_.emplace(std::move(name), factor);
  return d;
}

Dim Dim::unknown() {
  Dim d;
  d.unknown_ = true;
  return d;
}

std::optional<std::string> Dim::as_symbol() const {
  if (unknown_ || constant_ != 0 || terms_.size() != 1 || terms_.begin()->second != 1) return std::nullopt;
  return terms_.begin()->first;
}

bool Dim::uses(std::string_view symbol) const {
  for (const auto& [name, factor] : terms_)
    if (name == symbol) return true;
  return false;
}

Result<int64_t> Dim::evaluate(const Bindings& bindings) const {
  if (unknown_) return failed_precondition("a dimension is unknown: shape inference has not run");
  int64_t sum = constant_;
  for (const auto& [name, factor] : terms_) {
    const auto at = bindings.find(name);
    if (at == bindings.end()) return failed_precondition(fmt::format("symbol '{}' has no value", name));
    int64_t product = 0;
    if (__builtin_mul_overflow(factor, at->second, &product) || __builtin_add_overflow(sum, product, &sum))
      return invalid_argument(fmt::format("dimension {} is too large for {} = {}", to_string(*this), name, at->second));
  }
  return sum;
}

Dim Dim::substitute(std::string_view symbol, const Dim& by) const {
  Dim d = *this;
  const auto at = d.terms_.find(std::string(symbol));
  if (at == d.terms_.end()) return d;
  const int64_t factor = at->second;
  d.terms_.erase(at);
  return d + by * Dim(factor);
}

Dim& Dim::operator+=(const Dim& o) {
  if (unknown_ || o.unknown_) return *this = unknown();
  if (__builtin_add_overflow(constant_, o.constant_, &constant_)) return *this = unknown();
  for (const auto& [name, factor] : o.terms_) {
    int64_t& sum = terms_[name];
    if (__builtin_add_overflow(sum, factor, &sum)) return *this = unknown();
    if (sum == 0) terms_.erase(name);
  }
  return *this;
}

Dim& Dim::operator-=(const Dim& o) { return *this += o * Dim(-1); }

Dim operator*(const Dim& a, const Dim& b) {
  if (a.is_unknown() || b.is_unknown()) return Dim::unknown();
  if (!a.is_static() && !b.is_static()) return Dim::unknown();
  const Dim& sum = a.is_static() ? b : a;
  const int64_t factor = a.is_static() ? a.constant_ : b.constant_;
  Dim d;
  if (__builtin_mul_overflow(sum.constant_, factor, &d.constant_)) return Dim::unknown();
  if (factor != 0)
    for (const auto& [name, f] : sum.terms_)
      if (__builtin_mul_overflow(f, factor, &d.terms_[name])) return Dim::unknown();
  return d;
}

std::optional<Dim> Dim::divide(const Dim& a, int64_t b) {
  if (a.unknown_ || b == 0) return std::nullopt;
  if (b == -1) {  // INT64_MIN / -1 traps
    const Dim d = a * Dim(-1);
    return d.is_unknown() ? std::nullopt : std::optional<Dim>(d);
  }
  if (a.constant_ % b != 0) return std::nullopt;
  Dim d(a.constant_ / b);
  for (const auto& [name, factor] : a.terms_) {
    if (factor % b != 0) return std::nullopt;
    d.terms_[name] = factor / b;
  }
  return d;
}

bool surely_equal(const Dim& a, const Dim& b) { return !a.is_unknown() && a == b; }

bool possibly_equal(const Dim& a, const Dim& b) {
  if (a.is_unknown() || b.is_unknown()) return true;
  const Dim difference = a - b;
  return !difference.is_static() || difference.value() == 0;
}

namespace {

// Without its sign: INT64_MIN has none in int64_t.
uint64_t magnitude(int64_t v) { return v < 0 ? 0 - static_cast<uint64_t>(v) : static_cast<uint64_t>(v); }

}  // namespace

std::string to_string(const Dim& dim) {
  if (dim.is_unknown()) return "?";
  std::string text;
  for (const auto& [name, factor] : dim.terms()) {
    if (!text.empty()) text += factor < 0 ? " - " : " + ";
    if (text.empty() && factor < 0) text += "-";
    const uint64_t size = magnitude(factor);
    text += size == 1 ? name : fmt::format("{}*{}", size, name);
  }
  if (text.empty()) return std::to_string(dim.value());
  if (dim.value() > 0) text += fmt::format(" + {}", dim.value());
  if (dim.value() < 0) text += fmt::format(" - {}", magnitude(dim.value()));
  return text;
}

namespace {

// One term at a time: [+-] (INT ["*" NAME] | NAME).
class DimParser {
 public:
  explicit DimParser(std::string_view text) : all_(text), rest_(text) {}

  Result<Dim> parse() {
    skip();
    if (rest_ == "?") return Dim::unknown();
    Dim sum;
    bool first = true;
    while (first || !rest_.empty()) {
      int64_t sign = 1;
      if (!rest_.empty() && (rest_[0] == '+' || rest_[0] == '-')) {
        sign = rest_[0] == '-' ? -1 : 1;
        rest_.remove_prefix(1);
        skip();
      } else if (!first) {
        return wrong();
      }
      HONE_ASSIGN_OR_RETURN(const Dim term, parse_term());
      sum += term * Dim(sign);
      if (sum.is_unknown()) return wrong();
      first = false;
    }
    return sum;
  }

 private:
  Result<Dim> parse_term() {
    if (rest_.empty()) return wrong();
    if (!std::isdigit(static_cast<unsigned char>(rest_[0]))) return parse_name(1);
    int64_t number = 0;
    const auto end = std::from_chars(rest_.data(), rest_.data() + rest_.size(), number);
    if (end.ec != std::errc() || number > (int64_t{1} << 60)) return wrong();
    rest_.remove_prefix(static_cast<size_t>(end.ptr - rest_.data()));
    skip();
    if (rest_.empty() || rest_[0] != '*') return Dim(number);
    rest_.remove_prefix(1);
    skip();
    return parse_name(number);
  }

  Result<Dim> parse_name(int64_t factor) {
    size_t length = 0;
    while (length < rest_.size() && (std::isalnum(static_cast<unsigned char>(rest_[length])) || rest_[length] == '_'))
      ++length;
    if (length == 0 || std::isdigit(static_cast<unsigned char>(rest_[0]))) return wrong();
    std::string name(rest_.substr(0, length));
    rest_.remove_prefix(length);
    skip();
    return Dim::symbol(std::move(name), factor);
  }

  Status wrong() const {
    return invalid_argument(
        fmt::format("'{}' is no dimension: give a number, a symbol, a sum such as p + 2*s, or ?", printable(all_)));
  }
  void skip() {
    while (!rest_.empty() && (rest_[0] == ' ' || rest_[0] == '\t')) rest_.remove_prefix(1);
  }

  std::string_view all_, rest_;
};

}  // namespace

Result<Dim> parse_dim(std::string_view text) {
  while (!text.empty() && (text.back() == ' ' || text.back() == '\t')) text.remove_suffix(1);
  return DimParser(text).parse();
}

}  // namespace hone::graph
