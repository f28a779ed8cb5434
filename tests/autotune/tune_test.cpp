// The whole tune, on problems small enough for a test's budget.
#include "autotune/tune.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "engine/base/env.h"

namespace hone::autotune {
namespace {

using testing::HasSubstr;

class Tune : public testing::Test {
 protected:
  void SetUp() override {
    Result<Machine> machine = detect_machine();
    ASSERT_TRUE(machine.ok());
    machine_ = *machine;
    if (!machine_.best_isa().ok()) GTEST_SKIP() << machine_.best_isa().status().message();
    Result<std::unique_ptr<db::Store>> store = db::open({.mode = db::OpenMode::kInMemory});
    ASSERT_TRUE(store.ok()) << store.status().message();
    store_ = std::move(*store);
  }

  Result<TuneReport> tune_text(std::string_view text, TuneOptions options = {}) {
    if (options.budget_seconds == 60) options.budget_seconds = 0.8;
    Result<matmul::MatmulProblem> p = matmul::parse_problem(text);
    EXPECT_TRUE(p.ok());
    return tune(*p, options,
                {.machine = machine_,
                 .store = *store_,
                 .on_progress = [this](const Progress& p2) { phases_.insert(std::string(p2.phase)); },
                 .stop = &stop_});
  }

  Machine machine_;
  std::unique_ptr<db::Store> store_;
  std::set<std::string> phases_;
  std::atomic<bool> stop_ = false;
};

TEST_F(Tune, ThreadCountsDoubleUpToTheLimit) {
  const Result<Target> most = tune_target(machine_, {.max_threads = 2'000'000'000});
  ASSERT_TRUE(most.ok()) << most.status().message();
  EXPECT_EQ(most->threads.size(), 11u);  // 1, 2, 4 .. 1024
  EXPECT_EQ(most->threads.back(), kMaxThreads);
  EXPECT_EQ(tune_target(machine_, {.max_threads = 6})->threads, (std::vector<int>{1, 2, 4, 6}));
  for (const int wrong : {0, kMaxThreads + 1})
    EXPECT_THAT(tune_target(machine_, {.threads = {1, wrong}}).status().message(), HasSubstr(std::to_string(wrong)));
}

TEST_F(Tune, EndToEnd) {
  // Long enough for more than one candidate under a sanitizer, where enumerating alone takes a second.
  const Result<TuneReport> report = tune_text("matmul:f32:m=24,n=96,k=64:+bias", {.budget_seconds = 4});
  ASSERT_TRUE(report.ok()) << report.status().message();
  EXPECT_TRUE(report->decided);
  EXPECT_EQ(report->rejected_wrong, 0);
  EXPECT_EQ(report->crashed, 0);
  EXPECT_GT(report->measured, 1);
  EXPECT_GE(report->enumerated, report->measured);
  EXPECT_GT(report->winner.ns, 0);
  EXPECT_GT(report->fallback.ns, 0);
  EXPECT_GE(report->noise_bound, 0.005);
  EXPECT_EQ(phases_, (std::set<std::string>{"prepare", "noise", "search", "confirm"}));

  const Result<std::vector<db::StoredDecision>> decisions =
      store_->decisions_for_problem("matmul:f32:m=24,n=96,k=64:+bias");
  ASSERT_TRUE(decisions.ok());
  ASSERT_EQ(decisions->size(), 1u);
  EXPECT_EQ(decisions->front().decision.winner.program, report->winner.program);
  EXPECT_EQ(decisions->front().decision.noise_bound, report->noise_bound);
  const auto samples = store_->samples(report->run_id, "matmul:f32:m=24,n=96,k=64:+bias");
  ASSERT_TRUE(samples.ok());
  EXPECT_EQ(static_cast<int>(samples->size()), report->measured);
  const Result<std::vector<std::string>> faults = store_->verify();
  ASSERT_TRUE(faults.ok());
  EXPECT_THAT(*faults, testing::IsEmpty());
}

TEST_F(Tune, EarlierDecisionIsTheIncumbent) {
  const std::string text = "matmul:f32:m=1,n=128,k=128,b=packed";
  ASSERT_TRUE(tune_text(text).ok());
  const Result<TuneReport> again = tune_text(text);
  ASSERT_TRUE(again.ok());
  const Result<TuneReport> fresh = tune_text(text, {.fresh = true});
  ASSERT_TRUE(fresh.ok());
  EXPECT_EQ(store_->decisions_for_problem(text)->size(), 3u);
}

// How closely depends on what else the machine does, so no assertion on seconds; a budget that is ignored would measure
// everything.
TEST_F(Tune, BudgetEndsTheSearch) {
  const Result<TuneReport> report = tune_text("matmul:f32:m=64,n=512,k=512,b=nt", {.budget_seconds = 1.0});
  ASSERT_TRUE(report.ok());
  EXPECT_LT(report->measured, report->enumerated) << "the space is larger than a second can measure";
  EXPECT_GT(report->seconds, 0);
}

TEST_F(Tune, StopKeepsWhatWasMeasured) {
  stop_ = true;
  const Result<TuneReport> report = tune_text("matmul:f32:m=24,n=96,k=64");
  ASSERT_TRUE(report.ok()) << report.status().message();
  EXPECT_TRUE(report->interrupted);
  EXPECT_FALSE(report->decided);
}

TEST_F(Tune, EmptyProblemsAreTuned) {
  for (std::string_view text :
       {"matmul:f32:m=0,n=16,k=16", "matmul:f32:m=4,n=16,k=0:+bias", "matmul:f32:m=1,n=0,k=8"}) {
    const Result<TuneReport> report = tune_text(text, {.budget_seconds = 0.3});
    EXPECT_TRUE(report.ok()) << text << ": " << report.status().message();
  }
}

TEST_F(Tune, OptionsThatNameNothingAreRefused) {
  EXPECT_THAT(tune_text("matmul:f32:m=4,n=4,k=4", {.codegens = {"gcc"}}).status().message(), HasSubstr("gcc"));
  EXPECT_THAT(tune_text("matmul:f32:m=4,n=4,k=4", {.strategy = "luck"}).status().message(), HasSubstr("halving"));
  EXPECT_FALSE(tune_text("matmul:f32:m=4,n=4,k=4", {.threads = {0}}).ok());
}

}  // namespace
}  // namespace hone::autotune
