// What a candidate of some op is checked and timed on: the memory of its operands, how its kernels are called, what
// their results must be. One for each problem; all candidates of it see the same values.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <vector>

#include "engine/runtime/schedule.h"
#include "jit/launch.h"
#include "kernels/op/op.h"

namespace hone::autotune {

// A candidate that can run.
struct Compiled {
  op::Program program;
  std::vector<jit::Executable> kernels;  // as op::lower gave them
  runtime::Schedule* schedule = nullptr;
  jit::WorkspacePool* workspaces = nullptr;
};

class Workload {
 public:
  virtual ~Workload() = default;

  // Makes what the program needs beside the operands (weights in its panels, memory for partial results). Idempotent.
  virtual Status set_up(const Compiled& candidate) = 0;

  // The two steps of the correctness gate (gate.h). Error: data_loss naming what is wrong; others when it could not be
  // told. `refuted` is set when this candidate has proven those wrong that passed before.
  virtual Status check_guarded(const Compiled& candidate, bool* refuted) = 0;
  virtual Status check(const Compiled& candidate, bool* refuted) = 0;

  // One call on all operands, under the candidate's schedule: what is timed.
  virtual Status call(const Compiled& candidate) = 0;
  // Bytes that a call reads and writes, to be flushed.
  virtual std::vector<std::span<const std::byte>> ranges(const Compiled& candidate) const = 0;
};

// B of matmul and its packed copies, which are kept from one problem to the next (operands.h).
struct Weights;

// `weights` may be null. Error: what validate(problem) says; resource_exhausted naming the size.
Result<std::unique_ptr<Workload>> make_workload(const op::Problem& problem, uint64_t seed,
                                                std::shared_ptr<Weights>* weights);

// Bytes of all operands, about.
double operand_bytes(const op::Problem& problem);

}  // namespace hone::autotune
