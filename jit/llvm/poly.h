// Byte addresses and loop bounds as polynomials over the variables of a kernel.
//
// An index is affine, but an index times a runtime stride is not: i * ldc is a product of two variables. A Poly is
// constant + sum(coef * v * w), where either variable may be absent; that is exactly as much algebra as an address
// needs. It is kept apart from LLVM values so that accesses which differ by a constant are seen to share one pointer.
#pragma once

#include <compare>
#include <cstdint>
#include <utility>
#include <vector>

#include "kernels/ir/ir.h"

namespace hone::jit {

// v * w with v <= w; -1 stands for 1, so {-1, w} is the variable w alone. Never {-1, -1}.
struct Monomial {
  ir::VarId v = -1, w = -1;
  auto operator<=>(const Monomial&) const = default;
};

class Poly {
 public:
  using Term = std::pair<Monomial, int64_t>;

  Poly() = default;
  explicit Poly(const ir::Affine& e) { add_product(e, 1, 1); }

  int64_t constant() const { return constant_; }
  const std::vector<Term>& terms() const { return terms_; }  // sorted, coefficients never 0
  bool is_constant() const { return terms_.empty(); }

  void add(Monomial m, int64_t coef);
  // Adds scale * x * y.
  void add_product(const ir::Affine& x, const ir::Affine& y, int64_t scale);
  // Removes and returns the constant.
  int64_t take_constant() { return std::exchange(constant_, 0); }

  // The factor of v: value(v = a) - value(v = b) = (a - b) * factor(v). v must not occur squared.
  Poly factor(ir::VarId v) const;
  // Replaces v by e. v must not occur squared.
  Poly substitute(ir::VarId v, const ir::Affine& e) const;

  auto operator<=>(const Poly&) const = default;

 private:
  int64_t constant_ = 0;
  std::vector<Term> terms_;
};

}  // namespace hone::jit
