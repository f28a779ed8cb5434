// hone compile as a user runs it, and hone exec and hone-exec on what it wrote.
#include <gmock/gmock.h>

#include <filesystem>
#include <nlohmann/json.hpp>

#include "engine/base/isa.h"
#include "tests/tools/needs_code.h"
#include "tests/tools/refused.h"

namespace hone::cli_test {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;
using testing::AllOf;
using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;

constexpr char kProblem[] = "matmul:f32:m=4,n=32,k=16,b=packed:+bias";
constexpr char kAttention[] = "attention:f32:b=2,hq=4,hkv=2,q=3,kv=70,d=16:causal";

class HoneCompile : public NeedsCode {
 protected:
  void SetUp() override {
    NeedsCode::SetUp();
    if (IsSkipped()) return;
    const Outcome o = hone({"compile", kProblem, "-o", file("probe.hone")});
    if (o.code != 0 && o.err.find("cannot compile packages") != std::string::npos)
      GTEST_SKIP() << "this build compiles no packages";
    ASSERT_EQ(o.code, 0) << o.err;
    fs::remove_all(file("probe.hone"));
  }

  Json compiled(std::vector<std::string> args) const {
    args.insert(args.begin(), "compile");
    args.insert(args.end(), {"-o", file("k.hone"), "--force", "--json"});
    const Outcome o = hone(args);
    EXPECT_EQ(o.code, 0) << o.err;
    return o.code == 0 ? Json::parse(o.out) : Json();
  }
  Json executed(std::vector<std::string> args) const {
    args.insert(args.begin(), {"exec", file("k.hone")});
    args.push_back("--json");
    const Outcome o = hone(args);
    EXPECT_EQ(o.code, 0) << o.err;
    return o.code == 0 ? Json::parse(o.out) : Json();
  }
  void refused(const std::vector<std::string>& args, int code, const std::string& what,
               const Setting& setting = {}) const {
    SCOPED_TRACE(testing::PrintToString(args));
    expect_refused(hone(args, setting), code, what);
  }
};

TEST_F(HoneCompile, ThereAndBack) {
  const Json c = compiled({kProblem, kAttention, "--mcpu", "x86-64-v3"});
  ASSERT_EQ(c["ops"].size(), 2u);
  const Json& variant = c["ops"][0]["variants"][0];
  EXPECT_EQ(variant["isa"], "avx2");
  EXPECT_EQ(variant["mcpu"], "x86-64-v3");
  EXPECT_EQ(variant["reason"], "default");
  EXPECT_EQ(variant["threads"], 0);
  for (const char* problem : {kProblem, kAttention}) {
    const Json e = executed({"--problem", problem, "--random", "7", "--check", "-r", "3", "--threads", "2"});
    EXPECT_EQ(e["problem"], problem);
    EXPECT_EQ(e["bits_equal"], true);
    EXPECT_EQ(e["threads"], 2);
    EXPECT_EQ(e["variant"]["isa"], "avx2");
    EXPECT_GT(e["ns"].get<double>(), 0);
    EXPECT_GE(e["ns"].get<double>(), e["ns_min"].get<double>());
  }
}

TEST_F(HoneCompile, TheTunedPlanGoesIntoThePackage) {
  const std::string problem = "matmul:f32:m=4,n=48,k=16,b=nt";
  const Json tuned =
      Json::parse(lines_of(hone({"tune", problem, "--budget", "0.5s", "--threads", "1", "--json"}).out).front());
  const Json variant = compiled({problem})["ops"][0]["variants"][0];
  EXPECT_EQ(variant["program"], tuned["winner"]["program"]);
  EXPECT_EQ(variant["reason"], "exact");
  EXPECT_EQ(variant["threads"], 1);
  EXPECT_EQ(executed({"--random", "1", "--check"})["variant"]["program"], variant["program"]);
  // Without the database the default, and a program that is given is taken.
  const Json without = compiled({problem, "--db", file("none.db")})["ops"][0]["variants"][0];
  EXPECT_EQ(without["reason"], "default");
  const Json given = compiled(
      {problem, "--db", file("none.db"), "--program", variant["program"], "--threads", "2"})["ops"][0]["variants"][0];
  EXPECT_EQ(given["reason"], "given");
  EXPECT_EQ(given["program"], variant["program"]);
  EXPECT_EQ(given["threads"], 2);
}

TEST_F(HoneCompile, VariantsForSeveralCpus) {
  const Json variants = compiled({kProblem, "--mcpu", "haswell,znver4,sapphirerapids,znver4"})["ops"][0]["variants"];
  ASSERT_EQ(variants.size(), 3u) << variants.dump();
  EXPECT_EQ(variants[0]["isa"], "avx2");
  EXPECT_EQ(variants[1]["mcpu"], "znver4");
  EXPECT_EQ(variants[2]["object"], "0.avx512-sapphirerapids.so");
  const Json both = compiled({kProblem, "--mcpu", "x86-64-v4", "--isa", "avx512,avx2"})["ops"][0]["variants"];
  ASSERT_EQ(both.size(), 2u);
  EXPECT_EQ(executed({"--isa", "avx2", "--random", "1", "--check"})["variant"]["isa"], "avx2");
  // This machine as one that has AVX2 only.
  const Outcome o =
      hone({"exec", file("k.hone"), "--random", "1", "--check", "--json"}, {.env = {{"HONE_CPU", "zen3"}}});
  ASSERT_EQ(o.code, 0) << o.err;
  EXPECT_EQ(Json::parse(o.out)["variant"]["isa"], "avx2");
  compiled({kProblem, "--mcpu", "znver4"});
  refused({"exec", file("k.hone"), "--random", "1"}, 1, "avx512 code, and this CPU lacks avx512f",
          {.env = {{"HONE_CPU", "zen3"}}});
}

// "any" asks for no more than every CPU with the instruction set has, unless the CPU is named; a class by its name
// does.
TEST_F(HoneCompile, WhatAVariantNeedsBeyondItsInstructionSetIsAskedForAndShown) {
  const char* const weights = "matmul:bf16:m=4,n=64,k=64,b=packed";
  const auto variant = [&](std::vector<std::string> args, const char* cpu) {
    args.insert(args.begin(), {"compile", weights, "-o", file("needs.hone"), "--force", "--isa", "avx512"});
    const Outcome text = hone(args, {.env = {{"HONE_CPU", cpu}}});
    EXPECT_EQ(text.code, 0) << text.err;
    args.push_back("--json");
    Json v = Json::parse(hone(args, {.env = {{"HONE_CPU", cpu}}}).out)["ops"][0]["variants"][0];
    v["text"] = text.out;
    return v;
  };
  const Json any = variant({"--numerics", "any"}, "zen4");
  EXPECT_EQ(any["numerics"], "ordered");
  EXPECT_EQ(any["needs"], Json::array());
  const Json named = variant({"--numerics", "any", "--mcpu", "znver4"}, "zen4");
  EXPECT_EQ(named["numerics"], "bf16");
  const Json dots = variant({"--numerics", "bf16"}, "zen4");
  EXPECT_EQ(dots["numerics"], "bf16");
  EXPECT_EQ(dots["needs"], Json::array({"avx512bf16"}));
  EXPECT_THAT(dots["text"].get<std::string>(), HasSubstr("any CPU with avx512bf16"));
  refused({"compile", weights, "-o", file("none.hone"), "--isa", "avx512", "--numerics", "bf16"}, 2, "avx512bf16",
          {.env = {{"HONE_CPU", "skylake_x"}}});
}

// Code for a machine of another architecture, chosen for its caches; it is not run here, and the reason is said.
TEST_F(HoneCompile, AnotherArchitecture) {
  if (host_arch() != Arch::kX86_64) GTEST_SKIP() << "AArch64 is this machine's own";
  const Json only = compiled({kProblem, "--mcpu", "neoverse-n1"})["ops"][0]["variants"][0];
  EXPECT_EQ(only["isa"], "neon");
  EXPECT_EQ(only["arch"], "aarch64");
  EXPECT_THAT(only["program"].get<std::string>(), HasSubstr("vectorize(neon,4)"));
  const char* const reason = "neon code for aarch64, this is x86_64";
  refused({"exec", file("k.hone"), "--random", "1", "--output", file("c.npy")}, 1, reason);
  EXPECT_FALSE(fs::exists(file("c.npy")));

  compiled({kProblem, "--mcpu", "cortex-a72,x86-64-v3"});
  EXPECT_EQ(executed({"--random", "1", "--check"})["variant"]["isa"], "avx2");
  refused({"exec", file("k.hone"), "--random", "1", "--isa", "neon"}, 1, reason);
}

TEST_F(HoneCompile, SameCommandSameBytes) {
  compiled({kProblem, kAttention});
  fs::rename(file("k.hone"), file("one.hone"));
  compiled({kProblem, kAttention});
  size_t files = 0;
  for (const fs::directory_entry& e : fs::directory_iterator(file("k.hone"))) {
    ++files;
    const auto content = [](const fs::path& path) {
      std::ifstream in(path, std::ios::binary);
      return std::string(std::istreambuf_iterator<char>(in), {});
    };
    EXPECT_EQ(content(e.path()), content(fs::path(file("one.hone")) / e.path().filename())) << e.path();
  }
  EXPECT_EQ(files, 5u);
}

TEST_F(HoneCompile, Refusals) {
  const std::string out = file("k.hone");
  refused({"compile", "-o", out}, 2, "a problem is missing");
  refused({"compile", kProblem}, 2, "--output is required");
  refused({"compile", kProblem, "-o", ""}, 2, "must not be empty");
  refused({"compile", "matmul:f32:m=0,n=4,k=4", "-o", out}, 2, "nothing to compute");
  refused({"compile", "conv:f32:m=1", "-o", out}, 2, "op 'conv' is not supported");
  refused({"compile", kProblem, "-o", out, "--mcpu", "nonesuch"}, 2, "LLVM knows no CPU 'nonesuch'");
  refused({"compile", kProblem, "-o", out, "--mcpu", "pentium4"}, 2, "no instruction set that hone emits");
  refused({"compile", kProblem, "-o", out, "--mcpu", "haswell", "--isa", "avx512"}, 2, "does not have avx512");
  refused({"compile", kProblem, "-o", out, "--isa", "sse9"}, 2, "'sse9' is none of avx2");
  refused({"compile", kProblem, "-o", out, "--program", "fast please"}, 2, "fast");
  refused({"compile", kProblem, "-o", out, "--numerics", "online(64)"}, 2, "online(64)");
  refused({"compile", kProblem, "-o", out, "--threads", "0"}, 2, "threads");
  refused({"compile", kProblem, "-o", file("no/k.hone")}, 2, "there is no folder");
  refused({"compile", kProblem, "-o", "/"}, 2, "is no name for a package");
  write("mine", "mine");
  refused({"compile", kProblem, "-o", file("mine"), "--force"}, 2, "is no package: it is left as it is");
  refused({"compile", kProblem, "-o", out}, 1, "no linker", {.env = {{"HONE_LINKER", "no-such-linker"}}});
  refused({"compile", kProblem, "-o", out}, 1, "/bin/false failed", {.env = {{"HONE_LINKER", "/bin/false"}}});
  EXPECT_FALSE(fs::exists(out));
  for (const fs::directory_entry& e : fs::directory_iterator(scratch_))
    EXPECT_THAT(e.path().filename().string(), Not(StartsWith(".")));
  ASSERT_EQ(hone({"compile", kProblem, "-o", out + "/"}).code, 0);
  refused({"compile", kProblem, "-o", out}, 2, "exists; --force replaces it");
}

TEST_F(HoneCompile, ExecSaysWhatItWants) {
  compiled({kProblem});
  const Json wants = executed({});
  EXPECT_EQ(wants["inputs"].size(), 3u);
  EXPECT_EQ(wants["inputs"][1]["name"], "b");
  EXPECT_EQ(wants["inputs"][1]["shape"], Json({32, 16})) << "as model files store weights, also where they are packed";
  EXPECT_EQ(wants["outputs"][0]["shape"], Json({4, 32}));
  const Outcome o = hone({"exec", file("k.hone")});
  EXPECT_EQ(o.code, 0);
  EXPECT_THAT(o.out, AllOf(HasSubstr("bias"), HasSubstr("[32]")));
  compiled({kProblem, kAttention});
  EXPECT_EQ(lines_of(hone({"exec", file("k.hone"), "--json"}).out).size(), 2u) << "a line for each op";
  refused({"exec", file("k.hone"), "--random", "1"}, 2, "the package has 2 ops; give one to --problem");
}

}  // namespace
}  // namespace hone::cli_test
