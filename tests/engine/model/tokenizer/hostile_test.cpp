// Vocabularies and texts that nobody means well with: a reason in one line, or the right tokens, in bounded time.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sys/resource.h>
#include <unistd.h>

#include <cmath>
#include <cstdlib>
#include <fstream>

#include "engine/model/tokenizer/pattern_syntax_internal.h"
#include "engine/model/tokenizer/tokenizer.h"
#include "tests/engine/model/tokenizer/vocabularies.h"

namespace hone::model {
namespace {

using testing::add;
using testing::byte_level;
using ::testing::ElementsAre;
using testing::encoded;
using ::testing::HasSubstr;
using ::testing::Not;
using testing::pieces;
using testing::tokenizer_of;

Status refused(const Vocabulary& v, Code code = Code::kInvalidArgument) {
  const Status status = Tokenizer::create(v).status();
  EXPECT_EQ(status.code(), code) << status.to_string();
  EXPECT_THAT(status.message(), Not(HasSubstr("\n")));
  EXPECT_TRUE(code != Code::kInvalidArgument || validate(v).message() == status.message());
  return status;
}
std::string message(const Vocabulary& v, Code code = Code::kInvalidArgument) { return refused(v, code).message(); }

TEST(TokenizerHostile, Tokens) {
  EXPECT_THAT(message(Vocabulary()), HasSubstr("no tokens"));
  Vocabulary v = byte_level({});
  add(v, "x\x1b");
  add(v, "x\x1b");
  EXPECT_THAT(message(v), HasSubstr("tokens 256 and 257 are both 'x\\x1b'"));
  v.tokens.back().kind = TokenKind::kUnused;
  EXPECT_TRUE(validate(v).ok());
  std::swap(v.tokens[256].kind, v.tokens[257].kind);
  EXPECT_EQ(tokenizer_of(v).find("x\x1b"), 257) << "the one that is in use";
  v.tokens[256].text = v.tokens[257].text = "";  // no text is these
  EXPECT_THAT(encoded(tokenizer_of(v), "x"), ElementsAre("x"));
  v.tokens[256].text = std::string((64 << 10) + 1, 'x');
  EXPECT_THAT(message(v), HasSubstr("the limit is 65536"));
  v.tokens[256] = {.text = std::string(513, 'x'), .kind = TokenKind::kControl};
  EXPECT_THAT(message(v), HasSubstr("the limit is 512"));
  v.tokens[256] = {.text = "y", .kind = static_cast<TokenKind>(9)};
  EXPECT_THAT(message(v), HasSubstr("kind 9"));
  v.tokens[256] = {.text = "yy", .score = std::nanf("")};
  EXPECT_THAT(message(v), HasSubstr("no finite number"));
}

TEST(TokenizerHostile, Bytes) {
  Vocabulary v = pieces({"a"});
  v.tokens[10].text = "<0xZZ>";
  EXPECT_EQ(Tokenizer::create(v).status().code(), Code::kInvalidArgument);
  v.tokens[10].text = "<0x5>";
  EXPECT_THAT(Tokenizer::create(v).status().message(), HasSubstr("<0x0A>"));
}

TEST(TokenizerHostile, Ids) {
  Vocabulary v = byte_level({});
  v.bos = 256;
  EXPECT_THAT(message(v), HasSubstr("bos token is 256, but the vocabulary has 256"));
  v.bos = -2;
  EXPECT_THAT(message(v), HasSubstr("bos"));
  v.bos = 0;
  v.eos = 1 << 30;
  EXPECT_THAT(message(v), HasSubstr("eos"));
  v.eos = -1;
  v.unknown = 999;
  EXPECT_THAT(message(v), HasSubstr("unknown"));
  v.unknown = -1;
  v.end_of_generation = {-1};
  EXPECT_THAT(message(v), HasSubstr("end of generation"));
}

TEST(TokenizerHostile, Merges) {
  for (const char* merge : {"", " ", "a", "ab", "a ", " b", "a b c", "a zz", "zz a", "b a", "a  b", "  "}) {
    Vocabulary v = byte_level({"a b"});
    v.merges.emplace_back(merge);
    EXPECT_THAT(message(v), HasSubstr("merge 1")) << "'" << merge << "'";
  }
  Vocabulary v = byte_level({"a b"});
  v.merges = {"a b", "a b", "a b"};  // again: nothing new
  EXPECT_THAT(encoded(tokenizer_of(v), "ab"), ElementsAre("ab"));
  v.tokens.back().kind = TokenKind::kControl;  // text may not become it
  EXPECT_THAT(encoded(tokenizer_of(v), "ab"), ElementsAre("a", "b"));
}

TEST(TokenizerHostile, PreTokenizers) {
  EXPECT_THAT(message(byte_level({}, "klingon\n"), Code::kUnsupported),
              HasSubstr("'klingon\\x0a' is not known; there are default gpt-2 phi-2"));
  Vocabulary v = byte_level({});
  for (const char* pattern : {"(", "[a", "a{2,1}", "\\", "(?<n", "[a&&b]", "[a[b]]", "\\h", "\\C", "[\\S]", "a\xff"}) {
    v.patterns = {pattern};
    EXPECT_THAT(message(v, Code::kUnsupported), HasSubstr("the tokenizer's pattern")) << pattern;
  }
  v.patterns.assign(17, "a");
  EXPECT_THAT(message(v, Code::kUnsupported), HasSubstr("17 patterns"));
  v.patterns = {"", "x*", "(?=a)", "\\b"};  // match nothing anywhere: cut nowhere
  EXPECT_THAT(encoded(tokenizer_of(v), "axa"), ElementsAre("a", "x", "a"));
}

TEST(TokenizerHostile, PatternsThatWouldTakeForEver) {
  const std::string text(100000, 'a');
  for (const char* pattern :
       {"(a+)+b", "(a|aa)+b", "a+b", "(?:a*)*b", "a++b", "(?=(a+))b", "a+?b", "(a+)+(?!a)b|ab", "((?R)?a)+b"}) {
    Vocabulary v = byte_level({"a a"});
    v.patterns = {pattern};
    const auto ids = tokenizer_of(v).encode(text + "cb");  // a b: PCRE2 looks for one first
    EXPECT_EQ(ids.status().code(), Code::kResourceExhausted) << pattern;
    EXPECT_THAT(ids.status().message(), HasSubstr("gave up"));
  }
}

// A tokenizer that is quadratic in any of them does not come back.
TEST(TokenizerHostile, LargeTextsOfOneKind) {
  const size_t size = 200 << 10;
  const auto of = [&](std::string_view unit) {
    std::string text;
    while (text.size() < size) text += unit;
    return text;
  };
  std::vector<Vocabulary> all;
  for (const char* pre : {"gpt-2", "llama-bpe", "qwen2", "smollm", "tekken", "default"})
    all.push_back(byte_level({"a a", "aa a", "aa aa", "\u0120 \u0120"}, pre));
  all.push_back(pieces({"aa", "aaaa", "a", "\u2581", "\u2581\u2581"}));
  for (Vocabulary& v : all) {
    v.add_space_prefix = false;
    add(v, "<<<<<<<<<<<<<<<<<<<<<<<<<<<<<<<<<", TokenKind::kUserDefined);
    const Tokenizer t = tokenizer_of(v);
    for (const std::string& text : {of("a"), of(" "), of(" \n"), of("\u0301"), of(std::string_view("\0", 1)),
                                    of("\xff"), of("<"), of("1"), of("'s"), of("\u00e9\xc3")}) {
      const auto ids = t.encode(text + "x", {.add_bos = false});
      ASSERT_TRUE(ids.ok()) << ids.status().to_string();
      std::string back;
      for (const int32_t id : *ids) back += t.bytes(id);
      EXPECT_TRUE(back == text + "x") << v.pre_tokenizer << " " << text.substr(0, 4);
    }
  }
}

// Special tokens with a letter between them: one that looks for the next space in all of the rest does not come back.
TEST(TokenizerHostile, ManyShortStretches) {
  const size_t times = 2'000'000;
  std::string text;
  for (size_t i = 0; i < times; ++i) text += "a<>";
  for (Vocabulary v : {pieces({"a"}), byte_level({}, "gpt-2"), byte_level({}, "qwen2")}) {
    v.add_space_prefix = v.add_bos = false;
    add(v, "<>", TokenKind::kUserDefined);
    const auto ids = tokenizer_of(v).encode(text);
    ASSERT_TRUE(ids.ok()) << ids.status().to_string();
    EXPECT_EQ(ids->size(), 2 * times);
  }
}

#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
// 3 MB of special tokens are 12 MB of ids (28 while their list grows), and twice the text where it changes. A note of
// each would be 72 MB.
TEST(TokenizerHostile, MemoryOfSpecialTokens) {
  const auto in_little_memory = [](std::string_view pre_tokenizer, const std::string& end) {
    Vocabulary v = byte_level({}, pre_tokenizer);
    v.tokens['<'].kind = TokenKind::kUserDefined;
    const Tokenizer t = tokenizer_of(v);
    const std::string text = std::string(3'000'000, '<') + end;
    rlim_t pages = 0;
    std::ifstream("/proc/self/statm") >> pages;
    const rlim_t most = pages * static_cast<rlim_t>(sysconf(_SC_PAGESIZE)) + (50 << 20);
    const rlimit limit{most, most};
    if (setrlimit(RLIMIT_AS, &limit) != 0) std::_Exit(2);
    const auto ids = t.encode(text);
    std::_Exit(ids.ok() && ids->size() > 3'000'000 ? 0 : 1);
  };
  EXPECT_EXIT(in_little_memory("gpt-2", "a"), ::testing::ExitedWithCode(0), "");
  EXPECT_EXIT(in_little_memory("qwen2", "a"), ::testing::ExitedWithCode(0), "");
  EXPECT_EXIT(in_little_memory("qwen2", "e\u0301"), ::testing::ExitedWithCode(0), "") << "with form C";
}
#endif

TEST(TokenizerHostile, TextTooLarge) {
  // The same 64 MiB again and again: nothing of it is read.
  const std::string text(64 << 20, 'a');
  const std::vector<TextPart> parts(17, TextPart{.text = text});
  EXPECT_EQ(tokenizer_of(byte_level({})).encode(parts, false).status().code(), Code::kInvalidArgument);
}

// The pattern that files have for White_Space is \s; PCRE2's has one character more.
TEST(TokenizerPatterns, WhiteSpaceIsUnicodes) {
  const Tokenizer t = [] {
    Vocabulary w = byte_level({});
    w.patterns = {"\\s"};
    w.whole_words_first = true;
    // Tokens of whole characters: one that the pattern cuts out alone is found, one between letters is not.
    for (const char* text : {"\u3000", "\u180e", "\u0085", "\u2028"}) {
      std::string letters;
      append_letters(text, letters);
      add(w, letters);
    }
    return tokenizer_of(w);
  }();
  for (const char* space : {"\u3000", "\u0085", "\u2028"})
    EXPECT_EQ(t.encode(std::string("a") + space + "a").value().size(), 3u) << space;
  EXPECT_EQ(t.encode("a\u180e"
                     "a")
                .value()
                .size(),
            5u);
  EXPECT_THAT(pcre2_pattern("\\S[\\s]\\p{L}\\\\s").value(), ::testing::EndsWith("]\\p{L}\\\\s"));
}

// As Rust's regex and Oniguruma, unlike a table of ASCII pairs: (?i:'s) has the long s.
TEST(TokenizerPatterns, CaseIsUnicodes) {
  Vocabulary v = byte_level({"' s", "' S"}, "llama-bpe");
  EXPECT_THAT(encoded(tokenizer_of(v), "a'S'sx"), ElementsAre("a", "'S", "'s", "x"));
  EXPECT_EQ(tokenizer_of(v).encode("a'\u017fb").value().size(), 5u);
}

}  // namespace
}  // namespace hone::model
