// One prepared matmul serves every m: nothing is compiled up to max_m, whatever buckets calls cross, and the bits are
// those of a matmul that was prepared for that very m.
#include <gmock/gmock.h>

#include <algorithm>
#include <atomic>
#include <random>

#include "engine/base/log.h"
#include "tests/engine/api_util.h"

namespace hone {
namespace {

using ::testing::HasSubstr;
using testing_api::Operands;
using testing_api::same_bits;

// An engine whose compilations are counted, by the events it logs.
class EngineDynamicM : public ::testing::TestWithParam<std::string> {
 protected:
  void SetUp() override {
    Result<Engine> made = Engine::create(
        {.use_database = false, .threads = 2, .codegen = GetParam(), .log = [this](std::string_view line) {
           if (line.find("event=compile") != line.npos) ++compiled_;
         }});
    ASSERT_TRUE(made.ok()) << made.status().to_string();
    engine_ = *std::move(made);
    if (engine_->info().codegens.empty()) GTEST_SKIP() << GetParam() << " has no code for this CPU";
    set_log_topics(parse_log_topics("jit").topics);
  }
  void TearDown() override {
    set_log_topics(0);
    set_log_sink({});
  }

  std::atomic<int> compiled_ = 0;
  std::optional<Engine> engine_;
};
INSTANTIATE_TEST_SUITE_P(Codegens, EngineDynamicM, ::testing::Values("asmjit", "llvm"),
                         [](const auto& i) { return i.param; });

const MatmulSpec kSpec{.n = 96, .k = 40, .epilogue = {Epilogue::kBias, Epilogue::kSilu}, .expected_m = {1, 17, 100}};

TEST_P(EngineDynamicM, AWalkOverAllBucketsCompilesNothing) {
  const Operands most(kSpec, 4096);
  for (bool constant : {true, false}) {
    const Result<Matmul> matmul = constant ? engine_->prepare(kSpec, most.b.data()) : engine_->prepare(kSpec);
    ASSERT_TRUE(matmul.ok()) << matmul.status().to_string();
    EXPECT_GT(compiled_, 0);
    std::vector<int64_t> walk = {1,  2,  3,   4,   5,   6,   7,   8,   9,    15,   16,   17,   31,   33,   64,
                                 65, 99, 100, 129, 256, 257, 511, 513, 1000, 1025, 2048, 2049, 4000, 4095, 4096};
    std::shuffle(walk.begin(), walk.end(), std::mt19937(7));
    compiled_ = 0;
    std::map<int64_t, std::vector<float>> results;
    for (int64_t m : walk) {
      MatmulCall call = most.call(constant);
      call.m = m;
      std::vector<float>& c = results[m];
      c.resize(static_cast<size_t>(m * kSpec.n));
      call.c = c.data();
      ASSERT_TRUE(matmul->run(call).ok()) << m;
    }
    EXPECT_EQ(compiled_, 0);
    for (int64_t m : {1, 7, 9, 17, 33, 100, 257, 4095}) {
      MatmulSpec exact = kSpec;
      exact.expected_m = {m};
      exact.max_m = 0;
      const Result<Matmul> alone = constant ? engine_->prepare(exact, most.b.data()) : engine_->prepare(exact);
      ASSERT_TRUE(alone.ok()) << alone.status().to_string();
      std::vector<float> c(results[m].size());
      MatmulCall call = most.call(constant);
      call.m = m;
      call.c = c.data();
      ASSERT_TRUE(alone->run(call).ok());
      EXPECT_TRUE(same_bits(results[m], c)) << "m=" << m << " constant=" << constant;
    }
  }
}

TEST_P(EngineDynamicM, BeyondMaxTheFirstCallOfABucketCompiles) {
  MatmulSpec spec = kSpec;
  spec.expected_m = {1};
  spec.max_m = 0;
  const Result<Matmul> matmul = engine_->prepare(spec);
  ASSERT_TRUE(matmul.ok()) << matmul.status().to_string();
  const Operands operands(spec, 64);
  compiled_ = 0;
  ASSERT_TRUE(matmul->run(operands.call(false)).ok());
  const int first = compiled_;
  EXPECT_GT(first, 0);  // a tile of one row is no use for 64
  ASSERT_TRUE(matmul->run(operands.call(false)).ok());
  EXPECT_EQ(compiled_, first);
}

TEST(EngineMaxM, BadAndHugeOnes) {
  const Engine engine = Engine::create({.use_database = false, .threads = 1}).value();
  EXPECT_THAT(engine.prepare({.n = 4, .k = 4, .max_m = -1}).status().message(), HasSubstr("max_m=-1"));
  // As far as there are m that a call may have.
  const Result<Matmul> all = engine.prepare({.n = 4, .k = 4, .max_m = INT64_MAX});
  ASSERT_TRUE(all.ok()) << all.status().to_string();
}

TEST(EngineMaxM, BucketsThatNoCallMayHaveGetNoPlan) {
  std::vector<std::string> plans;
  const auto log = [&](std::string_view line) {
    if (line.find("event=plan") != line.npos) plans.emplace_back(line);
  };
  const Engine engine = Engine::create({.use_database = false, .threads = 1, .log = log}).value();
  const MatmulSpec overlapping{
      .n = 4, .k = 4, .batch = 2, .stride_a = 40, .stride_c = 40, .max_m = INT64_MAX};  // m <= 10
  set_log_topics(parse_log_topics("dispatch").topics);
  EXPECT_TRUE(engine.prepare(overlapping).ok());
  set_log_topics(0);
  EXPECT_EQ(plans.size(), 9u) << "m from 1 to 8, and 9 for 9 and 10";
  EXPECT_THAT(plans.back(), HasSubstr("m=9,"));
  testing_api::check(engine, overlapping, Operands(overlapping, 10), false);
  set_log_sink({});
}

}  // namespace
}  // namespace hone
