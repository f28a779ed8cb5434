// See lower_util.h.
#include "jit/lower_util.h"

#include <algorithm>
#include <bit>

namespace hone::jit {

namespace {

void add_term(std::vector<ir::Affine::Term>& terms, ir::VarId var, int64_t coef) {
  auto at = std::find_if(terms.begin(), terms.end(), [&](const ir::Affine::Term& t) { return t.var >= var; });
  if (at == terms.end() || at->var != var) {
    if (coef != 0) terms.insert(at, {var, coef});
    return;
  }
  at->coef = wrap_add(at->coef, coef);
  if (at->coef == 0) terms.erase(at);
}

}  // namespace

std::optional<int64_t> ConstEnv::constant(const ir::Affine& e) const {
  int64_t sum = e.constant();
  for (const ir::Affine::Term& t : e.terms()) {
    const std::optional<int64_t> v = value(t.var);
    if (!v) return std::nullopt;
    sum = wrap_add(sum, wrap_mul(t.coef, *v));
  }
  return sum;
}

ir::Affine ConstEnv::fold(const ir::Affine& e) const {
  ir::Affine out = e;
  for (const ir::Affine::Term& t : e.terms())
    if (const std::optional<int64_t> v = value(t.var)) out = out.substitute(t.var, *v);
  return out;
}

std::optional<int64_t> constant_let(const ir::Let& let, const ConstEnv& env) {
  std::optional<int64_t> result;
  for (const ir::Affine& arg : let.args) {
    const std::optional<int64_t> v = env.constant(arg);
    if (!v) return std::nullopt;
    if (let.op == ir::LetOp::kFloorDiv) return *v / let.divisor;
    if (!result) {
      result = v;
    } else {
      result = let.op == ir::LetOp::kMin ? std::min(*result, *v) : std::max(*result, *v);
    }
  }
  return result;
}

size_t register_element(const ir::Register& reg, const ir::RegRef& ref, const ConstEnv& env) {
  int64_t flat = 0;
  for (size_t d = 0; d < ref.index.size(); ++d) flat = flat * reg.dims[d] + env.constant(ref.index[d]).value_or(0);
  return static_cast<size_t>(flat);
}

size_t register_elements(const ir::Register& reg) {
  int64_t n = 1;
  for (int64_t d : reg.dims) n *= d;
  return static_cast<size_t>(n);
}

void AddressResolver::resolve(const ir::Access& access, const ConstEnv& env, Address& out) const {
  const ir::Buffer& buffer = kernel_.buffers[static_cast<size_t>(access.buffer)];
  const int64_t bytes = dtype_bytes(buffer.dtype);
  const bool workspace = buffer.scope == ir::Scope::kWorkspace;
  out.base = workspace ? Address::kWorkspace : access.buffer;
  out.offset = workspace ? offsets_[static_cast<size_t>(access.buffer)] : 0;
  out.terms.clear();
  out.products.clear();
  for (size_t d = 0; d < access.index.size(); ++d) {
    const ir::Affine& stride = buffer.strides[d];
    const ir::Affine& index = access.index[d];
    int64_t constant = index.constant();
    const ir::VarId param = stride.is_constant() ? -1 : stride.terms().front().var;
    const int64_t scale = wrap_mul(bytes, stride.is_constant() ? stride.constant() : 1);
    for (const ir::Affine::Term& t : index.terms()) {
      if (const std::optional<int64_t> v = env.value(t.var)) {
        constant = wrap_add(constant, wrap_mul(t.coef, *v));
      } else if (param < 0) {
        add_term(out.terms, t.var, wrap_mul(t.coef, scale));
      } else {
        out.products.push_back({param, t.var, wrap_mul(t.coef, scale)});
      }
    }
    if (param < 0) {
      out.offset = wrap_add(out.offset, wrap_mul(constant, scale));
    } else {
      add_term(out.terms, param, wrap_mul(constant, scale));
    }
  }
}

// With l = bits of d - 1 the factor is 2^(63+l) / d, rounded up: too large by less than 1, so the quotient is too large
// by less than n / 2^(63+l) <= 1 / d, which does not reach the next integer. Below 2^64, since d > 2^(l-1).
Reciprocal reciprocal(uint64_t d) {
  __extension__ typedef unsigned __int128 Wide;
  const int l = std::bit_width(d - 1);
  return {static_cast<uint64_t>((Wide{1} << (63 + l)) / d) + 1, l - 1};
}

}  // namespace hone::jit
