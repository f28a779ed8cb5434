// The worker: a process that compiles, checks and times candidates for a tuner, one problem after the other, until the
// tuner hangs up. It keeps code generators and thread pools warm; everything that can go wrong in a candidate goes
// wrong here.
#pragma once

namespace hone::autotune {

// The exit code of a process that a Child has started: 0 when the tuner hung up, 1 when it spoke nonsense, 2 when there
// is no tuner (somebody typed the command).
int run_worker();

}  // namespace hone::autotune
