// What the protocol promises, over 1000 simulated tunes in each kind of weather: a candidate that is 5% faster than the
// incumbent is found and chosen; a tie is called a tie; a slower one does not replace the incumbent. The rates are
// printed and quoted in autotune/README.md.
#include <gtest/gtest.h>

#include <algorithm>
#include <ostream>

#include "tests/autotune/search/simulated_tune.h"

namespace hone::autotune {
namespace {

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr int kTunes = 100;
#else
constexpr int kTunes = 1000;
#endif

struct Promise {
  Weather weather;
  // What is possible within the budget where not 99%: see the README.
  double right = 0.99;
};

void PrintTo(const Promise& p, std::ostream* out) { *out << p.weather.name; }

// Rates are of 1000; fewer tunes may miss by what chance does.
double allowance() { return kTunes < 1000 ? 0.02 : 0; }

// 10 s, as `hone tune` gives a problem.
TuneSetup ten_seconds(std::vector<double> truth, const Weather& weather) {
  return {.truth = std::move(truth), .weather = weather, .seconds = 10};
}

class Promises : public testing::TestWithParam<Promise> {
 protected:
  const Weather& weather() const { return GetParam().weather; }
};

TEST_P(Promises, WhoIsFivePercentFasterIsChosen) {
  const int sizes[] = {12, 40, 120, 400};
  int right = 0, slower = 0;
  double seconds = 0;
  for (int i = 0; i < kTunes; ++i) {
    // Kernels of 3 ms, and of 1 ms where there are so many that not all could be measured otherwise.
    const int size = sizes[i % 4];
    const int planted = 1 + (i * 7919) % (size - 1);
    std::vector<double> truth = field_with_winner(planted, 0.05, size);
    for (double& ns : truth) ns *= size < 400 ? 3 : 1;
    const Outcome out = simulate(ten_seconds(truth, weather()), 1000u + static_cast<unsigned>(i));
    right += out.confirmed.winner == planted && out.confirmed.verdict == db::Verdict::kNew;
    slower += out.confirmed.winner != planted && out.confirmed.winner != 0;
    seconds += static_cast<double>(out.spent_ns) * 1e-9;
  }
  std::printf("%s: right %.1f%%, slower than the incumbent %.1f%%, %.1f s of 10\n", weather().name.c_str(),
              100.0 * right / kTunes, 100.0 * slower / kTunes, seconds / kTunes);
  EXPECT_GE(right, kTunes * (GetParam().right - allowance()));
  EXPECT_LE(slower, kTunes * (0.005 + allowance() / 4));
}

TEST_P(Promises, ATieIsCalledATie) {
  int wins = 0;
  for (int i = 0; i < kTunes; ++i) {
    // All exactly as fast as the incumbent: the search will pick a lucky one.
    const auto size = static_cast<size_t>(i % 2 == 0 ? 12 : 40);
    const Outcome out =
        simulate(ten_seconds(std::vector<double>(size, 3e6), weather()), 500000u + static_cast<unsigned>(i));
    wins += out.confirmed.verdict == db::Verdict::kNew;
  }
  std::printf("%s: ties called a win %.1f%%\n", weather().name.c_str(), 100.0 * wins / kTunes);
  EXPECT_LE(wins, kTunes * (0.01 + allowance() / 2));
}

TEST_P(Promises, NothingSlowerReplacesTheIncumbent) {
  int replaced = 0;
  for (int i = 0; i < kTunes; ++i) {
    std::vector<double> truth(static_cast<size_t>(i % 2 == 0 ? 12 : 40), 3.03e6);
    truth[0] = 3e6;
    const Outcome out = simulate(ten_seconds(truth, weather()), 900000u + static_cast<unsigned>(i));
    replaced += out.confirmed.winner != 0;
  }
  std::printf("%s: replaced by something slower %.1f%%\n", weather().name.c_str(), 100.0 * replaced / kTunes);
  EXPECT_LE(replaced, kTunes * (0.005 + allowance() / 4));
}

INSTANTIATE_TEST_SUITE_P(Weather, Promises,
                         testing::Values(Promise{{.name = "ordinary"}}, Promise{{.name = "drift", .drift = 0.3}},
                                         Promise{{.name = "frequency_steps", .steps = 1}},
                                         Promise{{.name = "outliers_10", .jitter = 0.02, .outliers = 0.1}},
                                         Promise{{.name = "outliers_30", .jitter = 0.02, .outliers = 0.3}, 0.5},
                                         Promise{{.name = "slow_neighbour", .corunner = 0.25}, 0.97},
                                         Promise{{.name = "cauchy_tails", .cauchy = 0.01}},
                                         Promise{{.name = "lognormal_mixture", .mixture = 0.2}},
                                         Promise{{.name = "fast_once", .lucky_first = 1}},
                                         Promise{{.name = "fast_now_and_then", .lucky = 0.02}},
                                         Promise{{.name = "zero_times", .zeros = 0.001}},
                                         Promise{{.name = "coarse_clock", .quantum_ns = 20'000}},
                                         Promise{{.name = "all_at_once",
                                                  .jitter = 0.02,
                                                  .drift = 0.2,
                                                  .outliers = 0.05,
                                                  .steps = 0.5,
                                                  .corunner = 0.1,
                                                  .cauchy = 0.005},
                                                 0.95}),
                         [](const auto& row) { return row.param.weather.name; });

}  // namespace
}  // namespace hone::autotune
