// Tokens to text: whole characters, whatever comes.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "engine/base/random.h"
#include "engine/model/tokenizer/tokenizer.h"
#include "engine/model/tokenizer/utf8_internal.h"
#include "tests/engine/model/tokenizer/random_text.h"
#include "tests/engine/model/tokenizer/vocabularies.h"

namespace hone::model {
namespace {

using ::testing::ElementsAre;
using testing::tokenizer_of;

const std::string kSpace = "\u2581", kBad = "\ufffd";

// What each token of a byte-level vocabulary of single bytes gives, and the end.
std::vector<std::string> streamed(std::string_view bytes) {
  static const Tokenizer t = tokenizer_of(testing::byte_level({}));
  Detokenizer out(t);
  std::vector<std::string> parts;
  for (const char c : bytes) parts.push_back(out.push(static_cast<uint8_t>(c)));
  parts.push_back(out.finish());
  return parts;
}
std::string joined(std::string_view bytes) {
  std::string all;
  for (const std::string& part : streamed(bytes)) all += part;
  return all;
}

TEST(Detokenizer, HoldsBackWhatIsNoCharacterYet) {
  EXPECT_THAT(streamed("a\xc3\xa9"), ElementsAre("a", "", "é", ""));
  EXPECT_THAT(streamed("\xf0\x9f\x98\x80"), ElementsAre("", "", "", "😀", ""));
  EXPECT_THAT(streamed("\xf0\x9f\x98"), ElementsAre("", "", "", kBad));
  EXPECT_THAT(streamed("\xf0\x9f"
                       "a"),
              ElementsAre("", "", kBad + "a", ""));
  EXPECT_THAT(streamed(""), ElementsAre(""));
}

// Unicode, chapter 3.9, tables 3-8 to 3-11.
TEST(Detokenizer, EachMaximalPartOfNoCharacterIsOneReplacement) {
  const auto bad = [](int n) {
    std::string text;
    while (n-- > 0) text += kBad;
    return text;
  };
  EXPECT_EQ(joined("\xc0\xaf\xe0\x80\xbf\xf0\x81\x82"
                   "A"),
            bad(8) + "A");
  EXPECT_EQ(joined("\xed\xa0\x80\xed\xbf\xbf\xed\xaf"
                   "A"),
            bad(8) + "A");
  EXPECT_EQ(joined("\xf4\x91\x92\x93\xff"
                   "A\x80\xbf"
                   "B"),
            bad(5) + "A" + bad(2) + "B");
  EXPECT_EQ(joined("\xe1\x80\xe2\xf0\x91\x92\xf1\xbf"
                   "A"),
            bad(4) + "A");
  EXPECT_EQ(joined("\xf4\x8f\xbf\xbf\xed\x9f\xbf\xee\x80\x80\xef\xbf\xbf"), "\U0010ffff\ud7ff\ue000\uffff");
}

TEST(Detokenizer, AnyBytesGiveUtf8AndUtf8GivesItself) {
  Random random(3);
  for (int i = 0; i < 3000; ++i) {
    const std::string bytes = testing::random_bytes(random, 12);
    const std::string text = joined(bytes);
    EXPECT_EQ(valid_prefix(text), text.size());
    const std::string good = testing::random_text(random, 12);
    EXPECT_EQ(joined(good), good);
  }
}

TEST(Detokenizer, OneSpaceGoesAtTheStart) {
  Vocabulary v = testing::pieces({kSpace, kSpace + "a", "a", kSpace + kSpace});
  const int32_t space = 259, word = 260, tail = 261, two = 262;
  const auto decoded = [&](std::vector<int32_t> ids, bool special = false) {
    return tokenizer_of(v).decode(ids, special);
  };
  EXPECT_EQ(decoded({1, word, word}), "a a");
  EXPECT_EQ(decoded({tail, word}), "a a");
  EXPECT_EQ(decoded({two, tail}), " a");
  EXPECT_EQ(decoded({space, tail}), "a");
  EXPECT_EQ(decoded({1, word}, true), "<s> a");
  EXPECT_EQ(decoded({3 + 0xc3, 3 + 0xa9, 3 + 0xff}), "é" + kBad);
  Detokenizer continued(tokenizer_of(v), false, /*from_start=*/false);
  EXPECT_EQ(continued.push(word), " a");
  v.add_space_prefix = false;
  EXPECT_EQ(decoded({word, word}), " a a");
}

TEST(Detokenizer, SpecialTokensAreSeenWhereAskedFor) {
  Vocabulary v = testing::byte_level({});
  const int32_t control = testing::add(v, "<|x|>", TokenKind::kControl);
  const int32_t unknown = testing::add(v, "<?>", TokenKind::kUnknown);
  const int32_t user = testing::add(v, "<tool> é", TokenKind::kUserDefined);
  const Tokenizer t = tokenizer_of(v);
  const std::vector<int32_t> ids = {'a', control, unknown, user, -1, 1 << 20};
  EXPECT_EQ(t.decode(ids), "a<tool> é");
  EXPECT_EQ(t.decode(ids, true), "a<|x|><?><tool> é");
  EXPECT_EQ(t.bytes(-1), "");
  EXPECT_EQ(t.bytes(user + 1, true), "");
}

}  // namespace
}  // namespace hone::model
