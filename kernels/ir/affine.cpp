// See affine.h.
#include "kernels/ir/affine.h"

#include <algorithm>

namespace hone::ir {

Affine Affine::var(VarId v, int64_t coef) {
  Affine a;
  if (coef != 0) a.terms_.push_back({v, coef});
  return a;
}

int64_t Affine::coef(VarId v) const {
  for (const Term& t : terms_)
    if (t.var == v) return t.coef;
  return 0;
}

Affine Affine::substitute(VarId v, const Affine& e) const {
  const int64_t c = coef(v);
  if (c == 0) return *this;
  return *this - Affine::var(v, c) + e * c;
}

Affine& Affine::operator+=(const Affine& o) {
  constant_ += o.constant_;
  if (o.terms_.empty()) return *this;
  std::vector<Term> merged;
  merged.reserve(terms_.size() + o.terms_.size());
  auto a = terms_.begin();
  auto b = o.terms_.begin();
  while (a != terms_.end() || b != o.terms_.end()) {
    if (b == o.terms_.end() || (a != terms_.end() && a->var < b->var)) {
      merged.push_back(*a++);
    } else if (a == terms_.end() || b->var < a->var) {
      merged.push_back(*b++);
    } else {
      if (a->coef + b->coef != 0) merged.push_back({a->var, a->coef + b->coef});
      ++a, ++b;
    }
  }
  terms_ = std::move(merged);
  return *this;
}

Affine& Affine::operator-=(const Affine& o) { return *this += o * -1; }

Affine& Affine::operator*=(int64_t f) {
  if (f == 0) return *this = Affine();
  constant_ *= f;
  for (Term& t : terms_) t.coef *= f;
  return *this;
}

}  // namespace hone::ir
