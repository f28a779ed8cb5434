// Code generators that fail on purpose: the proof that a candidate which crashes, hangs, eats the memory or computes
// wrong values costs a tune that candidate and nothing else, and that random programs find what is wrong. They wrap a
// real generator, so that up to the fault they are candidates like all others; no list has them, and whoever wants one
// types its name:
//
//   fault-sigill fault-sigsegv fault-sigbus   the signal, at the first task
//   fault-hang fault-deadlock                 never returns: with a busy CPU, and asleep
//   fault-oom                                 allocates and touches until there is no more
//   fault-exit                                ends the process with code 3
//   fault-wrong                               one element of the output is wrong
//   fault-compile-segv fault-compile-hang     the compiler itself fails
//   fault-shl-sigsegv fault-round-hang        the same, of kernels with that operation only
//   fault-min-swapped                         min(a, b) is compiled as min(b, a)
//   fault-lane-dropped                        masks miss their last lane
//
// "@N" behind the name: tasks that are run rightly before the fault, or which element is wrong.
#pragma once

#include <string_view>
#include <vector>

#include "jit/codegen.h"

namespace hone::jit {

// nullptr when the name is not of this kind. Thread safe; the generator lives as long as the process.
CodeGenerator* find_fault_generator(std::string_view name);
// Of those that every kernel shows, without "@N"; for tests.
std::vector<std::string_view> fault_generator_names();

}  // namespace hone::jit
