// How this process runs regions: on which kind of Schedule, and from how much work on. Measured by `hone tune` for a
// machine, an engine and a number of threads; what was measured for another of these says nothing here. Pure functions,
// but for the one that reads the environment.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "db/store.h"
#include "engine/base/machine.h"
#include "engine/plan/resolver.h"
#include "engine/runtime/schedule.h"

namespace hone::plan {

// What a user wants instead of what was measured.
struct ScheduleWish {
  std::optional<runtime::ScheduleKind> kind;  // nullopt: nothing, "auto"
  std::string source;                         // "HONE_SCHEDULE", "EngineOptions::schedule"; "" without a kind
};
// `asked` is the text of an option called `option`; "" asks $HONE_SCHEDULE. Error: invalid_argument naming the variable
// or option, its value and the names there are.
Result<ScheduleWish> schedule_wish(const std::string& asked = {}, std::string_view option = {});

struct RegionPolicy {
  runtime::ScheduleRequest schedule{runtime::ScheduleKind::kTbb, 1};
  std::string source = "default";              // "default", "measured", "one thread", or that of the wish
  std::optional<int64_t> min_work;             // on that kind, see op::default_threads; nullopt: not known
  std::optional<db::ScheduleChoice> measured;  // for this machine, engine and threads, if there is one
  bool overruled = false;                      // a wish has put another kind in the place of what would be in force
};

// `stored` newest first, as db::Store gives it. The default is TBB: it bears more threads than CPUs and other load.
RegionPolicy region_policy(const std::vector<db::ScheduleChoice>& stored, const Machine& machine, int threads,
                           const ScheduleWish& wish = {});

// What plans are made for where regions run as the policy says.
Target make_target(const Machine& machine, const RegionPolicy& policy, std::span<jit::CodeGenerator* const> generators,
                   Purpose purpose = Purpose::kExecute);

}  // namespace hone::plan
