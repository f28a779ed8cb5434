// See poly.h.
#include "jit/llvm/poly.h"

#include <algorithm>

#include "jit/lower_util.h"

namespace hone::jit {

void Poly::add(Monomial m, int64_t coef) {
  if (m.v > m.w) std::swap(m.v, m.w);
  if (m.w < 0) {
    constant_ = wrap_add(constant_, coef);
    return;
  }
  auto at = std::lower_bound(terms_.begin(), terms_.end(), m,
                             [](const Term& t, const Monomial& key) { return t.first < key; });
  if (at == terms_.end() || at->first != m) at = terms_.insert(at, {m, 0});
  at->second = wrap_add(at->second, coef);
  if (at->second == 0) terms_.erase(at);
}

void Poly::add_product(const ir::Affine& x, const ir::Affine& y, int64_t scale) {
  add({}, wrap_mul(wrap_mul(x.constant(), y.constant()), scale));
  for (const ir::Affine::Term& t : x.terms()) {
    add({-1, t.var}, wrap_mul(wrap_mul(t.coef, y.constant()), scale));
    for (const ir::Affine::Term& u : y.terms()) add({t.var, u.var}, wrap_mul(wrap_mul(t.coef, u.coef), scale));
  }
  for (const ir::Affine::Term& u : y.terms()) add({-1, u.var}, wrap_mul(wrap_mul(u.coef, x.constant()), scale));
}

Poly Poly::factor(ir::VarId v) const {
  Poly f;
  for (const auto& [m, coef] : terms_) {
    if (m.w == v)
      f.add({-1, m.v}, coef);
    else if (m.v == v)
      f.add({-1, m.w}, coef);
  }
  return f;
}

Poly Poly::substitute(ir::VarId v, const ir::Affine& e) const {
  Poly result;
  result.constant_ = constant_;
  for (const auto& [m, coef] : terms_) {
    if (m.v != v && m.w != v) {
      result.add(m, coef);
      continue;
    }
    const ir::VarId other = m.w == v ? m.v : m.w;
    result.add_product(other < 0 ? ir::Affine(1) : ir::Affine::var(other), e, coef);
  }
  return result;
}

}  // namespace hone::jit
