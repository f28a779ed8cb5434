// A model file of any format, read into one description: geometry, weights where they lie in the mapped file, and the
// tokenizer. Everything a file says is checked before it is used; nothing here copies a weight that is a matrix.
//
//   GGUF v2, v3              one file, or the first of its parts, with the others beside it
//   safetensors              a folder with config.json, *.safetensors (an index or one file), tokenizer.json and
//                            chat_template.jinja; or the .safetensors file in it
//   llama2.c .bin            one file, the legacy format; its tokenizer is tokenizer.bin or tok512.bin beside it, or
//                            given
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "engine/base/dtype.h"
#include "engine/base/status.h"
#include "engine/model/config.h"
#include "engine/model/tokenizer/vocabulary.h"

namespace hone::model {

// A tensor of the file, row-major and dense, little-endian.
struct Weight {
  std::string name;            // as the file has it
  DType dtype = DType::kF32;   // f32, f16 or bf16
  std::vector<int64_t> shape;  // outermost first: [out, in] for a projection
  std::span<const std::byte> data;
  bool present() const { return !shape.empty(); }
};

// Shapes as validated against the config; W: width, D: head_dim.
struct LayerWeights {
  Weight attention_norm;          // [W]
  Weight q, k, v;                 // [heads * D, W], [kv_heads * D, W] twice
  Weight q_bias, k_bias, v_bias;  // absent unless qkv_bias
  Weight q_norm, k_norm;          // [D], absent unless qk_norm
  Weight o;                       // [W, heads * D]
  Weight o_bias;                  // [W], absent unless o_bias
  Weight ff_norm;                 // [W]
  Weight gate, up, down;          // [ff, W], [ff, W], [W, ff]
  Weight gate_bias, up_bias;      // [ff], absent unless mlp_bias
  Weight down_bias;               // [W], likewise
};

struct DecoderWeights {
  Weight embedding;    // [vocabulary, W]
  Weight output_norm;  // [W]
  Weight output;       // [vocabulary, W]; absent with tied_embeddings
  std::vector<LayerWeights> layers;
};

struct ModelFile {
  std::string path;    // as given
  std::string format;  // "GGUF v3", "safetensors", "llama2.c"
  DecoderConfig config;
  DecoderWeights weights;
  std::optional<Vocabulary> vocabulary;  // absent: the format has none and none was found
  std::string chat_template;             // as the file has it (Jinja); "" for none
  // Which files the weights are in, for caches: SHA-256 over format, sizes, devices, inodes, times of modification and
  // of change, and a sample of the contents of all files. A file that was written to has another identity, also where
  // somebody set its time back; so have a copy of it and one that was moved.
  std::string identity;
  int64_t weight_bytes = 0;            // of all weights, as stored
  std::shared_ptr<const void> memory;  // keeps every span here valid
};

struct OpenOptions {
  std::string
      tokenizer;  // a file to take the tokenizer from instead: GGUF, tokenizer.json, or llama2.c's tokenizer.bin
};

// The format is told by contents, not by name. Errors, one line naming file and tensor or field: not_found (no such
// file), data_loss (truncated, an offset outside the file, a size that overflows, a duplicate), unsupported (an
// architecture, format version, or element type that is not known), invalid_argument (a wrong shape, a missing tensor,
// a geometry that cannot be, a tokenizer of more tokens than the model has).
Result<ModelFile> open_model(const std::string& path, const OpenOptions& options = {});

// What is wrong in the file of OpenOptions::tokenizer itself, as open_model() says it: data_loss for invalid_argument,
// which means of that file that it is another model's.
Status of_given_tokenizer(const Status& status);

// The tokenizer alone, from a file that need have no weights; where it has no tokenizer, from what is beside it, as
// open_model() does.
Result<Vocabulary> open_vocabulary(const std::string& path);

}  // namespace hone::model
