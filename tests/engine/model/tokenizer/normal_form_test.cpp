// Unicode's form C: examples of the standard, utf8proc's own way through a text, and where it applies in a vocabulary.
#include "engine/model/tokenizer/normal_form_internal.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <utf8proc.h>

#include "engine/base/random.h"
#include "tests/engine/model/tokenizer/vocabularies.h"

namespace hone::model {
namespace {

using testing::add;
using testing::byte_level;
using ::testing::ElementsAre;
using testing::encoded;
using testing::pieces;
using testing::tokenizer_of;

TEST(TokenizerFormC, WhereTheVocabularyHasItSo) {
  const std::string apart = "e\u0301", whole = "\u00e9";
  const Tokenizer qwen = tokenizer_of(byte_level({}, "qwen2"));
  EXPECT_EQ(qwen.decode(qwen.encode(apart).value()), whole);
  const Tokenizer gpt2 = tokenizer_of(byte_level({}, "gpt-2"));
  EXPECT_EQ(gpt2.decode(gpt2.encode(apart).value()), apart);
  Vocabulary v = byte_level({}, "gpt-2");
  v.form_c = true;
  EXPECT_EQ(tokenizer_of(v).encode(apart).value(), gpt2.encode(whole).value());
  Vocabulary p = pieces({"\u00e9"});
  p.form_c = true, p.add_space_prefix = false;
  EXPECT_THAT(encoded(tokenizer_of(p), apart), ElementsAre(whole));
}

// A special token is looked for in what was written, and nothing combines with it.
TEST(TokenizerFormC, BetweenSpecialTokens) {
  Vocabulary v = byte_level({}, "qwen2");
  add(v, "<e\u0301>", TokenKind::kControl);
  add(v, "<x>", TokenKind::kUserDefined);
  const Tokenizer t = tokenizer_of(v);
  EXPECT_THAT(encoded(t, "<e\u0301>", true), ElementsAre("<e\u0301>"));
  const auto text = [&](std::string_view from) {
    return t.decode(t.encode(from, {.parse_special = true}).value(), true);
  };
  EXPECT_EQ(text("e<x>\u0301e\u0301<x>"), "e<x>\u0301\u00e9<x>");
  EXPECT_EQ(text("<x><e\u0301>e\u0301"), "<x><e\u0301>\u00e9");
  const std::vector<TextPart> parts = {{"a<x>e", true}, {"\u0301", false}};
  EXPECT_EQ(t.decode(t.encode(parts, false).value(), true), "a<x>\u00e9") << "parts are one text";
}

std::string form_c(std::string_view text) {
  std::string out;
  append_form_c(text, out);
  return out;
}

// Examples of UAX #15 and of the Unicode standard, chapter 3.12.
TEST(TokenizerFormC, OfKnownTexts) {
  const std::pair<const char*, const char*> cases[] = {
      {"", ""},
      {"plain", "plain"},
      {"A\u030a", "\u00c5"},
      {"\u212b", "\u00c5"},              // the sign for angstrom
      {"\u1e0a\u0323", "\u1e0c\u0307"},  // dots above and below, in their order
      {"D\u0307\u0323", "\u1e0c\u0307"},
      {"D\u031b\u0307\u0323", "\u1e0c\u031b\u0307"},  // a horn between them
      {"\u1100\u1161\u11a8", "\uac01"},               // Hangul
      {"\uac00\u11a8", "\uac01"},
      {"\uac01\u11a8", "\uac01\u11a8"},
      {"\u1100\uac00", "\u1100\uac00"},
      {"\uac00\u11a7", "\uac00\u11a7"},  // a vowel
      {"\u1100\u1161\u11a7", "\uac00\u11a7"},
      {"\u11a7\u0301\u11a8", "\u11a7\u0301\u11a8"},
      {"\u0958", "\u0915\u093c"},  // excluded from composition
      {"\u304b\u3099", "\u304c"},  // kana
      {"\u0418\u0306", "\u0419"},
      {"\u03b1\u0313\u0300\u0345", "\u1f82"},
      {"\ufb01", "\ufb01"},  // a ligature is not of this form's concern
      {"\u0301e", "\u0301e"},
      {"a\u0301\u0301", "\u00e1\u0301"},
      {"\U0001d15e", "\U0001d157\U0001d165"},
      {"\u4e2d\u6587 e\u0301", "\u4e2d\u6587 \u00e9"},
  };
  for (const auto& [text, want] : cases) {
    EXPECT_EQ(form_c(text), want) << text;
    EXPECT_EQ(form_c(want), want) << text;
    if (surely_form_c(text)) {
      EXPECT_STREQ(text, want);
    }
  }
}

std::string utf8_of(std::initializer_list<uint32_t> codes) {
  std::string text;
  for (const uint32_t code : codes) {
    utf8proc_uint8_t bytes[4];
    const auto size = utf8proc_encode_char(static_cast<utf8proc_int32_t>(code), bytes);
    text.append(reinterpret_cast<const char*>(bytes), static_cast<size_t>(size));
  }
  return text;
}

// By the formula of the standard, chapter 3.12, and not by what a library makes of it: every syllable without a
// trailing consonant, whole and in parts, before all that could be taken for one.
TEST(TokenizerFormC, TrailingConsonantsOfHangul) {
  for (uint32_t lead = 0; lead < 19; ++lead)
    for (uint32_t vowel = 0; vowel < 21; ++vowel)
      for (uint32_t next = 0x11a5; next <= 0x11c4; ++next) {
        const uint32_t syllable = 0xac00 + (lead * 21 + vowel) * 28;
        const bool trails = next > 0x11a7 && next < 0x11a7 + 28;
        const std::string want = trails ? utf8_of({syllable + next - 0x11a7}) : utf8_of({syllable, next});
        ASSERT_EQ(form_c(utf8_of({syllable, next})), want) << std::hex << syllable << ' ' << next;
        ASSERT_EQ(form_c(utf8_of({0x1100 + lead, 0x1161 + vowel, next})), want) << std::hex << syllable << ' ' << next;
      }
}

TEST(TokenizerFormC, BytesThatAreNoTextStay) {
  EXPECT_EQ(form_c("e\xff\xcc\x81"), "e\xff\xcc\x81") << "nothing combines across";
  EXPECT_EQ(form_c("e\xcc\x81\xcc"), "\xc3\xa9\xcc");
  EXPECT_EQ(form_c("\xed\xa0\x80"
                   "e\xcc\x81\x80\xf4\x90\x80\x80"),
            "\xed\xa0\x80\xc3\xa9\x80\xf4\x90\x80\x80");
}

// Against utf8proc's own way through a whole text. It errs where U+11A7 follows a syllable, so that is no letter here.
TEST(TokenizerFormC, AsALibraryDoesItAtOnce) {
  Random random(11);
  const std::vector<uint32_t> letters = {'a',    'e',    'K',    'D',    0xe9,  0x1e0a, 0x1100, 0x1161,
                                         0x11a8, 0xac00, 0xac01, 0x915,  0x958, 0x93c,  0x304b, 0x3099,
                                         0x4e2d, 0x212b, 0x418,  0x1f82, 0x9c7, 0x9be,  0x1d15e};
  const std::vector<uint32_t> marks = {0x300, 0x301, 0x323, 0x31b, 0x307, 0x345, 0x327, 0x5b0, 0x64b, 0x334, 0x1d165};
  for (int round = 0; round < 3000; ++round) {
    std::string text;
    for (int64_t n = random.between(1, 30); n > 0; --n)
      text += utf8_of({random.element(random.chance(50) ? letters : marks)});
    utf8proc_uint8_t* const whole = utf8proc_NFC(reinterpret_cast<const utf8proc_uint8_t*>(text.c_str()));
    ASSERT_EQ(form_c(text), reinterpret_cast<const char*>(whole)) << text;
    free(whole);
  }
}

// A sort of marks that compares neighbours would take hours.
TEST(TokenizerFormC, AMegabyteOfMarks) {
  std::string text = "a", want = "\u1ea1";
  for (int i = 0; i < 250000; ++i) text += "\u0301";
  for (int i = 0; i < 250000; ++i) text += "\u0323";
  for (int i = 1; i < 250000; ++i) want += "\u0323";
  for (int i = 0; i < 250000; ++i) want += "\u0301";
  EXPECT_EQ(form_c(text), want);
}

}  // namespace
}  // namespace hone::model
