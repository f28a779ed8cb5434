// See vocabulary.h.
#include "tools/synthetic/vocabulary.h"

#include <fmt/format.h>

#include <string>
#include <unordered_set>
#include <vector>

#include "engine/base/random.h"

namespace hone::synthetic {
namespace {

constexpr size_t kLongestPiece = 16;
constexpr std::string_view kSpace = "\u2581";

using Merge = std::pair<std::string, std::string>;

// `count` words of letters, each the merge of two words or letters that were there before it; some begin with `space`.
std::vector<Merge> merges_of_letters(size_t count, std::string_view space) {
  std::vector<std::string> words;
  std::unordered_set<std::string> taken;
  for (char c = 'a'; c <= 'z'; ++c) words.emplace_back(1, c);
  const size_t letters = words.size();
  std::vector<Merge> merges;
  const auto merge = [&](const std::string& a, const std::string& b) {
    if (a.size() + b.size() > kLongestPiece || !taken.insert(a + b).second) return;
    merges.emplace_back(a, b);
    words.push_back(a + b);
  };
  // Each pair of letters, each letter after a space, then longer words by chance: the same ones everywhere.
  for (size_t i = 0; i < letters && merges.size() < count; ++i) merge(std::string(space), words[i]);
  for (size_t i = 0; i < letters * letters && merges.size() < count; ++i) merge(words[i / letters], words[i % letters]);
  Random random(1);
  while (merges.size() < count) {
    const size_t a = static_cast<size_t>(random.below(static_cast<int64_t>(words.size())));
    // A space is in front or nowhere.
    const size_t b = static_cast<size_t>(random.below(static_cast<int64_t>(words.size())));
    if (!words[b].starts_with(space)) merge(std::string(words[a]), std::string(words[b]));
  }
  return merges;
}

std::string utf8(uint32_t code) {
  if (code < 0x80) return {static_cast<char>(code)};
  return {static_cast<char>(0xc0 | code >> 6), static_cast<char>(0x80 | (code & 0x3f))};
}

// GPT-2's printable stand-ins of the 256 bytes: printable ones are themselves, the others follow from U+0100 on.
std::vector<std::string> byte_alphabet() {
  std::vector<std::string> alphabet;
  uint32_t next = 0x100;
  for (uint32_t byte = 0; byte < 256; ++byte) {
    const bool printable = (byte > 0x20 && byte < 0x7f) || (byte > 0xa0 && byte != 0xad);
    alphabet.push_back(utf8(printable ? byte : next++));
  }
  return alphabet;
}

model::Vocabulary byte_level(int64_t tokens) {
  using model::TokenKind;
  model::Vocabulary v;
  v.kind = model::TokenizerKind::kByteLevel;
  for (std::string& text : byte_alphabet()) v.tokens.push_back({std::move(text), 0, TokenKind::kNormal});
  constexpr int64_t kSpecial = 3;
  const int64_t merges = tokens - static_cast<int64_t>(v.tokens.size()) - kSpecial;
  for (const auto& [a, b] : merges_of_letters(static_cast<size_t>(merges), utf8(0x120))) {
    v.merges.push_back(a + " " + b);
    v.tokens.push_back({a + b, 0, TokenKind::kNormal});
  }
  const auto special = [&](const char* text) {
    v.tokens.push_back({text, 0, TokenKind::kControl});
    return static_cast<int32_t>(v.tokens.size()) - 1;
  };
  const int32_t end_of_text = special("<|endoftext|>");
  v.bos = special("<|im_start|>");
  v.eos = special("<|im_end|>");
  v.end_of_generation = {v.eos, end_of_text};
  return v;
}

model::Vocabulary sentence_piece(int64_t tokens) {
  using model::TokenKind;
  model::Vocabulary v;
  v.kind = model::TokenizerKind::kSentencePiece;
  v.tokens = {{"<unk>", 0, TokenKind::kUnknown}, {"<s>", 0, TokenKind::kControl}, {"</s>", 0, TokenKind::kControl}};
  for (int byte = 0; byte < 256; ++byte) v.tokens.push_back({fmt::format("<0x{:02X}>", byte), 0, TokenKind::kByte});
  std::vector<std::string> letters = {std::string(kSpace)};
  for (char c = '!'; c <= '~'; ++c) letters.emplace_back(1, c);
  const auto merges = static_cast<size_t>(tokens) - v.tokens.size() - letters.size();
  float score = 0;
  for (const auto& [a, b] : merges_of_letters(merges, kSpace)) v.tokens.push_back({a + b, score--, TokenKind::kNormal});
  for (std::string& letter : letters) v.tokens.push_back({std::move(letter), score--, TokenKind::kNormal});
  v.unknown = 0, v.bos = 1, v.eos = 2;
  v.end_of_generation = {2};
  v.add_bos = v.add_space_prefix = true;
  return v;
}

}  // namespace

model::Vocabulary made_up_vocabulary(model::TokenizerKind kind, int64_t tokens, const std::string& pre_tokenizer) {
  if (kind == model::TokenizerKind::kSentencePiece) return sentence_piece(tokens);
  model::Vocabulary v = byte_level(tokens);
  v.pre_tokenizer = pre_tokenizer;
  return v;
}

}  // namespace hone::synthetic
