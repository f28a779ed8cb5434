#include "autotune/learn/samples.h"

#include <gmock/gmock.h>

#include "tests/autotune/learn/learn_testing.h"

namespace hone::autotune {
namespace {

constexpr std::string_view kText = "matmul:f32:m=64,n=512,k=512";

class LearnSamples : public testing::Test {
 protected:
  void SetUp() override {
    store_ = db::open({.path = ":memory:", .mode = db::OpenMode::kInMemory}).value();
    for (const Candidate& c : law_candidates(problem_))
      names_.push_back(
          {.program = op::to_string(c.program), .codegen = "asmjit", .codegen_version = "1", .threads = 1});
  }

  int64_t run(const std::string& key, const std::string& cache, const std::string& settings = "{}") {
    return store_
        ->begin_run({.key = key, .label = "{}"}, {.engine = "hone", .codegens = "asmjit=1"},
                    {.cache_mode = cache, .settings = settings, .problem = problem_key()})
        .value();
  }
  db::ProblemKey problem_key() const {
    return {.text = std::string(kText), .family = matmul::family(problem_), .m = problem_.m};
  }
  // One round: candidate -> ns.
  void round(int64_t id, int64_t number, db::Phase phase, const std::vector<std::pair<int, int64_t>>& times) {
    std::vector<db::SampleGroup> groups;
    int order = 0;
    for (auto [c, ns] : times)
      groups.push_back(
          {names_[static_cast<size_t>(c)], {{.round = number, .order = order++, .ns = ns, .phase = phase}}});
    const Status s = store_->add_round(id, problem_key(), groups, 0);
    ASSERT_TRUE(s.ok()) << s.message();
  }
  std::vector<MeasuredGroup> read(const std::string& key) { return read_samples(*store_, key).value(); }

  matmul::MatmulProblem problem_ = must_parse(kText);
  std::unique_ptr<db::Store> store_;
  std::vector<db::Candidate> names_;
};

double ratio_of(const MeasuredGroup& group, const db::Candidate& c) {
  for (const MeasuredCandidate& m : group.candidates)
    if (op::to_string(m.candidate.program) == c.program) return std::exp(m.log_ratio);
  return 0;
}

TEST_F(LearnSamples, RatiosAreWithinRoundsAgainstTheOneThatRanMost) {
  const int64_t id = run("here", "cold");
  round(id, 0, db::Phase::kSearch, {{0, 100}, {1, 50}, {2, 200}});
  round(id, 1, db::Phase::kSearch, {{0, 1000}, {1, 500}});  // a slow round slows both
  round(id, 0, db::Phase::kConfirm, {{0, 100}, {1, 51}});
  round(id, 0, db::Phase::kNoise, {{3, 1}});
  const std::vector<MeasuredGroup> groups = read("here");
  ASSERT_EQ(groups.size(), 1u);
  EXPECT_EQ(groups[0].text, kText);
  EXPECT_TRUE(groups[0].machine.cold);
  EXPECT_EQ(groups[0].candidates.size(), 3u) << "the noise race compares with nobody";
  EXPECT_NEAR(ratio_of(groups[0], names_[0]), 1, 1e-9);
  EXPECT_NEAR(ratio_of(groups[0], names_[1]), 0.5, 1e-9);
  EXPECT_NEAR(ratio_of(groups[0], names_[2]), 2, 1e-9);
}

TEST_F(LearnSamples, MachinesAndCacheModesStayApartAndRunsOfOneBaselineMeet) {
  for (const char* key : {"here", "elsewhere"})
    for (const char* cache : {"cold", "warm", "cold"}) {
      const int64_t id = run(key, cache);
      for (int64_t i = 0; i < 2; ++i) round(id, i, db::Phase::kSearch, {{0, 100}, {1, 50 + 10 * i}});
    }
  const std::vector<MeasuredGroup> groups = read("here");
  ASSERT_EQ(groups.size(), 2u);
  EXPECT_EQ(groups[0].candidates[1].rounds + groups[1].candidates[1].rounds, 6);
  EXPECT_TRUE(read("nowhere").empty());
}

// Times of a step among others say nothing about a kernel alone, which is what the order of measuring is for.
TEST_F(LearnSamples, RoundsOfAWholeAreLeftOut) {
  const int64_t id = run("here", std::string(db::kInWhole), db::whole_settings({.why = "slower", .threads = 1}));
  for (int64_t i = 0; i < 2; ++i) round(id, i, db::Phase::kConfirm, {{0, 100}, {1, 50}});
  EXPECT_TRUE(read("here").empty());
}

TEST_F(LearnSamples, TheDefaultOfTheDecisionIsTheBaseline) {
  const int64_t id = run("here", "cold");
  round(id, 0, db::Phase::kSearch, {{0, 100}, {1, 50}});
  round(id, 1, db::Phase::kSearch, {{0, 100}, {2, 50}});
  round(id, 2, db::Phase::kSearch, {{1, 40}, {2, 80}});
  ASSERT_TRUE(store_
                  ->add_decision(id, {.problem = problem_key(),
                                      .winner = names_[1],
                                      .fallback = names_[2],
                                      .ns = 50,
                                      .default_ns = 100,
                                      .speedup = 2,
                                      .speedup_lo = 1.9,
                                      .speedup_hi = 2.1})
                  .ok());
  const std::vector<MeasuredGroup> groups = read("here");
  ASSERT_EQ(groups.size(), 1u);
  EXPECT_NEAR(ratio_of(groups[0], names_[2]), 1, 1e-9);
  EXPECT_NEAR(ratio_of(groups[0], names_[1]), 0.5, 1e-9);
}

TEST_F(LearnSamples, RatesComeFromTheRunAndOthersAreDefaults) {
  const CostMachine defaults;
  const std::pair<const char*, double> cases[] = {
      {R"({"peak":{"f32_gflops_1t":321,"read_gbs_1t":11,"read_gbs_all":22,"l2_gbs_1t":99}})", 321},
      {R"({"peak":{"f32_gflops_1t":321}})", defaults.gflops_1t},
      {R"({"peak":{"f32_gflops_1t":-1,"read_gbs_1t":"x","read_gbs_all":22,"l2_gbs_1t":99}})", defaults.gflops_1t},
      {"not json", defaults.gflops_1t},
      {"[]", defaults.gflops_1t}};
  int i = 0;
  for (const auto& [settings, expected] : cases) {
    const std::string key = "machine" + std::to_string(i++);
    round(run(key, "cold", settings), 0, db::Phase::kSearch, {{0, 100}, {1, 50}});
    const std::vector<MeasuredGroup> groups = read(key);
    ASSERT_EQ(groups.size(), 1u) << settings;
    EXPECT_EQ(groups[0].machine.gflops_1t, expected) << settings;
  }
}

TEST_F(LearnSamples, ProgramsThatThisBuildCannotReadAreLeftOut) {
  names_[1].program = "vectorize(avx1024,32) fold(7)";
  const int64_t id = run("here", "cold");
  round(id, 0, db::Phase::kSearch, {{0, 100}, {1, 50}, {2, 70}});
  ASSERT_EQ(read("here").size(), 1u);
  EXPECT_EQ(read("here")[0].candidates.size(), 2u);
}

}  // namespace
}  // namespace hone::autotune
