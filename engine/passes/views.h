// Strides of views: how a value lies in memory that another value owns. Pure functions; elements everywhere.
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "engine/graph/dim.h"
#include "engine/graph/graph.h"

namespace hone::passes {

// Dense row-major strides.
std::vector<graph::Dim> dense_strides(const graph::Shape& dims);

// The strides with which memory of `dims` and `strides` is read as `to`, in the same row-major order; nothing where no
// strides do that, or symbols leave it open.
std::optional<std::vector<graph::Dim>> reshape_strides(const graph::Shape& dims, std::span<const graph::Dim> strides,
                                                       const graph::Shape& to);

// Row-major order without gaps, as far as sizes of 1 matter.
bool is_dense(const graph::Shape& dims, std::span<const graph::Dim> strides);

}  // namespace hone::passes
