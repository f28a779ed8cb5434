// From how much work on a matmul is faster with a region than on the caller alone.
//
// A ladder of small problems whose work doubles from rung to rung, each with one register tile of rows for every
// thread, B in L2. The same compiled kernel runs both ways through the MatmulRacer, region after region, in rounds; a
// rung is won when the median gain of the rounds is surely (95%) above the noise floor.
#pragma once

#include <cstdint>
#include <span>

#include "autotune/measure/clock.h"
#include "autotune/search/stats.h"
#include "engine/base/machine.h"
#include "engine/runtime/schedule.h"

namespace hone::autotune {

struct Rung {
  double work = 0;  // multiply-adds
  Interval gain;    // log(time on the caller / time with a region)
};

bool is_won(const Rung& rung);
// The climb ends with the second rung in a row that is won: one alone may be luck.
bool is_decided(std::span<const Rung> rungs);
// Where the gain passes through 0 just before the first of two rungs that are won (linear in log work). Twice the work
// of the last rung when there are no such two: at least so much.
int64_t min_work(std::span<const Rung> rungs);

// About `seconds`, less where the first rungs are won. `schedule` has at least 2 threads. Error: unsupported when no
// code generator emits code for this machine.
Result<int64_t> measure_min_work(const Machine& machine, const runtime::ScheduleRequest& schedule, double seconds,
                                 uint64_t seed, Clock& clock);

}  // namespace hone::autotune
