// What a tokenizer is made of, as files have it: tokens, scores or merges, and the special ones among them.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "engine/base/status.h"

namespace hone::model {

enum class TokenKind : uint8_t { kNormal, kUnknown, kControl, kUserDefined, kUnused, kByte };  // GGUF's 1 .. 6

struct Token {
  // As text: of a SentencePiece vocabulary with U+2581 for a space and "<0x0A>" for a byte, of a byte-level one in
  // GPT-2's printable alphabet.
  std::string text;
  float score = 0;  // SentencePiece: the higher is merged first
  TokenKind kind = TokenKind::kNormal;
};

enum class TokenizerKind : uint8_t {
  kSentencePiece,  // BPE by scores, byte fallback (Llama 2, TinyLlama, Mistral)
  kMergedPieces,   // the same pieces, by a list of merges (tokenizer.json of those models)
  kByteLevel,      // BPE by a list of merges over bytes (GPT-2, Llama 3, Qwen)
};

struct Vocabulary {
  TokenizerKind kind = TokenizerKind::kSentencePiece;
  std::vector<Token> tokens;        // by id
  std::vector<std::string> merges;  // "a b", first is merged first
  // kByteLevel: how text is cut before merging. A name ("gpt-2", "llama-bpe", "qwen2", "smollm", "default"...) or,
  // where it is empty, regular expressions: each cuts what the one before it left into its matches and what lies
  // between.
  std::string pre_tokenizer;
  std::vector<std::string> patterns;
  // kByteLevel: a piece that is a token as a whole is not split by merges (Llama 3's ignore_merges). Some names of
  // pre-tokenizers say so too.
  bool whole_words_first = false;
  bool form_c = false;  // text is put into Unicode's form C (NFC) first. Some names of pre-tokenizers say so too.
  int32_t bos = -1, eos = -1, unknown = -1;
  std::vector<int32_t> end_of_generation;  // eos, and others that end a turn (<|im_end|>, <|eot_id|>)
  bool add_bos = false, add_eos = false;
  bool add_space_prefix = false;      // SentencePiece: text starts with a space of its own, also after a special token,
  bool space_prefix_once = false;     // or only where the text itself begins,
  bool space_prefix_if_none = false;  // and not where there is a space already
};

// Whether text begins with bos in a file that names this pre-tokenizer and does not say.
bool pre_tokenizer_adds_bos(std::string_view name);

// One line naming token or field: ids in range, no two tokens with one text (but unused and empty ones), finite scores,
// merges of tokens that exist and give a token that exists, 2^24 tokens and merges at most, each token at most 64 KiB,
// and at most 512 bytes where it is split off text (control, user-defined). Tokenizer::create() checks all of this too.
Status validate(const Vocabulary& vocabulary);

}  // namespace hone::model
