// hone tokenize as a user runs it.
#include <gmock/gmock.h>

#include <nlohmann/json.hpp>

#include "tests/tools/refused.h"

namespace hone::cli_test {
namespace {

class HoneTokenize : public Scratch {
 protected:
  // Two pieces, with bytes for the rest, as llama2.c's tokenizer.bin would not have them: a tokenizer.json in a folder
  // is a model's, so that one is written.
  std::string model() {
    std::filesystem::create_directories(file("m"));
    return write("m/tokenizer.json", R"({
      "added_tokens": [{"id": 0, "content": "<unk>", "special": true}, {"id": 1, "content": "</s>", "special": true}],
      "normalizer": {"type": "Sequence", "normalizers": [{"type": "Prepend", "prepend": "▁"},
        {"type": "Replace", "pattern": {"String": " "}, "content": "▁"}]},
      "model": {"type": "BPE", "unk_token": "<unk>", "byte_fallback": true,
        "vocab": {"<unk>": 0, "</s>": 1, "<0x0A>": 2, "<0x1B>": 3, "▁": 4, "a": 5, "b": 6, "▁a": 7, "<": 8},
        "merges": ["▁ a"]}})");
  }
};

TEST_F(HoneTokenize, IdsAndPieces) {
  const std::string m = model();
  EXPECT_EQ(run_hone({"tokenize", m, "--text", "ab a", "--ids"}).out, "7 6 7\n");
  EXPECT_EQ(run_hone({"tokenize", m, "--text", "", "--ids"}).out, "\n");
  const Outcome o = run_hone({"tokenize", m, "--text", "ab\n", "--json"});
  ASSERT_EQ(o.code, 0) << o.err;
  EXPECT_EQ(nlohmann::json::parse(o.out),
            nlohmann::json::parse(R"({"count": 3, "ids": [7, 6, 2], "pieces": [" a", "b", "\n"]})"));
  EXPECT_EQ(run_hone({"tokenize", m, "--text", "a\x1b"}).out, "      7  ' a'\n      3  '\\x1b'\n");
  EXPECT_EQ(run_hone({"tokenize", m, "--text", "</s>", "--special", "--ids"}).out, "1\n");
  EXPECT_NE(run_hone({"tokenize", m, "--text", "</s>", "--ids"}).out, "1\n");
}

TEST_F(HoneTokenize, TextFromAFileOrStdin) {
  const std::string m = model(), text = write("text", "a a");
  EXPECT_EQ(run_hone({"tokenize", m, "-f", text, "--ids"}).out, "7 7\n");
  EXPECT_EQ(run_hone({"tokenize", m, "--ids"}, {.in_file = text}).out, "7 7\n");
  EXPECT_EQ(run_hone({"tokenize", m, "-f", "-", "--ids"}, {.in_file = text}).out, "7 7\n");
}

TEST_F(HoneTokenize, Refusals) {
  const std::string m = model();
  expect_refused(run_hone({"tokenize", file("none.gguf"), "--text", "a"}), 2, "none.gguf");
  expect_refused(run_hone({"tokenize", write("m/config.json", "{}"), "--text", "a"}), 1, "not a tokenizer.json");
  expect_refused(run_hone({"tokenize", m, "-f", file("none")}), 2, "cannot read");
  expect_refused(run_hone({"tokenize", m, "-f", file("")}), 2, "cannot read");
  EXPECT_EQ(run_hone({"tokenize", m, "-f", m, "--text", "a"}).code, 2);
  EXPECT_EQ(run_hone({"tokenize"}).code, 2);
  EXPECT_EQ(run_hone({"tokenize", m, "--text", "a", "--ids"}, {.out_file = "/dev/full"}).code, 1);
}

}  // namespace
}  // namespace hone::cli_test
