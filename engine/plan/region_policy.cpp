#include "engine/plan/region_policy.h"

#include <fmt/format.h>

#include "engine/base/env.h"
#include "engine/base/version.h"

namespace hone::plan {

using runtime::ScheduleKind;

Result<ScheduleWish> schedule_wish(const std::string& asked, std::string_view option) {
  ScheduleWish wish{.kind = {}, .source = std::string(option)};
  std::string name = asked;
  if (name.empty()) {
    wish.source = "HONE_SCHEDULE";
    name = env("HONE_SCHEDULE").value_or("");
  }
  if (name.empty() || name == "auto") return ScheduleWish{};
  const Result<ScheduleKind> kind = runtime::parse_schedule_kind(name);
  if (!kind.ok()) return invalid_argument(fmt::format("{}={}: {}, auto", wish.source, name, kind.status().message()));
  wish.kind = *kind;
  return wish;
}

RegionPolicy region_policy(const std::vector<db::ScheduleChoice>& stored, const Machine& machine, int threads,
                           const ScheduleWish& wish) {
  RegionPolicy policy;
  policy.schedule.threads = threads;
  const std::string key = machine.key(), label = machine_to_json(machine);
  for (const db::ScheduleChoice& choice : stored) {
    if (choice.machine.key != key || choice.machine.label != label || choice.build.engine != engine_label()) continue;
    const Result<ScheduleKind> kind = runtime::parse_schedule_kind(choice.schedule);
    // A kind that this build has no name for is no choice of it.
    if (choice.threads != threads || !kind.ok() || *kind == ScheduleKind::kSequential) continue;
    policy.schedule.kind = *kind;
    policy.source = "measured";
    if (choice.min_work > 0) policy.min_work = choice.min_work;
    policy.measured = choice;
    break;
  }
  if (wish.kind) {
    // From how much work on a region pays differs by kind.
    policy.overruled = *wish.kind != policy.schedule.kind;
    if (policy.overruled) policy.min_work.reset();
    policy.schedule.kind = *wish.kind;
    policy.source = wish.source;
  }
  if (threads <= 1 || policy.schedule.kind == ScheduleKind::kSequential) {
    policy = {.schedule = {ScheduleKind::kSequential, 1}, .source = wish.kind ? wish.source : "one thread"};
  }
  return policy;
}

Target make_target(const Machine& machine, const RegionPolicy& policy, std::span<jit::CodeGenerator* const> generators,
                   Purpose purpose) {
  Target target = make_target(machine, policy.schedule.threads, generators, purpose);
  target.min_work = policy.min_work;
  target.overruled = policy.overruled;
  return target;
}

}  // namespace hone::plan
