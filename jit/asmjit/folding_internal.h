// Loads that become the memory operand of the one instruction that uses them, and so need neither an instruction nor a
// register of their own.
//
// Why: a broadcast that is used once costs a load of a whole vector in a register, while as an operand it is a load of
// 4 bytes. On Zen 4, which loads one 512-bit vector a cycle, scores of attention's decode (four rows, one vector of
// keys) take 29 instructions an iteration instead of 45.
//
// When is it the same program? The value has one use, in the same run of straight-line code, with no store in between;
// and its register is dead afterwards, which needs no liveness analysis where every use of the register follows a
// definition within its own run. Accumulators and what is kept across loops fail that test, temporaries pass it.
//
// The lowering records what it emits; apply() then edits the instructions, before registers are allocated.
#pragma once

#include <asmjit/x86.h>

#include <vector>

namespace hone::jit {

class Folding {
 public:
  // In the order of emission. Elements are virtual vector registers, numbered by the caller; an instruction's uses come
  // before its definition.
  void use(int element, asmjit::InstNode* user);
  // `load`: the instruction, when it is an unmasked load of a whole register or a broadcast; else null.
  void define(int element, asmjit::InstNode* load);
  void store();  // may write what was loaded
  void end_run();

  void apply(asmjit::x86::Compiler& cc);

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

  Value& value(int element);
  void end(int element);

  std::vector<Value> values_;  // current one of each element
  std::vector<bool> crosses_;  // by element: some use is not behind a definition in its run
  std::vector<int> open_;      // elements with a load that nothing has used yet, in this run
  std::vector<int> defined_;   // in this run
  std::vector<Candidate> candidates_;
  int run_ = 0;
};

}  // namespace hone::jit
