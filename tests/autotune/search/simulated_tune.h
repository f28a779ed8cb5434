// Whole tunes on a fake clock: the protocol as tune() runs it, without kernels and store.
#pragma once

#include <gtest/gtest.h>

#include <numeric>

#include "autotune/search/protocol.h"
#include "tests/autotune/search/simulated_racer.h"

namespace hone::autotune {

struct TuneSetup {
  std::vector<double> truth;  // candidate 0 is default and incumbent
  Weather weather;
  double seconds = 4;
  std::string_view strategy = "halving";
  std::set<int> wrong = {}, zero = {}, crash_later = {};
  int64_t prepare_ns = 5'000'000, overhead_ns = 1000;
  std::vector<int> order = {};  // empty: as they are numbered
  const std::atomic<bool>* stop = nullptr;
  int64_t stop_after_rounds = -1;  // a kill
  const Race::Earlier* earlier = nullptr;
  int64_t spent_ns = 0;  // by earlier processes
};

struct Outcome {
  Confirmed confirmed;
  SearchResult found;
  int64_t spent_ns = 0;
  int64_t rounds = 0;
  int measured = 0, samples = 0, prepared = 0;
  double noise_bound = 0;
  std::vector<std::pair<int, Prepared>> outcomes;
  std::vector<RoundSample> stored;
};

inline Outcome simulate(const TuneSetup& setup, uint64_t seed) {
  FakeClock clock;
  clock.advance(setup.spent_ns);
  SimulatedRacer racer(clock, setup.truth, seed + static_cast<uint64_t>(setup.spent_ns), setup.weather);
  racer.wrong = setup.wrong;
  racer.zero = setup.zero;
  racer.crash_later = setup.crash_later;
  racer.prepare_ns = setup.prepare_ns;
  racer.overhead_ns = setup.overhead_ns;
  Outcome out;
  std::atomic<bool> killed = false;
  const bool store = setup.stop_after_rounds >= 0;
  Race::Hooks hooks{.on_round =
                        [&](std::span<const RoundSample> samples) {
                          if (store) out.stored.insert(out.stored.end(), samples.begin(), samples.end());
                          killed = ++out.rounds == setup.stop_after_rounds;
                          return Status();
                        },
                    .on_outcome = [&](int c, const Prepared& p) { return out.outcomes.emplace_back(c, p), Status(); },
                    .on_step = {},
                    .stop = setup.stop != nullptr ? setup.stop : &killed};
  Race race(racer, clock, seed, hooks);
  if (setup.earlier != nullptr) race.restore(*setup.earlier);
  std::vector<int> order = setup.order;
  if (order.empty()) {
    order.resize(setup.truth.size());
    std::iota(order.begin(), order.end(), 0);
  }
  const Result<ProtocolResult> result = run_protocol(race, {.order = order,
                                                            .strategy = *find_strategy(setup.strategy),
                                                            .budget_ns = static_cast<int64_t>(setup.seconds * 1e9)});
  EXPECT_TRUE(result.ok());
  if (!result.ok()) return out;
  out.found = result->found;
  out.confirmed = result->confirmed;
  out.noise_bound = result->noise_bound;
  out.spent_ns = clock.now_ns();
  out.measured = race.measured();
  out.samples = racer.samples;
  out.prepared = racer.prepared;
  return out;
}

// Default 1 ms, the field from equal to 60% slower, one planted at `gain` faster.
inline std::vector<double> field_with_winner(int winner, double gain, int size = 40) {
  std::vector<double> truth(static_cast<size_t>(size));
  for (size_t i = 0; i < truth.size(); ++i) truth[i] = 1e6 * (1 + 0.6 * static_cast<double>(i) / size);
  truth[static_cast<size_t>(winner)] = 1e6 / (1 + gain);
  return truth;
}

}  // namespace hone::autotune
