// From how much work on a matmul is faster with a region than on the caller alone.
//
// A ladder of small problems whose multiply-adds double from rung to rung, each with one register tile of rows for
// every thread, B in L2. The same compiled kernel runs both ways through the MatmulRacer, region after region, in
// rounds; a rung is won when the median gain of the rounds is surely (95%) above the noise floor.
#pragma once

#include <atomic>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "autotune/measure/clock.h"
#include "autotune/search/stats.h"
#include "engine/base/machine.h"
#include "engine/runtime/schedule.h"
#include "kernels/matmul/problem.h"

namespace hone::autotune {

struct Rung {
  double work = 0;  // matmul::region_work: the threshold is compared with that
  Interval gain;    // log(time on the caller / time with a region)
};

bool is_won(const Rung& rung);
// The climb ends with the second rung in a row that is won: one alone may be luck.
bool is_decided(std::span<const Rung> rungs);
// Where the gain passes through 0 just before the first of two rungs that are won (linear in log work). Nothing when
// there are no such two: the machine was busy, or nothing as small as that pays.
std::optional<int64_t> min_work(std::span<const Rung> rungs);

// What is multiplied on a rung, 0 being the smallest.
matmul::MatmulProblem rung_problem(const Machine& machine, Isa isa, int threads, int rung);

// The rungs from the smallest on, in about `seconds`, less where the first ones are won. `schedule` has at least 2
// threads. Error: unsupported when no code generator emits code for this machine, unavailable when `stop` was set.
Result<std::vector<Rung>> climb(const Machine& machine, const runtime::ScheduleRequest& schedule, double seconds,
                                uint64_t seed, Clock& clock, const std::atomic<bool>* stop = nullptr);

}  // namespace hone::autotune
