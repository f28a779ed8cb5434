// dense<..> and dense_resource<..>: elements as text or as hexadecimal bytes, little endian.
#pragma once

#include <cstdint>
#include <vector>

#include "engine/base/status.h"
#include "engine/graph/graph.h"
#include "engine/graph/stablehlo/syntax.h"

namespace hone::graph::stablehlo {

// The element type of a tensor as a graph has it: f32; i32 and i64 become s32; i1 becomes u8. Error: unsupported
// "line L: element type bf16 is not supported; supported are ..".
Result<TensorType> tensor_type(const Type& type);

// The elements of a kDense or kResource attribute. Values of i64 must fit s32. Errors: invalid_argument "line L: ..".
Result<Constant> parse_literal(const Module& module, const Attribute& literal);

// The numbers of [0, 1], array<i64: 0, 1> or dense<[0, 1]> : tensor<2xi64>; 256 at most.
Result<std::vector<int64_t>> parse_integers(const Module& module, const Attribute& list);

}  // namespace hone::graph::stablehlo
