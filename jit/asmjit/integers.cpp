// See integers_internal.h.
#include "jit/asmjit/integers_internal.h"

#include <algorithm>
#include <bit>
#include <limits>

namespace hone::jit {

namespace x86 = asmjit::x86;

namespace {

// Displacements are signed 32-bit. Offsets beyond half that range move into the pointer in steps, so that neighbouring
// accesses still share one.
constexpr int64_t kFarStep = int64_t{1} << 30;

int64_t far_part(int64_t offset) { return offset >= -kFarStep && offset < kFarStep ? 0 : offset & ~(kFarStep - 1); }

bool fits_imm32(int64_t v) {
  return v >= std::numeric_limits<int32_t>::min() && v <= std::numeric_limits<int32_t>::max();
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
      variable_index_(kernel.vars.size(), -1),
      homes_(kernel.vars.size()),
      in_register_(kernel.vars.size()) {
  int next = 0;
  for (ir::BufferId b : kernel.arguments()) argument_index_[static_cast<size_t>(b)] = next++;
  next = 0;
  for (ir::VarId v : kernel.params()) variable_index_[static_cast<size_t>(v)] = next++;
  next = 0;
  for (const ir::For* loop : ir::task_nest(kernel).loops) variable_index_[static_cast<size_t>(loop->var)] = next++;
}

void IntegerEmitter::begin_function(asmjit::FuncNode* func) {
  buffers_ = cc_.newInt64();
  params_ = cc_.newInt64();
  tasks_ = cc_.newInt64();
  workspace_ = cc_.newInt64();
  func->setArg(0, buffers_);
  func->setArg(1, params_);
  func->setArg(2, tasks_);
  func->setArg(3, workspace_);
  entry_ = cc_.cursor();
  // Separates the entry, where homes are filled on demand, from the body: both grow at their own cursor.
  cc_.bind(cc_.newLabel());
}

x86::Gp IntegerEmitter::eval(const ir::Affine& e) {
  const ir::Affine folded = env_.fold(e);
  const x86::Gp sum = cc_.newInt64();
  const auto unit =
      std::find_if(folded.terms().begin(), folded.terms().end(), [](const auto& t) { return t.coef == 1; });
  if (folded.is_constant()) {
    cc_.mov(sum, folded.constant());
    return sum;
  }
  // Start from a term so that no zero is materialised; one with coefficient 1 is a plain move.
  std::vector<ir::Affine::Term> terms = folded.terms();
  const ir::Affine::Term first = unit != folded.terms().end() ? *unit : terms.front();
  std::erase(terms, first);
  move(sum, first.var);
  multiply(sum, first.coef);
  add_terms(sum, terms);
  add_constant(sum, folded.constant());
  return sum;
}

void IntegerEmitter::compare(const x86::Gp& value, const ir::Affine& e) {
  const ir::Affine folded = env_.fold(e);
  if (folded.is_constant() && fits_imm32(folded.constant())) {
    cc_.cmp(value, folded.constant());
  } else {
    cc_.cmp(value, eval(folded));
  }
}

void IntegerEmitter::define(ir::VarId v, const x86::Gp& value) {
  std::erase_if(local_, [&](const Pointer& p) {
    return std::any_of(p.terms.begin(), p.terms.end(), [&](const ir::Affine::Term& t) { return t.var == v; });
  });
  if (inner_.active) {
    in_register_[static_cast<size_t>(v)] = value;
  } else {
    in_register_[static_cast<size_t>(v)].reset();
    cc_.mov(home(v), value);
  }
}

x86::Mem IntegerEmitter::address(const ir::Access& access) {
  Address& a = scratch_;
  resolver_.resolve(access, env_, a);
  const int64_t far = far_part(a.offset);
  const auto displacement = static_cast<int32_t>(a.offset - far);
  const bool hoist = inner_.active && hoistable(a);
  std::vector<Pointer>& known = hoist ? inner_.pointers : local_;
  for (const Pointer& p : known)
    if (p.is(a, far)) return x86::ptr(p.gp, displacement);

  ir::Affine offset = far;
  for (const ir::Affine::Term& t : a.terms)
    offset += hoist && t.var == inner_.var ? inner_.lo * t.coef : ir::Affine::var(t.var, t.coef);
  x86::Gp gp;
  if (hoist) {
    emit_at(inner_.preheader, [&] { gp = make_pointer(a, offset); });
  } else {
    gp = make_pointer(a, offset);
  }
  known.push_back({a.base, a.terms, a.products, far, depth_, gp});
  return x86::ptr(gp, displacement);
}

void IntegerEmitter::end_conditional() {
  --depth_;
  std::erase_if(local_, [&](const Pointer& p) { return p.depth > depth_; });
}

void IntegerEmitter::begin_inner_loop(ir::VarId v, const ir::Affine& lo, int64_t step) {
  cut_pointers();
  inner_.active = true;
  inner_.var = v;
  inner_.lo = lo;
  inner_.step = step;
  inner_.preheader = cc_.cursor();
  inner_.pointers.clear();
}

void IntegerEmitter::end_inner_loop() {
  for (const Pointer& p : inner_.pointers) {
    for (const ir::Affine::Term& t : p.terms)
      if (t.var == inner_.var) add_constant(p.gp, wrap_mul(t.coef, inner_.step));
  }
  x86::Gp& variable = in_register_[static_cast<size_t>(inner_.var)];
  if (variable.isValid()) add_constant(variable, inner_.step);
  variable.reset();
  inner_.active = false;
  cut_pointers();
}

// Accesses whose variables all have their values in front of the loop.
bool IntegerEmitter::hoistable(const Address& a) const {
  return std::all_of(a.terms.begin(), a.terms.end(), [&](const ir::Affine::Term& t) {
    return t.var == inner_.var || !in_register_[static_cast<size_t>(t.var)].isValid();
  });
}

x86::Gp IntegerEmitter::make_pointer(const Address& a, const ir::Affine& offset) {
  const x86::Gp p = cc_.newInt64();
  cc_.mov(p, base_home(a));
  const ir::Affine folded = env_.fold(offset);
  add_terms(p, folded.terms());
  add_constant(p, folded.constant());
  return p;
}

// dst = v. The variable of an innermost loop gets a register when it is first used as a value: most loops need only
// pointers.
void IntegerEmitter::move(const x86::Gp& dst, ir::VarId v) {
  x86::Gp& reg = in_register_[static_cast<size_t>(v)];
  if (inner_.active && v == inner_.var && !reg.isValid()) emit_at(inner_.preheader, [&] { reg = eval(inner_.lo); });
  if (reg.isValid()) {
    cc_.mov(dst, reg);
  } else {
    cc_.mov(dst, home(v));
  }
}

void IntegerEmitter::add_terms(const x86::Gp& sum, const std::vector<ir::Affine::Term>& terms) {
  for (const ir::Affine::Term& t : terms) {
    const x86::Gp term = cc_.newInt64();
    move(term, t.var);
    multiply(term, t.coef);
    cc_.add(sum, term);
  }
}

void IntegerEmitter::add_constant(const x86::Gp& sum, int64_t value) {
  if (value == 0) return;
  if (fits_imm32(value)) {
    cc_.add(sum, value);
    return;
  }
  const x86::Gp constant = cc_.newInt64();
  cc_.mov(constant, value);
  cc_.add(sum, constant);
}

void IntegerEmitter::multiply(const x86::Gp& value, int64_t factor) {
  if (factor == 1) return;
  if (factor > 0 && std::has_single_bit(static_cast<uint64_t>(factor))) {
    cc_.shl(value, std::countr_zero(static_cast<uint64_t>(factor)));
  } else if (factor == -1) {
    cc_.neg(value);
  } else if (fits_imm32(factor)) {
    cc_.imul(value, value, factor);
  } else {
    const x86::Gp constant = cc_.newInt64();
    cc_.mov(constant, factor);
    cc_.imul(value, constant);
  }
}

// The home of a variable. Params and parallel variables are copied there at entry, by the first use.
const x86::Mem& IntegerEmitter::home(ir::VarId v) {
  x86::Mem& slot = homes_[static_cast<size_t>(v)];
  if (!slot.hasBase()) {
    slot = cc_.newStack(8, 8);
    const ir::VarKind kind = kernel_.vars[static_cast<size_t>(v)].kind;
    if (kind == ir::VarKind::kParam || kind == ir::VarKind::kParallel) {
      emit_at(entry_, [&] {
        const x86::Gp value = cc_.newInt64();
        const int index = variable_index_[static_cast<size_t>(v)];
        cc_.mov(value, x86::ptr(kind == ir::VarKind::kParam ? params_ : tasks_, index * 8));
        cc_.mov(slot, value);
      });
    }
  }
  return slot;
}

// The home of a base: the argument plus its products of runtime strides and parallel variables, computed at entry.
const x86::Mem& IntegerEmitter::base_home(const Address& a) {
  for (const Base& b : bases_)
    if (b.buffer == a.base && b.products == a.products) return b.home;
  bases_.push_back({a.base, a.products, cc_.newStack(8, 8)});
  emit_at(entry_, [&] {
    const x86::Gp base = cc_.newInt64();
    if (a.base == Address::kWorkspace) {
      cc_.mov(base, workspace_);
    } else {
      cc_.mov(base, x86::ptr(buffers_, argument_index_[static_cast<size_t>(a.base)] * 8));
    }
    for (const Address::Product& p : a.products) {
      const x86::Gp product = cc_.newInt64();
      cc_.mov(product, x86::ptr(params_, variable_index_[static_cast<size_t>(p.stride)] * 8));
      cc_.imul(product, x86::ptr(tasks_, variable_index_[static_cast<size_t>(p.index)] * 8));
      multiply(product, p.coef);
      cc_.add(base, product);
    }
    cc_.mov(bases_.back().home, base);
  });
  return bases_.back().home;
}

}  // namespace hone::jit
