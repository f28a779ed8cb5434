#include "engine/graph/rope_table.h"

#include <cmath>

namespace hone::graph {

void rope_row(int64_t position, std::span<const float> inv_freq, float* cos, float* sin) {
  for (size_t i = 0; i < inv_freq.size(); ++i) {
    const float angle = static_cast<float>(position) * inv_freq[i];
    cos[i] = static_cast<float>(std::cos(static_cast<double>(angle)));
    sin[i] = static_cast<float>(std::sin(static_cast<double>(angle)));
  }
}

}  // namespace hone::graph
