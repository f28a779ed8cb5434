// Frequencies of RoPE from tables of cos and sin that somebody has computed.
#pragma once

#include <optional>
#include <vector>

#include "engine/graph/graph.h"

namespace hone::passes {

// How a table [rows, columns] has the d / 2 angles of a row.
enum class TableColumns : uint8_t { kOnce, kHalvesTwice, kPairsTwice };

// inv_freq with which cos and sin of row r are those of r * inv_freq[j], up to 2^-20 in every row; nothing where there
// is none. (An ulp of the frequency is seen in the last rows, so that few fit, and the best of those is taken.)
std::optional<std::vector<float>> frequencies_of(const graph::Constant& cos, const graph::Constant& sin,
                                                 TableColumns columns);

}  // namespace hone::passes
