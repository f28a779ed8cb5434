// A tune that is killed and taken up again: the same choice, and nothing is measured twice that was stored.
#include <gtest/gtest.h>

#include "tests/autotune/search/simulated_tune.h"

namespace hone::autotune {
namespace {

TEST(Resume, AKilledTuneChoosesAsAnUninterruptedOneDoes) {
  constexpr int kTunes = 60;
  int same = 0;
  for (int i = 0; i < kTunes; ++i) {
    TuneSetup setup{.truth = field_with_winner(1 + i % 39, 0.05), .weather = {}, .seconds = 4};
    const auto seed = static_cast<uint64_t>(i + 1);
    const Outcome whole = simulate(setup, seed);
    setup.stop_after_rounds = 1 + (i * 53) % std::max<int64_t>(whole.rounds - 1, 1);
    const Outcome killed = simulate(setup, seed);
    Race::Earlier earlier{.samples = killed.stored, .dead = {}};
    setup.stop_after_rounds = 1'000'000;
    setup.earlier = &earlier;
    setup.spent_ns = killed.spent_ns;
    const Outcome resumed = simulate(setup, seed);
    same += resumed.confirmed.winner == whole.confirmed.winner;
    EXPECT_LE(static_cast<double>(resumed.spent_ns) * 1e-9, 1.1 * setup.seconds);
    // Round numbers go on where the stored ones ended.
    std::set<std::pair<db::Phase, int64_t>> before, after;
    for (const RoundSample& s : killed.stored) before.emplace(s.sample.phase, s.sample.round);
    for (const RoundSample& s : resumed.stored) after.emplace(s.sample.phase, s.sample.round);
    for (const auto& round : after) EXPECT_FALSE(before.contains(round));
  }
  EXPECT_GE(same, kTunes - 1);
}

TEST(Resume, WhatWasMeasuredAndDroppedIsNotPreparedAgain) {
  // Half of the field is far behind and was looked at often; the rest was not seen yet.
  TuneSetup setup{.truth = std::vector<double>(40, 1e6), .weather = {.outliers = 0}, .seconds = 4};
  for (size_t c = 20; c < 40; ++c) setup.truth[c] = 1.5e6;
  for (size_t c = 1; c < 20; ++c) setup.truth[c] = 2e6;
  setup.truth[30] = 0.9e6;
  Race::Earlier earlier;
  for (int round = 0; round < 6; ++round)
    for (int c = 0; c < 20; ++c)
      earlier.samples.push_back({c, {.round = round, .order = c, .ns = c == 0 ? 1'000'000 : 2'000'000}});
  for (int round = 0; round < 81; ++round)
    for (int twice : {0, 1})
      earlier.samples.push_back({0, {.round = round, .order = twice, .ns = 1'000'000, .phase = db::Phase::kNoise}});
  setup.earlier = &earlier;
  setup.stop_after_rounds = 9;  // before the search begins to take second opinions
  const Outcome out = simulate(setup, 3);
  EXPECT_LE(out.prepared, 21) << "the default, and those that were not measured";
  for (const RoundSample& s : out.stored) {
    EXPECT_NE(s.sample.phase, db::Phase::kNoise) << "noise was raced already";
    EXPECT_TRUE(s.candidate == 0 || s.candidate >= 20) << s.candidate;
  }
}

}  // namespace
}  // namespace hone::autotune
