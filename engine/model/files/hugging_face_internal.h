// Files of a Hugging Face checkpoint, as bytes: safetensors, and the JSON beside them.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "engine/base/status.h"
#include "engine/model/files/model_file.h"
#include "engine/model/json.h"

namespace hone::model {

// The tensors of one .safetensors file, with spans into `bytes`:
//
//   u64 size of the header | header, JSON: {"name": {"dtype", "shape", "data_offsets": [begin, end]}, ..} | data
//
// Data has no holes and no overlaps, and ends where the file does. A dtype but F32, F16 and BF16 is `unsupported`.
Result<std::vector<Weight>> tensors_of_safetensors(std::span<const std::byte> bytes);

// config.json of LlamaForCausalLM, MistralForCausalLM, Qwen2ForCausalLM and Qwen3ForCausalLM. qk_norm and
// the biases of qwen2 are assemble()'s to set.
Result<DecoderConfig> config_of_hugging_face(std::string_view config_json);

// eos_token_id of generation_config.json or config.json: a number or a list. Nothing where there is none.
Result<std::vector<int32_t>> stops_of_hugging_face(std::string_view json);
// chat_template of tokenizer_config.json: a text, or the one called "default" of a list; "" where there is none.
std::string chat_template_of_hugging_face(const Json& tokenizer_config);
// weight_map of model.safetensors.index.json: tensor and file, which is a name without a folder.
Result<std::vector<std::pair<std::string, std::string>>> weight_map_of_hugging_face(std::string_view index);

}  // namespace hone::model
