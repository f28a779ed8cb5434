// Packs intermediates into one arena: buffers whose lifetimes do not meet may share memory.
//
// Sizes are those of the largest call that the guards let through, so one plan serves every call and nothing is planned
// or allocated at run time. Largest first, each at the lowest offset that is free for its whole life: the order that is
// within a few percent of the lower bound on graphs of this kind, where the peak is one layer's widest moment.
#pragma once

#include "engine/passes/compilation.h"

namespace hone::passes {

inline constexpr int64_t kBufferAlignment = 64;  // a line, a vector of AVX-512

// Fills max_bytes and offset of intermediates, and memory. Errors: invalid_argument naming the buffer when its largest
// size does not fit 63 bits.
Status plan_memory(Compilation& compilation);

// Proves a plan: offsets aligned and inside the arena, no two intermediates that live at the same time overlap. Error:
// internal naming both.
Status check_memory(const Compilation& compilation);

// The most, and the least, that the dimension can be within the bounds of symbols.
Result<int64_t> largest(const graph::Graph& graph, const graph::Dim& dim);
Result<int64_t> smallest(const graph::Graph& graph, const graph::Dim& dim);

}  // namespace hone::passes
