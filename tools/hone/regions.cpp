#include "tools/hone/regions.h"

#include <fmt/format.h>

#include "tools/hone/cli.h"

namespace hone::cli {
namespace {

Json fork_joins_json(const db::ScheduleChoice& choice) {
  Json all = Json::array();
  for (const db::ForkJoin& f : choice.fork_joins)
    all.push_back({{"schedule", f.schedule},
                   {"median_ns", f.median_ns},
                   {"p99_ns", f.p99_ns},
                   {"paused_median_ns", f.paused_median_ns},
                   {"paused_p99_ns", f.paused_p99_ns}});
  return all;
}

}  // namespace

Result<plan::RegionPolicy> region_policy_in_force(db::Store* store, const Machine& machine, int threads) {
  HONE_ASSIGN_OR_RETURN(const plan::ScheduleWish wish, plan::schedule_wish());
  Result<std::vector<db::ScheduleChoice>> stored = std::vector<db::ScheduleChoice>();
  if (store != nullptr) stored = store->schedules();
  return plan::region_policy(stored.ok() ? *stored : std::vector<db::ScheduleChoice>(), machine, threads, wish);
}

Json regions_json(const plan::RegionPolicy& policy) {
  const std::string requested = to_string(policy.schedule);
  Json json = {{"requested", requested},    {"effective", to_string(runtime::effective_schedule(policy.schedule))},
               {"source", policy.source},   {"measured_at", nullptr},
               {"measured_by", nullptr},    {"min_work", policy.min_work ? Json(*policy.min_work) : Json(nullptr)},
               {"fork_join", Json::array()}};
  if (!policy.measured) return json;
  json["measured_at"] = utc(policy.measured->measured_at);
  json["measured_by"] = policy.measured->build.engine;
  json["fork_join"] = fork_joins_json(*policy.measured);
  return json;
}

Json measured_json(const db::ScheduleChoice& choice) {
  return {{"machine_key", choice.machine.key},
          {"build", choice.build.engine},
          {"threads", choice.threads},
          {"schedule", choice.schedule},
          {"min_work", choice.min_work > 0 ? Json(choice.min_work) : Json(nullptr)},
          {"fork_join", fork_joins_json(choice)},
          {"measured", utc(choice.measured_at)}};
}

std::string regions_text(const Json& regions, std::string_view separator) {
  const std::string requested = regions["requested"], effective = regions["effective"], source = regions["source"];
  std::string text = effective;
  if (requested != effective) text += fmt::format(" instead of {}", requested);
  text += source != "measured" ? fmt::format(" ({})", source)
                               : fmt::format(" (measured {} UTC)", regions["measured_at"].get<std::string>());
  if (!regions["min_work"].is_null()) {
    text += fmt::format(", pays from a work of {} on (multiply-adds, or 20 per element moved where that is more)",
                        regions["min_work"].get<int64_t>());
  } else if (effective != "sequential" && source != "default") {
    text += ", the smallest work that pays is not known: a guess is in force";
  }
  if (separator.empty()) return text;
  for (const Json& f : regions["fork_join"]) {
    auto us = [&](const char* field) { return static_cast<double>(f[field].get<int64_t>()) / 1e3; };
    text += fmt::format(
        "{}{} opens and closes a region in {:.1f} us (p99 {:.1f}), after a pause in {:.1f} (p99 {:.1f})", separator,
        f["schedule"].get<std::string>(), us("median_ns"), us("p99_ns"), us("paused_median_ns"), us("paused_p99_ns"));
  }
  return text;
}

}  // namespace hone::cli
