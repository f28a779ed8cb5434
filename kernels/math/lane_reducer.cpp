// See lane_reducer.h.
#include "kernels/math/lane_reducer.h"

namespace hone::math {

using ir::BinaryOp;
using ir::Builder;
using ir::PermuteOp;
using ir::RegRef;

LaneReducer::LaneReducer(Builder& builder, int lanes)
    : b_(builder),
      lanes_(lanes),
      a_(Builder::at(b_.reg("lane_a", {.lanes = lanes}))),
      z_(Builder::at(b_.reg("lane_b", {.lanes = lanes}))) {}

// Halves, quarters, then within a group of 4 lanes. op commutes, so all lanes hold the same bits at the end.
void LaneReducer::reduce(BinaryOp op, const RegRef& x) {
  if (lanes_ == 16) {
    b_.permute(PermuteOp::kGroups, a_, x, x, 0x4e);
    b_.binary(op, x, x, a_);
    b_.permute(PermuteOp::kGroups, a_, x, x, 0xb1);
    b_.binary(op, x, x, a_);
  } else if (lanes_ == 8) {
    b_.permute(PermuteOp::kGroups, a_, x, x, 0x01);
    b_.binary(op, x, x, a_);
  }
  b_.permute(PermuteOp::kUnpackLo64, a_, x, x);
  b_.permute(PermuteOp::kUnpackHi64, z_, x, x);
  b_.binary(op, x, a_, z_);
  b_.permute(PermuteOp::kUnpackLo32, x, x, x);
  b_.permute(PermuteOp::kUnpackLo64, a_, x, x);
  b_.permute(PermuteOp::kUnpackHi64, z_, x, x);
  b_.binary(op, x, a_, z_);
}

}  // namespace hone::math
