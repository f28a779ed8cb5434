// Awake threads: what an op meets in a model, where the one before it ended a microsecond ago.
#pragma once

#include "engine/runtime/schedule.h"

namespace hone::autotune {

// Opens a region in which every thread of the schedule waits until all have come, or a millisecond has passed. Emptying
// caches takes long enough for them to fall asleep, and a wake-up of 20 to 400 us (halted virtual CPUs) would be
// measured in place of the op.
void gather(runtime::Schedule& schedule);

}  // namespace hone::autotune
