// Across the lanes of one vector register, in an order that does not depend on how many there are.
#pragma once

#include "kernels/ir/builder.h"

namespace hone::math {

// Every lane of x becomes op over all lanes, in one order whatever the vector length: lanes half a vector apart first,
// then a quarter, down to neighbours. `lanes` is 4, 8 or 16.
class LaneReducer {
 public:
  LaneReducer(ir::Builder& builder, int lanes);
  void reduce(ir::BinaryOp op, const ir::RegRef& x);

 private:
  ir::Builder& b_;
  int lanes_;
  ir::RegRef a_, z_;
};

}  // namespace hone::math
