// Tokens of small vocabularies against values worked out by hand and against a merge loop without any cleverness.
#include "engine/model/tokenizer/tokenizer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>

#include "engine/base/random.h"
#include "tests/engine/model/tokenizer/random_text.h"
#include "tests/engine/model/tokenizer/vocabularies.h"

namespace hone::model {
namespace {

using testing::add;
using testing::byte_level;
using ::testing::ElementsAre;
using testing::encoded;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using testing::pieces;
using testing::tokenizer_of;

const std::string kSpace = "\u2581";

TEST(TokenizerPieces, BestScoreFirstThenLeftmost) {
  const Tokenizer t = tokenizer_of(pieces({"ab", "bc", "a", "b", "c", kSpace, "cab", kSpace + "a"}));
  EXPECT_THAT(encoded(t, "abc"), ElementsAre(kSpace, "ab", "c"));    // not ▁a, whose score is worse than ab's
  EXPECT_THAT(encoded(t, "cabc"), ElementsAre(kSpace, "cab", "c"));  // ab, then cab
  EXPECT_THAT(encoded(t, "ac"), ElementsAre(kSpace + "a", "c"));
  EXPECT_THAT(encoded(t, "aaa"), ElementsAre(kSpace + "a", "a", "a"));
  EXPECT_THAT(encoded(t, "ababab"), ElementsAre(kSpace, "ab", "ab", "ab"));
  EXPECT_THAT(encoded(t, ""), IsEmpty());
}

TEST(TokenizerPieces, EqualScoresMergeFromTheLeft) {
  Vocabulary v = pieces({});
  v.add_space_prefix = false;
  for (const char* text : {"a", "b", "ab", "ba"}) add(v, text, TokenKind::kNormal, -1);
  const Tokenizer t = tokenizer_of(v);
  EXPECT_THAT(encoded(t, "aba"), ElementsAre("ab", "a"));
  EXPECT_THAT(encoded(t, "bab"), ElementsAre("ba", "b"));
  v.tokens.back().score = 0.0F;
  v.tokens[v.tokens.size() - 2].score = -0.0F;  // ab: equal all the same
  EXPECT_THAT(encoded(tokenizer_of(v), "aba"), ElementsAre("ab", "a"));
}

TEST(TokenizerPieces, BytesWhereThereIsNoPiece) {
  const Tokenizer t = tokenizer_of(pieces({kSpace, "a"}));
  EXPECT_THAT(encoded(t, "a\xc3\xa9\n"), ElementsAre(kSpace, "a", "<0xC3>", "<0xA9>", "<0x0A>"));
  EXPECT_THAT(encoded(t, "\xff"), ElementsAre(kSpace, "<0xFF>"));
  EXPECT_THAT(encoded(t, std::string_view("\0", 1)), ElementsAre(kSpace, "<0x00>"));
}

TEST(TokenizerPieces, TextIsNeverAControlOrByteToken) {
  Vocabulary v = pieces({kSpace, "<", "s", ">", "<s", "0", "x", "A", "<0", "<0x", "<0x0", "<0x0A"});
  const Tokenizer t = tokenizer_of(v);
  EXPECT_THAT(encoded(t, "<s>"), ElementsAre(kSpace, "<s", ">"));
  EXPECT_THAT(encoded(t, "<0x0A>"), ElementsAre(kSpace, "<0x0A", ">"));
  EXPECT_THAT(encoded(t, "<s>", true), ElementsAre("<s>"));
}

TEST(TokenizerPieces, SpacesOfTheText) {
  const Tokenizer t = tokenizer_of(pieces({"ab", kSpace + "ab", kSpace + kSpace, "a", "b", kSpace}));
  EXPECT_THAT(encoded(t, "ab ab"), ElementsAre(kSpace + "ab", kSpace + "ab"));
  EXPECT_THAT(encoded(t, " "), ElementsAre(kSpace + kSpace));
  EXPECT_THAT(encoded(t, "   a"), ElementsAre(kSpace + kSpace, kSpace + kSpace, "a"));
  Vocabulary v = t.vocabulary();
  v.add_space_prefix = false;
  EXPECT_THAT(encoded(tokenizer_of(v), "ab ab"), ElementsAre("ab", kSpace + "ab"));
  // A token with a space inside: words are not alone any more.
  v = pieces({"b" + kSpace + "a", "b" + kSpace, "a", "b", kSpace});
  EXPECT_THAT(encoded(tokenizer_of(v), "ab ab"), ElementsAre(kSpace, "a", "b" + kSpace + "a", "b"));
}

TEST(TokenizerPieces, ASpaceAfterEachSpecialTokenOrOnce) {
  Vocabulary v = pieces({kSpace + "a", kSpace, "a"});
  add(v, "[X]", TokenKind::kUserDefined);
  EXPECT_THAT(encoded(tokenizer_of(v), "a[X]a</s>a", true),
              ElementsAre(kSpace + "a", "[X]", kSpace + "a", "</s>", kSpace + "a"));
  EXPECT_THAT(encoded(tokenizer_of(v), "[X][X]"), ElementsAre("[X]", "[X]"));
  v.space_prefix_once = true;
  EXPECT_THAT(encoded(tokenizer_of(v), "a[X]a</s>a", true), ElementsAre(kSpace + "a", "[X]", "a", "</s>", "a"));
  EXPECT_THAT(encoded(tokenizer_of(v), "</s>a", true), ElementsAre("</s>", "a"));
}

TEST(TokenizerPieces, UnusedPiecesAreTakenApart) {
  Vocabulary v = pieces({"abc", "a", "b", "c"});
  v.add_space_prefix = false;
  add(v, "ab", TokenKind::kUnused, 5);
  add(v, "cb", TokenKind::kUnused, 5);
  EXPECT_THAT(encoded(tokenizer_of(v), "abc"), ElementsAre("abc"));  // through ab
  EXPECT_THAT(encoded(tokenizer_of(v), "ab"), ElementsAre("a", "b"));
  EXPECT_THAT(encoded(tokenizer_of(v), "cb"), ElementsAre("c", "b"));
}

TEST(TokenizerPieces, UnknownRunsAreOneToken) {
  Vocabulary v;
  v.unknown = add(v, "<unk>", TokenKind::kUnknown);
  add(v, "a");
  EXPECT_THAT(encoded(tokenizer_of(v), "bbabb"), ElementsAre("<unk>", "a", "<unk>"));
  v.unknown = -1;
  const auto refused = tokenizer_of(v).encode("ab\x1b");
  EXPECT_EQ(refused.status().code(), Code::kInvalidArgument);
  EXPECT_THAT(refused.status().message(), HasSubstr("no token for 'b'"));
}

TEST(TokenizerPieces, MergesByRank) {
  Vocabulary v = pieces({"a", "b", "c", kSpace, "ab", "bc", kSpace + "a"});
  v.kind = TokenizerKind::kMergedPieces;
  v.merges = {"b c", kSpace + " a", "a b"};
  const Tokenizer t = tokenizer_of(v);
  EXPECT_THAT(encoded(t, "abc"), ElementsAre(kSpace + "a", "bc"));
  EXPECT_THAT(encoded(t, "bab ab"), ElementsAre(kSpace, "b", "ab", kSpace + "a", "b"));
  EXPECT_THAT(encoded(t, "\xc3\xa9"), ElementsAre(kSpace, "<0xC3>", "<0xA9>"));
}

TEST(TokenizerBytes, MergesByRank) {
  const Tokenizer t = tokenizer_of(byte_level({"a b", "b c", "ab c", "\u0120 a"}, "gpt-2"));
  EXPECT_THAT(encoded(t, "abc"), ElementsAre("abc"));
  EXPECT_THAT(encoded(t, "bcab"), ElementsAre("bc", "ab"));
  EXPECT_THAT(encoded(t, "a a"), ElementsAre("a", "\u0120a"));
  EXPECT_THAT(encoded(t, " ab"), ElementsAre("\u0120", "ab"));
  EXPECT_THAT(encoded(t, "\xff\xc3\xa9"), ElementsAre("\u00ff", "\u00c3", "\u00a9"));
}

TEST(TokenizerBytes, WholeWordsFirst) {
  Vocabulary v = byte_level({"a b", "b c"}, "gpt-2");
  add(v, "abc");  // no merge makes it
  EXPECT_THAT(encoded(tokenizer_of(v), "abc"), ElementsAre("ab", "c"));
  v.whole_words_first = true;
  EXPECT_THAT(encoded(tokenizer_of(v), "abc"), ElementsAre("abc"));
  v.whole_words_first = false;
  v.pre_tokenizer = "llama-bpe";  // implies it
  EXPECT_THAT(encoded(tokenizer_of(v), "abc abc"), ElementsAre("abc", "\u0120", "ab", "c"));
  // The bytes of this text are the letters of another one's: a special token is no word.
  add(v, "\u00e9", TokenKind::kControl);
  v.tokens[0xe9].kind = TokenKind::kUnused;
  v.tokens[0xe9].text = "gone";
  EXPECT_EQ(tokenizer_of(v).encode("\xe9").status().code(), Code::kInvalidArgument);
}

// The pieces of a text, told by a vocabulary of which every piece is a token.
std::vector<std::string> cut(const char* name) {
  const std::string text = "It's 12345  a\u4e2d!?\n\nB2";
  Vocabulary v = byte_level({}, name);
  v.whole_words_first = true;
  for (size_t at = 0; at < text.size(); ++at)
    for (size_t n = 2; at + n <= text.size(); ++n) {
      std::string letters;
      append_letters(text.substr(at, n), letters);
      if (std::none_of(v.tokens.begin(), v.tokens.end(), [&](const Token& t) { return t.text == letters; }))
        add(v, letters);
    }
  const Tokenizer t = tokenizer_of(v);
  const std::vector<int32_t> ids = t.encode(text).value();
  std::vector<std::string> pieces;
  for (const int32_t id : ids) pieces.emplace_back(t.bytes(id));
  return pieces;
}

TEST(TokenizerBytes, PreTokenizersByName) {
  EXPECT_THAT(cut("gpt-2"), ElementsAre("It", "'s", " 12345", " ", " a\u4e2d", "!?", "\n", "\n", "B", "2"));
  EXPECT_THAT(cut("llama-bpe"), ElementsAre("It", "'s", " ", "123", "45", " ", " a\u4e2d", "!?\n\n", "B", "2"));
  EXPECT_THAT(cut("qwen2"), ElementsAre("It", "'s", " ", "1", "2", "3", "4", "5", " ", " a\u4e2d", "!?\n\n", "B", "2"));
  EXPECT_THAT(cut("smollm"),
              ElementsAre("It", "'s", " ", "1", "2", "3", "4", "5", " ", " a\u4e2d", "!?", "\n", "\n", "B", "2"));
  EXPECT_THAT(cut("default"),
              ElementsAre("It", "'", "s", " ", "123", "45", " ", " a\u4e2d", "!?", "\n", "\n", "B", "2"));
  EXPECT_THAT(cut("deepseek-coder"), ElementsAre("It", "'", "s", " ", "1", "2", "3", "4", "5", " ", " a", "\u4e2d",
                                                 "!?", "\n", "\n", "B", "2"));
}

TEST(TokenizerBytes, NamesOfOnePattern) {
  const std::pair<const char*, std::vector<const char*>> names[] = {
      {"gpt-2", {"phi-2", "mellum", "a.x-4.0", "trillion"}},
      {"smollm", {"starcoder", "refact", "command-r", "minerva-7b"}},
      {"qwen2", {"megrez", "deepseek-r1-qwen"}},
      {"llama-bpe", {"llama3", "llama-v3", "falcon3", "midm-2.0", "pixtral", "smaug-bpe"}},
  };
  for (const auto& [first, others] : names)
    for (const char* name : others) EXPECT_EQ(cut(name), cut(first)) << name;
}

TEST(TokenizerSpecial, OnlyWhereAskedFor) {
  Vocabulary v = byte_level({}, "gpt-2");
  add(v, "<|x|>", TokenKind::kControl);
  add(v, "<tool>", TokenKind::kUserDefined);
  const Tokenizer t = tokenizer_of(v);
  EXPECT_THAT(encoded(t, "a<|x|>", true), ElementsAre("a", "<|x|>"));
  EXPECT_THAT(encoded(t, "<|x|>"), ElementsAre("<", "|", "x", "|", ">"));
  EXPECT_THAT(encoded(t, "<tool>b"), ElementsAre("<tool>", "b"));
  EXPECT_THAT(encoded(t, "<|x|<|x|>", true), ElementsAre("<", "|", "x", "|", "<|x|>"));
}

TEST(TokenizerSpecial, LeftmostThenLongest) {
  Vocabulary v = byte_level({}, "gpt-2");
  for (const char* text : {"<a", "<a>", "<a>b", "a>bc", "bc"}) add(v, text, TokenKind::kUserDefined);
  const Tokenizer t = tokenizer_of(v);
  EXPECT_THAT(encoded(t, "<a>bc"), ElementsAre("<a>b", "c"));
  EXPECT_THAT(encoded(t, "<a>c"), ElementsAre("<a>", "c"));
  EXPECT_THAT(encoded(t, "<ab"), ElementsAre("<a", "b"));
  EXPECT_THAT(encoded(t, "<bc<"), ElementsAre("<", "bc", "<"));
}

TEST(TokenizerSpecial, PartsAreOneText) {
  Vocabulary v = pieces({"aa", kSpace + "a", "a", kSpace, "<", "/", "s", ">"});
  const Tokenizer t = tokenizer_of(v);
  const std::vector<TextPart> parts = {{"</s>a", true}, {"a</", false}, {"s>", true}};
  // One space after the first </s>; the second one is not in a part that may say it.
  EXPECT_THAT(testing::texts_of(t, t.encode(parts, false).value()),
              ElementsAre("</s>", kSpace, "aa", "<", "/", "s", ">"));
}

TEST(TokenizerSpecial, BosAndEos) {
  Vocabulary v = pieces({kSpace + "a", "a"});
  const Tokenizer t = tokenizer_of(v);
  EXPECT_THAT(t.encode("a").value(), ElementsAre(1, 259));
  EXPECT_THAT(t.encode("").value(), ElementsAre(1));
  EXPECT_THAT(t.encode("<s>a", {.parse_special = true}).value(), ElementsAre(1, 259));  // not two of them
  EXPECT_THAT(t.encode("<s><s>", {.parse_special = true}).value(), ElementsAre(1, 1));
  EXPECT_THAT(t.encode("a", {.add_bos = false}).value(), ElementsAre(259));
  v.add_bos = false;
  v.add_eos = true;
  EXPECT_THAT(tokenizer_of(v).encode("a").value(), ElementsAre(259, 2));
  EXPECT_THAT(tokenizer_of(v).encode("a", {.add_bos = true}).value(), ElementsAre(1, 259, 2));
  EXPECT_THAT(tokenizer_of(v).encode("a", {.add_bos = false}).value(), ElementsAre(259));
  v.bos = -1;
  EXPECT_EQ(tokenizer_of(v).encode("a", {.add_bos = true}).status().code(), Code::kInvalidArgument);
  EXPECT_TRUE(t.ends_generation(2));
  EXPECT_FALSE(t.ends_generation(1) || t.ends_generation(-1));
  EXPECT_EQ(t.find("</s>"), 2);
  EXPECT_EQ(t.find("nothing"), std::nullopt);
}

// The loop that defines byte-pair encoding: the best pair of neighbours in all of the text, again and again.
template <typename Best>
std::vector<std::string> merged_slowly(std::vector<std::string> symbols, Best priority) {
  while (true) {
    size_t at = symbols.size();
    double best = 0;
    for (size_t i = 0; i + 1 < symbols.size(); ++i) {
      const std::optional<double> p = priority(symbols[i], symbols[i + 1]);
      if (p && (at == symbols.size() || *p < best)) {
        at = i;
        best = *p;
      }
    }
    if (at == symbols.size()) return symbols;
    symbols[at] += symbols[at + 1];
    symbols.erase(symbols.begin() + static_cast<ptrdiff_t>(at) + 1);
  }
}

std::vector<std::string> letters(std::string_view text) {
  std::vector<std::string> out;
  for (const char c : text) out.emplace_back(1, c);
  return out;
}

std::string random_letters(Random& random, int64_t most) {
  std::string text;
  for (int64_t n = random.below(most + 1); n > 0; --n) text += static_cast<char>('a' + random.below(3));
  return text;
}

TEST(TokenizerProperty, ByRankAsTheSlowLoop) {
  Random random(7);
  for (int round = 0; round < 200; ++round) {
    std::vector<std::string> known = {"a", "b", "c"}, merges;
    std::map<std::string, double> ranks;
    for (int i = 0; i < 12; ++i) {
      const std::string left = random.element(known), right = random.element(known);
      if (std::find(known.begin(), known.end(), left + right) != known.end()) continue;
      known.push_back(left + right);
      ranks[left + " " + right] = static_cast<double>(merges.size());
      merges.push_back(left + " " + right);
    }
    const Tokenizer t = tokenizer_of(byte_level(merges));
    for (int i = 0; i < 20; ++i) {
      const std::string text = random_letters(random, 40);
      const auto slow = merged_slowly(letters(text), [&](const std::string& a, const std::string& b) {
        const auto rank = ranks.find(a + " " + b);
        return rank == ranks.end() ? std::nullopt : std::optional(rank->second);
      });
      ASSERT_EQ(encoded(t, text), slow) << text << " in round " << round;
    }
  }
}

TEST(TokenizerProperty, ByScoreAsTheSlowLoop) {
  Random random(8);
  for (int round = 0; round < 200; ++round) {
    Vocabulary v = pieces({});
    v.add_space_prefix = false;
    std::map<std::string, double> scores = {{"a", 0}, {"b", 0}, {"c", 0}};
    for (int i = 0; i < 14; ++i)  // few scores, so that there are ties
      scores.emplace(random_letters(random, 4) + "a", static_cast<double>(random.below(4)));
    for (const auto& [text, score] : scores) add(v, text, TokenKind::kNormal, static_cast<float>(score));
    const Tokenizer t = tokenizer_of(v);
    for (int i = 0; i < 20; ++i) {
      const std::string text = random_letters(random, 40);
      const auto slow = merged_slowly(letters(text), [&](const std::string& a, const std::string& b) {
        const auto score = scores.find(a + b);
        return score == scores.end() ? std::nullopt : std::optional(-score->second);
      });
      ASSERT_EQ(encoded(t, text), slow) << text << " in round " << round;
    }
  }
}

// A large text remembers words; a small one does not.
TEST(TokenizerProperty, LargeTextsAsTheirWords) {
  Random random(9);
  const Tokenizer by_bytes = tokenizer_of(byte_level({"a b", "b c", "ab c", "\u0120 a", "\u0120a b"}, "gpt-2"));
  Vocabulary v = pieces({"ab", "bc", kSpace + "a", "abc", kSpace + "ab", "a", "b", kSpace});
  v.add_space_prefix = false;
  const Tokenizer by_pieces = tokenizer_of(v);
  for (const Tokenizer& t : {by_bytes, by_pieces}) {
    std::string text;
    std::vector<int32_t> words;
    while (text.size() < 100000) {
      const std::string word = " " + random_letters(random, 5) + "c";
      text += word;
      const std::vector<int32_t> ids = t.encode(word, {.add_bos = false}).value();
      words.insert(words.end(), ids.begin(), ids.end());
    }
    EXPECT_EQ(t.encode(text, {.add_bos = false}).value(), words);
  }
}

TEST(TokenizerProperty, BytesLoseNothing) {
  Random random(10);
  const Tokenizer by_bytes = tokenizer_of(byte_level({"a b", "b c", "\u00c3 \u00a9"}, "deepseek-r1-qwen"));
  Vocabulary v = pieces({"ab", "bc", kSpace + "a", "a", "b", kSpace, "é"});
  v.add_space_prefix = false;
  const Tokenizer by_pieces = tokenizer_of(v);
  for (int i = 0; i < 2000; ++i) {
    const std::string text = i % 2 == 0 ? testing::random_text(random, 60) : testing::random_bytes(random, 60);
    for (const Tokenizer& t : {by_bytes, by_pieces}) {
      const std::vector<int32_t> ids = t.encode(text, {.add_bos = false}).value();
      std::string back;
      for (const int32_t id : ids) back += t.bytes(id);
      if (text.find(kSpace) == std::string::npos) {
        ASSERT_EQ(back, text);
      }
    }
  }
}

}  // namespace
}  // namespace hone::model
