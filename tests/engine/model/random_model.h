// Small decoders with random weights, in memory; and what they compute, in double, written without anything of ours.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "engine/model/files/model_file.h"

namespace hone::model {

// The weights that `config` asks for, f32: projections of about unit gain, norms around 1, biases up to 0.5.
ModelFile random_model(const DecoderConfig& config, uint64_t seed);

// The elements of an f32 weight, for tests that change them. The memory is the file's own.
std::span<float> elements_of(const Weight& weight);

// The frequencies of RoPE as their papers have them, and the factor of cos and sin.
std::vector<double> naive_frequencies(const DecoderConfig& config);
double naive_amplitude(const DecoderConfig& config);

// Logits after the last of `tokens`: every layer over all tokens, no cache.
std::vector<double> naive_logits(const ModelFile& file, std::span<const int32_t> tokens);

}  // namespace hone::model
