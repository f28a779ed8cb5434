// Gives every value a place. Views share the memory of what they are views of, with strides of their own; a reshape
// that no strides express becomes a copy. A dispatch writes to buffers of its own, but for RoPE, which turns its
// operand in place where nobody else reads that. What prepared code cannot read where it lies is copied first.
//
// Constants lie where the graph has them (a splat is one element with strides of 0); weights of matmuls are packed when
// the plan is made and have no place. Keys and values of a cache lie in the cache.
#pragma once

#include "engine/passes/compilation.h"

namespace hone::passes {

// Fills buffers and placements; dispatches may become copies, and get copies between them. Error: unsupported naming
// the node and the dimension that has to be static.
Status bufferize(Compilation& compilation);

// A value as rows of `columns` elements, dense within a row: what matmuls read and write. Nothing where it is none.
struct Rows {
  graph::Dim rows;
  int64_t columns = 0, stride = 0;  // elements from row to row
};
std::optional<Rows> as_rows(const graph::TensorType& type, const Placement& placement);

}  // namespace hone::passes
