// Small graphs that the tests of plans run: made by the builder, with random weights.
#pragma once

#include <cstdint>
#include <vector>

#include "engine/graph/builder.h"
#include "engine/graph/reference.h"

namespace hone::executable {

struct DecoderSizes {
  int64_t width = 64, heads = 4, kv_heads = 2, head_dim = 16, hidden = 96;
  int64_t max_tokens = 40, capacity = 64;
  std::string rope = "half";
  uint64_t seed = 1;
};

std::vector<float> random_floats(size_t count, uint64_t seed, float scale);

// x [s, width] -> one decoder layer with a cache.
graph::Graph decoder_layer(const DecoderSizes& sizes);
// As decoder_layer, with `experts` experts, `top_k` of which each token takes, in the place of the MLP.
graph::Graph moe_layer(const DecoderSizes& sizes, int64_t experts, int64_t top_k);

graph::Tensor random_rows(int64_t rows, int64_t width, uint64_t seed);

}  // namespace hone::executable
