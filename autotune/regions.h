// How this machine runs regions, measured: the record that `hone tune` keeps and the engine obeys.
#pragma once

#include <atomic>
#include <optional>

#include "db/store.h"
#include "engine/base/machine.h"
#include "engine/runtime/schedule.h"

namespace hone::autotune {

struct RegionOptions {
  int threads = 2;       // at least 2
  double seconds = 1.2;  // in all; at least 0.2
  uint64_t seed = 1;
  const std::atomic<bool>* stop = nullptr;
};

// Fork-join latencies of each kind of Schedule, the kind chosen by them, and the smallest work that pays on it, 0 when
// that was not found. measured_at is left to the store. Errors: unavailable when threads are more than CPUs; those of
// measure_fork_join and climb.
Result<db::ScheduleChoice> measure_regions(const Machine& machine, const RegionOptions& options);

// The smallest work that pays on a kind that somebody wants instead, in half of the seconds; nothing when that was not
// found. Errors: as above.
Result<std::optional<int64_t>> measure_smallest_work(const Machine& machine, runtime::ScheduleKind kind,
                                                     const RegionOptions& options);

// Whether a record needs no measuring again: it has all there is to find, is under 30 days old (the figures age with
// kernel, hypervisor and neighbours) and not from the future, which only a wrong clock has seen.
bool is_current(const db::ScheduleChoice& choice, int64_t unix_now);

}  // namespace hone::autotune
