// Sums of variables times constants: every index, bound and count of LoopIR.
#pragma once

#include <cstdint>
#include <vector>

namespace hone::ir {

using VarId = int;  // index into Kernel::vars

// c + sum(coef * var). Terms are sorted by variable, coefficients are never 0.
class Affine {
 public:
  struct Term {
    VarId var;
    int64_t coef;
    bool operator==(const Term&) const = default;
  };

  Affine() = default;
  Affine(int64_t constant) : constant_(constant) {}  // NOLINT: implicit on purpose
  static Affine var(VarId v, int64_t coef = 1);

  int64_t constant() const { return constant_; }
  const std::vector<Term>& terms() const { return terms_; }
  bool is_constant() const { return terms_.empty(); }
  int64_t coef(VarId v) const;
  bool uses(VarId v) const { return coef(v) != 0; }
  // Replaces v by e.
  Affine substitute(VarId v, const Affine& e) const;

  Affine& operator+=(const Affine& o);
  Affine& operator-=(const Affine& o);
  Affine& operator*=(int64_t f);
  friend Affine operator+(Affine a, const Affine& b) { return a += b; }
  friend Affine operator-(Affine a, const Affine& b) { return a -= b; }
  friend Affine operator*(Affine a, int64_t f) { return a *= f; }
  friend Affine operator*(int64_t f, Affine a) { return a *= f; }
  bool operator==(const Affine&) const = default;

 private:
  int64_t constant_ = 0;
  std::vector<Term> terms_;
};

}  // namespace hone::ir
