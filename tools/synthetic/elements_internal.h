// The elements of a tensor as they go into a file, piece by piece.
#pragma once

#include "tools/synthetic/model.h"
#include "tools/synthetic/tensors.h"

namespace hone::synthetic {

// `neighbours`: rows of q, k and their biases in the order of RoPE of neighbours instead of halves. `stored`: what
// elements are in the file; their values are those of model.dtype.
Status write_elements(const SyntheticModel& model, const Tensor& tensor, DType stored, bool neighbours,
                      const Sink& sink);

}  // namespace hone::synthetic
