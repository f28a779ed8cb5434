// Cold caches: what a kernel meets in a model, where the weights of a layer were last used a whole token ago.
#pragma once

#include <cstddef>
#include <span>

namespace hone::autotune {

// Writes back and drops every line of the ranges from all caches, and waits until that is done. Uses clflushopt where
// the CPU has it, clflush where not, and elsewhere walks a buffer larger than the last-level cache.
void flush_caches(std::span<const std::span<const std::byte>> ranges);

}  // namespace hone::autotune
