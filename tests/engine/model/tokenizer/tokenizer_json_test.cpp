// tokenizer.json: small files of each style, real vocabularies written as such files, and what is refused.
#include "engine/model/tokenizer/tokenizer_json.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "engine/model/files/model_file.h"
#include "tests/engine/model/shared_files.h"
#include "tests/engine/model/tokenizer/real_texts.h"
#include "tests/engine/model/tokenizer/vocabularies.h"

namespace hone::model {
namespace {

using ::testing::ElementsAre;
using testing::encoded;
using ::testing::HasSubstr;

const std::string kSpace = "\u2581";

Json part(const char* text) { return Json::parse(text); }

// As Llama 3's: bytes a, b, c and space, two merges.
Json byte_level_file() {
  Json file = part(R"({
    "added_tokens": [{"id": 7, "content": "<|bos|>", "special": true, "normalized": false, "lstrip": false,
                      "rstrip": false, "single_word": false},
                     {"id": 8, "content": "<tool>", "special": false}],
    "normalizer": null,
    "pre_tokenizer": {"type": "Sequence", "pretokenizers": [
      {"type": "Split", "pattern": {"Regex": " ?[a-z]+"}, "behavior": "Isolated", "invert": false},
      {"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true, "use_regex": false}]},
    "post_processor": {"type": "Sequence", "processors": [{"type": "ByteLevel"}, {"type": "TemplateProcessing",
      "single": [{"SpecialToken": {"id": "<|bos|>", "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}}]}]},
    "model": {"type": "BPE", "dropout": null, "unk_token": null, "continuing_subword_prefix": null,
              "byte_fallback": false, "ignore_merges": true,
              "vocab": {"a": 0, "b": 1, "c": 2, "Ġ": 3, "ab": 4, "Ġa": 5, "abc": 6}, "merges": ["a b", ["Ġ", "a"]]}})");
  return file;
}

// As Llama 2's.
Json pieces_file() {
  return part(R"({
    "added_tokens": [{"id": 0, "content": "<unk>", "special": true}, {"id": 1, "content": "<s>", "special": true}],
    "normalizer": {"type": "Sequence", "normalizers": [{"type": "Prepend", "prepend": "▁"},
      {"type": "Replace", "pattern": {"String": " "}, "content": "▁"}]},
    "pre_tokenizer": null,
    "model": {"type": "BPE", "unk_token": "<unk>", "fuse_unk": true, "byte_fallback": true,
              "vocab": {"<unk>": 0, "<s>": 1, "<0xC3>": 2, "<0xA9>": 3, "▁": 4, "a": 5, "b": 6, "▁a": 7, "ab": 8},
              "merges": ["▁ a", "a b"]}})");
}

Tokenizer tokenizer_of(const Json& file, const Json& config = {}) {
  Result<Vocabulary> v = vocabulary_of_tokenizer_json(file.dump(), config);
  if (!v.ok()) ADD_FAILURE() << v.status().to_string();
  Result<Tokenizer> t = Tokenizer::create(std::move(*v));
  if (!t.ok()) ADD_FAILURE() << t.status().to_string();
  return *t;
}
Status refused(const Json& file) {
  Result<Vocabulary> v = vocabulary_of_tokenizer_json(file.dump(), {});
  return v.ok() ? Tokenizer::create(std::move(*v)).status() : v.status();
}

TEST(TokenizerJson, ByteLevel) {
  const Tokenizer t =
      tokenizer_of(byte_level_file(), part(R"({"bos_token": {"content": "<|bos|>"}, "eos_token": "<|bos|>"})"));
  const Vocabulary& v = t.vocabulary();
  EXPECT_EQ(v.kind, TokenizerKind::kByteLevel);
  EXPECT_EQ((std::vector{v.bos, v.eos, v.unknown}), (std::vector{7, 7, -1}));
  EXPECT_TRUE(v.add_bos) << "the post-processor puts it there";
  EXPECT_FALSE(v.add_eos);
  EXPECT_THAT(encoded(t, "abc ab a"), ElementsAre("abc", "\u0120", "ab", "\u0120a"));
  EXPECT_THAT(encoded(t, "<tool>a<|bos|>", true), ElementsAre("<tool>", "a", "<|bos|>"));
  EXPECT_FALSE(tokenizer_of(byte_level_file(), part(R"({"bos_token": "<|bos|>", "add_bos_token": false})"))
                   .vocabulary()
                   .add_bos);
  EXPECT_EQ(tokenizer_of(byte_level_file()).vocabulary().bos, -1);
}

TEST(TokenizerJson, PartsOfAByteLevelPreTokenizer) {
  Json file = byte_level_file();
  file["normalizer"] = part(R"({"type": "NFC"})");
  file["pre_tokenizer"] = part(R"({"type": "Sequence", "pretokenizers": [{"type": "Digits", "individual_digits": true},
    {"type": "Split", "pattern": {"String": "b."}, "behavior": "Isolated"}, {"type": "ByteLevel", "add_prefix_space": false}]})");
  const Vocabulary v = vocabulary_of_tokenizer_json(file.dump(), {}).value();
  EXPECT_THAT(v.patterns, ElementsAre("\\p{N}", "b\\.", HasSubstr("'s|'t|")));
  EXPECT_TRUE(v.form_c);
  file["normalizer"] = part(R"({"type": "Sequence", "normalizers": []})");
  EXPECT_FALSE(vocabulary_of_tokenizer_json(file.dump(), {})->form_c);
  file["normalizer"] = part(R"({"type": "Sequence", "normalizers": [{"type": "NFC"}]})");
  EXPECT_TRUE(vocabulary_of_tokenizer_json(file.dump(), {})->form_c);
}

TEST(TokenizerJson, Pieces) {
  const Tokenizer t = tokenizer_of(pieces_file(), part(R"({"bos_token": "<s>", "add_bos_token": true})"));
  EXPECT_EQ(t.vocabulary().kind, TokenizerKind::kMergedPieces);
  EXPECT_TRUE(t.vocabulary().add_bos);
  EXPECT_THAT(encoded(t, "ab aé"), ElementsAre(kSpace + "a", "b", kSpace + "a", "<0xC3>", "<0xA9>"));
  EXPECT_THAT(encoded(t, "axxa"), ElementsAre(kSpace + "a", "<unk>", "a"));
  EXPECT_EQ(t.decode(t.encode("ab aé").value()), "ab aé");
}

TEST(TokenizerJson, MetaspaceAddsASpaceWhereThereIsNone) {
  Json file = pieces_file();
  file["normalizer"] = nullptr;
  file["pre_tokenizer"] =
      part(R"({"type": "Metaspace", "replacement": "▁", "prepend_scheme": "first", "split": false})");
  const Tokenizer t = tokenizer_of(file);
  EXPECT_THAT(encoded(t, "a"), ElementsAre(kSpace + "a"));
  EXPECT_THAT(encoded(t, " a"), ElementsAre(kSpace + "a"));
  EXPECT_THAT(encoded(t, "<s>a", true), ElementsAre("<s>", "a"));
  file["pre_tokenizer"]["prepend_scheme"] = "never";
  EXPECT_THAT(encoded(tokenizer_of(file), "a"), ElementsAre("a"));
}

TEST(TokenizerJson, WhatIsNotKnownIsNamed) {
  const auto with = [](Json file, const char* pointer, const char* value) {
    file[Json::json_pointer(pointer)] = part(value);
    return refused(file);
  };
  struct Case {
    Json file;
    const char *pointer, *value, *says;
  };
  const Json bytes = byte_level_file(), pieces = pieces_file();
  const Case cases[] = {
      {bytes, "/model/type", R"("WordPiece")", "WordPiece"},
      {bytes, "/model/type", R"("Unigram")", "Unigram"},
      {bytes, "/model/end_of_word_suffix", R"("</w>")", "end_of_word_suffix"},
      {bytes, "/normalizer", R"({"type": "Lowercase"})", "Lowercase"},
      {bytes, "/normalizer", R"({"type": "Sequence", "normalizers": [{"type": "NFKC"}]})", "NFKC"},
      {bytes, "/pre_tokenizer", R"({"type": "BertPreTokenizer"})", "BertPreTokenizer"},
      {bytes, "/pre_tokenizer", R"({"type": "ByteLevel"})", "add_prefix_space"},
      {bytes, "/pre_tokenizer/pretokenizers/0/behavior", R"("Removed")", "Removed"},
      {bytes, "/pre_tokenizer/pretokenizers/0/pattern/Regex", R"("(a")", "does not compile"},
      {bytes, "/pre_tokenizer/pretokenizers/0/pattern/Regex", R"("[a&&b]")", "&&"},
      {bytes, "/pre_tokenizer", "null", "neither ByteLevel"},
      {bytes, "/added_tokens/0/lstrip", "true", "lstrip"},
      {pieces, "/model/ignore_merges", "true", "ignore_merges"},
      {pieces, "/pre_tokenizer", R"({"type": "Metaspace", "replacement": "▁", "split": true})", "split"},
      {pieces, "/normalizer/normalizers/1/content", R"("_")", "Replace"},
  };
  for (const Case& c : cases) {
    const Status status = with(c.file, c.pointer, c.value);
    EXPECT_EQ(status.code(), Code::kUnsupported) << c.pointer << " " << c.value << ": " << status.to_string();
    EXPECT_THAT(status.message(), HasSubstr(c.says));
  }
}

TEST(TokenizerJson, Hostile) {
  const auto code = [](const char* pointer, const char* value) {
    Json file = byte_level_file();
    file[Json::json_pointer(pointer)] = part(value);
    const Status status = refused(file);
    EXPECT_THAT(status.message(), ::testing::Not(HasSubstr("\n")));
    return status.code();
  };
  EXPECT_EQ(code("/model/vocab", "[]"), Code::kInvalidArgument);
  EXPECT_EQ(code("/model/vocab/a", "-1"), Code::kInvalidArgument);
  EXPECT_EQ(code("/model/vocab/a", "16777215"), Code::kInvalidArgument);  // a table of 16 million for seven tokens
  EXPECT_EQ(code("/model/vocab/a", "1e300"), Code::kInvalidArgument);
  EXPECT_EQ(code("/model/vocab/a", "1"), Code::kInvalidArgument);  // b's
  EXPECT_EQ(code("/model/vocab", "{}"), Code::kInvalidArgument);
  EXPECT_EQ(code("/model/merges", "null"), Code::kInvalidArgument);
  EXPECT_EQ(code("/model/merges/0", "[\"a\"]"), Code::kInvalidArgument);
  EXPECT_EQ(code("/model/merges/0", "\"ab\""), Code::kInvalidArgument);
  EXPECT_EQ(code("/model/merges/0", "\"a x\""), Code::kInvalidArgument);
  EXPECT_EQ(code("/model/merges/0", "[\"a b\", \"c\"]"), Code::kUnsupported);
  EXPECT_EQ(code("/added_tokens/0/id", "\"7\""), Code::kInvalidArgument);
  EXPECT_EQ(code("/added_tokens/0/id", "0"), Code::kInvalidArgument);  // a's
  EXPECT_EQ(code("/model/vocab/c", "100"), Code::kOk);                 // holes are unused tokens
  for (const char* text : {"", "[", "[]", "{\"model\": \xff}", "null"})
    EXPECT_EQ(vocabulary_of_tokenizer_json(text, {}).status().code(), Code::kDataLoss) << text;
  std::string deep = "null";
  for (int i = 0; i < 100; ++i) deep = R"({"type": "Sequence", "normalizers": [)" + deep + "]}";
  EXPECT_EQ(code("/normalizer", deep.c_str()), Code::kUnsupported);
  EXPECT_EQ(vocabulary_of_tokenizer_json(R"({"model": {}, "model": {}})", {}).status().code(), Code::kDataLoss);
}

// What walks such a value by calling itself once a level has no stack left.
TEST(TokenizerJson, NestedTooDeep) {
  const std::string deep = std::string(100'000, '[') + std::string(100'000, ']');
  for (const char* part : {"pre_tokenizer", "normalizer", "post_processor", "x"}) {
    Json file = byte_level_file();
    file[part] = "HERE";
    std::string text = file.dump();
    text.replace(text.find("\"HERE\""), 6, "{\"a\":" + deep + "}");
    const Status status = vocabulary_of_tokenizer_json(text, {}).status();
    EXPECT_EQ(status.code(), Code::kUnsupported);
    EXPECT_THAT(status.message(), HasSubstr("nested more than 16 deep"));
    EXPECT_THAT(status.message(), ::testing::Not(HasSubstr("tokenizer.json: "))) << "whoever opened the file names it";
  }
}

TEST(TokenizerJson, PartsWithoutATypeAreNotShown) {
  for (const char* name : {"normalizer", "pre_tokenizer"}) {
    Json file = byte_level_file();
    file[name] = part(R"({"a": [[1]]})");
    EXPECT_THAT(refused(file).message(), HasSubstr("without a type is not known"));
  }
}

// The name alone would say of a known normalizer that it is not known.
TEST(TokenizerJson, NormalizersOfOtherTextsAreShown) {
  const auto message = [](const char* normalizer) {
    Json file = byte_level_file();
    file["normalizer"] = part(normalizer);
    const Status status = refused(file);
    EXPECT_EQ(status.code(), Code::kUnsupported);
    return status.message();
  };
  EXPECT_EQ(message(R"({"type": "Replace", "pattern": {"String": " "}, "content": "b"})"),
            "the normalizer Replace of ' ' by 'b' is not known, only of ' ' by U+2581");
  EXPECT_EQ(message(R"({"type": "Replace", "pattern": {"Regex": "\\s+"}, "content": "▁"})"),
            "the normalizer Replace of the regex '\\s+' by '\\xe2\\x96\\x81' is not known, only of ' ' by U+2581");
  EXPECT_EQ(message(R"({"type": "Replace"})"),
            "the normalizer Replace of '' by '' is not known, only of ' ' by U+2581");
  EXPECT_EQ(message(R"({"type": "Prepend", "prepend": "a\n"})"),
            "the normalizer Prepend of 'a\\x0a' is not known, only of U+2581");
}

TEST(TokenizerJson, TooLarge) {
  const Status status = vocabulary_of_tokenizer_json(std::string((64 << 20) + 1, ' '), {}).status();
  EXPECT_EQ(status.code(), Code::kUnsupported);
  EXPECT_THAT(status.message(), HasSubstr("67108865 bytes of JSON"));
}

// A GGUF vocabulary as the tokenizer.json that it was made from.
Json file_of(const Vocabulary& v) {
  Json file = v.kind == TokenizerKind::kByteLevel ? byte_level_file() : pieces_file();
  file["added_tokens"] = Json::array();
  Json vocab = Json::object();
  for (size_t id = 0; id < v.tokens.size(); ++id) {
    const Token& token = v.tokens[id];
    vocab[token.text] = id;
    if (token.kind == TokenKind::kControl || token.kind == TokenKind::kUnknown)
      file["added_tokens"].push_back({{"id", id}, {"content", token.text}, {"special", true}});
  }
  file["model"]["vocab"] = vocab;
  file["model"]["merges"] = v.merges;
  file["model"]["ignore_merges"] = false;
  return file;
}

TEST(TokenizerJson, RealBytesAsFromGguf) {
  HONE_SHARED_FILE(path, "vocab/ggml-vocab-gpt-2.gguf");
  Json file = file_of(open_vocabulary(path).value());
  file["pre_tokenizer"] = part(R"({"type": "ByteLevel", "add_prefix_space": false})");
  const Tokenizer t = tokenizer_of(file);
  testing::each_real_text(path, [&](const std::string& text, const std::vector<int32_t>& ids) {
    EXPECT_EQ(t.encode(text).value(), ids) << text;
  });
}

// Llama 2's tokenizer.json was made from its scores: every way to make a piece of two, the best pieces first.
TEST(TokenizerJson, RealPiecesAsByScores) {
  HONE_SHARED_FILE(path, "vocab/ggml-vocab-llama-spm.gguf");
  Vocabulary v = open_vocabulary(path).value();
  const Tokenizer by_scores = testing::tokenizer_of(v);
  std::vector<size_t> order;
  for (size_t id = 0; id < v.tokens.size(); ++id)
    if (v.tokens[id].kind == TokenKind::kNormal) order.push_back(id);
  std::stable_sort(order.begin(), order.end(),
                   [&](size_t a, size_t b) { return v.tokens[a].score > v.tokens[b].score; });
  for (const size_t id : order) {
    const std::string& text = v.tokens[id].text;
    for (size_t at = 1; at < text.size(); ++at)
      if (by_scores.find(text.substr(0, at)) && by_scores.find(text.substr(at)))
        v.merges.push_back(text.substr(0, at) + " " + text.substr(at));
  }
  const Tokenizer t = tokenizer_of(file_of(v));
  testing::each_real_text(path, [&](const std::string& text, const std::vector<int32_t>& ids) {
    EXPECT_EQ(t.encode(text).value(), ids) << text;
  });
}

}  // namespace
}  // namespace hone::model
