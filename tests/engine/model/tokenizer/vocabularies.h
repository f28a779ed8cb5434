// Small made-up vocabularies for tests of the tokenizer.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "engine/model/tokenizer/byte_alphabet_internal.h"
#include "engine/model/tokenizer/tokenizer.h"

namespace hone::model::testing {

inline int32_t add(Vocabulary& v, std::string_view text, TokenKind kind = TokenKind::kNormal, float score = 0) {
  v.tokens.push_back({.text = std::string(text), .score = score, .kind = kind});
  return static_cast<int32_t>(v.tokens.size()) - 1;
}

// As Llama 2's: <unk> <s> </s>, 256 bytes, then the pieces, the first of them best.
inline Vocabulary pieces(const std::vector<std::string>& texts) {
  Vocabulary v;
  v.kind = TokenizerKind::kSentencePiece;
  v.unknown = add(v, "<unk>", TokenKind::kUnknown);
  v.bos = add(v, "<s>", TokenKind::kControl);
  v.eos = add(v, "</s>", TokenKind::kControl);
  constexpr char kDigits[] = "0123456789ABCDEF";
  for (int b = 0; b < 256; ++b) add(v, std::string("<0x") + kDigits[b / 16] + kDigits[b % 16] + ">", TokenKind::kByte);
  float score = 0;
  for (const std::string& text : texts) add(v, text, TokenKind::kNormal, score -= 1);
  v.add_bos = v.add_space_prefix = true;
  return v;
}

// 256 bytes, then what the merges make, each of them "left right" in GPT-2's alphabet.
inline Vocabulary byte_level(const std::vector<std::string>& merges, std::string_view pre_tokenizer = "") {
  Vocabulary v;
  v.kind = TokenizerKind::kByteLevel;
  for (int b = 0; b < 256; ++b) add(v, letter_of_byte(static_cast<uint8_t>(b)));
  for (const std::string& merge : merges) {
    std::string whole = merge;
    whole.erase(whole.find(' '), 1);
    add(v, whole);
  }
  v.merges = merges;
  v.pre_tokenizer = pre_tokenizer;
  return v;
}

inline Tokenizer tokenizer_of(Vocabulary v) { return Tokenizer::create(std::move(v)).value(); }

// The texts of the tokens, which reads better than ids.
inline std::vector<std::string> texts_of(const Tokenizer& tokenizer, const std::vector<int32_t>& ids) {
  std::vector<std::string> out;
  for (const int32_t id : ids) out.push_back(tokenizer.vocabulary().tokens.at(static_cast<size_t>(id)).text);
  return out;
}
inline std::vector<std::string> encoded(const Tokenizer& tokenizer, std::string_view text, bool special = false) {
  return texts_of(tokenizer, tokenizer.encode(text, {.add_bos = false, .parse_special = special}).value());
}

}  // namespace hone::model::testing
