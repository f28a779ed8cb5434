// What a tokenizer has made of its vocabulary. Immutable once created.
#pragma once

#include <array>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "engine/model/tokenizer/pre_tokenizer_internal.h"
#include "engine/model/tokenizer/special_tokens_internal.h"
#include "engine/model/tokenizer/token_index_internal.h"
#include "engine/model/tokenizer/tokenizer.h"

namespace hone::model {

class Tokenizer::Impl {
 public:
  static Result<std::shared_ptr<const Impl>> create(Vocabulary vocabulary);

  const Token& token(int32_t id) const { return vocabulary.tokens[static_cast<size_t>(id)]; }
  bool in_range(int32_t id) const { return id >= 0 && static_cast<size_t>(id) < vocabulary.tokens.size(); }
  bool by_bytes() const { return vocabulary.kind == TokenizerKind::kByteLevel; }
  std::string_view bytes(int32_t id) const {
    const auto at = static_cast<size_t>(id);
    return std::string_view(all_bytes).substr(ends[at], ends[at + 1] - ends[at]);
  }

  Vocabulary vocabulary;
  TokenIndex index;
  MergeIndex merges;
  SpecialTokens user_defined, all_special;
  PreTokenizer pre_tokenizer;
  bool whole_words_first = false, form_c = false;
  // SentencePiece: no token has a space after something else, so that no merge goes across the start of a word.
  bool words_alone = false;
  std::array<int32_t, 256> byte_ids;  // the token of a byte; -1: none

 private:
  Status find_bytes();

  std::string all_bytes;       // what each token says, one after another
  std::vector<uint32_t> ends;  // ends[id] .. ends[id + 1]
};

}  // namespace hone::model
