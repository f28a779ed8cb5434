#include "autotune/regions.h"

#include <fmt/format.h>

#include <algorithm>

#include "autotune/measure/fork_join.h"
#include "autotune/measure/region_threshold.h"
#include "autotune/recorder.h"
#include "engine/base/guarded.h"

namespace hone::autotune {
namespace {

constexpr int64_t kKeepFor = int64_t{30} * 86'400;

Status has_a_cpu_for_each(const Machine& machine, int threads) {
  if (threads <= machine.cpus_usable) return {};
  return unavailable(fmt::format("{} threads have {} CPU(s) here ({}) and would be timed waiting for each other",
                                 threads, machine.cpus_usable, machine.cpus_source));
}

Result<std::optional<int64_t>> smallest_work(const Machine& machine, runtime::ScheduleKind kind,
                                             const RegionOptions& options, Clock& clock) {
  HONE_ASSIGN_OR_RETURN(const std::vector<Rung> rungs, climb(machine, {kind, options.threads}, options.seconds / 2,
                                                             options.seed, clock, options.stop));
  return min_work(rungs);
}

Result<db::ScheduleChoice> measure(const Machine& machine, const RegionOptions& options) {
  HONE_RETURN_IF_ERROR(has_a_cpu_for_each(machine, options.threads));
  SteadyClock clock;
  HONE_ASSIGN_OR_RETURN(const std::vector<ForkJoinSamples> kinds,
                        measure_fork_join(options.threads, options.seconds / 2, options.seed, clock, options.stop));
  const runtime::ScheduleKind chosen = choose_schedule(kinds);
  HONE_ASSIGN_OR_RETURN(const std::optional<int64_t> pays_from, smallest_work(machine, chosen, options, clock));
  db::ScheduleChoice choice{.machine = machine_record(machine),
                            .build = build_record(),
                            .threads = options.threads,
                            .schedule = std::string(runtime::schedule_kind_name(chosen)),
                            .min_work = pays_from.value_or(0),
                            .fork_joins = {},
                            .measured_at = 0};
  for (const ForkJoinSamples& kind : kinds) choice.fork_joins.push_back(fork_join_figures(kind));
  std::sort(choice.fork_joins.begin(), choice.fork_joins.end(),
            [](const db::ForkJoin& a, const db::ForkJoin& b) { return a.schedule < b.schedule; });
  return choice;
}

}  // namespace

Result<db::ScheduleChoice> measure_regions(const Machine& machine, const RegionOptions& options) {
  return guarded([&] { return measure(machine, options); });
}

Result<std::optional<int64_t>> measure_smallest_work(const Machine& machine, runtime::ScheduleKind kind,
                                                     const RegionOptions& options) {
  return guarded([&]() -> Result<std::optional<int64_t>> {
    HONE_RETURN_IF_ERROR(has_a_cpu_for_each(machine, options.threads));
    SteadyClock clock;
    return smallest_work(machine, kind, options, clock);
  });
}

bool is_current(const db::ScheduleChoice& choice, int64_t unix_now) {
  const int64_t age = unix_now - choice.measured_at;
  return choice.min_work > 0 && age >= 0 && age < kKeepFor;
}

}  // namespace hone::autotune
