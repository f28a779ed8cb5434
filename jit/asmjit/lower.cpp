// Control flow of a kernel. Unrolled loops and specialised bodies are expanded here, with an environment of
// compile-time constants; whatever the environment decides (a branch, a let, a loop that runs once) costs no
// instruction. Of the serial loops only the innermost are worth registers of their own, see integers_internal.h.
#include "jit/asmjit/lower_internal.h"

#include <algorithm>
#include <bit>

#include "jit/asmjit/integers_internal.h"
#include "jit/asmjit/vectors_internal.h"

namespace hone::jit {

namespace x86 = asmjit::x86;

namespace {

class Lowering {
 public:
  Lowering(const ir::Kernel& kernel, Isa isa, x86::Compiler& cc)
      : kernel_(kernel), isa_(isa), cc_(cc), integers_(kernel, cc), vectors_(kernel, isa, cc, integers_) {}

  Status run() {
    asmjit::FuncNode* func = cc_.addFunc(asmjit::FuncSignatureT<void, void*, void*, void*, void*>());
    if (func == nullptr) return {};  // reported by the error handler
    func->frame().setAvxEnabled();
    func->frame().setAvxCleanup();
    if (isa_ == Isa::kAvx512) func->frame().setAvx512Enabled();
    integers_.begin_function(func);
    block(*ir::task_nest(kernel_).body);
    close_run();
    vectors_.fold();
    keep_idle_registers_in_memory();
    cc_.endFunc();
    if (!stopped()) return {};
    return unsupported("kernel '" + kernel_.name + "' expands to more than " + std::to_string(kMaxExpandedStatements) +
                       " statements; unroll or specialise less");
  }

 private:
  ConstEnv& env() { return integers_.env(); }
  bool stopped() const { return statements_ > kMaxExpandedStatements; }

  void block(const ir::Block& statements) {
    for (const ir::Stmt& s : statements) {
      ++statements_;
      if (stopped()) return;
      std::visit([&](const auto& node) { emit(node); }, s.node);
    }
  }

  template <typename Op>
  void emit(const Op& op) {
    open_run();
    vectors_.operation(op);
  }
  void emit(const ir::For& f);
  void emit(const ir::Let& let);
  void emit(const ir::LetLoad& let);
  void emit(const ir::Specialise& s);
  void emit(const ir::If& branch);

  // One copy of a body in which v is a constant.
  void expand(ir::VarId v, int64_t value, const ir::Block& body) {
    env().bind(v, value);
    block(body);
    env().unbind(v);
  }
  void conditional(const ir::Block& body) {
    integers_.begin_conditional();
    vectors_.lifetimes().begin_branch();
    block(body);
    close_run();
    vectors_.lifetimes().end_branch();
    integers_.end_conditional();
  }
  void versions(const ir::Specialise& s, int64_t lo, int64_t hi, const asmjit::Label& end);
  bool is_loop(const ir::For& f);
  bool has_loop(const ir::Block& statements);
  void outer_loop(const ir::For& f, bool runs);
  void inner_loop(const ir::For& f, const ir::Affine& length, bool runs);

  // Code is divided into parts, around which registers may be kept in memory (see lifetimes_internal.h): loops, and
  // runs of straight-line code between loops and branches.
  void begin_part(bool certain) {
    const int number = vectors_.lifetimes().begin_part(certain);
    parts_.push_back({number, cc_.cursor(), nullptr});
    open_parts_.push_back(parts_.size() - 1);
  }
  void end_part() {
    vectors_.lifetimes().end_part();
    parts_[open_parts_.back()].after = cc_.cursor();
    open_parts_.pop_back();
  }
  void open_run() {
    if (!in_run_) begin_part(true);
    in_run_ = true;
  }
  void close_run() {
    if (in_run_) {
      end_part();
      vectors_.end_run();
    }
    in_run_ = false;
  }
  void keep_idle_registers_in_memory();

  const ir::Kernel& kernel_;
  const Isa isa_;
  x86::Compiler& cc_;
  IntegerEmitter integers_;
  VectorEmitter vectors_;
  struct Part {
    int number;
    asmjit::BaseNode *before, *after;  // cursors
  };
  std::vector<Part> parts_;
  std::vector<size_t> open_parts_;
  bool in_run_ = false;
  int64_t statements_ = 0;
};

void Lowering::emit(const ir::For& f) {
  if (kernel_.vars[static_cast<size_t>(f.var)].kind == ir::VarKind::kUnrolled) {
    const int64_t lo = env().constant(f.lo).value_or(0), hi = env().constant(f.hi).value_or(0);
    for (int64_t v = lo; v < hi && !stopped(); v += f.step) {
      ++statements_;
      expand(f.var, v, f.body);
    }
    return;
  }
  const ir::Affine length = env().fold(f.hi - f.lo);
  const bool known = length.is_constant();
  if (known && length.constant() <= 0) return;
  const std::optional<int64_t> lo = env().constant(f.lo);
  if (known && length.constant() <= f.step && lo) {
    expand(f.var, *lo, f.body);
  } else {
    close_run();
    begin_part(known);
    has_loop(f.body) ? outer_loop(f, known) : inner_loop(f, length, known);
    end_part();
  }
}

void Lowering::keep_idle_registers_in_memory() {
  if (stopped()) return;
  for (const Lifetimes::Eviction& e : vectors_.lifetimes().plan(isa_info(isa_).vector_registers)) {
    auto place = [&](int number) {
      return std::find_if(parts_.begin(), parts_.end(), [&](const Part& p) { return p.number == number; });
    };
    vectors_.keep_in_memory(e.element, place(e.first)->before, place(e.last)->after);
  }
}

// Will a serial loop be emitted as one? Not when it is known to run at most once.
bool Lowering::is_loop(const ir::For& f) {
  const std::optional<int64_t> lo = env().constant(f.lo), hi = env().constant(f.hi);
  return kernel_.vars[static_cast<size_t>(f.var)].kind == ir::VarKind::kLoop && !(lo && hi && *hi - *lo <= f.step);
}

bool Lowering::has_loop(const ir::Block& statements) {
  for (const ir::Stmt& s : statements) {
    if (const auto* f = std::get_if<ir::For>(&s.node)) {
      if (is_loop(*f) || has_loop(f->body)) return true;
    } else if (const auto* sp = std::get_if<ir::Specialise>(&s.node)) {
      if (has_loop(sp->body)) return true;
    } else if (const auto* branch = std::get_if<ir::If>(&s.node)) {
      if (has_loop(branch->then_body) || has_loop(branch->else_body)) return true;
    }
  }
  return false;
}

void Lowering::outer_loop(const ir::For& f, bool runs) {
  const asmjit::Label head = cc_.newLabel(), end = cc_.newLabel();
  const x86::Gp& value = integers_.value();
  integers_.eval(value, f.lo);
  integers_.define(f.var, value);
  if (!runs) {
    integers_.compare(value, f.hi);
    cc_.jge(end);
  }
  cc_.bind(head);
  integers_.begin_outer_loop(f.var);
  block(f.body);
  close_run();
  integers_.end_outer_loop();
  integers_.eval(value, ir::Affine::var(f.var) + f.step);
  integers_.define(f.var, value);
  integers_.compare(value, f.hi);
  cc_.jl(head);
  cc_.bind(end);
}

// Counts what is left of hi - lo down: one sub and one jump per iteration (fused by the CPU), and the variable itself
// needs no register unless the body uses its value.
void Lowering::inner_loop(const ir::For& f, const ir::Affine& length, bool runs) {
  const asmjit::Label head = cc_.newLabel(), end = cc_.newLabel();
  const x86::Gp& left = integers_.counter();
  integers_.eval(left, length);
  if (!runs) {
    cc_.test(left, left);
    cc_.jle(end);
  }
  integers_.begin_inner_loop(f.var, f.lo, f.step);
  cc_.align(asmjit::AlignMode::kCode, 64);
  cc_.bind(head);
  block(f.body);
  close_run();
  integers_.end_inner_loop();
  if (f.step == static_cast<int32_t>(f.step)) {
    cc_.sub(left, f.step);
  } else {
    integers_.eval(integers_.other(), f.step);
    cc_.sub(left, integers_.other());
  }
  cc_.jg(head);
  cc_.bind(end);
}

void Lowering::emit(const ir::Let& let) {
  // An unrolled copy may know what the copy before did not.
  env().unbind(let.var);
  if (const std::optional<int64_t> value = constant_let(let, env())) {
    env().bind(let.var, *value);
    return;
  }
  const x86::Gp result = integers_.let_register();
  const x86::Gp& other = integers_.other();
  integers_.eval(result, let.args.front());
  if (let.op == ir::LetOp::kFloorDiv) {
    const auto divisor = static_cast<uint64_t>(let.divisor);
    if (std::has_single_bit(divisor)) {
      cc_.shr(result, std::countr_zero(divisor));
    } else {
      const Reciprocal r = reciprocal(divisor);
      const x86::Gp high = cc_.newInt64();
      cc_.mov(other, r.factor);
      cc_.mul(high, result, other);
      cc_.mov(result, high);
      if (r.shift > 0) cc_.shr(result, r.shift);
    }
  }
  for (size_t i = 1; i < let.args.size(); ++i) {
    integers_.eval(other, let.args[i]);
    cc_.cmp(result, other);
    let.op == ir::LetOp::kMin ? cc_.cmovg(result, other) : cc_.cmovl(result, other);
  }
  integers_.define(let.var, result);
}

void Lowering::emit(const ir::LetLoad& let) {
  const x86::Gp result = integers_.let_register();
  x86::Mem element = integers_.address(let.table);
  element.setSize(4);
  cc_.movsxd(result, element);
  integers_.define(let.var, result);
}

void Lowering::emit(const ir::Specialise& s) {
  if (const std::optional<int64_t> value = env().constant(s.value)) {
    expand(s.var, *value, s.body);
    return;
  }
  close_run();
  const asmjit::Label end = cc_.newLabel();
  integers_.eval(integers_.value(), s.value);
  vectors_.lifetimes().begin_branches();
  versions(s, s.lo, s.hi, end);
  vectors_.lifetimes().end_branches();
  cc_.bind(end);
}

// A binary tree of compares of value() over [lo, hi]. Bodies use value() for other things: no path leads from a body
// back into the tree.
void Lowering::versions(const ir::Specialise& s, int64_t lo, int64_t hi, const asmjit::Label& end) {
  if (stopped()) return;
  if (lo == hi) {
    env().bind(s.var, lo);
    conditional(s.body);
    env().unbind(s.var);
    cc_.jmp(end);
    return;
  }
  const int64_t middle = lo + (hi - lo + 1) / 2;
  const asmjit::Label upper = cc_.newLabel();
  integers_.compare(integers_.value(), middle);
  cc_.jge(upper);
  versions(s, lo, middle - 1, end);
  cc_.bind(upper);
  versions(s, middle, hi, end);
}

void Lowering::emit(const ir::If& branch) {
  if (const std::optional<int64_t> known = env().constant(branch.expr)) {
    const bool taken = branch.op == ir::CondOp::kEqZero ? *known == 0 : *known >= 0;
    block(taken ? branch.then_body : branch.else_body);
    return;
  }
  close_run();
  const asmjit::Label otherwise = cc_.newLabel(), end = cc_.newLabel();
  const x86::Gp& value = integers_.value();
  integers_.eval(value, branch.expr);
  cc_.test(value, value);
  branch.op == ir::CondOp::kEqZero ? cc_.jnz(otherwise) : cc_.js(otherwise);
  vectors_.lifetimes().begin_branches();
  conditional(branch.then_body);
  if (!branch.else_body.empty()) cc_.jmp(end);
  cc_.bind(otherwise);
  conditional(branch.else_body);
  vectors_.lifetimes().end_branches();
  cc_.bind(end);
}

}  // namespace

Status lower_kernel(const ir::Kernel& kernel, Isa isa, x86::Compiler& cc) {
  HONE_RETURN_IF_ERROR(check_registers(kernel, isa));
  return Lowering(kernel, isa, cc).run();
}

}  // namespace hone::jit
