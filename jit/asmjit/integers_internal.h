// Integer variables and addresses: everything of a kernel that lives in general-purpose registers.
//
// Which problem: a kernel nest has more integer values (bases, strides, loop variables, lets, bounds) than the 15
// registers there are, and the register allocator knows nothing of loop depth: given the choice it may spill the
// pointer of the inner loop and keep the bound of the outer one. So the choice is made here. Every value that outlives
// an inner loop has a home in the stack frame and is loaded where it is used; registers belong to the innermost serial
// loop: one pointer per group of accesses, one counter. What must stay true: a virtual register defined outside an
// innermost loop is not used after it.
//
// Accesses are grouped by (base, variable part of the byte offset); what is constant goes into the displacement. A
// variable part over outer variables is a pointer with a home of its own, computed where the last of its variables gets
// its value: the pointer over (i, j, jj) is the pointer over (i, j) plus one term, whichever of the versions and
// branches inside use it. Terms with a runtime stride (Address::Product) are treated alike, so that a row's product is
// computed once a row. In an innermost loop over v a group's pointer starts there and advances by coef(v) * step per
// iteration, and by coef(v) * step * stride, a multiple of a parameter that has a home of its own. All of this is made
// when an access first needs it, by moving the emitter's cursor back to where the code belongs.
//
// Virtual registers are reused for each role (scratch, counter, n-th pointer): asmjit's allocation time grows with the
// product of registers and blocks, and they never live at once.
#pragma once

#include <asmjit/x86.h>

#include <vector>

#include "jit/lower_util.h"
#include "kernels/ir/ir.h"

namespace hone::jit {

class IntegerEmitter {
 public:
  IntegerEmitter(const ir::Kernel& kernel, asmjit::x86::Compiler& cc);

  // Binds the arguments of an ir::TaskFn; call once, directly after the function node was added.
  void begin_function(asmjit::FuncNode* func);

  ConstEnv& env() { return env_; }

  // dst = e. dst must not be a register that eval returned for another value still needed.
  void eval(const asmjit::x86::Gp& dst, const ir::Affine& e);
  // Registers for values that end before the next statement.
  const asmjit::x86::Gp& value() const { return value_; }
  const asmjit::x86::Gp& other() const { return other_; }
  // The counter of the innermost loop.
  const asmjit::x86::Gp& counter() const { return counter_; }
  // A register for a let: its own inside an innermost loop, where it stays the let's home.
  asmjit::x86::Gp let_register();
  // Sets the flags for value <=> e (cmp). Uses other().
  void compare(const asmjit::x86::Gp& value, const ir::Affine& e);
  // Gives variable v the value of a register (which is v's from now on when inside an innermost loop).
  void define(ir::VarId v, const asmjit::x86::Gp& value);
  // The memory operand of an access; valid until the enclosing block ends.
  asmjit::x86::Mem address(const ir::Access& access);

  // Code that runs conditionally: pointers computed inside do not exist after it.
  void begin_conditional() { ++depth_; }
  void end_conditional();

  // A serial loop with other loops inside: its variable lives in its home. Call behind the head and in front of the
  // jump.
  void begin_outer_loop(ir::VarId v);
  void end_outer_loop() { local_.clear(); }

  // An innermost serial loop. begin_inner_loop is called where code in front of the loop may go, end_inner_loop where
  // the pointers advance.
  void begin_inner_loop(ir::VarId v, const ir::Affine& lo, int64_t step);
  void end_inner_loop();

 private:
  using Gp = asmjit::x86::Gp;
  using Mem = asmjit::x86::Mem;
  using Terms = std::vector<ir::Affine::Term>;
  using Products = std::vector<Address::Product>;

  // A register that holds the variable part of an address.
  struct Pointer {
    ir::BufferId base;
    Terms terms;
    Products products;
    int64_t far;  // what displacements do not reach
    int depth;    // of conditionals around the code that computes it
    Gp gp;
    bool is(const Address& a, int64_t a_far) const;
  };
  // The same in memory, without `far`, over variables that have homes.
  struct PointerHome {
    ir::BufferId base;
    Terms terms;
    Products products;
    Mem home;
  };
  // A parameter times a constant.
  struct MultipleHome {
    ir::VarId param;
    int64_t factor;
    Mem home;
  };
  struct Variable {
    int argument = -1;                       // params and parallel variables: place in their argument array
    Mem home;                                // has a base once it is used
    Gp reg;                                  // valid while the value lives in a register
    asmjit::BaseNode* defined_at = nullptr;  // where its value is new; null: at entry
    int order = 0;                           // counts definitions; 0: at entry
  };
  // A home that an innermost loop reads, in a register during that loop.
  struct Held {
    Mem home;
    Gp gp;
  };
  struct InnerLoop {
    bool active = false;
    ir::VarId var = -1;
    ir::Affine lo;
    int64_t step = 1;
    asmjit::BaseNode* preheader = nullptr;
    std::vector<Pointer> pointers;
    std::vector<Held> held;
  };

  Variable& variable(ir::VarId v) { return variables_[static_cast<size_t>(v)]; }
  template <typename F>
  void emit_at(asmjit::BaseNode*& where, F&& f);
  void apply(asmjit::InstId inst, const Gp& dst, ir::VarId v);
  void emit_with_home(asmjit::InstId inst, const Gp& dst, const Mem& from);
  void add_terms(const Gp& sum, const Terms& terms);
  void add_products(const Gp& sum, const Products& products);
  void add_constant(const Gp& sum, int64_t value);
  void multiply(const Gp& value, int64_t factor);
  const Mem& home(ir::VarId v);
  Mem multiple_home(ir::VarId param, int64_t factor);
  Mem pointer_home(ir::BufferId base, const Products& products, const Terms& terms);
  void compute_at_entry(const PointerHome& p);
  void compute_pointer(const Gp& p, const Address& a, int64_t far, bool hoist);
  bool hoistable(const Address& a) const;
  bool in_register(ir::VarId v) const;
  Gp pointer_register(bool hoist);

  const ir::Kernel& kernel_;
  asmjit::x86::Compiler& cc_;
  ConstEnv env_;
  AddressResolver resolver_;
  Address scratch_;

  asmjit::BaseNode* entry_ = nullptr;
  Gp buffers_, params_, tasks_, workspace_;
  Gp value_, other_, counter_, term_, pointer_;
  std::vector<Gp> inner_registers_, local_registers_;  // of the n-th pointer
  std::vector<Gp> held_registers_;                     // of the n-th home that is held
  std::vector<int> argument_index_;                    // per buffer: its place in the argument array
  std::vector<Variable> variables_;
  int definitions_ = 0;
  std::vector<PointerHome> homes_;
  std::vector<MultipleHome> multiples_;
  std::vector<Pointer> local_;  // pointers computed in the current straight-line code
  int depth_ = 0;               // of conditionals around the current code
  InnerLoop inner_;
  bool in_body_ = true;  // not moved back to earlier code by emit_at
};

}  // namespace hone::jit
