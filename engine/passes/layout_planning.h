// How rows of intermediates lie. Dense, unless the policy asks for rows apart: then a value that a matmul reads as A
// with several rows, and whose rows would lie a multiple of 4096 bytes apart, gets one cache line more in each row.
// (Rows at such a distance compete for one set of the L1: kernels/matmul/blocking.cpp.)
//
// The producer writes that stride and every consumer reads it; views keep it. No bit changes.
#pragma once

#include "engine/passes/compilation.h"

namespace hone::passes {

// One cache line: rows stay aligned as they were.
inline constexpr int64_t kPaddingFloats = 16;

// Fills compilation.layouts, and Graph::layouts ("rows=1040" by node) for an export. Notes give the reason, also where
// a value that collides stays dense.
Status layout_planning(Compilation& compilation);

}  // namespace hone::passes
