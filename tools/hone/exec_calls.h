// The inputs of consecutive calls of a graph, from arrays.
//
// An input that is given once goes to every call; one that is given several times, an array for each call, in order.
// With --calls 128,1,1 an input is cut along its dimension of tokens instead, and a graph that keeps keys and values
// gets a prompt and then single tokens. Random inputs are made as a whole and cut the same way, so that they do not
// depend on the cuts. Outputs of all calls are joined along their dimension of tokens.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "engine/graph/tensor.h"
#include "tools/hone/npy.h"

namespace hone::cli {

struct CallArgs {
  std::vector<std::string> inputs;  // "x=a.npy"; a file alone is the next input that has none
  std::vector<int64_t> calls;       // tokens of each; empty: as the arrays say
  std::vector<std::string> sizes;   // "t=16": of symbols that no array says
  std::optional<uint64_t> random;   // seed of what is not given
};

struct GraphCall {
  std::vector<graph::Tensor> inputs;  // in the graph's order
  int64_t tokens = 0;                 // by which the position grows
};

// At least one. Errors name the option, or the input and what it must be.
Result<std::vector<GraphCall>> make_calls(const graph::Graph& graph, const CallArgs& args);

// The dimension that is the number of tokens of a call, and nothing else.
std::optional<size_t> token_axis(const graph::Graph& graph, const graph::TensorType& type);

// One tensor of those of all calls: along `axis`, without one the last.
graph::Tensor joined(std::span<const graph::Tensor> tensors, std::optional<size_t> axis);

Result<NpyArray> to_npy(const graph::Tensor& tensor);

}  // namespace hone::cli
