// How regions run here, as the commands use and show it.
#pragma once

#include <string>

#include "engine/plan/region_policy.h"
#include "tools/hone/json.h"

namespace hone::cli {

// What the engine would do with this database: HONE_SCHEDULE, else what was measured for so many threads, else the
// default. A store that cannot say what was measured is one in which nothing was. Error: a bad HONE_SCHEDULE, as typed.
Result<plan::RegionPolicy> region_policy_in_force(db::Store* store, const Machine& machine, int threads);

// min_work is null where it is not known for the kind in force.
// {requested, effective, source, measured_at, measured_by, min_work, fork_join [{schedule, median_ns, ...}]}
Json regions_json(const plan::RegionPolicy& policy);
// A stored measurement, of whatever machine.
Json measured_json(const db::ScheduleChoice& choice);
// What regions_json() gave, for people: the schedule and the threshold, then each kind after a `separator`, if there is
// one.
std::string regions_text(const Json& regions, std::string_view separator);

}  // namespace hone::cli
