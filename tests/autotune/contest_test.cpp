// Races of named choices on a fake clock: a planted winner is found and stored, a tie stays a tie, a wrong choice is
// recorded as wrong and never timed, an interrupt keeps what was measured.
#include "autotune/contest.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/autotune/search/simulated_racer.h"

namespace hone::autotune {
namespace {

using testing::HasSubstr;
using testing::IsEmpty;

class ContestTest : public testing::Test {
 protected:
  void SetUp() override {
    Result<std::unique_ptr<db::Store>> store = db::open({.mode = db::OpenMode::kInMemory});
    ASSERT_TRUE(store.ok()) << store.status().message();
    store_ = std::move(*store);
    const Result<Machine> machine = detect_machine();
    ASSERT_TRUE(machine.ok());
    machine_ = *machine;
  }

  static db::Candidate name(int i) {
    return {.program = i == 0 ? "default" : "choice=" + std::to_string(i), .codegen = "plan", .codegen_version = "1"};
  }

  ContestOptions options(size_t candidates) const {
    ContestOptions o{.problem = {.text = "graph:g/1:tokens=1,position=0", .family = "graph:g/1", .m = 1}};
    for (size_t i = 0; i < candidates; ++i) o.candidates.push_back(name(static_cast<int>(i)));
    o.budget_seconds = 10;
    o.seed = 3;
    o.command = [](int c) { return "repeat " + std::to_string(c); };
    return o;
  }

  Result<ContestReport> race(const std::vector<double>& truth_ns, const std::set<int>& wrong = {}, int incumbent = 0) {
    FakeClock clock;
    SimulatedRacer racer(clock, truth_ns, 7);
    racer.wrong = wrong;
    ContestOptions o = options(truth_ns.size());
    o.incumbent = incumbent;
    Result<ContestReport> report = contest(racer, clock, *store_, machine_, o);
    runs_of_ = racer.runs_of;
    runs_of_.resize(truth_ns.size());
    return report;
  }

  std::unique_ptr<db::Store> store_;
  Machine machine_;
  std::vector<int> runs_of_;
};

TEST_F(ContestTest, APlantedWinnerIsFoundAndStored) {
  const Result<ContestReport> report = race({5e6, 5.5e6, 4.5e6, 6e6});
  ASSERT_TRUE(report.ok()) << report.status().message();
  EXPECT_EQ(report->verdict, db::Verdict::kNew);
  EXPECT_EQ(report->winner, 2);
  EXPECT_NEAR(report->speedup.mid, 5 / 4.5, 0.02);
  EXPECT_LE(report->speedup.lo, report->speedup.mid);
  ASSERT_TRUE(report->decided) << report->not_stored;

  const auto decisions = store_->decisions_for_problem("graph:g/1:tokens=1,position=0");
  ASSERT_TRUE(decisions.ok());
  ASSERT_EQ(decisions->size(), 1u);
  const db::Decision& d = decisions->front().decision;
  EXPECT_EQ(d.winner, name(2));
  EXPECT_EQ(d.fallback, name(0));
  EXPECT_EQ(d.problem.family, "graph:g/1");
  EXPECT_NEAR(d.speedup, 5 / 4.5, 0.02);
  EXPECT_THAT(*store_->verify(), IsEmpty());
  const auto samples = store_->samples(report->run_id, d.problem.text);
  ASSERT_TRUE(samples.ok());
  EXPECT_EQ(samples->size(), 4u) << "every choice was timed, and every time is kept";
}

// `tie` where another one met the default in the end, `kept` where nobody did.
TEST_F(ContestTest, AmongEqualsTheDefaultStays) {
  const Result<ContestReport> report = race({5e6, 5e6, 5e6, 4.99e6});
  ASSERT_TRUE(report.ok()) << report.status().message();
  EXPECT_EQ(report->verdict, report->challenger == 0 ? db::Verdict::kKept : db::Verdict::kTie);
  EXPECT_EQ(report->winner, 0);
  EXPECT_TRUE(report->decided);
  EXPECT_EQ(report->speedup.mid, 1);
}

TEST_F(ContestTest, AnIncumbentIsKeptAgainstSlowerOnes) {
  const Result<ContestReport> report = race({5e6, 4e6, 4.8e6}, {}, 1);
  ASSERT_TRUE(report.ok()) << report.status().message();
  EXPECT_NE(report->verdict, db::Verdict::kNew);
  EXPECT_EQ(report->winner, 1);
  EXPECT_NEAR(report->speedup.mid, 5.0 / 4, 0.03) << "over the default, not over the incumbent";
}

TEST_F(ContestTest, AWrongChoiceIsRecordedAndNeverTimed) {
  const Result<ContestReport> report = race({5e6, 1e6, 4.5e6}, {1});
  ASSERT_TRUE(report.ok()) << report.status().message();
  EXPECT_EQ(report->winner, 2) << "the wrong one would have won";
  EXPECT_EQ(runs_of_[1], 0);
  ASSERT_EQ(report->outcomes.size(), 1u);
  EXPECT_EQ(report->outcomes[0].candidate, 1);
  EXPECT_EQ(report->outcomes[0].outcome, db::Outcome::kWrong);
  const auto outcomes = store_->outcomes(report->run_id);
  ASSERT_EQ(outcomes->size(), 1u);
  EXPECT_EQ(outcomes->front().candidate, name(1));
  EXPECT_EQ(outcomes->front().command, "repeat 1");
}

TEST_F(ContestTest, AWrongDefaultIsAnErrorThatSaysWhy) {
  const Result<ContestReport> report = race({5e6, 4e6}, {0});
  ASSERT_FALSE(report.ok());
  EXPECT_THAT(report.status().message(), HasSubstr("planted"));
  EXPECT_THAT(store_->decisions_for_problem("graph:g/1:tokens=1,position=0").value(), IsEmpty());
}

TEST_F(ContestTest, AnInterruptKeepsTheSamplesAndDecidesNothing) {
  FakeClock clock;
  SimulatedRacer racer(clock, {5e6, 4e6}, 7);
  std::atomic<bool> stop = false;
  ContestOptions o = options(2);
  o.stop = &stop;
  o.on_progress = [&](std::string_view phase, int, double) { stop = stop || phase == "search"; };
  const Result<ContestReport> report = contest(racer, clock, *store_, machine_, o);
  ASSERT_TRUE(report.ok()) << report.status().message();
  EXPECT_TRUE(report->interrupted);
  EXPECT_FALSE(report->decided);
  const auto samples = store_->samples(report->run_id, o.problem.text);
  ASSERT_FALSE(samples->empty()) << "the noise rounds";
  EXPECT_FALSE(samples->front().second.empty());
}

}  // namespace
}  // namespace hone::autotune
