// hone run as people and scripts use it, on a small trained model.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "tests/engine/model/shared_files.h"
#include "tests/tools/refused.h"
#include "tests/tools/run_hone.h"
#include "tests/tools/scratch.h"
#include "tools/hone/stop_text.h"

namespace hone::cli_test {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;
using Json = nlohmann::json;

constexpr const char* kStory = ", there was a little girl named Lily. She loved to play outside in the park.";

class ToolsRun : public Scratch {
 protected:
  void SetUp() override {
    model = test_files::shared_file("models/stories260K.gguf");
    if (model.empty()) GTEST_SKIP() << "there is no ../shared/models/stories260K.gguf";
  }
  Outcome run(std::vector<std::string> args, Setting setting = {}) const {
    args.insert(args.begin(), {"run", model});
    setting.env.try_emplace("HONE_DB", file("plans.db"));
    setting.env.try_emplace("HONE_WEIGHTS", "off");
    return run_hone(args, setting);
  }
  Json json(std::vector<std::string> args) const {
    args.push_back("--json");
    const Outcome o = run(std::move(args));
    EXPECT_EQ(o.code, 0) << o.err;
    return Json::parse(o.out, nullptr, false);
  }
  std::string model;
};

TEST_F(ToolsRun, GreedyIsTheDefault) {
  const Outcome o = run({"-p", "Once upon a time", "-n", "27"});
  EXPECT_EQ(o.code, 0) << o.err;
  EXPECT_THAT(o.out, StartsWith(kStory));
  EXPECT_TRUE(o.out.ends_with("\n"));
  EXPECT_THAT(o.err, HasSubstr("tokens/s"));
}

TEST_F(ToolsRun, JsonHasWhatTheContractSays) {
  const Json j = json({"-p", "Once upon a time", "-n", "4"});
  EXPECT_EQ(j["prompt_tokens"], Json({1, 403, 407, 261, 378}));
  EXPECT_EQ(j["tokens"], Json({432, 383, 286, 261}));
  EXPECT_EQ(j["text"], ", there was a");
  EXPECT_EQ(j["ended_by"], "length");
  EXPECT_EQ(j["prefill"]["tokens"], 5);
  EXPECT_EQ(j["decode"]["tokens"], 3);
  for (const char* phase : {"prefill", "decode"}) {
    EXPECT_GT(j[phase]["ns"], 0);
    EXPECT_GT(j[phase]["tok_s"], 0);
  }
  int64_t plans = 0;
  for (const char* reason : {"exact", "near_shape", "near_machine", "default"})
    plans += j["plans"][reason].get<int64_t>();
  EXPECT_GT(plans, 0);
  EXPECT_GT(j["peak_rss"], 1 << 20);
}

TEST_F(ToolsRun, TokensInThePlaceOfText) {
  EXPECT_EQ(run({"-p", "Once upon a time", "-n", "4", "--tokens"}).out, "432 383 286 261\n");
  EXPECT_EQ(run({"-p", "Once upon a time", "-n", "0", "--tokens"}).out, "\n");
}

TEST_F(ToolsRun, LogitsAreThoseThatTokensCameFrom) {
  const Json j = json({"-p", "Once upon a time", "-n", "3", "--logits", file("l.npy")});
  std::ifstream stream(file("l.npy"), std::ios::binary);
  const std::string bytes((std::istreambuf_iterator<char>(stream)), {});
  EXPECT_THAT(bytes, HasSubstr("(3, 512)"));
  ASSERT_GE(bytes.size(), 3u * 512 * 4);
  std::vector<float> logits(3 * 512);
  std::memcpy(logits.data(), bytes.data() + bytes.size() - 3 * 512 * 4, 3 * 512 * 4);
  EXPECT_NEAR(logits[432], 17.7994, 1e-3);
  for (size_t i = 0; i < 3; ++i) {
    const auto row = logits.begin() + static_cast<ptrdiff_t>(512 * i);
    EXPECT_EQ(std::max_element(row, row + 512) - row, j["tokens"][i].get<ptrdiff_t>());
  }
}

TEST_F(ToolsRun, StopTextsMaySpanTokens) {
  EXPECT_EQ(run({"-p", "Once upon a time", "--stop", "named L"}).out, ", there was a little girl \n");
  EXPECT_EQ(run({"-p", "Once upon a time", "--stop", "never", "--stop", "."}).out,
            ", there was a little girl named Lily\n");
  EXPECT_EQ(json({"-p", "Once upon a time", "--stop", "Lily"})["ended_by"], "stop");
}

TEST_F(ToolsRun, SeedsRepeatAndThreadsLeaveThem) {
  const std::vector<std::string> drawn = {"-p", "Once", "-n", "40", "--temp", "1.2", "--top-k", "0", "--top-p", "1"};
  const auto with = [&](std::initializer_list<std::string> more) {
    std::vector<std::string> args = drawn;
    args.insert(args.end(), more);
    const Outcome o = run(args);
    EXPECT_EQ(o.code, 0) << o.err;
    return o.out;
  };
  const std::string seven = with({"--seed", "7", "--threads", "1"});
  EXPECT_EQ(seven, with({"--seed", "7", "--threads", "2", "--batch", "1"}));
  EXPECT_NE(seven, with({"--seed", "8"}));
}

TEST_F(ToolsRun, PromptsComeFromFilesAndStdin) {
  std::ofstream(file("prompt")) << "Once upon a time\n";
  const std::string want = run({"-p", "Once upon a time", "-n", "8"}).out;
  EXPECT_EQ(run({"-f", file("prompt"), "-n", "8"}).out, want);
  EXPECT_EQ(run({"-p", "-", "-n", "8"}, {.in_file = file("prompt")}).out, want);
}

TEST_F(ToolsRun, AFullContextEndsTheText) {
  const Outcome o = run({"-p", "Once upon a time", "-n", "100", "--context", "8", "--tokens"});
  EXPECT_EQ(o.code, 0) << o.err;
  EXPECT_EQ(o.out, "432 383 286 261\n") << "three of them, and one more from the last logits";
  EXPECT_THAT(o.err, HasSubstr("--context"));
  expect_refused(run({"-p", "Once upon a time", "--context", "4"}), 1, "context of 4 tokens");
}

TEST_F(ToolsRun, AnInterruptKeepsWhatThereIs) {
  // The model is small and ends nothing by itself: it is still at it when the signal comes.
  const Outcome o = run({"-p", "Once upon a time", "-n", "100000", "--context", "100000", "--ignore-eos"},
                        {.signal = SIGINT, .signal_at = "", .signal_after_ms = 700});
  EXPECT_EQ(o.code, 130) << o.err;
  EXPECT_TRUE(o.out.ends_with("\n")) << "it ends as ever";
}

TEST_F(ToolsRun, MistakesAreOneLine) {
  expect_refused(run({"-n", "3"}), 2, "-p TEXT");
  expect_refused(run({"-p", "a", "-f", "b"}), 2, "-p TEXT");
  expect_refused(run({"-f", file("missing")}), 2, "missing");
  expect_refused(run({"-p", "a", "--temp", "-1"}), 2, "temperature");
  expect_refused(run({"-p", "a", "--top-p", "nan"}), 2, "top_p");
  expect_refused(run({"-p", "a", "--chat-template", "nonsense"}), 2, "nonsense");
  expect_refused(run({"-p", "a", "--system", "b"}), 2, "chat template");
  expect_refused(run_hone({"run", file("no.gguf"), "-p", "a"}), 2, "no.gguf");
  std::ofstream(file("bad.gguf")) << "GGUF and nothing more";
  const Outcome bad = run_hone({"run", file("bad.gguf"), "-p", "a"});
  EXPECT_EQ(bad.code, 1) << bad.err;
  EXPECT_THAT(bad.err, HasSubstr("bad.gguf"));
}

// ---- stop texts, whatever the pieces ----

std::string shown(std::vector<std::string> stops, const std::vector<std::string>& pieces) {
  cli::StopText stop(std::move(stops));
  std::string text;
  for (const std::string& piece : pieces) text += stop.push(piece);
  return text + stop.finish();
}

TEST(ToolsStopText, HoldsBackOnlyWhatCouldBegin) {
  cli::StopText stop({"<end>"});
  EXPECT_EQ(stop.push("a<"), "a");
  EXPECT_EQ(stop.push("e"), "");
  EXPECT_EQ(stop.push("x"), "<ex");
  EXPECT_EQ(stop.push("<<en"), "<");
  EXPECT_FALSE(stop.met());
  EXPECT_EQ(stop.push("d>after"), "");
  EXPECT_TRUE(stop.met());
  EXPECT_EQ(stop.push("more"), "");
  EXPECT_EQ(stop.finish(), "");
}

TEST(ToolsStopText, EveryCutShowsTheSame) {
  const std::string text = "aabaabaaabc and so on aabab";
  for (const std::vector<std::string>& stops :
       std::vector<std::vector<std::string>>{{"aabaaa"}, {"abc", "b and"}, {"zz"}, {"on aabab"}, {"abab", "aba"}}) {
    const std::string whole = shown(stops, {text});
    for (size_t at = 0; at <= text.size(); ++at)
      EXPECT_EQ(shown(stops, {text.substr(0, at), text.substr(at)}), whole) << stops[0] << " " << at;
    std::vector<std::string> letters;
    for (const char c : text) letters.emplace_back(1, c);
    EXPECT_EQ(shown(stops, letters), whole) << stops[0];
  }
}

}  // namespace
}  // namespace hone::cli_test
