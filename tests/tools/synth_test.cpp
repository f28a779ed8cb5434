// hone synth as a user runs it.
#include <gmock/gmock.h>

#include <filesystem>
#include <nlohmann/json.hpp>

#include "engine/model/files/model_file.h"
#include "tests/tools/refused.h"

namespace hone::cli_test {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

std::string content(const std::string& path) {
  std::stringstream text;
  text << std::ifstream(path, std::ios::binary).rdbuf();
  return text.str();
}

class HoneSynth : public Scratch {};

TEST_F(HoneSynth, WritesAModelThatOpens) {
  const Outcome o = run_hone({"synth", "tiny", "--dtype", "f16", "--seed", "3", "-o", file("m.gguf"), "--json"});
  ASSERT_EQ(o.code, 0) << o.err;
  const auto json = nlohmann::json::parse(o.out);
  EXPECT_EQ(json["bytes"], fs::file_size(file("m.gguf")));
  const Result<model::ModelFile> m = model::open_model(file("m.gguf"));
  ASSERT_TRUE(m.ok()) << m.status().to_string();
  EXPECT_EQ(m->config.layers, 2);
  EXPECT_EQ(m->weights.embedding.dtype, DType::kF16);
  EXPECT_EQ(m->vocabulary->tokens.size(), 512u);
  // 2 layers of 4 projections (64 x 64 twice, 32 x 64 twice), 3 of 160 x 64, 2 norms; two tables; a norm.
  EXPECT_EQ(json["parameters"], 2 * (12288 + 30720 + 128) + 2 * 512 * 64 + 64);

  EXPECT_EQ(run_hone({"synth", "tiny", "--dtype", "f16", "--seed", "3", "-o", file("same.gguf")}).code, 0);
  EXPECT_EQ(content(file("same.gguf")), content(file("m.gguf")));
  EXPECT_EQ(run_hone({"synth", "tiny", "--dtype", "f16", "--seed", "4", "-o", file("other.gguf")}).code, 0);
  EXPECT_NE(content(file("other.gguf")), content(file("m.gguf")));
}

TEST_F(HoneSynth, ReplacesNothingUnasked) {
  const std::string path = write("m.gguf", "mine");
  expect_refused(run_hone({"synth", "tiny", "-o", path}), 2, "is there already; give --force");
  EXPECT_EQ(content(path), "mine");
  EXPECT_EQ(run_hone({"synth", "tiny", "-o", path, "--force"}).code, 0);
  EXPECT_TRUE(model::open_model(path).ok());
}

TEST_F(HoneSynth, ALinkToNothingStaysOne) {
  fs::create_symlink("there.gguf", file("link.gguf"));
  const Outcome o = run_hone({"synth", "tiny", "-o", file("link.gguf")});
  EXPECT_EQ(o.code, 0) << o.err;
  EXPECT_EQ(o.err, "") << "no progress of a moment";
  EXPECT_TRUE(fs::is_symlink(file("link.gguf")));
  EXPECT_TRUE(model::open_model(file("there.gguf")).ok());
}

TEST_F(HoneSynth, Refusals) {
  expect_refused(run_hone({"synth", "gpt-5", "-o", file("m.gguf")}), 2, "there is no geometry 'gpt-5'; there are tiny");
  expect_refused(run_hone({"synth", "tiny", "-o", file("")}), 2, "is a folder");
  expect_refused(run_hone({"synth", "tiny", "-o", file("none/m.gguf")}), 2, "cannot write");
  expect_refused(run_hone({"synth", "tiny", "-o", "/dev/full"}), 1, "cannot write");
  EXPECT_EQ(run_hone({"synth", "tiny", "-o", file("m.gguf"), "--dtype", "q4_0"}).code, 2);
  EXPECT_TRUE(fs::is_empty(scratch_));
}

TEST_F(HoneSynth, InterruptedItLeavesNothing) {
  const Outcome o = run_hone({"synth", "smollm2-135m", "--dtype", "f32", "-o", file("m.gguf")},
                             {.signal = SIGINT, .signal_at = " MB"});
  EXPECT_EQ(o.code, 130) << o.err;
  EXPECT_TRUE(fs::is_empty(scratch_));
}

// A full disk: nothing of it is left either.
TEST_F(HoneSynth, AFullDisk) {
  expect_refused(run_hone({"synth", "tiny", "-o", file("m.gguf")}, {.file_limit = 100'000}), 1, "cannot write");
  EXPECT_TRUE(fs::is_empty(scratch_));
}

}  // namespace
}  // namespace hone::cli_test
