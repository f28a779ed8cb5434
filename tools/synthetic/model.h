// Synthetic models: geometries of real ones with random weights, for benchmarks and tests, in every format that hone
// reads. They are written as a stream: no tensor is ever in memory as a whole.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "engine/base/dtype.h"
#include "engine/base/status.h"
#include "engine/model/config.h"
#include "engine/model/tokenizer/vocabulary.h"

namespace hone::synthetic {

struct SyntheticModel {
  model::DecoderConfig config;
  DType dtype = DType::kF32;  // of matrices: f32, f16 or bf16; every element is rounded to it
  uint64_t seed = 1;
  std::optional<model::Vocabulary> vocabulary;
  std::string chat_template;
};

struct Geometry {
  const char* name;
  const char* about;
};
std::span<const Geometry> geometries();
// invalid_argument listing the names.
Result<SyntheticModel> synthetic_model(std::string_view geometry);

// Where a file goes; the first error ends the writing.
using Sink = std::function<Status(std::string_view)>;

// GGUF as converters write it: norms and biases in f32; q and k of llama in the order of RoPE's neighbours.
Status write_gguf(const SyntheticModel& model, const Sink& sink);
// Bytes that write_gguf will write.
int64_t gguf_bytes(const SyntheticModel& model);

// The legacy format: f32 throughout, only what its header can say (invalid_argument otherwise).
Status write_llama2c(const SyntheticModel& model, const Sink& sink);
std::string llama2c_tokenizer(const model::Vocabulary& vocabulary);

// One shard of `shards`, and what lies beside them.
Status write_safetensors(const SyntheticModel& model, int shard, int shards, const Sink& sink);
std::string safetensors_index(const SyntheticModel& model, int shards);  // model.safetensors.index.json
std::string safetensors_name(int shard, int shards);                     // model-00001-of-00002.safetensors
std::string hugging_face_config(const SyntheticModel& model);            // config.json

}  // namespace hone::synthetic
