// The graph of a decoder, from the weights of a model file: primitive ops only, as a model's paper has them. What runs
// as one launch is for the passes to decide.
//
//   x = gather(embedding, tokens)
//   for each layer:
//     h = rms_norm(x)              q, k, v = h W^T (+ bias)     q, k = rms_norm of each head, where the model has it
//     q, k = rope(q), rope(k)      a = attention(q, kv_append(k), kv_append(v)), in the layer's window if it has one
//     x = x + a W_o^T (+ bias)     x = x + swiglu(h W_gate^T, h W_up^T) W_down^T (+ biases),  h = rms_norm(x)
//   logits = rms_norm(gather(x, rows)) W^T
//
// In the last layer rows are chosen right after attention: what other rows would give there nobody reads.
//
//   inputs   tokens s32 [s], rows s32 [r]: of this call's rows, those whose logits are wanted
//   output   logits f32 [r, vocabulary]
//   symbols  s (1 .. max_batch), p (0 .. context, the position), r (1 .. max_rows)
#pragma once

#include "engine/graph/graph.h"
#include "engine/model/files/model_file.h"

namespace hone::model {

struct DecoderGraphOptions {
  int64_t context = 4096;   // tokens that caches hold
  int64_t max_batch = 512;  // tokens of one call
  int64_t max_rows = 1;
};

// Matrices stay where they lie in the file, which the graph keeps mapped; vectors (norms, biases) become f32. Errors:
// invalid_argument (sizes of the options), unsupported naming what no op of a graph can express (a context beyond that
// of training with dynamic scaling).
Result<graph::Graph> decoder_graph(const ModelFile& file, const DecoderGraphOptions& options);

}  // namespace hone::model
