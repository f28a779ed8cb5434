// Graphs as text. print() is canonical and parse(print(g)) is g, up to ids.
//
//   graph @layer {
//     symbol s in 1..4096
//     position p in 0..4096 step s
//     input %x : f32[s, 2048]
//     state %k0 : f32[4096, 4, 64]
//     %norm = constant "norm" : f32[2048]
//     %eps = constant dense(1e-05) : f32[]
//     %h = rms_norm(%x, %norm) {eps = 1e-05} : f32[s, 2048]
//     %v, %i = top_k(%h) {k = 2} : f32[s, 2], s32[s, 2]
//     %c = kv_append(%k0, %rows) : f32[p + s, 4, 64]
//     schedule %h = {parallel_dims = ["rows"], parallelism = 8}
//     schedule = {parallel_dims = ["rows"]}
//     layout "h" = "padded"
//     output %c, %v
//   }
//
// Also: `symbol t in 16..512 multiple 16`, `input %k : f32[4] aliases 0`, `constant splat(0) : f32[4, 4]`. Numbers are
// shortest round-trip, NaN is its bits (0x7fc00000). The elements of a constant that is not in the text are found under
// its name. Names other than of letters, digits, '_', '.' and '$' are quoted: %"a b". // begins a comment.
#pragma once

#include <functional>
#include <string>
#include <string_view>

#include "engine/graph/graph.h"

namespace hone::graph {

// Constants of more elements than this are not in the text.
inline constexpr int64_t kInlineElements = 16;

std::string print(const Graph& graph);

// Finds what a constant that is not in the text holds. Error: as it likes.
using ConstantSource = std::function<Result<Constant>(const std::string& name, const TensorType& type)>;
// Verified. Errors: invalid_argument "line L, column C: ..."; that of `source`; without a source, a constant that is
// not in the text is an error.
Result<Graph> parse(std::string_view text, const ConstantSource& source = {});

}  // namespace hone::graph
