// What the database knows about candidates, as comparable numbers. Times of different rounds are never compared, so
// every candidate is measured by log(time / time of its run's baseline) within rounds; candidates are comparable when
// they met the same baseline, on the same machine, problem and cache mode: a group.
#pragma once

#include <string>
#include <vector>

#include "autotune/cost/cost.h"
#include "db/store.h"

namespace hone::autotune {

struct MeasuredCandidate {
  Candidate candidate;   // of matmul
  double log_ratio = 0;  // median over rounds
  int rounds = 0;
};

struct MeasuredGroup {
  std::string text;               // of the problem
  matmul::MatmulProblem problem;  // the ranker knows no other op
  CostMachine machine;            // with the rates that its newest run knew
  std::vector<MeasuredCandidate> candidates;
};

// What the cost model may know of the machine that a run was on, with the rates that it measured there.
CostMachine cost_machine_of(const db::StoredRun& run);

// All groups of machines with this key, of at least two candidates. What this build cannot read (a program with
// unknown steps) is left out, and so is every op but matmul, the only one that the ranker knows.
Result<std::vector<MeasuredGroup>> read_samples(db::Store& store, const std::string& machine_key);

}  // namespace hone::autotune
