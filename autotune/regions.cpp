#include "autotune/regions.h"

#include <algorithm>

#include "autotune/measure/fork_join.h"
#include "autotune/measure/region_threshold.h"
#include "autotune/recorder.h"
#include "engine/base/guarded.h"

namespace hone::autotune {
namespace {

Result<db::ScheduleChoice> measure(const Machine& machine, const RegionOptions& options) {
  SteadyClock clock;
  HONE_ASSIGN_OR_RETURN(const std::vector<ForkJoinSamples> kinds,
                        measure_fork_join(options.threads, options.seconds / 2, options.seed, clock));
  const runtime::ScheduleRequest chosen{choose_schedule(kinds), options.threads};
  db::ScheduleChoice choice{.machine = machine_record(machine),
                            .build = build_record(),
                            .threads = chosen.threads,
                            .schedule = std::string(runtime::schedule_kind_name(chosen.kind)),
                            .min_work = 0,
                            .fork_joins = {},
                            .measured_at = 0};
  HONE_ASSIGN_OR_RETURN(choice.min_work, measure_min_work(machine, chosen, options.seconds / 2, options.seed, clock));
  for (const ForkJoinSamples& kind : kinds) choice.fork_joins.push_back(fork_join_figures(kind));
  std::sort(choice.fork_joins.begin(), choice.fork_joins.end(),
            [](const db::ForkJoin& a, const db::ForkJoin& b) { return a.schedule < b.schedule; });
  return choice;
}

}  // namespace

Result<db::ScheduleChoice> measure_regions(const Machine& machine, const RegionOptions& options) {
  return guarded([&] { return measure(machine, options); });
}

}  // namespace hone::autotune
