// Regular expressions by PCRE2, compiled to machine code where the process may have such memory.
//
// The patterns of the table below are linear in the text. A file's own pattern may be made to take for ever, so that it
// is compiled with a callout before every item, and each of them takes from an allowance of the whole text: PCRE2's own
// match limit starts anew at every place where a match could begin.
#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include <algorithm>
#include <array>
#include <string>

#include <fmt/format.h>

#include "engine/base/printable.h"
#include "engine/model/tokenizer/pattern_syntax_internal.h"
#include "engine/model/tokenizer/pre_tokenizer_internal.h"

namespace hone::model {
namespace {

constexpr std::string_view kLlama3 =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
constexpr std::string_view kQwen2 =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
constexpr std::string_view kTekken = R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+|)"
                                     R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*|)"
                                     R"(\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
constexpr std::string_view kDigit = R"(\p{N})";

struct Named {
  std::string_view name;
  std::array<std::string_view, 5> patterns;
  struct Also {
    bool whole_words_first = false;
    bool add_bos = false;  // as llama.cpp does where the file does not say
    bool form_c = false;   // as the tokenizer.json that such files are made from
  } also = {};
};
constexpr Named::Also kAsLlama3{.whole_words_first = true, .add_bos = true};

// The names are GGUF's tokenizer.ggml.pre: those of models that are Llama decoders.
constexpr Named kNamed[] = {
    {"default", {R"([\p{P}\$\+<=>\^~\|]+)", kGpt2Pattern, R"(\p{N}+)", "[0-9][0-9][0-9]"}},
    {"gpt-2", {kGpt2Pattern}},
    {"phi-2", {kGpt2Pattern}},
    {"mellum", {kGpt2Pattern}},
    {"a.x-4.0", {kGpt2Pattern}},
    {"trillion", {kGpt2Pattern}},
    {"llama-bpe", {kLlama3}, kAsLlama3},
    {"llama3", {kLlama3}, kAsLlama3},
    {"llama-v3", {kLlama3}, kAsLlama3},
    {"falcon3", {kLlama3}, kAsLlama3},
    {"midm-2.0", {kLlama3}, kAsLlama3},
    {"pixtral", {kLlama3}, kAsLlama3},
    {"smaug-bpe", {kLlama3}},
    {"qwen2", {kQwen2}, {.form_c = true}},
    {"deepseek-r1-qwen", {kQwen2}},
    {"megrez", {kQwen2}},
    {"smollm", {kDigit, kGpt2Pattern}},
    {"starcoder", {kDigit, kGpt2Pattern}},
    {"refact", {kDigit, kGpt2Pattern}},
    {"command-r", {kDigit, kGpt2Pattern}},
    {"minerva-7b", {kDigit, kGpt2Pattern}},
    {"deepseek-coder",
     {R"([\r\n])", R"(\s?\p{L}+)", R"(\s?\p{P}+)", R"([\x{4e00}-\x{9fa5}\x{800}-\x{4e00}\x{ac00}-\x{d7ff}]+)", kDigit}},
    {"tekken", {kTekken}, kAsLlama3},
};

// Null where there is none.
const Named* find_named(std::string_view name) {
  const Named* const end = std::end(kNamed);
  const Named* const found = std::find_if(std::begin(kNamed), end, [&](const Named& n) { return n.name == name; });
  return found == end ? nullptr : found;
}

bool known_pattern(std::string_view pattern) {
  for (const std::string_view known : {kGpt2Pattern, kLlama3, kQwen2, kTekken, kDigit})
    if (pattern == known) return true;
  return false;
}

std::string message_of(int error) {
  std::array<PCRE2_UCHAR, 200> text = {};
  pcre2_get_error_message(error, text.data(), text.size());
  return reinterpret_cast<const char*>(text.data());
}

// A callout costs some 20 ns, as do 16 characters that an item has gone over since the one before.
int take_step(pcre2_callout_block* block, void* data) {
  auto& steps = *static_cast<PatternSteps*>(data);
  const size_t at = block->current_position;
  const size_t moved = at > steps.at ? at - steps.at : steps.at - at;
  steps.at = at;
  steps.left -= 1 + static_cast<int64_t>(moved / 16);
  return steps.left < 0 ? PCRE2_ERROR_MATCHLIMIT : 0;
}

}  // namespace

bool pre_tokenizer_adds_bos(std::string_view name) {
  const Named* const named = find_named(name);
  return named != nullptr && named->also.add_bos;
}

struct PreTokenizer::State {
  // `steps`: null for a pattern that is linear.
  State(const pcre2_code* code, PatternSteps* steps)
      : data(pcre2_match_data_create_from_pattern(code, nullptr)), context(pcre2_match_context_create(nullptr)) {
    if (context == nullptr) return;
    pcre2_set_match_limit(context, 2'000'000'000);  // callouts and linear patterns bound the time
    pcre2_set_heap_limit(context, 64 << 10);        // KiB, of the interpreter
    if (steps != nullptr) pcre2_set_callout(context, take_step, steps);
    if ((stack = pcre2_jit_stack_create(32 << 10, 4 << 20, nullptr)) != nullptr)
      pcre2_jit_stack_assign(context, nullptr, stack);
  }
  ~State() {
    pcre2_match_data_free(data);
    pcre2_match_context_free(context);
    pcre2_jit_stack_free(stack);
  }
  State(const State&) = delete;
  State& operator=(const State&) = delete;
  bool ok() const { return data != nullptr && context != nullptr; }

  pcre2_match_data* data;
  pcre2_match_context* context;
  pcre2_jit_stack* stack = nullptr;
};

class PreTokenizer::Pattern {
 public:
  static Result<std::unique_ptr<const Pattern>> compile(std::string_view text, bool trusted) {
    HONE_ASSIGN_OR_RETURN(const std::string translated, pcre2_pattern(text));
    auto pattern = std::make_unique<Pattern>();
    pattern->text_ = printable(text);
    pattern->trusted_ = trusted || known_pattern(text);
    std::unique_ptr<pcre2_compile_context, decltype(&pcre2_compile_context_free)> context(
        pcre2_compile_context_create(nullptr), pcre2_compile_context_free);
    if (context == nullptr) return resource_exhausted("no memory to compile a tokenizer's pattern");
    pcre2_set_max_pattern_length(context.get(), 64 << 10);
    int error = 0;
    PCRE2_SIZE at = 0;
    const uint32_t options =
        PCRE2_UTF | PCRE2_UCP | PCRE2_NEVER_BACKSLASH_C |
        (pattern->trusted_ ? 0 : PCRE2_AUTO_CALLOUT | PCRE2_NO_AUTO_POSSESS | PCRE2_NO_START_OPTIMIZE);
    pattern->code_ = pcre2_compile(reinterpret_cast<PCRE2_SPTR>(translated.data()), translated.size(), options, &error,
                                   &at, context.get());
    if (pattern->code_ == nullptr)
      return unsupported(
          fmt::format("the tokenizer's pattern '{}' does not compile: {}", pattern->text_, message_of(error)));
    // Where no memory may be executed this fails, and matching is interpreted.
    pattern->compiled_ = pcre2_jit_compile(pattern->code_, PCRE2_JIT_COMPLETE) == 0;
    return std::unique_ptr<const Pattern>(std::move(pattern));
  }

  Pattern() = default;
  ~Pattern() { pcre2_code_free(code_); }
  Pattern(const Pattern&) = delete;
  Pattern& operator=(const Pattern&) = delete;

  // Appends the ends of the pieces of text[begin, end), which the pattern sees as a text of its own.
  Status cut(std::string_view text, uint32_t begin, uint32_t end, const State& state,
             std::vector<uint32_t>& ends) const {
    const auto subject = reinterpret_cast<PCRE2_SPTR>(text.data() + begin);
    const PCRE2_SIZE size = end - begin;
    const PCRE2_SIZE* const match = pcre2_get_ovector_pointer(state.data);
    for (PCRE2_SIZE at = 0; at < size;) {
      constexpr uint32_t kOptions = PCRE2_NO_UTF_CHECK | PCRE2_NOTEMPTY;
      const int found = compiled_ ? pcre2_jit_match(code_, subject, size, at, PCRE2_NOTEMPTY, state.data, state.context)
                                  : pcre2_match(code_, subject, size, at, kOptions, state.data, state.context);
      if (found == PCRE2_ERROR_NOMATCH) break;
      if (found < 0)
        return resource_exhausted(fmt::format("the tokenizer's pattern '{}' gave up: {}", text_, message_of(found)));
      if (match[0] > at) ends.push_back(static_cast<uint32_t>(begin + match[0]));
      at = match[1];
      ends.push_back(static_cast<uint32_t>(begin + at));
    }
    if (ends.empty() || ends.back() < end) ends.push_back(end);
    return {};
  }

  const pcre2_code* code() const { return code_; }
  bool trusted() const { return trusted_; }

 private:
  std::string text_;
  pcre2_code* code_ = nullptr;
  bool trusted_ = false, compiled_ = false;
};

PreTokenizer::PreTokenizer() = default;
PreTokenizer::~PreTokenizer() = default;
PreTokenizer::PreTokenizer(PreTokenizer&&) noexcept = default;
PreTokenizer& PreTokenizer::operator=(PreTokenizer&&) noexcept = default;

Result<PreTokenizer> PreTokenizer::create(const Vocabulary& vocabulary) {
  PreTokenizer out;
  std::vector<std::string_view> texts;
  if (vocabulary.pre_tokenizer.empty()) {
    texts.assign(vocabulary.patterns.begin(), vocabulary.patterns.end());
  } else {
    const Named* const named = find_named(vocabulary.pre_tokenizer);
    if (named == nullptr) {
      std::string names;
      for (const Named& n : kNamed) names += fmt::format(" {}", n.name);
      return unsupported(
          fmt::format("the pre-tokenizer '{}' is not known; there are{}", printable(vocabulary.pre_tokenizer), names));
    }
    for (const std::string_view text : named->patterns)
      if (!text.empty()) texts.push_back(text);
    out.whole_words_first_ = named->also.whole_words_first;
    out.form_c_ = named->also.form_c;
  }
  if (texts.size() > 16)
    return unsupported(fmt::format("the tokenizer cuts text by {} patterns in turn, the limit is 16", texts.size()));
  for (const std::string_view text : texts) {
    HONE_ASSIGN_OR_RETURN(auto pattern, Pattern::compile(text, !vocabulary.pre_tokenizer.empty()));
    out.patterns_.push_back(std::move(pattern));
  }
  return out;
}

// 64 steps a byte are many times what a sane pattern needs.
PreTokenizer::Matcher::Matcher(const PreTokenizer& of, size_t bytes)
    : of_(of), steps_{.left = 10'000'000 + 64 * static_cast<int64_t>(bytes)}, states_(of.patterns_.size()) {}
PreTokenizer::Matcher::~Matcher() = default;

Status PreTokenizer::Matcher::cut(std::string_view text, std::vector<uint32_t>& ends) {
  ends.assign(1, static_cast<uint32_t>(text.size()));
  for (size_t i = 0; i < states_.size(); ++i) {
    const Pattern& pattern = *of_.patterns_[i];
    if (states_[i] == nullptr)
      states_[i] = std::make_unique<State>(pattern.code(), pattern.trusted() ? nullptr : &steps_);
    if (!states_[i]->ok()) return resource_exhausted("no memory to match a pattern");
    before_.swap(ends);
    ends.clear();
    uint32_t begin = 0;
    for (const uint32_t end : before_) {
      HONE_RETURN_IF_ERROR(pattern.cut(text, begin, end, *states_[i], ends));
      begin = end;
    }
  }
  return {};
}

}  // namespace hone::model
