// Which tokens end a generation. Files name one, eos, and chat models end a turn with another: every engine knows those
// by their texts.
#pragma once

#include <span>

#include "engine/model/tokenizer/vocabulary.h"

namespace hone::model {

// Fills v.end_of_generation: `named` first (an id that is no token's: none), then tokens that are known by text. What
// ends a generation is a control token, whatever the file calls it: it is never shown. A token of a byte-level
// vocabulary that is made of bytes is text, though: Qwen's has "</s>" as one, which is HTML.
void add_stops(Vocabulary& v, std::span<const int32_t> named);

}  // namespace hone::model
