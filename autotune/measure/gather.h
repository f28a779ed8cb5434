// Awake threads: what an op meets in a model, where the one before it ended a microsecond ago.
#pragma once

#include "engine/runtime/schedule.h"

namespace hone::autotune {

// Opens a region in which every thread of the schedule waits until all have come, or 20 ms have passed. Emptying caches
// takes long enough for them to fall asleep, and their wake-up would be measured in place of the op: 20 to 400 us where
// a virtual CPU was halted, 4 ms where Linux wakes a thread on the caller's CPU and moves it at the next tick.
void gather(runtime::Schedule& schedule);

}  // namespace hone::autotune
