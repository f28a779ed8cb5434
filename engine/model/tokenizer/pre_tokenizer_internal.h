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

// What a file's own patterns may still do to a text, and where in it they were last.
struct PatternSteps {
  int64_t left = 0;
  size_t at = 0;
};

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
  // Qwen 2: text is in Unicode's form C.
  bool form_c() const { return form_c_; }

 private:
  class Pattern;
  struct State;

 public:
  // What one text of many needs; patterns are shared by threads, this is not.
  class Matcher {
   public:
    // `bytes` of text as it was given, which bounds the steps that the file's own patterns may take.
    Matcher(const PreTokenizer& of, size_t bytes);
    ~Matcher();
    Matcher(const Matcher&) = delete;
    Matcher& operator=(const Matcher&) = delete;
    // The ends of the pieces of `text`, which is UTF-8; the last one is its size. Errors: resource_exhausted (a pattern
    // that gave up).
    Status cut(std::string_view text, std::vector<uint32_t>& ends);

   private:
    const PreTokenizer& of_;
    PatternSteps steps_;
    std::vector<std::unique_ptr<State>> states_;  // one for each pattern, made when it is needed
    std::vector<uint32_t> before_;
  };

 private:
  std::vector<std::unique_ptr<const Pattern>> patterns_;
  bool whole_words_first_ = false, form_c_ = false;
};

}  // namespace hone::model
