// The readers, one format each, over bytes that somebody else keeps: a mapped file, or a test's. What they return has
// no path, identity or memory; open.cpp adds those.
#pragma once

#include <cstddef>
#include <functional>
#include <optional>
#include <span>
#include <string>

#include "engine/base/status.h"
#include "engine/model/files/gguf_internal.h"
#include "engine/model/files/model_file.h"

namespace hone::model {

// The other parts of a model, where one file is not all of it.
struct GgufParts {
  std::string name;  // of the file, without its folder
  std::function<Result<std::span<const std::byte>>(const std::string& name)> open;
};
struct GgufSplit {
  int64_t number = 0, count = 1;  // a part, counted from 0, of so many
  int64_t tensors = 0;            // of all parts
};
Result<GgufSplit> split_of(const GgufFile& file);
// Appends the tensors of the other parts to those of the first. Errors: those of readers, naming the part; data_loss
// (numbers that do not agree, a tensor twice), invalid_argument (another part than the first, a name that is no
// part's).
Status append_parts(GgufFile& first, const GgufParts& parts);

Result<ModelFile> model_of_gguf(std::span<const std::byte> bytes, bool with_vocabulary = true,
                                const GgufParts& parts = {});
// Nothing: the file says that it has none.
Result<std::optional<Vocabulary>> vocabulary_of_gguf(const GgufFile& file);

// Whether these 28 bytes can be the header of a llama2.c model, which has no magic number.
bool looks_like_llama2c(std::span<const std::byte> bytes);
Result<ModelFile> model_of_llama2c(std::span<const std::byte> bytes);
// `tokens`: as many as there must be; nothing: as many as there are.
Result<Vocabulary> vocabulary_of_llama2c(std::span<const std::byte> tokenizer_bin,
                                         std::optional<int64_t> tokens = std::nullopt);

}  // namespace hone::model
