// hone fuzz: programs that are right pass; what is compiled wrongly, crashes or hangs is found, does not end the run,
// becomes a few statements, and is repeated by the command that is printed.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>

#include <csignal>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <sstream>

#include "tests/tools/needs_code.h"

namespace hone::cli_test {
namespace {

using Json = nlohmann::json;
using testing::HasSubstr;

std::string read(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  std::stringstream text;
  text << in.rdbuf();
  return text.str();
}

class Fuzz : public Scratch {
 protected:
  // stdout as JSON; `words` are split at blanks.
  Json fuzz(const std::string& words, int code, Setting setting = {}) {
    std::vector<std::string> args = {"fuzz", "--json", "--out", scratch_.string()};
    std::istringstream in(words);
    for (std::string word; in >> word;) args.push_back(word);
    const Outcome outcome = run_hone(args, setting);
    EXPECT_EQ(outcome.code, code) << outcome.out << outcome.err;
    return Json::parse(outcome.out, nullptr, false);
  }
  int paste(const std::string& command) const {
    const int status = std::system((command + " > " + file("out") + " 2> " + file("err")).c_str());
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  }
};

// Some ten seconds of two CPUs. The long run is by hand: bench/RESULTS.md.
TEST_F(Fuzz, RandomProgramsAgree) {
  const Json result = fuzz("--programs 1000 --seed 20261130 --jobs 2", 0);
  EXPECT_EQ(result["programs"], 1000);
  EXPECT_EQ(result["failed"], 0);
  EXPECT_EQ(result["interrupted"], false);
  int programs = 0;
  for (const char* kind : {"loopir", "matmul", "attention"}) {
    const Json& counts = result["kinds"][kind];
    programs += counts["programs"].get<int>();
    EXPECT_GT(counts["programs"], 10) << kind;
    EXPECT_LT(counts["refused"], counts["programs"]) << kind;
  }
  EXPECT_EQ(programs, 1000);
  EXPECT_EQ(result["kinds"]["loopir"]["invalid"], 0);
}

// Without a code generator programs are still parsed, verified, interpreted and held against the references.
TEST_F(Fuzz, EachKindAlone) {
  for (const char* kind : {"loopir", "matmul", "attention"}) {
    const Json result = fuzz(std::string("--programs 30 --codegen interp --kind ") + kind, 0);
    EXPECT_EQ(result["kinds"].size(), 1U);
    EXPECT_EQ(result["kinds"][kind]["programs"], 30);
  }
}

struct Planted {
  std::string codegen, words, fault;
  int most_statements;
};

class FuzzPlanted : public Fuzz, public testing::WithParamInterface<Planted> {};

TEST_P(FuzzPlanted, IsFoundMadeSmallAndRepeated) {
  const auto& [codegen, words, fault, most_statements] = GetParam();
  const Json result = fuzz("--max-failures 1 --jobs 1 --codegen " + codegen + " " + words, 1);
  ASSERT_EQ(result["failures"].size(), 1U);
  const Json& failure = result["failures"][0];
  EXPECT_THAT(failure["fault"].get<std::string>(), HasSubstr(fault));
  EXPECT_LE(failure["statements"], most_statements) << failure["program"].get<std::string>();
  EXPECT_THAT(read(failure["file"]), HasSubstr(failure["program"].get<std::string>()));
  // The printed commands fail in the same way, and through a code generator that is right the program passes.
  EXPECT_EQ(paste(failure["repeat"]), 1) << failure["repeat"];
  EXPECT_THAT(read(file("out")), HasSubstr(fault));
  EXPECT_THAT(failure["repeat_original"].get<std::string>(), HasSubstr(" --out ")) << "else it writes where it runs";
  EXPECT_EQ(paste(failure["repeat_original"]), 1);
  EXPECT_THAT(read(file("out")), HasSubstr(fault));
  fuzz("--codegen interp --repeat " + failure["file"].get<std::string>(), 0);
}

// A failing program that somebody else has found is made small on request.
TEST_F(Fuzz, ShrinksAProgramFromAFile) {
  const Json large = fuzz("--shrink 0 --max-failures 1 --jobs 1 --kind loopir --codegen fault-shl-sigsegv", 1);
  ASSERT_EQ(large["failures"].size(), 1U);
  EXPECT_GT(large["failures"][0]["statements"], 10);
  const std::string path = large["failures"][0]["file"];
  const Json small = fuzz("--shrink 20s --codegen fault-shl-sigsegv --repeat " + path, 1);
  EXPECT_LE(small["failures"][0]["statements"], 2);
  EXPECT_NE(small["failures"][0]["file"], path);
}

// Of a loop over a vector at most: data, loop, load, operation, store.
INSTANTIATE_TEST_SUITE_P(
    Faults, FuzzPlanted,
    testing::Values(Planted{"fault-min-swapped", "--programs 2000 --kind loopir", " differs", 8},
                    Planted{"fault-lane-dropped", "--programs 100 --kind loopir", " differs", 8},
                    Planted{"fault-lane-dropped", "--programs 100 --kind matmul", " differs", 6},
                    Planted{"fault-lane-dropped", "--programs 100 --kind attention", " differs", 6},
                    Planted{"fault-shl-sigsegv", "--programs 500 --kind loopir", "SIGSEGV", 2},
                    Planted{"fault-round-hang", "--programs 500 --kind loopir --limit 300ms --shrink 3s",
                            "does not come back", 40},
                    Planted{"fault-compile-segv", "--programs 5", "compiles: SIGSEGV", 0},
                    Planted{"fault-exit", "--programs 5", "exited with code 3", 0},
                    Planted{"fault-wrong", "--programs 5", " differs", 0}),
    [](const auto& planted) { return "n" + std::to_string(planted.index); });

// A crash costs the program that crashes, and no other.
TEST_F(Fuzz, CrashesEndNothing) {
  const Json result = fuzz("--programs 60 --kind loopir --codegen fault-shl-sigsegv --max-failures 1000 --jobs 2", 1);
  EXPECT_EQ(result["programs"], 60);
  EXPECT_GT(result["failed"], 2);
  EXPECT_LT(result["failed"], 60);
  EXPECT_LT(result["failures"].size(), 10U) << "of one kind only some are shown";
}

// Program i of a seed is the same alone, among others, and whatever the number of jobs.
TEST_F(Fuzz, ProgramsAreDeterministic) {
  const Json all = fuzz("--seed 9 --programs 40 --codegen fault-lane-dropped --max-failures 1000 --jobs 2", 1);
  const Json& first = all["failures"][0];
  const Json alone =
      fuzz("--seed 9 --codegen fault-lane-dropped --only " + std::to_string(first["index"].get<int>()), 1);
  EXPECT_EQ(alone["programs"], 1);
  EXPECT_EQ(alone["failures"][0]["program"], first["program"]);
  EXPECT_EQ(alone["failures"][0]["details"], first["details"]);
}

TEST_F(Fuzz, SecondsEndIt) {
  const Json result = fuzz("--seconds 1 --kind loopir --codegen interp --jobs 1", 0);
  EXPECT_GT(result["programs"], 1);
  EXPECT_GE(result["seconds"], 0.9);
}

TEST_F(Fuzz, InterruptLeavesASummary) {
  const Outcome outcome = run_hone({"fuzz", "--seconds", "600", "--json", "--codegen", "interp"},
                                   {.signal = SIGINT, .signal_at = "programs"});
  EXPECT_EQ(outcome.code, 130) << outcome.err;
  const Json result = Json::parse(outcome.out);
  EXPECT_EQ(result["interrupted"], true);
}

// What people write by hand: LoopIR without anything around it.
TEST_F(Fuzz, RepeatsLoopIrWrittenByHand) {
  const std::string path = write("mine.ir", R"(kernel mine {
  param n
  inout x: f32[n] stride [1] align 4
  reg a: f32x4
  reg m: mask4  # one of four
  for i in 0..n step 4  {
    m = lanes(n + 0 - i)
    a = load x[i] if m
    a = mul(a, a)
    store x[i] = a if m
  }
}
)");
  const Outcome without = run_hone({"fuzz", "--repeat", path});
  EXPECT_EQ(without.code, 2);
  EXPECT_THAT(without.err, HasSubstr("# parameters"));
  write("mine.ir", "# parameters 7\n" + read(path));
  const Json result = fuzz("--repeat " + path, 0);
  EXPECT_EQ(result["programs"], 1);
}

TEST_F(Fuzz, BadInputIsRefusedInOneLine) {
  const std::string garbage = write("garbage", "\x01\x02 kernel\n");
  const std::string broken = write("broken.ir", "kernel k {\n  a = load\n}\n");
  const std::string outside = write("outside.ir", R"(kernel outside {
  inout x: f32[4] stride [1] align 4
  reg a: f32x4
  a = load x[1]
}
)");
  const std::string illegal = write("illegal.txt", "# problem matmul:f32:m=1,n=1,k=1\n# program nonsense\n");
  for (const std::vector<std::string>& args : std::vector<std::vector<std::string>>{
           {"--kind", "convolution"},
           {"--kind", ""},
           {"--codegen", "gcc"},
           {"--seconds", "-1"},
           {"--seconds", "soon"},
           {"--programs", "0"},
           {"--seed", "-3"},
           {"--jobs", "0"},
           {"--limit", "never"},
           {"--shrink", "a bit"},
           {"--only", "x"},
           {"--only", "1", "--repeat", outside},
           {"--repeat", file("missing")},
           {"--repeat", scratch_.string()},
           {"--repeat", garbage},
           {"--repeat", outside},
           {"--repeat", illegal},
       }) {
    std::vector<std::string> words = {"fuzz"};
    words.insert(words.end(), args.begin(), args.end());
    const Outcome outcome = run_hone(words);
    EXPECT_EQ(outcome.code, 2) << args[0] << " " << args[1] << outcome.out << outcome.err;
    EXPECT_EQ(outcome.out, "");
    EXPECT_THAT(outcome.err, HasSubstr("hone: error: "));
    EXPECT_EQ(lines_of(outcome.err).size(), 2U) << outcome.err;
  }
  EXPECT_EQ(run_hone({"fuzz", "--repeat", broken}).code, 1) << "a text that does not parse is a failed program";
}

// A folder that cannot be written costs the files, not the result.
TEST_F(Fuzz, WithoutAFolderToWriteToTheNumberRepeatsIt) {
  const Outcome outcome = run_hone({"fuzz", "--json", "--out", "/proc/no/such/folder", "--programs", "3", "--codegen",
                                    "fault-exit", "--max-failures", "1", "--jobs", "1"});
  EXPECT_EQ(outcome.code, 1);
  EXPECT_THAT(outcome.err, HasSubstr("cannot write"));
  const Json failure = Json::parse(outcome.out)["failures"][0];
  EXPECT_TRUE(failure["file"].is_null());
  EXPECT_THAT(failure["repeat"].get<std::string>(), HasSubstr("--only 0"));
}

}  // namespace
}  // namespace hone::cli_test
