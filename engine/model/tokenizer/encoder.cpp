// Text to tokens: special tokens are split off, what lies between them is cut into words or pieces, and each of these
// is merged on its own. Words come again and again in real text: a large text keeps a table of where it saw a word
// last, and what that became. (README, "Speed".)
#include "engine/model/tokenizer/encoder_internal.h"

#include <bit>

#include <fmt/format.h>

#include "engine/base/printable.h"
#include "engine/model/tokenizer/byte_alphabet_internal.h"
#include "engine/model/tokenizer/normal_form_internal.h"
#include "engine/model/tokenizer/utf8_internal.h"

namespace hone::model {
namespace {

constexpr size_t kMaxText = size_t{1} << 30;
// Tables of 8192 words fit the L2 cache; small texts are done before one is cleared.
constexpr size_t kKnownWords = 8192, kWorthKnowing = 32 << 10, kLongestKnown = 64;
constexpr int32_t kNotLookedUp = -2;

Status too_long() { return invalid_argument(fmt::format("a text of more than {} bytes; give it in parts", kMaxText)); }

Result<std::string> joined_text(std::span<const TextPart> parts) {
  size_t size = 0;
  for (const TextPart& part : parts) {
    if (part.text.size() > kMaxText - size) return too_long();
    size += part.text.size();
  }
  std::string text;
  text.reserve(size);
  for (const TextPart& part : parts) text += part.text;
  return text;
}

// Scores descending as numbers ascending. Zeros are one number.
uint32_t priority_of(float score) {
  const auto bits = std::bit_cast<uint32_t>(score + 0.0F);
  const uint32_t ascending = bits >> 31 != 0 ? ~bits : bits | 0x80000000u;
  return ~ascending;
}

}  // namespace

// Special tokens are found in the text as it is given, all parts as one, and stay; what lies between them is put into
// form C each for itself. It is tokenized as soon as it is found: a list of what was found would be larger than any
// text of short tokens.
Result<std::vector<int32_t>> Encoder::encode(std::span<const TextPart> parts, bool bos, bool eos) {
  HONE_ASSIGN_OR_RETURN(std::string joined, joined_text(parts));
  if (joined.size() >= kWorthKnowing) known_.resize(kKnownWords);
  if (of_.by_bytes()) pre_tokenizer_.emplace(of_.pre_tokenizer, joined.size());
  normalizes_ = of_.form_c && !surely_form_c(joined);
  if (normalizes_) {
    text_.reserve(joined.size());
  } else {
    text_ = std::move(joined);
  }
  const std::string_view given = normalizes_ ? joined : text_;

  if (bos) ids_.push_back(of_.vocabulary.bos);
  size_t raw = 0, part_begin = 0;  // given[raw, ..) is not tokenized yet
  for (const TextPart& part : parts) {
    const size_t part_end = part_begin + part.text.size();
    const std::string_view until = given.substr(0, part_end);
    const SpecialTokens& special = part.parse_special ? of_.all_special : of_.user_defined;
    for (auto found = special.find(until, part_begin); found; found = special.find(until, raw)) {
      HONE_RETURN_IF_ERROR(raw_text(given.substr(raw, found->begin - raw)));
      raw = found->begin + found->length;
      special_token(given.substr(found->begin, found->length), found->id, bos);
    }
    part_begin = part_end;
  }
  HONE_RETURN_IF_ERROR(raw_text(given.substr(raw)));
  if (eos) ids_.push_back(of_.vocabulary.eos);
  return std::move(ids_);
}

void Encoder::special_token(std::string_view given, int32_t id, bool bos) {
  const bool second_bos = bos && ids_.size() == 1 && done_ == 0 && id == of_.vocabulary.bos;
  if (!second_bos) ids_.push_back(id);
  if (normalizes_) text_ += given;
  done_ += given.size();
  after_special_ = true;
  last_unknown_ = false;
}

Status Encoder::raw_text(std::string_view given) {
  if (given.empty()) return {};
  const size_t begin = done_;
  if (normalizes_) {
    append_form_c(given, text_);
    if (text_.size() > kMaxText) return too_long();  // some characters have more bytes in form C
    done_ = text_.size();
  } else {
    done_ += given.size();
  }
  return of_.by_bytes() ? byte_level(begin, done_) : sentence_pieces(begin, done_);
}

// Runs of characters are cut by the pre-tokenizer; a run of bytes that are none is a piece.
Status Encoder::byte_level(size_t begin, size_t end) {
  while (begin < end) {
    const std::string_view rest = std::string_view(text_).substr(begin, end - begin);
    const size_t good = valid_prefix(rest);
    HONE_RETURN_IF_ERROR(pre_tokenizer_->cut(rest.substr(0, good), ends_));
    size_t from = 0;
    for (const uint32_t to : ends_) {
      HONE_RETURN_IF_ERROR(remembered(begin + from, begin + to, &Encoder::byte_level_word));
      from = to;
    }
    size_t bad = good;
    while (bad < rest.size()) {
      const Character c = first_character(rest.substr(bad));
      if (c.valid) break;
      bad += c.length;
    }
    HONE_RETURN_IF_ERROR(byte_level_word(rest.substr(good, bad - good)));
    begin += bad;
  }
  return {};
}

Status Encoder::sentence_pieces(size_t begin, size_t end) {
  const Vocabulary& v = of_.vocabulary;
  bool prefix = v.add_space_prefix && after_special_ && (begin == 0 || !v.space_prefix_once) &&
                !(v.space_prefix_if_none && begins_with_space(begin));
  after_special_ = false;
  const std::string_view text = std::string_view(text_).substr(0, end);  // a search goes no further
  while (begin < end) {
    size_t next = end;
    if (of_.words_alone) {
      next = begin;
      do {
        next = std::min(text.find(' ', next + 1), end);
      } while (next < end && (text[next - 1] == ' ' || text.substr(begin, next - begin).ends_with(kPieceSpace)));
    }
    if (prefix) {
      HONE_RETURN_IF_ERROR(piece_word(text.substr(begin, next - begin), true));
      prefix = false;
    } else {
      HONE_RETURN_IF_ERROR(remembered(begin, next, &Encoder::piece_word));
    }
    begin = next;
  }
  return {};
}

bool Encoder::begins_with_space(size_t at) const {
  return text_[at] == ' ' || std::string_view(text_).substr(at).starts_with(kPieceSpace);
}

Status Encoder::remembered(size_t begin, size_t end, Status (Encoder::*word)(std::string_view)) {
  const std::string_view text = std::string_view(text_).substr(begin, end - begin);
  if (known_.empty() || text.size() > kLongestKnown) return (this->*word)(text);
  Known& known = known_[hash_of(text) % kKnownWords];
  if (known.length == text.size() && std::string_view(text_).substr(known.begin, known.length) == text) {
    for (uint32_t i = 0; i < known.ids; ++i) ids_.push_back(ids_[known.first_id + i]);
    last_unknown_ = false;
    return {};
  }
  const size_t before = ids_.size();
  const bool after_unknown = last_unknown_;
  HONE_RETURN_IF_ERROR((this->*word)(text));
  if (after_unknown || last_unknown_) return {};  // what it became depended on what was before, or the next will
  known = {.begin = static_cast<uint32_t>(begin),
           .length = static_cast<uint32_t>(text.size()),
           .first_id = static_cast<uint32_t>(before),
           .ids = static_cast<uint32_t>(ids_.size() - before)};
  return {};
}

Status Encoder::byte_level_word(std::string_view word) {
  if (of_.whole_words_first && word.size() <= of_.index.longest()) {
    escaped_.clear();
    append_letters(word, escaped_);
    const int32_t id = of_.index.find(escaped_);
    if (id >= 0 && mergeable(of_.token(id).kind)) {
      ids_.push_back(id);
      last_unknown_ = false;
      return {};
    }
  }
  merger_.clear();
  for (uint32_t i = 0; i < word.size(); ++i) merger_.add(i, 1, of_.byte_ids[static_cast<uint8_t>(word[i])]);
  merge_by_ranks();
  Status status;
  merger_.each([&](const Merger::Symbol& symbol) {
    if (symbol.id >= 0) {
      ids_.push_back(symbol.id);
      last_unknown_ = false;
    } else if (status.ok()) {
      last_unknown_ = false;  // a byte each
      status = unknown(word.substr(symbol.begin, symbol.length));
    }
  });
  return status;
}

Status Encoder::piece_word(std::string_view word, bool prefix) {
  escaped_.clear();
  if (prefix) escaped_ += kPieceSpace;
  for (const char c : word) {
    if (c == ' ') {
      escaped_ += kPieceSpace;
    } else {
      escaped_ += c;
    }
  }
  merger_.clear();
  unused_.clear();
  add_characters();
  if (of_.vocabulary.kind == TokenizerKind::kSentencePiece) {
    merge_by_scores();
  } else {
    merge_by_ranks();
  }
  Status status;
  merger_.each([&](const Merger::Symbol& symbol) { emit_piece(symbol, status); });
  return status;
}

// Bytes that are no character are symbols of their own.
void Encoder::add_characters() {
  const bool by_rank = of_.vocabulary.kind == TokenizerKind::kMergedPieces;
  const std::string_view all = escaped_;
  for (size_t at = 0; at < all.size();) {
    const Character c = first_character(all.substr(at));
    const size_t length = c.valid ? c.length : 1;
    int32_t id = kNotLookedUp;
    if (by_rank) {
      id = of_.index.find(all.substr(at, length));
      if (id >= 0 && !mergeable(of_.token(id).kind)) id = -1;
    }
    merger_.add(static_cast<uint32_t>(at), static_cast<uint32_t>(length), id);
    at += length;
  }
}

void Encoder::merge_by_ranks() {
  merger_.merge([this](const Merger::Symbol& left, const Merger::Symbol& right, uint32_t& priority, int32_t& id) {
    MergeIndex::Merge merge;
    if (!of_.merges.find(left.id, right.id, merge)) return false;
    priority = merge.rank;
    id = merge.id;
    return true;
  });
}

void Encoder::merge_by_scores() {
  merger_.merge([this](const Merger::Symbol& left, const Merger::Symbol& right, uint32_t& priority, int32_t& id) {
    const size_t length = size_t{left.length} + right.length;
    if (length > of_.index.longest()) return false;
    id = of_.index.find(std::string_view(escaped_).substr(left.begin, length));
    if (id < 0 || !mergeable(of_.token(id).kind)) return false;
    if (of_.token(id).kind == TokenKind::kUnused) unused_.push_back({.id = id, .left = left.length});
    priority = priority_of(of_.token(id).score);
    return true;
  });
}

// An unused token is what merging went through, and is taken apart again.
void Encoder::emit_piece(const Merger::Symbol& symbol, Status& status) {
  if (symbol.id >= 0 && of_.token(symbol.id).kind == TokenKind::kNormal) {
    ids_.push_back(symbol.id);
    last_unknown_ = false;
    return;
  }
  std::vector<std::string_view> parts = {std::string_view(escaped_).substr(symbol.begin, symbol.length)};
  bool merged = symbol.id >= 0;
  for (; !parts.empty() && status.ok(); merged = false) {
    const std::string_view part = parts.back();
    parts.pop_back();
    int32_t id = merged || symbol.id == -1 ? symbol.id : of_.index.find(part);
    if (id >= 0 && !mergeable(of_.token(id).kind)) id = -1;
    if (id >= 0 && of_.token(id).kind == TokenKind::kUnused) {
      const auto split = std::find_if(unused_.rbegin(), unused_.rend(), [id](const Split& s) { return s.id == id; });
      if (split != unused_.rend()) {
        parts.push_back(part.substr(split->left));
        parts.push_back(part.substr(0, split->left));
        continue;
      }
    }
    if (id >= 0) {
      ids_.push_back(id);
      last_unknown_ = false;
    } else {
      status = emit_bytes(part);
    }
  }
}

Status Encoder::emit_bytes(std::string_view bytes) {
  for (const char c : bytes)
    if (of_.byte_ids[static_cast<uint8_t>(c)] < 0) return unknown(bytes);
  for (const char c : bytes) ids_.push_back(of_.byte_ids[static_cast<uint8_t>(c)]);
  last_unknown_ = false;
  return {};
}

// One token for all of a run that is unknown.
Status Encoder::unknown(std::string_view bytes) {
  if (of_.vocabulary.unknown < 0)
    return invalid_argument(fmt::format(
        "the vocabulary has no token for '{}', none for its bytes, and no unknown token", printable(bytes, 40)));
  if (!last_unknown_) ids_.push_back(of_.vocabulary.unknown);
  last_unknown_ = true;
  return {};
}

}  // namespace hone::model
