// Loads that become the memory operand of the one instruction that uses them, and so need neither an instruction nor a
// register of their own.
//
// Why: a broadcast that is used once costs a load of a whole vector in a register, while as an operand it is a load of
// 4 bytes. On Zen 4, which loads one 512-bit vector a cycle, the products of four rows with one vector take 29
// instructions an iteration instead of 45, and half the time.
//
// When is it the same program? The value has one use, in the same run of straight-line code, with no store in between;
// and its register is dead afterwards, which needs no liveness analysis where every use of the register follows a
// definition within its own run. Accumulators and what is kept across loops fail that test, temporaries pass it.
//
// Constants likewise: where a run uses more registers than there are, as exp does on AVX2, those that it only reads
// become operands from the constant pool. Otherwise the allocator would keep some in the stack frame, and load them
// from there in every iteration.
//
// The lowering records what it emits; apply() then edits the instructions, before registers are allocated.
#pragma once

#include <asmjit/x86.h>

#include <functional>
#include <set>
#include <vector>

namespace hone::jit {

class Folding {
 public:
  // In the order of emission. Elements are virtual vector registers, numbered by the caller; an instruction's uses come
  // before its definition.
  void use(int element, asmjit::InstNode* user);
  // `load`: the instruction, when it is an unmasked load of a whole register or a broadcast; else null.
  void define(int element, asmjit::InstNode* load);
  // A definition of the virtual register `reg` as `bits` in each of its lanes.
  void define_constant(int element, uint32_t bits, const asmjit::x86::Vec& reg);
  void store();  // may write what was loaded
  void end_run();

  // `registers`: of the ISA. `constant`: the operand with these bits in each lane of a register.
  using ConstantOperand = std::function<asmjit::x86::Mem(uint32_t bits, const asmjit::x86::Vec& reg)>;
  void apply(asmjit::x86::Compiler& cc, size_t registers, const ConstantOperand& constant);

 private:
  struct Value {
    asmjit::InstNode* load = nullptr;
    asmjit::InstNode* user = nullptr;
    int uses = 0;
    int run = -1;  // in which it was defined
  };
  struct Candidate {
    int element;
    asmjit::InstNode *load, *user;
  };

  // What an element is over the whole kernel.
  struct Constant {
    bool only = true;  // nothing else is ever assigned to it
    bool defined = false;
    uint32_t bits = 0;
    asmjit::x86::Vec reg;
  };
  struct Use {
    int element;
    asmjit::InstNode* user;
  };
  struct Run {
    std::vector<Use> uses;
    size_t elements = 0;  // used or defined
  };

  Value& value(int element);
  Constant& constant_of(int element);
  void touch(int element);
  void end(int element);
  void fold_loads(asmjit::x86::Compiler& cc);
  void fold_constants(const Run& run, size_t registers, const ConstantOperand& constant, std::set<int>& folded);
  bool fold_constant(const Run& run, int element, const ConstantOperand& constant);

  std::vector<Value> values_;  // current one of each element
  std::vector<bool> crosses_;  // by element: some use is not behind a definition in its run
  std::vector<int> open_;      // elements with a load that nothing has used yet, in this run
  std::vector<int> defined_;   // in this run
  std::vector<Candidate> candidates_;
  std::vector<Constant> constants_;
  std::vector<int> touched_;  // run in which the element was last used or defined
  std::vector<Run> runs_;
  Run current_;
  int run_ = 0;
};

}  // namespace hone::jit
