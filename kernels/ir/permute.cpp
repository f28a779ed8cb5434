// The lane maps of Permute, in one place for the interpreter and every code generator.
#include "kernels/ir/ir.h"

namespace hone::ir {

std::vector<int> permute_lanes(PermuteOp op, int imm, int lanes) {
  std::vector<int> map(static_cast<size_t>(lanes));
  auto within_groups = [&](int i0, int i1, int i2, int i3, bool b0, bool b1, bool b2, bool b3) {
    for (int g = 0; g < lanes; g += 4) {
      map[g + 0] = g + i0 + (b0 ? lanes : 0);
      map[g + 1] = g + i1 + (b1 ? lanes : 0);
      map[g + 2] = g + i2 + (b2 ? lanes : 0);
      map[g + 3] = g + i3 + (b3 ? lanes : 0);
    }
  };
  switch (op) {
    case PermuteOp::kUnpackLo32:
      within_groups(0, 0, 1, 1, false, true, false, true);
      break;
    case PermuteOp::kUnpackHi32:
      within_groups(2, 2, 3, 3, false, true, false, true);
      break;
    case PermuteOp::kUnpackLo64:
      within_groups(0, 1, 0, 1, false, false, true, true);
      break;
    case PermuteOp::kUnpackHi64:
      within_groups(2, 3, 2, 3, false, false, true, true);
      break;
    case PermuteOp::kGroups:
      for (int i = 0; i < lanes; ++i) {
        const int group = i / 4;
        if (lanes == 16) {
          map[i] = ((imm >> (2 * group)) & 3) * 4 + i % 4 + (group >= 2 ? lanes : 0);
        } else {
          map[i] = ((imm >> (4 * group)) & 3) * 4 + i % 4;
        }
      }
      break;
  }
  return map;
}

}  // namespace hone::ir
