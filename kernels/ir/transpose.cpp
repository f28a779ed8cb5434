// See transpose.h.
#include "kernels/ir/transpose.h"

namespace hone::ir {

// Per 128-bit group first (unpack 32, unpack 64), then the groups are dealt out.
RegId emit_transpose(Builder& b, int lanes, RegId x_tile, RegId y_tile) {
  auto x = [&](int64_t i) { return Builder::at(x_tile, {i}); };
  auto y = [&](int64_t i) { return Builder::at(y_tile, {i}); };
  for (int64_t i = 0; i < lanes; i += 2) {
    b.permute(PermuteOp::kUnpackLo32, y(i), x(i), x(i + 1));
    b.permute(PermuteOp::kUnpackHi32, y(i + 1), x(i), x(i + 1));
  }
  for (int64_t q = 0; q < lanes; q += 4) {
    b.permute(PermuteOp::kUnpackLo64, x(q + 0), y(q + 0), y(q + 2));
    b.permute(PermuteOp::kUnpackHi64, x(q + 1), y(q + 0), y(q + 2));
    b.permute(PermuteOp::kUnpackLo64, x(q + 2), y(q + 1), y(q + 3));
    b.permute(PermuteOp::kUnpackHi64, x(q + 3), y(q + 1), y(q + 3));
  }
  // Now group g of x[4q + c] holds rows 4q..4q+3 of column 4g + c.
  if (lanes == 4) return x_tile;
  if (lanes == 8) {
    for (int64_t c = 0; c < 4; ++c) {
      b.permute(PermuteOp::kGroups, y(c), x(c), x(4 + c), 0x20);
      b.permute(PermuteOp::kGroups, y(4 + c), x(c), x(4 + c), 0x31);
    }
    return y_tile;
  }
  for (int64_t c = 0; c < 4; ++c) {
    const RegRef even01 = y(c), odd01 = y(4 + c), even23 = y(8 + c), odd23 = y(12 + c);
    b.permute(PermuteOp::kGroups, even01, x(c), x(4 + c), 0x88);
    b.permute(PermuteOp::kGroups, odd01, x(c), x(4 + c), 0xdd);
    b.permute(PermuteOp::kGroups, even23, x(8 + c), x(12 + c), 0x88);
    b.permute(PermuteOp::kGroups, odd23, x(8 + c), x(12 + c), 0xdd);
    b.permute(PermuteOp::kGroups, x(c), even01, even23, 0x88);
    b.permute(PermuteOp::kGroups, x(8 + c), even01, even23, 0xdd);
    b.permute(PermuteOp::kGroups, x(4 + c), odd01, odd23, 0x88);
    b.permute(PermuteOp::kGroups, x(12 + c), odd01, odd23, 0xdd);
  }
  return x_tile;
}

}  // namespace hone::ir
