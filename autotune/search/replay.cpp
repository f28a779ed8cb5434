// See replay.h.
#include "autotune/search/replay.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "autotune/search/protocol.h"
#include "autotune/search/stats.h"

namespace hone::autotune {
namespace {

// Compiling, checking and warming up, where the run does not say what it spent: small kernels through LLVM take that.
constexpr int64_t kPrepareNs = 20'000'000;
constexpr int64_t kFewestPrepareNs = 1'000'000;
constexpr size_t kFewestRounds = 5;

class ReplayClock final : public Clock {
 public:
  int64_t now_ns() override { return now_; }
  void advance(int64_t ns) { now_ += ns; }

 private:
  int64_t now_ = 0;
};

class ReplayRacer final : public Racer {
 public:
  ReplayRacer(const Recording& recording, ReplayClock& clock, uint64_t seed)
      : recording_(recording), clock_(clock), random_(seed) {}

  Prepared prepare(int) override {
    clock_.advance(recording_.prepare_ns);
    return {};
  }

  std::vector<Timing> round(std::span<const int> arms) override {
    const double baseline = draw(recording_.baseline_ns);
    bool seen = false;
    std::vector<Timing> timings;
    for (int arm : arms) {
      double log_ratio = 0;
      if (arm != 0) log_ratio = draw(recording_.arms[static_cast<size_t>(arm)].log_ratios);
      if (arm == 0 && seen && !recording_.log_self.empty()) log_ratio = draw(recording_.log_self);
      seen = seen || arm == 0;
      const auto ns = std::max<int64_t>(std::llround(baseline * std::exp(log_ratio)), 1);
      clock_.advance(ns);
      timings.push_back({.ns = ns, .wall_ns = ns});
    }
    return timings;
  }

  void release(int) override {}

 private:
  double draw(const std::vector<double>& values) {
    return values[std::uniform_int_distribution<size_t>(0, values.size() - 1)(random_)];
  }

  const Recording& recording_;
  ReplayClock& clock_;
  std::mt19937_64 random_;
};

using Slot = std::pair<db::Phase, int64_t>;  // a round

double log_ns(const db::Sample& s) { return std::log(static_cast<double>(s.ns)); }

// Who is in the noise rounds, else in most rounds.
size_t baseline_of(const StoredSamples& samples) {
  size_t best = 0;
  std::pair<size_t, size_t> most;
  for (size_t i = 0; i < samples.size(); ++i) {
    const auto noise =
        static_cast<size_t>(std::count_if(samples[i].second.begin(), samples[i].second.end(),
                                          [](const db::Sample& s) { return s.phase == db::Phase::kNoise; }));
    const std::pair<size_t, size_t> here{noise, samples[i].second.size()};
    if (here > most) best = i, most = here;
  }
  return best;
}

double percentile(std::vector<double> values, double share) {
  std::sort(values.begin(), values.end());
  return values[static_cast<size_t>(std::ceil(share * static_cast<double>(values.size() - 1)))];
}

}  // namespace

Result<Recording> make_recording(const StoredSamples& samples, double spent_seconds) {
  if (samples.empty()) return failed_precondition("it has no samples");
  Recording recording;
  std::map<Slot, double> rounds;  // log time of the baseline
  const auto& [baseline, its_samples] = samples[baseline_of(samples)];
  for (const db::Sample& s : its_samples) {
    const auto [at, first] = rounds.emplace(Slot{s.phase, s.round}, log_ns(s));
    if (!first) recording.log_self.push_back(log_ns(s) - at->second);
    if (first) recording.baseline_ns.push_back(static_cast<double>(s.ns));
  }
  recording.arms.push_back({.candidate = baseline, .log_ratios = {0}});
  double sampled_seconds = 0;
  for (const auto& [candidate, list] : samples) {
    Recording::Arm arm{.candidate = candidate};
    for (const db::Sample& s : list) {
      sampled_seconds += static_cast<double>(s.ns) * 1e-9;
      if (const auto at = rounds.find({s.phase, s.round}); at != rounds.end())
        arm.log_ratios.push_back(log_ns(s) - at->second);
    }
    if (candidate == baseline || arm.log_ratios.empty()) continue;
    arm.truth = median(arm.log_ratios);
    recording.arms.push_back(std::move(arm));
  }
  if (rounds.size() < kFewestRounds || recording.arms.size() < 2)
    return failed_precondition(fmt::format("it has {} round(s) of {} candidate(s); at least {} of 2 are needed",
                                           rounds.size(), recording.arms.size(), kFewestRounds));
  for (size_t i = 1; i < recording.arms.size(); ++i)
    if (recording.arms[i].truth < recording.arms[static_cast<size_t>(recording.best)].truth)
      recording.best = static_cast<int>(i);
  recording.prepare_ns = kPrepareNs;
  if (spent_seconds > sampled_seconds) {
    const double each = (spent_seconds - sampled_seconds) / static_cast<double>(samples.size());
    recording.prepare_ns = std::max(static_cast<int64_t>(each * 1e9), kFewestPrepareNs);
  }
  return recording;
}

ReplayResult replay(const Recording& recording, const Strategy& strategy, const ReplayTask& task) {
  const Race::Hooks hooks{.on_round = [](std::span<const RoundSample>) { return Status(); },
                          .on_outcome = [](int, const Prepared&) { return Status(); }};
  ReplayResult result;
  std::vector<double> regrets, measured, seconds;
  std::map<int, int> chosen;
  for (int seed = 1; seed <= task.seeds; ++seed) {
    if (task.stop != nullptr && task.stop->load()) return result;
    ReplayClock clock;
    ReplayRacer racer(recording, clock, static_cast<uint64_t>(seed));
    Race race(racer, clock, static_cast<uint64_t>(seed), hooks);
    const Result<ProtocolResult> tuned = run_protocol(
        race, {.order = task.order, .strategy = strategy, .budget_ns = std::llround(task.budget_seconds * 1e9)});
    const int winner = tuned.ok() ? tuned->confirmed.winner : 0;
    const double behind =
        recording.arms[static_cast<size_t>(winner)].truth - recording.arms[static_cast<size_t>(recording.best)].truth;
    ++chosen[winner];
    regrets.push_back(std::expm1(behind));
    measured.push_back(race.measured());
    seconds.push_back(static_cast<double>(clock.now_ns()) * 1e-9);
  }
  result.chosen = std::max_element(chosen.begin(), chosen.end(), [](const auto& a, const auto& b) {
                    return a.second < b.second;
                  })->first;
  result.regret = median(regrets);
  result.regret_p95 = percentile(regrets, 0.95);
  result.best_share = static_cast<double>(chosen[recording.best]) / task.seeds;
  result.measured = median(measured);
  result.seconds = median(seconds);
  return result;
}

}  // namespace hone::autotune
