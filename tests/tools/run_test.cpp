// hone run as people and scripts use it, on a small trained model.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <limits>
#include <nlohmann/json.hpp>

#include "tests/engine/model/shared_files.h"
#include "tests/tools/refused.h"
#include "tests/tools/run_hone.h"
#include "tests/tools/scratch.h"
#include "tools/hone/stop_text.h"

namespace hone::cli_test {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;
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
  // A shared file in the test's folder; "" where there is none.
  std::string copied(const std::string& name) const {
    const std::string from = test_files::shared_file("models/" + name);
    if (from.empty()) return "";
    write(name, content(from));
    return file(name);
  }
  static std::string content(const std::string& path) {
    std::ifstream in(path, std::ios::binary);
    return {std::istreambuf_iterator<char>(in), {}};
  }
  std::string model;
};

// A pipe in the file system whose other end is ours; nothing waits for it to be opened.
class Fifo {
 public:
  explicit Fifo(const std::string& path) {
    if (mkfifo(path.c_str(), 0600) == 0) fd_ = open(path.c_str(), O_RDWR | O_NONBLOCK | O_CLOEXEC);
  }
  ~Fifo() { close(fd_); }
  std::string take() const {
    std::string text(1 << 16, '\0');
    const ssize_t n = read(fd_, text.data(), text.size());
    text.resize(n > 0 ? static_cast<size_t>(n) : 0);
    return text;
  }

 private:
  int fd_ = -1;
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
  EXPECT_GT(j["prepare"]["ns"], 0) << "code for this prompt's size is no part of prefill";
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

TEST_F(ToolsRun, LogitsReplaceNothingButLogits) {
  const std::string own = copied("stories260K.gguf"), before = content(own);
  const std::string database = write("some.db", "SQLite format 3 and more");
  std::filesystem::create_symlink(own, file("link.npy"));
  for (const std::string& path : {own, database, file("link.npy")}) {
    expect_refused(run({"-p", "Once", "-n", "1", "--logits", path}), 2, "name another file");
    // Before the model is looked for.
    expect_refused(run_hone({"run", file("no.gguf"), "-p", "a", "--logits", path}), 2, "name another file");
  }
  EXPECT_EQ(content(own), before);
  EXPECT_EQ(content(database), "SQLite format 3 and more");
  EXPECT_TRUE(std::filesystem::is_symlink(file("link.npy")));
  expect_refused(run({"-p", "a", "--logits", "-"}), 2, "name a file");
  expect_refused(run_hone({"run", file("no.gguf"), "-p", "a", "--logits", file("no/l.npy")}), 2, "cannot write");
  expect_refused(run({"-p", "a", "--logits", scratch_.string()}), 2, "is a folder");

  EXPECT_EQ(run({"-p", "Once", "-n", "1", "--logits", file("l.npy")}).code, 0);
  EXPECT_EQ(run({"-p", "Once", "-n", "2", "--logits", file("l.npy")}).code, 0);
  EXPECT_THAT(content(file("l.npy")), HasSubstr("(2, 512)"));
}

TEST_F(ToolsRun, LogitsGoIntoAPipeThatStaysOne) {
  const Fifo pipe(file("pipe"));
  EXPECT_EQ(run({"-p", "Once", "-n", "2", "--logits", file("pipe")}).code, 0);
  EXPECT_TRUE(std::filesystem::is_fifo(file("pipe")));
  EXPECT_THAT(pipe.take(), StartsWith("\x93NUMPY"));
}

TEST_F(ToolsRun, AFullDiskForLogitsLosesNothingElse) {
  const std::string old = write("l.npy", "\x93NUMPY of before");
  const Outcome o = run({"-p", "Once", "-n", "2", "--json", "--logits", old}, {.file_limit = 1000});
  EXPECT_EQ(o.code, 1) << o.err;
  EXPECT_EQ(Json::parse(o.out, nullptr, false)["tokens"].size(), 2u) << o.out;
  EXPECT_THAT(o.err, HasSubstr("cannot write " + old));
  EXPECT_EQ(content(old), "\x93NUMPY of before");
  EXPECT_THAT(lines_of(o.err).back(), HasSubstr("HONE_WEIGHTS=off"));
}

TEST_F(ToolsRun, TextsAreThoseOfAnotherEngine) {
  const Json expected = Json::parse(content(test_files::shared_file("models/stories260K.expected.json")));
  int spaces = 0;
  for (const Json& c : expected["cases"]) {
    const std::string prompt = c["prompt"], text = c["greedy_text"];
    const Json j = json({"-p", prompt, "-n", std::to_string(c["greedy_tokens"].size())});
    EXPECT_EQ(j["prompt_tokens"], c["prompt_tokens"]);
    EXPECT_EQ(j["tokens"], c["greedy_tokens"]);
    EXPECT_EQ(j["text"], text) << prompt;
    spaces += text.starts_with(' ') ? 1 : 0;
  }
  EXPECT_GT(spaces, 0) << "a continuation keeps its first space";
}

TEST_F(ToolsRun, AStopTextMayBeTheFirstThing) {
  EXPECT_EQ(run({"-p", "The little dog", "-n", "2"}).out, " was a\n");
  const Outcome o = run({"-p", "The little dog", "--stop", " was"});
  EXPECT_EQ(o.code, 0) << o.err;
  EXPECT_EQ(o.out, "\n");
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
  const Outcome long_prompt = run({"-p", "Once upon a time", "--context", "4"});
  expect_refused(long_prompt, 2, "the prompt has 5 tokens, the context of 4 tokens");
  EXPECT_THAT(long_prompt.err, HasSubstr("--context 5"));
  EXPECT_EQ(json({"-p", "Once upon a time", "-n", "9", "--context", "5"})["ended_by"], "context");
  EXPECT_EQ(run({"-p", "Once", "-n", "1", "--context", "0"}).code, 0) << "the model's own";
}

TEST_F(ToolsRun, AnInterruptEndsWaitingForAPrompt) {
  const Fifo pipe(file("pipe"));
  const Outcome o = run({"-p", "-"}, {.in_file = file("pipe"), .signal = SIGINT, .signal_after_ms = 500});
  EXPECT_EQ(o.code, 130) << o.err;
}

TEST_F(ToolsRun, AModelWithoutTokenizerNamesTheOption) {
  const std::string alone = copied("stories260K.bin");
  if (alone.empty()) GTEST_SKIP() << "there is no ../shared/models/stories260K.bin";
  const Setting off{.env = {{"HONE_WEIGHTS", "off"}}};
  expect_refused(run_hone({"run", alone, "-p", "a"}, off), 2, "has no tokenizer; give --tokenizer FILE");
  expect_refused(run_hone({"tokenize", alone, "--text", "a"}, off), 2, "tok512.bin");
  const std::string tokenizer = test_files::shared_file("models/tok512.bin");
  EXPECT_EQ(run_hone({"run", alone, "--tokenizer", tokenizer, "-p", "The little dog", "-n", "2"}, off).out, " was a\n");
  ASSERT_FALSE(copied("tok512.bin").empty());
  EXPECT_EQ(run_hone({"tokenize", alone, "--text", "The little dog", "--ids"}, off).out, "1 291 376 400 428\n");
  EXPECT_EQ(run_hone({"run", alone, "-p", "The little dog", "-n", "2"}, off).out, " was a\n");
}

TEST_F(ToolsRun, AVocabularyThatDoesNotFitIsSaid) {
  const std::string few = write("few.json", R"({
    "added_tokens": [{"id": 0, "content": "<unk>", "special": true}],
    "normalizer": {"type": "Sequence", "normalizers": [{"type": "Prepend", "prepend": "▁"},
      {"type": "Replace", "pattern": {"String": " "}, "content": "▁"}]},
    "model": {"type": "BPE", "unk_token": "<unk>", "byte_fallback": true,
      "vocab": {"<unk>": 0, "▁": 1, "a": 2, "b": 3}, "merges": []}})");
  const Outcome o = run({"-p", "ab", "-n", "1", "--tokenizer", few});
  EXPECT_EQ(o.code, 0) << o.err;
  EXPECT_THAT(o.err, HasSubstr("the tokenizer has 4 tokens, the model 512"));
  // 508 of 512, a multiple of 64, are a table with rows to spare; 500 are not.
  for (const int last : {499, 507}) {
    std::string more =
        R"({"model": {"type": "BPE", "unk_token": "<unk>", "byte_fallback": true, "vocab": {"<unk>": 0, "▁": 1)";
    for (int i = 2; i <= last; ++i) more += ", \"t" + std::to_string(i) + "\": " + std::to_string(i);
    more += R"(}, "merges": []}, "normalizer": {"type": "Replace", "pattern": {"String": " "}, "content": "▁"}})";
    const Outcome padded = run({"-p", "ab", "-n", "1", "--tokenizer", write("more.json", more)});
    EXPECT_EQ(padded.code, 0) << padded.err;
    EXPECT_EQ(padded.err.find("the tokenizer has") == std::string::npos, last == 507) << padded.err;
  }
  const Outcome chat = run({"-p", "Hi", "-n", "1", "--chat-template", "chatml"});
  EXPECT_EQ(chat.code, 0) << chat.err;
  EXPECT_THAT(chat.err, HasSubstr("the vocabulary lacks <|im_start|> <|im_end|>, which the chat template chatml"));
  const Outcome llama = run({"-p", "Hi", "-n", "1", "--chat-template", "llama2"});
  EXPECT_THAT(llama.err, Not(HasSubstr("lacks"))) << "</s> is there, [INST] is text";
}

TEST_F(ToolsRun, NumbersThatMakeNoSenseAreRefused) {
  const std::vector<std::pair<const char*, const char*>> cases = {
      {"-n", "99999999999999999999"}, {"-n", "-1"},         {"-n", "1.5"},         {"--context", "-1"},
      {"--context", "4194305"},       {"--batch", "0"},     {"--batch", "100000"}, {"--threads", "0"},
      {"--threads", "1025"},          {"--top-k", "1e300"},
  };
  for (const auto& [option, value] : cases) {
    const Outcome o = run({"-p", "a", option, value});
    expect_refused(o, 2, "must be a whole number from");
    EXPECT_LT(o.err.size(), 800u);
  }
}

TEST_F(ToolsRun, ALimitThatIsNoneIsSaidOnce) {
  const Outcome o = run({"-p", "a", "-n", "1"}, {.env = {{"HONE_WEIGHTS", file("w")}, {"HONE_WEIGHTS_LIMIT", "64G"}}});
  EXPECT_EQ(o.code, 0) << o.err;
  const size_t at = o.err.find("HONE_WEIGHTS_LIMIT=64G is no number of bytes");
  ASSERT_NE(at, std::string::npos) << o.err;
  EXPECT_EQ(o.err.find("64G", at + 30), std::string::npos);
  EXPECT_THAT(run_hone({"--help"}).out, HasSubstr("HONE_WEIGHTS_LIMIT=bytes"));
  EXPECT_THAT(run_hone({"run", "--help"}).out, HasSubstr("chatml"));
}

TEST_F(ToolsRun, AFolderOfWeightsThatIsNoneIsSaid) {
  const auto err_of = [this](const std::string& folder) {
    const Outcome o = run({"-p", "a", "-n", "1"}, {.env = {{"HONE_WEIGHTS", folder}}});
    EXPECT_EQ(o.code, 0) << o.err;
    return o.err;
  };
  for (const std::string& folder : {std::string("/dev/null"), write("file", "x")})
    EXPECT_THAT(err_of(folder), HasSubstr("hone: HONE_WEIGHTS=" + folder + " cannot be used (cannot open " + folder +
                                          ": Not a directory): packed weights are not kept\n"));
  for (const std::string& folder : {std::string("off"), file("w")})
    EXPECT_THAT(err_of(folder), Not(HasSubstr("not kept"))) << folder;
}

TEST_F(ToolsRun, DamageOfATokenizerHasOneCode) {
  for (
      const char* text :
      {R"({"normalizer": {"type": "Sequence", "normalizers": 5}, "model": {"type": "BPE", "vocab": {}, "merges": []}})",
       R"({"normalizer": {"type": "Replace", "pattern": {"String": " "}, "content": "▁"},
            "model": {"type": "BPE", "vocab": {"a": 0}, "merges": ["a x"]}})"}) {
    const std::string damaged = write("damaged.json", text);
    for (const Outcome& o :
         {run({"-p", "a", "-n", "1", "--tokenizer", damaged}), run_hone({"tokenize", damaged, "--text", "a"})}) {
      EXPECT_EQ(o.code, 1) << o.err;
      EXPECT_THAT(o.err, HasSubstr("error: " + damaged + ": "));
    }
  }
}

TEST_F(ToolsRun, NoNumberNamesTheModel) {
  std::string bytes = content(test_files::shared_file("models/stories260K.bin"));
  if (bytes.empty()) GTEST_SKIP() << "there is no ../shared/models/stories260K.bin";
  const float nan = std::numeric_limits<float>::quiet_NaN();
  std::memcpy(bytes.data() + 28, &nan, sizeof nan);  // of token 0's row, which is also the output's
  const std::string bad = write("nan.bin", bytes);
  const Outcome o = run_hone({"run", bad, "-p", "a", "--tokenizer", test_files::shared_file("models/tok512.bin")},
                             {.env = {{"HONE_WEIGHTS", "off"}}});
  EXPECT_EQ(o.code, 1);
  EXPECT_THAT(o.err, HasSubstr("error: " + bad + ": "));
}

TEST_F(ToolsRun, AnInterruptKeepsWhatThereIs) {
  // The model is small and ends nothing by itself: it is still at it when the signal comes.
  const Outcome o = run({"-p", "Once upon a time", "-n", "100000", "--context", "100000", "--ignore-eos"},
                        {.signal = SIGINT, .signal_at = "there"});
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
  expect_refused(run({"-p", "a", "--numerics", "fast"}), 2, "--numerics fast: ");
  expect_refused(run({"-p", "a", "--system", "b"}), 2, "chat template");
  expect_refused(run_hone({"run", file("no.gguf"), "-p", "a"}), 2, "no.gguf");
  std::ofstream(file("bad.gguf")) << "GGUF and nothing more";
  const Outcome bad = run_hone({"run", file("bad.gguf"), "-p", "a"});
  EXPECT_EQ(bad.code, 1) << bad.err;
  EXPECT_THAT(bad.err, HasSubstr("bad.gguf"));
  // One set of exit codes for all who read models.
  for (const std::vector<std::string>& command :
       std::vector<std::vector<std::string>>{{"run", "", "-p", "a"},
                                             {"tokenize", "", "--text", "a"},
                                             {"bench", "--model", "", "-p", "1", "-n", "0", "--threads", "1"},
                                             {"tune", "--model", "", "--threads", "1"}}) {
    std::vector<std::string> args = command;
    const auto place = std::find(args.begin(), args.end(), "");
    const Setting own{.env = {{"HONE_DB", file("codes.db")}}};
    for (const auto& [name, code] : {std::pair{"no.gguf", 2}, std::pair{"bad.gguf", 1}}) {
      *place = file(name);
      const Outcome o = run_hone(args, own);
      EXPECT_EQ(o.code, code) << args[0] << ": " << o.err;
      EXPECT_THAT(o.err, HasSubstr(name));
    }
  }
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
