// One call of Tokenizer::encode().
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "engine/base/status.h"
#include "engine/model/tokenizer/merger_internal.h"
#include "engine/model/tokenizer/tokenizer_impl_internal.h"

namespace hone::model {

class Encoder {
 public:
  explicit Encoder(const Tokenizer::Impl& of) : of_(of) {}
  Result<std::vector<int32_t>> encode(std::span<const TextPart> parts, bool bos, bool eos);

 private:
  struct Known {  // a word that was seen: its place in text_, its tokens in ids_
    uint32_t begin = 0, length = 0, first_id = 0, ids = 0;
  };

  // The next of the text as it was given.
  void special_token(std::string_view given, int32_t id, bool bos);
  Status raw_text(std::string_view given);
  // Of text_.
  Status byte_level(size_t begin, size_t end);
  Status sentence_pieces(size_t begin, size_t end);
  bool begins_with_space(size_t at) const;
  Status remembered(size_t begin, size_t end, Status (Encoder::*word)(std::string_view));
  Status byte_level_word(std::string_view word);
  Status piece_word(std::string_view word) { return piece_word(word, false); }
  Status piece_word(std::string_view word, bool prefix);
  void add_characters();
  void merge_by_ranks();
  void merge_by_scores();
  void emit_piece(const Merger::Symbol& symbol, Status& status);
  Status emit_bytes(std::string_view bytes);
  Status unknown(std::string_view bytes);

  const Tokenizer::Impl& of_;
  std::string text_;  // all parts; where they are put into form C, as far as they were read
  size_t done_ = 0;   // text_[0, done_) was read
  bool normalizes_ = false;
  std::string escaped_;  // of a word: U+2581 for spaces; of a piece: in GPT-2's alphabet
  std::vector<int32_t> ids_;
  Merger merger_;
  std::optional<PreTokenizer::Matcher> pre_tokenizer_;
  std::vector<uint32_t> ends_;
  std::vector<Known> known_;
  struct Split {
    int32_t id;
    uint32_t left;  // bytes
  };
  std::vector<Split> unused_;  // unused tokens that merging made: what they are made of, newest last
  bool after_special_ = true;  // where a SentencePiece text gets its space
  bool last_unknown_ = false;
};

}  // namespace hone::model
