// What a decoder's tensors are called in each format, which shapes they have, and which elements a synthetic model's
// have. The readers have tables of their own (engine/model/files): two that agree are worth more than one.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "engine/model/config.h"

namespace hone::synthetic {

enum class Role : uint8_t {
  kEmbedding,
  kOutputNorm,
  kOutput,
  kAttentionNorm,
  kQ,
  kK,
  kV,
  kQBias,
  kKBias,
  kVBias,
  kQNorm,
  kKNorm,
  kO,
  kFfNorm,
  kGate,
  kUp,
  kDown,
  kOBias,
  kGateBias,
  kUpBias,
  kDownBias,
};

struct Tensor {
  Role role = Role::kEmbedding;
  int64_t layer = -1;          // of those that each layer has
  std::vector<int64_t> shape;  // outermost first
  int64_t elements() const { return shape.size() == 1 ? shape[0] : shape[0] * shape[1]; }
  bool matrix() const { return shape.size() == 2; }
};

// All of a model, layer by layer.
std::vector<Tensor> tensors_of(const model::DecoderConfig& config);

std::string gguf_name(const Tensor& tensor);
std::string hugging_face_name(const Tensor& tensor);

// Elements first, first + 1, ... of a tensor, of whatever size the pieces are: a function of seed, tensor and place
// alone. Matrices are uniform with a variance of 1 / columns, so that activations stay near 1 through any number of
// layers; weights of norms lie around 1, biases around 0. Rows of q and k are in the order of RoPE in halves.
void fill(const Tensor& tensor, uint64_t seed, int64_t first, std::span<float> elements);

// Row `row` of q or k for RoPE of neighbours, as a row of the order in halves.
int64_t row_in_halves(int64_t row, int64_t head_dim);

}  // namespace hone::synthetic
