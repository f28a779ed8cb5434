// What the parity suites of all ops share: every schedule there is, and every code generator.
#pragma once

#include <fmt/format.h>

#include <memory>
#include <string>
#include <vector>

#include "engine/base/machine.h"
#include "engine/runtime/schedule.h"
#include "jit/launch.h"
#include "tests/engine/runtime/schedule_testing.h"

namespace hone::parity {

struct Named {
  std::string name;
  std::unique_ptr<runtime::Schedule> schedule;
};

// What is effective where dedicated(2) cannot be had is tbb(2): then that is tried twice.
inline std::vector<Named>& schedules() {
  using runtime::ScheduleKind;
  static std::vector<Named> all = [] {
    std::vector<Named> made;
    made.push_back({"sequential", runtime::make_schedule({}).value()});
    for (int threads : {2, 3, 7})
      made.push_back(
          {fmt::format("{} threads", threads), runtime::make_schedule({ScheduleKind::kTbb, threads}).value()});
    made.push_back({"reversed", runtime::reversed_schedule(7)});
    made.push_back({"shuffled", runtime::shuffled_schedule(5, 11)});
    made.push_back({"dedicated", runtime::make_schedule({ScheduleKind::kDedicated, 2}).value()});
    return made;
  }();
  return all;
}

inline std::vector<jit::CodeGenerator*> generators_for(Isa isa) {
  static const Machine machine = detect_machine().value();
  std::vector<jit::CodeGenerator*> usable;
  for (jit::CodeGenerator* g : jit::code_generators())
    if (g->name() == "interp" || (machine.supports(isa) && g->targets(isa))) usable.push_back(g);
  return usable;
}

// All tasks of a launch; false when one found no workspace.
inline bool run(runtime::Schedule& on, std::string_view op, jit::Launch& launch) {
  on.for_range({op, "parity"}, launch.tasks(), 1, {jit::Launch::run_range, &launch});
  return !launch.out_of_memory();
}

}  // namespace hone::parity
