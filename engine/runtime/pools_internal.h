// Private to engine/runtime: the kinds of Schedule that have threads. make_schedule chooses among them; each takes what
// was requested and what it is to be.
#pragma once

#include "engine/runtime/schedule.h"

namespace hone::runtime {

Result<std::unique_ptr<Schedule>> make_tbb(const ScheduleRequest& requested, const ScheduleRequest& effective);
// False in a child of fork() whose parent had made a TBB schedule: TBB believes in workers that do not exist there.
bool tbb_works_in_this_process();

// Error: resource_exhausted when threads cannot be started.
Result<std::unique_ptr<Schedule>> make_dedicated(const ScheduleRequest& requested, const ScheduleRequest& effective);

}  // namespace hone::runtime
