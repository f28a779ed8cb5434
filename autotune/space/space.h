// Which plans are worth measuring for a problem? A pure function of problem, instruction sets, caches, threads and code
// generators, so that "what would be tried on that machine" is a test, and so that a search never depends on what ran
// before.
//
// The space is not the cross product of all knobs (millions of programs, most of them nonsense) but a structured set,
// op by op. Of matmul: register tiles that fill the register file x ways of packing x block sizes around the analytical
// point x loop order, and then each remaining knob (unroll, prefetch, parallel dimension) varied at the analytical
// point of every tile and packing.
//
// What must stay true: every candidate is legal, lowers, and is of a numerics class that may compete; no two candidates
// have the same LoopIR, code generator and thread count.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "engine/base/machine.h"
#include "kernels/op/op.h"

namespace hone::autotune {

struct Target {
  std::vector<Isa> isas;  // usable ones, weakest first
  BlockingCaches caches;
  std::vector<int> threads;           // counts to consider, ascending
  std::vector<std::string> codegens;  // names
  int64_t panel = 0;                  // > 0: B is packed already, in panels of this width
  std::optional<int64_t> min_work;    // see op::default_threads
  std::string numerics;               // classes that may compete, see op::check_numerics (checked)
  FeatureSet features;                // of the CPU: some classes need more than an ISA has
};

struct Candidate {
  op::Program program;
  std::string codegen;
  int threads = 1;
  bool operator==(const Candidate&) const = default;
};

struct Rejected {
  op::Program program;
  std::string why;
};

struct Space {
  std::vector<Candidate> candidates;
  std::vector<Rejected> rejected;  // generated but not legal, each with the rule it broke
  int64_t duplicates = 0;          // programs whose LoopIR another candidate has already
};

// The default plan is the first candidate.
Space enumerate(const op::Problem& problem, const Target& target);

// The plan without any measurement: the analytical program, the preferred code generator, and of the thread counts that
// may be tried the largest that the runtime would wake for this problem.
Candidate default_candidate(const op::Problem& problem, const Target& target);

}  // namespace hone::autotune
