// A made-up vocabulary of a given size that a tokenizer accepts as any: every token that is longer than a letter is the
// merge of two others.
#pragma once

#include <cstdint>

#include "engine/model/tokenizer/vocabulary.h"

namespace hone::synthetic {

// kSentencePiece (like Llama 2's: bytes, pieces with scores; 354 tokens at least), or kByteLevel (like Qwen's: bytes,
// merges, <|endoftext|>, <|im_start|>, <|im_end|>; 259 at least) with the pre-tokenizer of that name.
model::Vocabulary made_up_vocabulary(model::TokenizerKind kind, int64_t tokens, const std::string& pre_tokenizer = "");

}  // namespace hone::synthetic
