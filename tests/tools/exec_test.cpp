// hone exec and hone-exec on arrays from files: values against sums written here, hostile arrays and packages, and what
// is (not) in the process.
//
// A build without LLVM cannot write packages; HONE_TEST_PACKAGES names a folder with those of another build then:
// matmul.hone and attention.hone, of the problems below.
#include <gmock/gmock.h>

#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "tests/tools/needs_code.h"
#include "tests/tools/refused.h"
#include "tools/hone/npy.h"

namespace hone::cli_test {
namespace {

namespace fs = std::filesystem;
using cli::NpyArray;
using Json = nlohmann::json;
using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

constexpr char kMatmul[] = "matmul:f32:m=5,n=33,k=20,b=packed,lda=24,ldc=40:+bias+residual";
constexpr char kAttention[] = "attention:f32:b=2,hq=4,hkv=2,q=3,kv=10,d=8,page=4:causal:boolmask:lse";

class HoneExec : public Scratch {
 protected:
  void SetUp() override {
    for (const auto& [name, problem] : {std::pair{"matmul.hone", kMatmul}, std::pair{"attention.hone", kAttention}}) {
      const char* const given = std::getenv("HONE_TEST_PACKAGES");
      if (given != nullptr) {
        fs::copy(fs::path(given) / name, file(name), fs::copy_options::recursive);
        continue;
      }
      const Outcome o = hone({"compile", problem, "-o", file(name), "--mcpu", "x86-64-v3"});
      if (o.code != 0 && o.err.find("HONE_WITH_LLVM") != std::string::npos)
        GTEST_SKIP() << "this build compiles no packages; HONE_TEST_PACKAGES may name a folder with those of another";
      ASSERT_EQ(o.code, 0) << o.err;
    }
    const Outcome o = hone({"exec", file("matmul.hone")});
    if (o.err.find("and this CPU lacks") != std::string::npos) GTEST_SKIP() << "this CPU does not have AVX2 and FMA";
    ASSERT_EQ(o.code, 0) << o.err;
  }

  Outcome hone(const std::vector<std::string>& args, Setting setting = {}) const {
    setting.env.try_emplace("HONE_DB", file("plans.db"));
    return run_hone(args, setting);
  }
  void refused(const std::vector<std::string>& args, int code, const std::string& what) const {
    SCOPED_TRACE(testing::PrintToString(args));
    expect_refused(hone(args), code, what);
  }

  // Small numbers that differ from element to element.
  NpyArray floats(const std::string& name, const std::vector<int64_t>& shape, int salt) const {
    NpyArray a = cli::make_array(DType::kF32, shape).value();
    const std::span<float> values = a.as<float>();
    for (size_t i = 0; i < values.size(); ++i)
      values[i] = static_cast<float>(static_cast<int>(i * 7 + static_cast<size_t>(salt)) % 23 - 11) / 8;
    EXPECT_TRUE(cli::write_npy(file(name), a).ok());
    return a;
  }
  std::string input(const std::string& name) const { return name + "=" + file(name + ".npy"); }
};

// b of f32, rounded to the problem's type: eighths are bf16 as they are, 1 + 2^-10 becomes 1.
TEST_F(HoneExec, WeightsOf16BitsComeAsFloats) {
  if (std::getenv("HONE_TEST_PACKAGES") != nullptr) GTEST_SKIP() << "compiles a package of its own";
  const Outcome made =
      hone({"compile", "matmul:bf16:m=2,n=3,k=4,b=packed", "-o", file("bf16.hone"), "--mcpu", "x86-64-v3"});
  ASSERT_EQ(made.code, 0) << made.err;
  const NpyArray a = floats("a.npy", {2, 4}, 1);
  NpyArray b = floats("b.npy", {3, 4}, 2);
  NpyArray inexact = cli::make_array(DType::kF32, {3, 4}).value();
  std::ranges::copy(b.as<float>(), inexact.as<float>().begin());
  b.as<float>()[5] = 1, inexact.as<float>()[5] = 1 + 0x1p-10F;
  ASSERT_TRUE(cli::write_npy(file("b.npy"), inexact).ok());
  const Outcome o =
      hone({"exec", file("bf16.hone"), "--input", input("a"), input("b"), "--output", file("c.npy"), "--check"});
  ASSERT_EQ(o.code, 0) << o.err;
  const NpyArray c = cli::read_npy(file("c.npy")).value();
  for (size_t i = 0; i < 2; ++i) {
    for (size_t j = 0; j < 3; ++j) {
      float sum = 0;
      for (size_t p = 0; p < 4; ++p) sum += a.as<float>()[4 * i + p] * b.as<float>()[4 * j + p];
      EXPECT_EQ(c.as<float>()[3 * i + j], sum) << i << " " << j;
    }
  }
}

TEST_F(HoneExec, MatmulFromFiles) {
  const NpyArray a = floats("a.npy", {5, 20}, 1), b = floats("b.npy", {33, 20}, 2), bias = floats("bias.npy", {33}, 3),
                 residual = floats("residual.npy", {5, 33}, 4);
  const Outcome o = hone({"exec", file("matmul.hone"), "--input", input("a"), input("b"), input("bias"), "--input",
                          input("residual"), "--output", file("c.npy"), "--check", "--json"});
  ASSERT_EQ(o.code, 0) << o.err;
  EXPECT_EQ(Json::parse(o.out)["outputs"]["c"], file("c.npy"));
  const NpyArray c = cli::read_npy(file("c.npy")).value();
  ASSERT_EQ(c.shape, (std::vector<int64_t>{5, 33}));
  for (size_t i = 0; i < 5; ++i) {
    for (size_t j = 0; j < 33; ++j) {
      float sum = 0;
      for (size_t p = 0; p < 20; ++p) sum = std::fma(a.as<float>()[i * 20 + p], b.as<float>()[j * 20 + p], sum);
      EXPECT_EQ(c.as<float>()[i * 33 + j], sum + bias.as<float>()[j] + residual.as<float>()[i * 33 + j])
          << i << "," << j;
    }
  }
}

// Pages in an order of their own, a mask for each sequence, two outputs; in double with the library's exp.
TEST_F(HoneExec, AttentionFromFiles) {
  const NpyArray q = floats("q.npy", {2, 4, 3, 8}, 1), k = floats("k.npy", {7, 2, 4, 8}, 2),
                 v = floats("v.npy", {7, 2, 4, 8}, 3);
  NpyArray table = cli::make_array(DType::kS32, {2, 3}).value(),
           mask = cli::make_array(DType::kU8, {2, 1, 1, 10}).value();
  const int32_t pages[] = {5, 0, 3, 6, 2, 1};
  std::copy_n(pages, 6, table.as<int32_t>().begin());
  for (size_t i = 0; i < 20; ++i) mask.as<uint8_t>()[i] = i % 3 != 1;
  ASSERT_TRUE(cli::write_npy(file("page_table.npy"), table).ok() && cli::write_npy(file("mask.npy"), mask).ok());
  const Outcome o =
      hone({"exec", file("attention.hone"), "--input", input("q"), input("k"), input("v"), input("page_table"),
            input("mask"), "--output", file("o.npy"), "lse=" + file("l.npy"), "--check"});
  ASSERT_EQ(o.code, 0) << o.err;
  EXPECT_THAT(o.out, HasSubstr("every bit is that of the reference"));
  const NpyArray out = cli::read_npy(file("o.npy")).value(), lse = cli::read_npy(file("l.npy")).value();
  ASSERT_EQ(out.shape, (std::vector<int64_t>{2, 4, 3, 8}));
  ASSERT_EQ(lse.shape, (std::vector<int64_t>{2, 4, 3}));
  const auto key = [&](const NpyArray& pool, size_t item, size_t head, size_t j, size_t c) {
    const auto page = static_cast<size_t>(pages[item * 3 + j / 4]);
    return static_cast<double>(pool.as<float>()[((page * 2 + head) * 4 + j % 4) * 8 + c]);
  };
  for (size_t item = 0; item < 2; ++item) {
    for (size_t h = 0; h < 4; ++h) {
      for (size_t i = 0; i < 3; ++i) {
        double sum = 0, value[8] = {};
        for (size_t j = 0; j <= i + 7; ++j) {
          if (mask.as<uint8_t>()[item * 10 + j] == 0) continue;
          double score = 0;
          for (size_t c = 0; c < 8; ++c)
            score += q.as<float>()[((item * 4 + h) * 3 + i) * 8 + c] * key(k, item, h / 2, j, c);
          const double weight = std::exp(score / std::sqrt(8.0));
          sum += weight;
          for (size_t c = 0; c < 8; ++c) value[c] += weight * key(v, item, h / 2, j, c);
        }
        const size_t row = (item * 4 + h) * 3 + i;
        EXPECT_NEAR(lse.as<float>()[row], std::log(sum), 1e-5);
        for (size_t c = 0; c < 8; ++c)
          EXPECT_NEAR(out.as<float>()[row * 8 + c], value[c] / sum, 1e-5) << row << "," << c;
      }
    }
  }
}

TEST_F(HoneExec, RandomInputsAreThoseOfTheirSeed) {
  const auto result = [&](const std::string& seed, const std::vector<std::string>& more = {}) {
    std::vector<std::string> args = {"exec",     file("matmul.hone"), "--random", seed,
                                     "--output", file("c.npy"),       "--check"};
    args.insert(args.end(), more.begin(), more.end());
    const Outcome o = hone(args);
    EXPECT_EQ(o.code, 0) << o.err;
    const NpyArray c = cli::read_npy(file("c.npy")).value();
    const std::span<float> values = c.as<float>();
    return std::vector<float>(values.begin(), values.end());
  };
  EXPECT_EQ(result("1"), result("1", {"--threads", "2", "-r", "4"}));
  EXPECT_NE(result("1"), result("2"));
  floats("bias.npy", {33}, 3);
  EXPECT_NE(result("1"), result("1", {"--input", input("bias")})) << "what is given replaces what is random";
  const Outcome o = hone({"exec", file("attention.hone"), "--random", "9", "--check"});
  EXPECT_EQ(o.code, 0) << o.err;
}

TEST_F(HoneExec, ArraysThatDoNotFit) {
  const std::string package = file("matmul.hone");
  floats("a.npy", {5, 20}, 1), floats("b.npy", {33, 20}, 2), floats("bias.npy", {33}, 3),
      floats("residual.npy", {5, 33}, 4);
  refused({"exec", package, "--input", input("a")}, 2,
          "input 'b' is missing: give --input b=file.npy, or --random SEED");
  refused({"exec", package, "--output", file("c.npy")}, 2, "there are no inputs");
  refused({"exec", package, "--check"}, 2, "there are no inputs");
  refused({"exec", package, "--input", file("a.npy"), "--random", "1"}, 2,
          "give name=file.npy; names are a, b, bias, residual");
  refused({"exec", package, "--input", "x=" + file("a.npy"), "--random", "1"}, 2, "there is no 'x'");
  refused({"exec", package, "--input", input("a"), input("a"), "--random", "1"}, 2, "gives 'a' twice");
  refused({"exec", package, "--input", "a=" + file("none.npy"), "--random", "1"}, 2, "cannot open");
  refused({"exec", package, "--random", "1", "--output", "d=" + file("c.npy")}, 2, "there is no 'd'; names are c");
  refused({"exec", package, "--random", "1", "--output", file("no/c.npy")}, 2, "cannot write");
  floats("a.npy", {20, 5}, 1);
  refused({"exec", package, "--input", input("a"), "--random", "1"}, 2, "a must have the shape [5, 20], got [20, 5]");
  floats("bias.npy", {1, 33}, 1);
  refused({"exec", package, "--input", input("bias"), "--random", "1"}, 2,
          "bias must have the shape [33], got [1, 33]");
  ASSERT_TRUE(cli::write_npy(file("bias.npy"), cli::make_array(DType::kS32, {33}).value()).ok());
  refused({"exec", package, "--input", input("bias"), "--random", "1"}, 2, "bias must be f32, got s32");
  write("bias.npy", "not an array");
  refused({"exec", package, "--input", input("bias"), "--random", "1"}, 2, "bias.npy is not a .npy file");

  NpyArray table = cli::make_array(DType::kS32, {2, 3}).value();
  for (int32_t& entry : table.as<int32_t>()) entry = 1000;
  ASSERT_TRUE(cli::write_npy(file("page_table.npy"), table).ok());
  refused({"exec", file("attention.hone"), "--input", input("page_table"), "--random", "1"}, 2,
          "page_table[0]=1000 is no page of the pool");
}

TEST_F(HoneExec, PackagesThatCannotRun) {
  const std::string package = file("matmul.hone");
  refused({"exec", file("none.hone"), "--random", "1"}, 1, "there is no package");
  refused({"exec", package, "--random", "1", "--isa", "avx512"}, 2, "the package has no code for --isa avx512");
  refused({"exec", package, "--random", "1", "--problem", kAttention}, 2, "the package does not have");
  std::string object;
  for (const fs::directory_entry& e : fs::directory_iterator(package))
    if (e.path().extension() == ".so") object = e.path();
  std::fstream out(object, std::ios::in | std::ios::out | std::ios::binary);
  out.seekp(2000);
  out.put('!');
  out.close();
  refused({"exec", package, "--random", "1"}, 1, "is not the file that was packed: its SHA-256 is another");
  fs::remove(package + "/manifest.json");
  refused({"exec", package, "--random", "1"}, 1, "cannot open manifest.json");
}

// ---- the program without code generators ----

Outcome shell(const std::string& command, const std::string& out) {
  Outcome o;
  o.code = std::system((command + " >" + out + " 2>&1").c_str());
  std::ifstream in(out);
  o.out.assign(std::istreambuf_iterator<char>(in), {});
  return o;
}

TEST_F(HoneExec, HoneExecHasNoCodeGenerator) {
  const std::string exec = HONE_EXEC_BINARY, out = file("out");
  const Outcome run = shell(exec + " exec " + file("matmul.hone") + " --random 1 --check", out);
  EXPECT_EQ(run.code, 0) << run.out;
  EXPECT_THAT(run.out, HasSubstr("every bit is that of the reference"));
  const Outcome libraries = shell("ldd " + exec, out);
  ASSERT_EQ(libraries.code, 0) << libraries.out;
  EXPECT_THAT(libraries.out, AllOf(HasSubstr("libc.so"), Not(HasSubstr("LLVM")), Not(HasSubstr("asmjit"))));
  const Outcome symbols = shell("nm -C " + exec + " | grep -ciE 'asmjit::|llvm::'", out);
  EXPECT_EQ(symbols.out, "0\n");
  const Outcome info = shell(exec + " info --json", out);
  ASSERT_EQ(info.code, 0) << info.out;
  const Json codegens = Json::parse(info.out)["codegens"];
  ASSERT_EQ(codegens.size(), 1u);
  EXPECT_EQ(codegens[0]["name"], "interp");
  EXPECT_NE(shell(exec + " info --measure", out).code, 0);
  EXPECT_NE(shell(exec + " tune", out).code, 0);
}

}  // namespace
}  // namespace hone::cli_test
