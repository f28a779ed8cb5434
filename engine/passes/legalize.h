// dot_general in the one form that matmuls compute: [batch.., m, k] by [batch.., n, k] or [batch.., k, n].
#pragma once

#include "engine/passes/compilation.h"

namespace hone::passes {

// Other orders of dimensions get transposes and reshapes around them, which become views where strides allow. Error:
// unsupported naming the node where a product of symbols would be a dimension.
Status legalize_dot_generals(graph::Graph& graph);

}  // namespace hone::passes
