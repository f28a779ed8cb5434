// See integers_internal.h.
#include "jit/asmjit/integers_internal.h"

#include <algorithm>
#include <bit>
#include <limits>
#include <utility>

namespace hone::jit {

namespace x86 = asmjit::x86;

namespace {

// Displacements are signed 32-bit. Offsets beyond half that range move into the pointer in steps, so that neighbouring
// accesses still share one.
constexpr int64_t kFarStep = int64_t{1} << 30;

// Registers around an innermost loop, of the 15 there are: most that homes may have, and most that they and the
// pointers may have together. The rest is for the counter, lets, and what a statement works with.
constexpr size_t kMostHeld = 6, kMostTaken = 8;

int64_t far_part(int64_t offset) { return offset >= -kFarStep && offset < kFarStep ? 0 : offset & ~(kFarStep - 1); }

bool fits_imm32(int64_t v) {
  return v >= std::numeric_limits<int32_t>::min() && v <= std::numeric_limits<int32_t>::max();
}

// For what has terms and products: an Address or a pointer to one.
template <typename T>
bool uses(const T& pointer, ir::VarId v) {
  return std::any_of(pointer.terms.begin(), pointer.terms.end(), [&](const auto& t) { return t.var == v; }) ||
         std::any_of(pointer.products.begin(), pointer.products.end(), [&](const auto& p) { return p.index == v; });
}

}  // namespace

bool IntegerEmitter::Pointer::is(const Address& a, int64_t a_far) const {
  return base == a.base && far == a_far && terms == a.terms && products == a.products;
}

IntegerEmitter::IntegerEmitter(const ir::Kernel& kernel, x86::Compiler& cc)
    : kernel_(kernel),
      cc_(cc),
      env_(kernel.vars.size()),
      resolver_(kernel),
      argument_index_(kernel.buffers.size(), -1),
      variables_(kernel.vars.size()) {
  int next = 0;
  for (ir::BufferId b : kernel.arguments()) argument_index_[static_cast<size_t>(b)] = next++;
  next = 0;
  for (ir::VarId v : kernel.params()) variable(v).argument = next++;
  next = 0;
  for (const ir::For* loop : ir::task_nest(kernel).loops) variable(loop->var).argument = next++;
}

void IntegerEmitter::begin_function(asmjit::FuncNode* func) {
  int argument = 0;
  for (Gp* gp : {&buffers_, &params_, &tasks_, &workspace_}) {
    *gp = cc_.newInt64();
    func->setArg(static_cast<size_t>(argument++), *gp);
  }
  for (Gp* gp : {&value_, &other_, &counter_, &term_, &pointer_}) *gp = cc_.newInt64();
  entry_ = cc_.cursor();
  // Separates the entry, where homes are filled on demand, from the body: both grow at their own cursor.
  cc_.bind(cc_.newLabel());
}

// Emits f() at `where` (a cursor, moved behind what f emits) instead of at the current place.
template <typename F>
void IntegerEmitter::emit_at(asmjit::BaseNode*& where, F&& f) {
  asmjit::BaseNode* here = cc_.setCursor(where);
  const bool same = here == where;
  const bool in_body = std::exchange(in_body_, false);
  f();
  in_body_ = in_body;
  where = cc_.cursor();
  if (!same) cc_.setCursor(here);
}

// ---- values --------------------------------------------------------------------------------------------------------

void IntegerEmitter::eval(const Gp& dst, const ir::Affine& e) {
  const ir::Affine folded = env_.fold(e);
  if (folded.is_constant()) {
    cc_.mov(dst, folded.constant());
    return;
  }
  // Starts from a term so that no zero is made; one with coefficient 1 is a plain move.
  Terms terms = folded.terms();
  const auto unit = std::find_if(terms.begin(), terms.end(), [](const auto& t) { return t.coef == 1; });
  const ir::Affine::Term first = unit != terms.end() ? *unit : terms.front();
  std::erase(terms, first);
  apply(x86::Inst::kIdMov, dst, first.var);
  multiply(dst, first.coef);
  add_terms(dst, terms);
  add_constant(dst, folded.constant());
}

void IntegerEmitter::compare(const Gp& value, const ir::Affine& e) {
  const ir::Affine folded = env_.fold(e);
  if (folded.is_constant() && fits_imm32(folded.constant())) {
    cc_.cmp(value, folded.constant());
  } else if (folded.constant() == 0 && folded.terms().size() == 1 && folded.terms().front().coef == 1) {
    apply(x86::Inst::kIdCmp, value, folded.terms().front().var);
  } else {
    eval(other_, folded);
    cc_.cmp(value, other_);
  }
}

x86::Gp IntegerEmitter::let_register() { return inner_.active ? cc_.newInt64() : value_; }

void IntegerEmitter::define(ir::VarId v, const Gp& value) {
  std::erase_if(local_, [&](const Pointer& p) { return uses(p, v); });
  std::erase_if(homes_, [&](const PointerHome& p) { return uses(p, v); });
  Variable& var = variable(v);
  if (inner_.active) {
    var.reg = value;
    return;
  }
  var.reg.reset();
  cc_.mov(home(v), value);
  var.defined_at = cc_.cursor();
  var.order = ++definitions_;
}

// inst dst, v. The variable of an innermost loop gets a register when it is first used as a value: most loops need only
// pointers.
void IntegerEmitter::apply(asmjit::InstId inst, const Gp& dst, ir::VarId v) {
  Gp& reg = variable(v).reg;
  if (inner_.active && v == inner_.var && !reg.isValid()) {
    reg = cc_.newInt64();
    emit_at(inner_.preheader, [&] { eval(reg, inner_.lo); });
  }
  if (reg.isValid()) {
    cc_.emit(inst, dst, reg);
  } else {
    emit_with_home(inst, dst, home(v));
  }
}

// inst dst, home. The first few homes that the body of an innermost loop reads are held in registers around it.
void IntegerEmitter::emit_with_home(asmjit::InstId inst, const Gp& dst, const Mem& from) {
  if (!inner_.active || !in_body_) {
    cc_.emit(inst, dst, from);
    return;
  }
  for (const Held& h : inner_.held)
    if (h.home == from) {
      cc_.emit(inst, dst, h.gp);
      return;
    }
  const size_t taken = inner_.held.size() + inner_.pointers.size();
  if (inner_.held.size() == kMostHeld || taken >= kMostTaken) {
    cc_.emit(inst, dst, from);
    return;
  }
  if (held_registers_.size() == inner_.held.size()) held_registers_.push_back(cc_.newInt64());
  const Gp gp = held_registers_[inner_.held.size()];
  emit_at(inner_.preheader, [&] { cc_.mov(gp, from); });
  inner_.held.push_back({from, gp});
  cc_.emit(inst, dst, gp);
}

void IntegerEmitter::add_terms(const Gp& sum, const Terms& terms) {
  for (const ir::Affine::Term& t : terms) {
    if (t.coef == 1 || t.coef == -1) {
      apply(t.coef == 1 ? x86::Inst::kIdAdd : x86::Inst::kIdSub, sum, t.var);
    } else {
      apply(x86::Inst::kIdMov, term_, t.var);
      multiply(term_, t.coef);
      cc_.add(sum, term_);
    }
  }
}

void IntegerEmitter::add_products(const Gp& sum, const Products& products) {
  for (const Address::Product& p : products) {
    apply(x86::Inst::kIdMov, term_, p.stride);
    apply(x86::Inst::kIdImul, term_, p.index);
    multiply(term_, p.coef);
    cc_.add(sum, term_);
  }
}

void IntegerEmitter::add_constant(const Gp& sum, int64_t value) {
  if (value == 0) return;
  if (fits_imm32(value)) {
    cc_.add(sum, value);
  } else {
    cc_.mov(term_, value);
    cc_.add(sum, term_);
  }
}

void IntegerEmitter::multiply(const Gp& value, int64_t factor) {
  if (factor == 1) return;
  if (factor > 0 && std::has_single_bit(static_cast<uint64_t>(factor))) {
    cc_.shl(value, std::countr_zero(static_cast<uint64_t>(factor)));
  } else if (fits_imm32(factor)) {
    cc_.imul(value, value, factor);
  } else {
    const Gp constant = cc_.newInt64();
    cc_.mov(constant, factor);
    cc_.imul(value, constant);
  }
}

// The home of a variable. Params and parallel variables are copied there at entry, by the first use.
const x86::Mem& IntegerEmitter::home(ir::VarId v) {
  Variable& var = variable(v);
  if (var.home.hasBase()) return var.home;
  var.home = cc_.newStack(8, 8);
  if (var.argument >= 0) {
    const bool param = kernel_.vars[static_cast<size_t>(v)].kind == ir::VarKind::kParam;
    emit_at(entry_, [&] {
      cc_.mov(term_, x86::ptr(param ? params_ : tasks_, var.argument * 8));
      cc_.mov(var.home, term_);
    });
  }
  return var.home;
}

x86::Mem IntegerEmitter::multiple_home(ir::VarId param, int64_t factor) {
  for (const MultipleHome& m : multiples_)
    if (m.param == param && m.factor == factor) return m.home;
  const Mem from = home(param), made = cc_.newStack(8, 8);
  emit_at(entry_, [&] {
    cc_.mov(term_, from);
    multiply(term_, factor);
    cc_.mov(made, term_);
  });
  multiples_.push_back({param, factor, made});
  return made;
}

// ---- addresses -----------------------------------------------------------------------------------------------------

x86::Mem IntegerEmitter::address(const ir::Access& access) {
  Address& a = scratch_;
  resolver_.resolve(access, env_, a);
  const int64_t far = far_part(a.offset);
  const auto displacement = static_cast<int32_t>(a.offset - far);
  const bool hoist = inner_.active && hoistable(a);
  std::vector<Pointer>& known = hoist ? inner_.pointers : local_;
  for (const Pointer& p : known)
    if (p.is(a, far)) return x86::ptr(p.gp, displacement);

  const Gp gp = pointer_register(hoist);
  if (hoist) {
    emit_at(inner_.preheader, [&] { compute_pointer(gp, a, far, true); });
  } else {
    compute_pointer(gp, a, far, false);
  }
  known.push_back({a.base, a.terms, a.products, far, depth_, gp});
  return x86::ptr(gp, displacement);
}

// Accesses whose variables all have their values in front of the innermost loop.
bool IntegerEmitter::hoistable(const Address& a) const {
  const auto known = [&](ir::VarId v) { return v == inner_.var || !in_register(v); };
  return std::all_of(a.terms.begin(), a.terms.end(), [&](const auto& t) { return known(t.var); }) &&
         std::all_of(a.products.begin(), a.products.end(), [&](const auto& p) { return known(p.index); });
}

// Variables without a home: of the innermost loop and lets inside it.
bool IntegerEmitter::in_register(ir::VarId v) const {
  return inner_.active && (v == inner_.var || variables_[static_cast<size_t>(v)].reg.isValid());
}

// A register that no other known pointer has.
x86::Gp IntegerEmitter::pointer_register(bool hoist) {
  const std::vector<Pointer>& known = hoist ? inner_.pointers : local_;
  std::vector<Gp>& registers = hoist ? inner_registers_ : local_registers_;
  for (const Gp& r : registers) {
    if (std::none_of(known.begin(), known.end(), [&](const Pointer& p) { return p.gp.id() == r.id(); })) return r;
  }
  registers.push_back(cc_.newInt64());
  return registers.back();
}

// p = the variable part of a plus far. With `hoist`, for the first iteration of the innermost loop.
void IntegerEmitter::compute_pointer(const Gp& p, const Address& a, int64_t far, bool hoist) {
  const ir::Affine first = hoist ? env_.fold(inner_.lo) : ir::Affine();
  ir::Affine outer = far;
  Terms terms_in_registers;
  Products outer_products, products_in_registers;
  for (const ir::Affine::Term& t : a.terms) {
    if (hoist && t.var == inner_.var) {
      outer += first * t.coef;
    } else if (in_register(t.var)) {
      terms_in_registers.push_back(t);
    } else {
      outer += ir::Affine::var(t.var, t.coef);
    }
  }
  for (const Address::Product& product : a.products) {
    if (hoist && product.index == inner_.var) {
      outer += ir::Affine::var(product.stride, wrap_mul(product.coef, first.constant()));
      for (const ir::Affine::Term& t : first.terms())
        outer_products.push_back({product.stride, t.var, wrap_mul(product.coef, t.coef)});
    } else {
      (in_register(product.index) ? products_in_registers : outer_products).push_back(product);
    }
  }
  emit_with_home(x86::Inst::kIdMov, p, pointer_home(a.base, outer_products, outer.terms()));
  add_terms(p, terms_in_registers);
  add_products(p, products_in_registers);
  add_constant(p, outer.constant());
}

// A pointer is made where the last of its variables gets its value, from the pointer over the others.
x86::Mem IntegerEmitter::pointer_home(ir::BufferId base, const Products& products, const Terms& terms) {
  for (const PointerHome& h : homes_)
    if (h.base == base && h.terms == terms && h.products == products) return h.home;
  const PointerHome made{base, terms, products, cc_.newStack(8, 8)};
  ir::VarId last = -1;
  const auto later = [&](ir::VarId v) {
    if (variable(v).order > (last < 0 ? 0 : variable(last).order)) last = v;
  };
  for (const ir::Affine::Term& t : terms) later(t.var);
  for (const Address::Product& p : products) later(p.index);
  if (last < 0) {
    emit_at(entry_, [&] { compute_at_entry(made); });
  } else {
    Terms earlier, latest;
    Products earlier_products, latest_products;
    for (const ir::Affine::Term& t : terms) (t.var == last ? latest : earlier).push_back(t);
    for (const Address::Product& p : products) (p.index == last ? latest_products : earlier_products).push_back(p);
    const Mem from = pointer_home(base, earlier_products, earlier);
    emit_at(variable(last).defined_at, [&] {
      cc_.mov(pointer_, from);
      add_terms(pointer_, latest);
      add_products(pointer_, latest_products);
      cc_.mov(made.home, pointer_);
    });
  }
  homes_.push_back(made);
  return made.home;
}

// The argument, plus products and terms over params and parallel variables.
void IntegerEmitter::compute_at_entry(const PointerHome& p) {
  if (p.base == Address::kWorkspace) {
    cc_.mov(pointer_, workspace_);
  } else {
    cc_.mov(pointer_, x86::ptr(buffers_, argument_index_[static_cast<size_t>(p.base)] * 8));
  }
  for (const Address::Product& product : p.products) {
    const bool param = kernel_.vars[static_cast<size_t>(product.index)].kind == ir::VarKind::kParam;
    cc_.mov(term_, x86::ptr(params_, variable(product.stride).argument * 8));
    cc_.imul(term_, x86::ptr(param ? params_ : tasks_, variable(product.index).argument * 8));
    multiply(term_, product.coef);
    cc_.add(pointer_, term_);
  }
  for (const ir::Affine::Term& t : p.terms) home(t.var);  // fills homes in front of this code, not within
  add_terms(pointer_, p.terms);
  cc_.mov(p.home, pointer_);
}

// ---- structure -----------------------------------------------------------------------------------------------------

void IntegerEmitter::end_conditional() {
  --depth_;
  std::erase_if(local_, [&](const Pointer& p) { return p.depth > depth_; });
}

void IntegerEmitter::begin_outer_loop(ir::VarId v) {
  local_.clear();
  variable(v).defined_at = cc_.cursor();
  variable(v).order = ++definitions_;
}

void IntegerEmitter::begin_inner_loop(ir::VarId v, const ir::Affine& lo, int64_t step) {
  local_.clear();
  inner_.active = true;
  inner_.var = v;
  inner_.lo = lo;
  inner_.step = step;
  inner_.preheader = cc_.cursor();
  inner_.pointers.clear();
  inner_.held.clear();
}

void IntegerEmitter::end_inner_loop() {
  for (const Pointer& p : inner_.pointers) {
    for (const ir::Affine::Term& t : p.terms)
      if (t.var == inner_.var) add_constant(p.gp, wrap_mul(t.coef, inner_.step));
    for (const Address::Product& product : p.products)
      if (product.index == inner_.var)
        cc_.add(p.gp, multiple_home(product.stride, wrap_mul(product.coef, inner_.step)));
  }
  Gp& reg = variable(inner_.var).reg;
  if (reg.isValid()) add_constant(reg, inner_.step);
  reg.reset();
  inner_.active = false;
  local_.clear();
}

}  // namespace hone::jit
