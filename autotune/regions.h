// How this machine runs regions, measured: the record that `hone tune` keeps and the engine obeys.
#pragma once

#include "db/store.h"
#include "engine/base/machine.h"

namespace hone::autotune {

struct RegionOptions {
  int threads = 2;       // at least 2
  double seconds = 1.2;  // in all; at least 0.2
  uint64_t seed = 1;
};

// Fork-join latencies of each kind of Schedule, the kind chosen by them, and the smallest work that pays on it.
// measured_at is left to the store. Errors: those of measure_fork_join and measure_min_work.
Result<db::ScheduleChoice> measure_regions(const Machine& machine, const RegionOptions& options);

}  // namespace hone::autotune
