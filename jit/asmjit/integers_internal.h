// Integer variables and addresses: everything of a kernel that lives in general-purpose registers.
//
// Which problem: a kernel nest has more integer values (bases, strides, loop variables, lets, bounds) than the 15
// registers there are, and the register allocator knows nothing of loop depth: given the choice it may spill the
// pointer of the inner loop and keep the bound of the outer one. So the choice is made here. Every value that outlives
// an inner loop has a home in the stack frame and is loaded where it is used; registers belong to the innermost serial
// loop: one pointer per group of accesses, one counter. What must stay true: a virtual register defined outside an
// innermost loop is not used after it.
//
// Accesses are grouped by (base, variable part of the byte offset); what is constant goes into the displacement. In an
// innermost loop over v a group's pointer is computed once in front of the loop and advanced by coef(v) * step per
// iteration. The first access that needs the group creates it, by moving the emitter's cursor back in front of the
// loop.
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

  // The value of e in a fresh register that the caller may change.
  asmjit::x86::Gp eval(const ir::Affine& e);
  // Sets the flags for value <=> e (cmp).
  void compare(const asmjit::x86::Gp& value, const ir::Affine& e);
  // Gives variable v the value of a register (which is v's from now on).
  void define(ir::VarId v, const asmjit::x86::Gp& value);
  // The memory operand of an access; valid until the enclosing block ends.
  asmjit::x86::Mem address(const ir::Access& access);

  // Code that runs conditionally: pointers computed inside do not exist after it.
  void begin_conditional() { ++depth_; }
  void end_conditional();

  // A serial loop with other loops inside: its variable lives in its home. Call in front of the head and after the end.
  void cut_pointers() { local_.clear(); }

  // An innermost serial loop. begin_inner_loop is called where code in front of the loop may go, end_inner_loop where
  // the pointers advance.
  void begin_inner_loop(ir::VarId v, const ir::Affine& lo, int64_t step);
  void end_inner_loop();

 private:
  // The part of an address that needs a register, and the register that holds it.
  struct Pointer {
    ir::BufferId base;
    std::vector<ir::Affine::Term> terms;
    std::vector<Address::Product> products;
    int64_t far;  // what displacements do not reach
    int depth;    // of conditionals around the code that computes it
    asmjit::x86::Gp gp;
    bool is(const Address& a, int64_t a_far) const;
  };
  struct Base {
    ir::BufferId buffer;
    std::vector<Address::Product> products;
    asmjit::x86::Mem home;
  };
  struct InnerLoop {
    bool active = false;
    ir::VarId var = -1;
    ir::Affine lo;
    int64_t step = 1;
    asmjit::BaseNode* preheader = nullptr;
    std::vector<Pointer> pointers;
  };
  // Emits f() at `where` (a cursor, moved behind what f emits) instead of at the current place.
  template <typename F>
  void emit_at(asmjit::BaseNode*& where, F&& f) {
    asmjit::BaseNode* here = cc_.setCursor(where);
    f();
    where = cc_.setCursor(here);
  }

  const asmjit::x86::Mem& home(ir::VarId v);
  const asmjit::x86::Mem& base_home(const Address& a);
  bool hoistable(const Address& a) const;
  asmjit::x86::Gp make_pointer(const Address& a, const ir::Affine& offset);
  void move(const asmjit::x86::Gp& dst, ir::VarId v);
  void add_terms(const asmjit::x86::Gp& sum, const std::vector<ir::Affine::Term>& terms);
  void add_constant(const asmjit::x86::Gp& sum, int64_t value);
  void multiply(const asmjit::x86::Gp& value, int64_t factor);

  const ir::Kernel& kernel_;
  asmjit::x86::Compiler& cc_;
  ConstEnv env_;
  AddressResolver resolver_;
  Address scratch_;

  asmjit::BaseNode* entry_ = nullptr;
  asmjit::x86::Gp buffers_, params_, tasks_, workspace_;
  std::vector<int> argument_index_;  // per buffer, param or parallel variable: its place in the argument array
  std::vector<int> variable_index_;
  std::vector<asmjit::x86::Mem> homes_;       // per variable; empty until used
  std::vector<asmjit::x86::Gp> in_register_;  // per variable: set while its value lives in a register
  std::vector<Base> bases_;
  std::vector<Pointer> local_;  // pointers computed in the current straight-line code
  int depth_ = 0;               // of conditionals around the current code
  InnerLoop inner_;
};

}  // namespace hone::jit
