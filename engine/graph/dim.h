// Dimensions of tensors: a number, a sum of symbols, or unknown.
//
//   128        static
//   s          symbolic: a size that a caller chooses, declared with its bounds in Graph::symbols
//   p + s      a sum of multiples of symbols: keys after s new tokens were added to p old ones
//   ?          unknown until shape inference finds what it equals, or gives it a symbol of its own
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>

#include "engine/base/status.h"

namespace hone::graph {

// Values of symbols in one call.
using Bindings = std::map<std::string, int64_t, std::less<>>;

class Dim {
 public:
  Dim() = default;                                // 0
  Dim(int64_t constant) : constant_(constant) {}  // NOLINT: implicit on purpose
  static Dim symbol(std::string name, int64_t factor = 1);
  static Dim unknown();

  bool is_unknown() const { return unknown_; }
  bool is_static() const { return !unknown_ && terms_.empty(); }
  // Of a static dimension.
  int64_t value() const { return constant_; }
  // The name, where this is one symbol and nothing else.
  std::optional<std::string> as_symbol() const;
  bool uses(std::string_view symbol) const;
  // Factors by symbol, never 0.
  const std::map<std::string, int64_t>& terms() const { return terms_; }

  // Error: failed_precondition naming a symbol that has no value, or saying that the dimension is unknown.
  Result<int64_t> evaluate(const Bindings& bindings) const;
  Dim substitute(std::string_view symbol, const Dim& by) const;

  // What 63 bits do not hold is unknown.
  Dim& operator+=(const Dim& o);
  Dim& operator-=(const Dim& o);
  friend Dim operator+(Dim a, const Dim& b) { return a += b; }
  friend Dim operator-(Dim a, const Dim& b) { return a -= b; }
  // A product of two that are not static is unknown.
  friend Dim operator*(const Dim& a, const Dim& b);
  // a / b where that is exact for all values of the symbols.
  static std::optional<Dim> divide(const Dim& a, int64_t b);

  // Same sum. Unknown dimensions are equal as terms, though nothing says that their values are: see surely_equal.
  bool operator==(const Dim&) const = default;

 private:
  bool unknown_ = false;
  int64_t constant_ = 0;
  std::map<std::string, int64_t> terms_;
};

// Equal whatever values symbols have.
bool surely_equal(const Dim& a, const Dim& b);
// Some values of symbols make them equal, for all we know.
bool possibly_equal(const Dim& a, const Dim& b);

std::string to_string(const Dim& dim);  // "p + s", "2*s", "128", "?"
// Error: invalid_argument naming the text.
Result<Dim> parse_dim(std::string_view text);

}  // namespace hone::graph
