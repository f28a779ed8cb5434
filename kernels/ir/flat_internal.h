// The interpreter's own form of a kernel: one array of instructions with jumps, register operands as linear functions
// of the variables that give a slot, addresses as linear functions that give an element offset.
//
// Structure is resolved once (names, tiles, strides, loops); values are not: loops marked unrolled are simply loops
// here, so that the oracle shares no unrolling or folding code with the generators it judges.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "kernels/ir/ir.h"

namespace hone::ir {

enum class FlatCode : uint8_t {
  kConst,
  kLoad,
  kLoadU8,
  kLoadBf16,
  kLoadF16,
  kBroadcast,
  kBroadcastBf16,
  kBroadcastF16,
  kStore,
  kAdd,
  kSub,
  kMul,
  kDiv,
  kMin,
  kMax,
  kAddS32,
  kSubS32,
  kFma,
  kPairs,
  kDotPairs,
  kMove,
  kNeg,
  kAbs,
  kRound,
  kSqrt,
  kToInt,
  kToFloat,
  kShl,
  kLt,
  kLe,
  kEq,
  kSelect,
  kPermute,
  kLaneMask,
  kLoopEnter,  // var = e0; if var >= e1 goto target; keep e1
  kLoopNext,   // var += step; if var < kept bound goto target
  kLetMin,
  kLetMax,
  kLetFloorDiv,
  kLetLoad,
  kSet,
  kJump,
  kJumpUnlessZero,
  kJumpUnlessGeZero,
  kEnd,
};

// constant + sum(terms[first .. first+count))
struct FlatLinear {
  int64_t constant = 0;
  int32_t first = 0;
  int32_t count = 0;
};

// base + width * (offset + sum over products of vars[stride] * index)
struct FlatAddress {
  int32_t buffer = 0;
  int32_t first_product = 0;
  int32_t products = 0;
  int32_t width = 4;  // of an element, in bytes
  FlatLinear offset{};
};
struct FlatProduct {
  VarId stride;
  FlatLinear index;
};

struct FlatOp {
  FlatCode code = FlatCode::kEnd;
  bool masked = false;
  int lanes = 0;
  FlatLinear dst{}, a{}, b{}, c{};  // register slots; for control ops a, b are values
  int32_t address = 0;
  VarId var = -1;
  int32_t bound = 0;   // loops: where the upper bound is kept; lets: first of `lets`
  int32_t target = 0;  // jumps; lets: number of arguments
  int64_t imm = 0;     // step, divisor, shift, constant bits, or the permute's map
};

struct FlatProgram {
  std::vector<FlatOp> ops;
  std::vector<Affine::Term> terms;
  std::vector<FlatAddress> addresses;
  std::vector<FlatProduct> products;
  std::vector<FlatLinear> lets;
  std::vector<std::array<int, 16>> maps;
  int32_t slots = 0;   // vector registers
  int32_t values = 0;  // variables, then loop bounds
  std::vector<VarId> params, parallel;
  std::vector<int32_t> argument_of;       // by BufferId: index among the arguments, or -1
  std::vector<int64_t> workspace_offset;  // by BufferId
};

FlatProgram flatten(const Kernel& kernel);

}  // namespace hone::ir
