// Hugging Face's tokenizer.json as a Vocabulary: BPE over bytes (GPT-2, Llama 3, Qwen, SmolLM) and BPE over pieces with
// byte fallback (Llama 2, TinyLlama, Mistral).
#pragma once

#include <string_view>

#include "engine/base/status.h"
#include "engine/model/json.h"
#include "engine/model/tokenizer/vocabulary.h"

namespace hone::model {

// `tokenizer_config`, of the file beside it, says which tokens are bos and eos; null for none. Ends of generation are
// eos alone: what else ends a turn is in other files. Errors: data_loss (no JSON, a key twice), invalid_argument (a
// field of the wrong type, ids that are not those of a table), unsupported (a model, normalizer or pre-tokenizer that
// is not known, named; more than 64 MiB, or nested deeper than any real file).
//
// Tokenizer::create() then validates it. Messages do not name the file, which may have any name.
Result<Vocabulary> vocabulary_of_tokenizer_json(std::string_view json, const Json& tokenizer_config);

}  // namespace hone::model
