#include "autotune/contest.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

namespace hone::autotune {
namespace {

// Fewer rounds than the protocol asks for decide nothing.
bool decides(const Confirmed& c) {
  return !c.cut_short && c.rounds >= kFewestConfirmRounds && c.ns > 0 && c.fallback_ns > 0;
}

class Contest {
 public:
  Contest(Clock& clock, db::Store& store, const ContestOptions& options)
      : clock_(clock),
        options_(options),
        begin_ns_(clock.now_ns()),
        recorder_(
            store, options.problem,
            {.record = [&options](int c) { return options.candidates[static_cast<size_t>(c)]; },
             .command = [&options](int c, const db::RunInfo&) { return options.command ? options.command(c) : ""; }}) {}

  Result<ContestReport> run(Racer& racer, const Machine& machine) {
    recorder_.begin(machine, {.seed = static_cast<int64_t>(options_.seed),
                              .cache_mode = options_.cache_mode,
                              .settings = options_.settings,
                              .problem = options_.problem});
    Race race(racer, clock_, options_.seed, hooks());
    std::vector<int> order(options_.candidates.size());
    std::iota(order.begin(), order.end(), 0);
    // The one to beat is met at once: what is gained over it can then be told while the search goes on.
    std::stable_partition(order.begin(), order.end(), [&](int c) { return c == options_.incumbent; });
    HONE_ASSIGN_OR_RETURN(const Strategy strategy, find_strategy("halving"));
    const Result<ProtocolResult> result =
        run_protocol(race, {.fallback = 0,
                            .incumbent = options_.incumbent,
                            .order = order,
                            .siblings = {},
                            .substitutes = {},  // without a default there is nothing to compare with
                            .strategy = strategy,
                            .begin_ns = begin_ns_,
                            .budget_ns = static_cast<int64_t>(options_.budget_seconds * 1e9),
                            .on_progress = options_.on_progress,
                            .on_noise = [this](double bound) { recorder_.noise(bound); }});
    if (result.ok()) return report(race, *result);
    if (report_.outcomes.empty()) return result.status();
    return Status(result.status().code(), fmt::format("the default cannot run: {}", report_.outcomes.front().detail));
  }

 private:
  Race::Hooks hooks() {
    return {.on_round =
                [this](std::span<const RoundSample> samples) {
                  recorder_.round(samples, static_cast<double>(clock_.now_ns() - begin_ns_) * 1e-9);
                },
            .on_outcome =
                [this](int candidate, const Prepared& why) {
                  report_.outcomes.push_back({candidate, why.outcome, why.detail});
                  recorder_.outcome(candidate, why);
                },
            .on_step = {},
            .stop = options_.stop};
  }

  ContestReport report(const Race& race, const ProtocolResult& result) {
    const Confirmed& c = result.confirmed;
    report_.verdict = c.verdict;
    report_.winner = c.winner;
    report_.incumbent = result.incumbent;
    report_.fallback = result.fallback;
    report_.challenger = c.challenger;
    report_.ns = c.ns;
    report_.default_ns = c.fallback_ns;
    report_.speedup = c.speedup;
    report_.gain = c.gain;
    report_.noise_bound = result.noise_bound;
    report_.measured = race.measured();
    report_.rounds = race.rounds(db::Phase::kSearch) + race.rounds(db::Phase::kConfirm);
    report_.interrupted = race.stopped();
    if (decides(c)) {
      const auto name = [&](int candidate) { return options_.candidates[static_cast<size_t>(candidate)]; };
      report_.decided = recorder_.decision({.winner = name(c.winner),
                                            .fallback = name(result.fallback),
                                            .verdict = c.verdict,
                                            .ns = c.ns,
                                            .default_ns = c.fallback_ns,
                                            .speedup = c.speedup.mid,
                                            .speedup_lo = c.speedup.lo,
                                            .speedup_hi = c.speedup.hi,
                                            .noise_bound = result.noise_bound});
    }
    report_.run_id = recorder_.run_id();
    report_.not_stored = recorder_.not_stored();
    return report_;
  }

  Clock& clock_;
  const ContestOptions& options_;
  const int64_t begin_ns_;
  Recorder recorder_;
  ContestReport report_;
};

}  // namespace

Result<ContestReport> contest(Racer& racer, Clock& clock, db::Store& store, const Machine& machine,
                              const ContestOptions& options) {
  return Contest(clock, store, options).run(racer, machine);
}

}  // namespace hone::autotune
