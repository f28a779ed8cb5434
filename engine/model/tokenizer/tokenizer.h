// Text to token ids and back.
//
//   HONE_ASSIGN_OR_RETURN(Tokenizer tokenizer, Tokenizer::create(std::move(vocabulary)));
//   HONE_ASSIGN_OR_RETURN(std::vector<int32_t> ids, tokenizer.encode("Once upon a time", {.add_bos = true}));
//   Detokenizer out(tokenizer);
//   for (int32_t id : ids) text += out.push(id);   always whole UTF-8 characters
//   text += out.finish();
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "engine/model/tokenizer/vocabulary.h"

namespace hone::model {

struct EncodeOptions {
  // Absent: as the vocabulary says. A text whose own first token is a bos gets no second one. An eos at the end, where
  // the vocabulary wants one, is left out with `false` too.
  std::optional<bool> add_bos;
  // Text of special tokens ("<|im_start|>") becomes these tokens; without it, it is text like any other.
  bool parse_special = false;
};

// A part of a text, and whether special tokens are looked for in it. User-defined tokens are in either.
struct TextPart {
  std::string_view text;
  bool parse_special = false;
};

// Immutable; copies share everything; thread safe.
class Tokenizer {
 public:
  // Errors: those of validate(), unsupported (a pre-tokenizer that is not known, a pattern that does not compile).
  static Result<Tokenizer> create(Vocabulary vocabulary);

  // Bytes that are no UTF-8 are tokenized as bytes where the vocabulary can, and lose nothing then. Errors:
  // invalid_argument (text that the vocabulary cannot express, more than 2^30 bytes), resource_exhausted (a pattern
  // that gave up).
  Result<std::vector<int32_t>> encode(std::string_view text, const EncodeOptions& options = {}) const;
  // The parts as one text: words go across their borders, special tokens do not.
  Result<std::vector<int32_t>> encode(std::span<const TextPart> parts, std::optional<bool> add_bos) const;
  // The bytes of one token, which may be a part of a character. Control tokens and the unknown one are "" unless
  // `special`. An id outside the vocabulary is "".
  std::string_view bytes(int32_t id, bool special = false) const;
  // All at once: the same as a Detokenizer.
  std::string decode(std::span<const int32_t> ids, bool special = false) const;

  const Vocabulary& vocabulary() const;
  std::optional<int32_t> find(std::string_view text) const;  // the token whose text this is
  bool ends_generation(int32_t id) const;

  class Impl;

 private:
  explicit Tokenizer(std::shared_ptr<const Impl> impl) : impl_(std::move(impl)) {}
  std::shared_ptr<const Impl> impl_;
};

// Bytes of tokens as they come, cut where characters end. A byte that starts no character becomes U+FFFD, so that what
// comes out is UTF-8 whatever goes in. `from_start`: the tokens are all of a text, and the space that SentencePiece
// puts in front of one goes; of a continuation the first space is its own.
class Detokenizer {
 public:
  explicit Detokenizer(Tokenizer tokenizer, bool special = false, bool from_start = true);
  std::string push(int32_t id);
  std::string finish();  // what was held back, as U+FFFD

 private:
  Tokenizer tokenizer_;
  bool special_ = false, first_ = true;
  std::string held_;
};

}  // namespace hone::model
