// How text is cut into pieces before a byte-level vocabulary merges inside them: regular expressions in turn, each of
// which cuts what the one before left into its matches and what lies between them.
#pragma once

#include <cstdint>
#include <memory>
#include <string_view>
#include <vector>

#include "engine/base/status.h"
#include "engine/model/tokenizer/vocabulary.h"

namespace hone::model {

inline constexpr std::string_view kGpt2Pattern =
    R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";

class PreTokenizer {
 public:
  PreTokenizer();  // leaves text whole
  ~PreTokenizer();
  PreTokenizer(PreTokenizer&&) noexcept;
  PreTokenizer& operator=(PreTokenizer&&) noexcept;

  // By name, or by the vocabulary's own patterns. Errors: unsupported (no such name, a pattern that does not compile).
  static Result<PreTokenizer> create(const Vocabulary& vocabulary);
  // Llama 3 and Tekken: a piece that is a token as a whole is one.
  bool whole_words_first() const { return whole_words_first_; }
  // The ends of the pieces of `text`, which is UTF-8 of at most 2^30 bytes; the last one is its size. Errors:
  // resource_exhausted (a pattern that gave up).
  Status cut(std::string_view text, std::vector<uint32_t>& ends) const;

 private:
  class Pattern;
  std::vector<std::unique_ptr<const Pattern>> patterns_;
  bool whole_words_first_ = false;
};

}  // namespace hone::model
