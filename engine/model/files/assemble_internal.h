// From tensors by name to weights by role, which is the same for all formats but for the names.
#pragma once

#include <vector>

#include "engine/base/status.h"
#include "engine/model/files/model_file.h"

namespace hone::model {

enum class Naming { kGguf, kHuggingFace };

// Every role must be there with the shape that `config` says, and every tensor must have a role: one that nothing
// computes with would be a model that is not the file's. The layers' weights come in the file's own order of rows.
//
// Sets config.qk_norm by the architecture, and the biases: those that it or the config always has, and those that are
// there.
Result<DecoderWeights> assemble(std::vector<Weight> tensors, Naming naming, DecoderConfig& config);

int64_t bytes_of(const DecoderWeights& weights);

// A tensor's shape as people write it: [32000, 64].
std::string shape_text(const std::vector<int64_t>& shape);

}  // namespace hone::model
