// What a region costs beside its work, on each kind of Schedule that this machine has, and which kind to run regions
// on.
//
// Every thread takes part in every region that is timed: a range waits until all have begun, then works for kWorkNs.
// (Without the meeting the caller would take the ranges of whoever is late, and a helper that never came would look
// fastest.) Latency is the time of the region less that work: waking the helpers, and learning that they are done.
//
// Kinds are timed in rounds, in random order within each, and compared within rounds. Before a kind has its turn the
// caller is busy elsewhere for longer than anybody spins, so that no helper of the one before is awake.
#pragma once

#include <atomic>
#include <cstdint>
#include <span>
#include <vector>

#include "autotune/measure/clock.h"
#include "db/store.h"
#include "engine/base/status.h"
#include "engine/runtime/schedule.h"

namespace hone::autotune {

// Latencies of one kind in ns, round by round.
struct ForkJoinSamples {
  runtime::ScheduleKind kind;
  std::vector<std::vector<double>> busy;    // region after region
  std::vector<std::vector<double>> paused;  // after the caller was busy elsewhere
};

// Of every kind that this process really gets for `threads` (at least 2, and not more than CPUs: such a region lasts
// until the kernel has let everybody run), in about `seconds`. Ends with the region under way when `stop` is set or ten
// times that has passed. Error: unavailable when it was stopped, or none could be timed by then.
Result<std::vector<ForkJoinSamples>> measure_fork_join(int threads, double seconds, uint64_t seed, Clock& clock,
                                                       const std::atomic<bool>* stop = nullptr);

db::ForkJoin fork_join_figures(const ForkJoinSamples& samples);

// A team of its own spins between regions, which costs other work CPU time: it has to be worth that. kDedicated when it
// is surely (95%) at least kWorthSpinning faster region after region and not surely that much slower after a pause;
// everything else, ties among it, is kTbb.
inline constexpr double kWorthSpinning = 0.10;
runtime::ScheduleKind choose_schedule(std::span<const ForkJoinSamples> kinds);

}  // namespace hone::autotune
