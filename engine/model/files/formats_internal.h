// The readers, one format each, over bytes that somebody else keeps: a mapped file, or a test's. What they return has
// no path, identity or memory; open.cpp adds those.
#pragma once

#include <cstddef>
#include <optional>
#include <span>

#include "engine/base/status.h"
#include "engine/model/files/gguf_internal.h"
#include "engine/model/files/model_file.h"

namespace hone::model {

Result<ModelFile> model_of_gguf(std::span<const std::byte> bytes, bool with_vocabulary = true);
// Nothing: the file says that it has none.
Result<std::optional<Vocabulary>> vocabulary_of_gguf(const GgufFile& file);

// Whether these 28 bytes can be the header of a llama2.c model, which has no magic number.
bool looks_like_llama2c(std::span<const std::byte> bytes);
Result<ModelFile> model_of_llama2c(std::span<const std::byte> bytes);
// `tokens`: as many as there must be; nothing: as many as there are.
Result<Vocabulary> vocabulary_of_llama2c(std::span<const std::byte> tokenizer_bin,
                                         std::optional<int64_t> tokens = std::nullopt);

}  // namespace hone::model
