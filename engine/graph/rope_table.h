// The rotations of one position: the one definition that the reference and the plan share.
#pragma once

#include <cstdint>
#include <span>

namespace hone::graph {

// cos and sin, inv_freq.size() each, of the angle f32(position) * inv_freq[i] in f32: those of math.h in double,
// rounded to f32.
void rope_row(int64_t position, std::span<const float> inv_freq, float* cos, float* sin);

}  // namespace hone::graph
