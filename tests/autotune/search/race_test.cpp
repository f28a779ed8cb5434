// What a round does with samples that are too good to be true.
#include <gtest/gtest.h>

#include <deque>

#include "autotune/search/race.h"
#include "tests/autotune/search/simulated_racer.h"

namespace hone::autotune {
namespace {

// Answers what it is told, and counts.
class ScriptedRacer final : public Racer {
 public:
  std::map<int, int64_t> usual;
  std::map<int, std::deque<int64_t>> next;
  std::map<int, int> runs;

  Prepared prepare(int) override { return {}; }
  std::vector<Timing> round(std::span<const int> arms) override {
    std::vector<Timing> timings;
    for (int arm : arms) {
      ++runs[arm];
      int64_t ns = usual.at(arm);
      if (std::deque<int64_t>& script = next[arm]; !script.empty()) ns = script.front(), script.pop_front();
      timings.push_back({.ns = ns, .wall_ns = ns});
    }
    return timings;
  }
  void release(int) override {}
};

struct RaceFixture : testing::Test {
  FakeClock clock;
  ScriptedRacer racer;
  std::vector<RoundSample> last;
  Race race{racer,
            clock,
            1,
            {.on_round = [this](std::span<const RoundSample> s) { return last.assign(s.begin(), s.end()), Status(); },
             .on_outcome = [](int, const Prepared&) { return Status(); }}};

  void run(std::vector<int> arms, int rounds = 1) {
    for (int c : arms) race.prepare(c);
    for (int i = 0; i < rounds; ++i) race.round(db::Phase::kSearch, arms);
  }
  int64_t ns_of(int candidate) const {
    for (const RoundSample& s : last)
      if (s.candidate == candidate) return s.sample.ns;
    return -1;
  }
};

using RaceSuspicion = RaceFixture;

TEST_F(RaceSuspicion, ASampleThatIsFastOnceIsAsIfItHadNeverBeen) {
  racer.usual = {{0, 1000}, {1, 1100}, {2, 1200}};
  run({0, 1, 2}, 5);
  racer.next[1] = {550};
  run({0, 1, 2});
  EXPECT_EQ(ns_of(1), 1100);
  EXPECT_EQ(racer.runs[1], 7) << "one more";
  EXPECT_EQ(racer.runs[0], 6);
  EXPECT_EQ(last.size(), 3u);
}

TEST_F(RaceSuspicion, ANewcomerThatIsFastOnceIsNotTheBest) {
  racer.usual = {{0, 1000}, {1, 1100}};
  run({0}, 5);
  racer.next[1] = {500};
  run({0, 1});
  EXPECT_EQ(ns_of(1), 1100);
}

TEST_F(RaceSuspicion, ALargeImprovementCostsOneMoreSample) {
  racer.usual = {{0, 1000}, {1, 500}};
  run({0}, 5);
  run({0, 1});
  EXPECT_EQ(ns_of(1), 500);
  EXPECT_EQ(racer.runs[1], 2);
  run({0, 1}, 3);
  EXPECT_EQ(racer.runs[1], 5) << "afterwards it is known";
}

TEST_F(RaceSuspicion, AClockThatRisesForAllIsNotSuspicious) {
  racer.usual = {{0, 1000}, {1, 1100}, {2, 1200}};
  run({0, 1, 2}, 5);
  racer.usual = {{0, 600}, {1, 660}, {2, 720}};
  run({0, 1, 2});
  EXPECT_EQ(racer.runs[0] + racer.runs[1] + racer.runs[2], 18);
  EXPECT_EQ(ns_of(2), 720);
}

TEST_F(RaceSuspicion, TheSecondSampleMayBeRefusedToo) {
  racer.usual = {{0, 1000}, {1, 1100}};
  run({0, 1}, 5);
  racer.next[1] = {500, 0, 0};
  run({0, 1});
  EXPECT_EQ(ns_of(1), -1);
  EXPECT_TRUE(race.dead(1));
}

using RaceCalm = RaceFixture;

TEST_F(RaceCalm, DisturbedRoundsAreSilentWhereCalmOnesSpeak) {
  racer.usual = {{0, 1000}, {1, 1000}};
  run({0, 1}, 6);
  // A neighbour that slows both, one of them more.
  racer.usual = {{0, 1500}, {1, 2000}};
  run({0, 1}, 6);
  EXPECT_EQ(race.met(db::Phase::kSearch, 0, 1).rounds, 12);
  EXPECT_EQ(race.met(db::Phase::kSearch, 0, 1).calm, 6);
  for (double ratio : race.log_ratios(db::Phase::kSearch, 0, 1)) EXPECT_EQ(ratio, 0);
}

TEST_F(RaceCalm, RestoredRoundsAreAsGoodAsOwn) {
  Race::Earlier earlier;
  for (int round = 0; round < 4; ++round)
    for (int c : {0, 1})
      earlier.samples.push_back({c, {.round = round, .order = c, .ns = 1000 + 100 * c, .phase = db::Phase::kSearch}});
  earlier.dead = {2};
  race.restore(earlier);
  racer.usual = {{0, 1000}, {1, 1100}};
  EXPECT_FALSE(race.prepare(2));
  EXPECT_EQ(race.samples(db::Phase::kSearch, 1), 4);
  run({0, 1});
  EXPECT_EQ(last.front().sample.round, 4);
  EXPECT_EQ(race.log_ratios(db::Phase::kSearch, 1, 0).size(), 5u);
  racer.next[1] = {500};
  run({0, 1});
  EXPECT_EQ(ns_of(1), 1100) << "its history was restored";
}

}  // namespace
}  // namespace hone::autotune
