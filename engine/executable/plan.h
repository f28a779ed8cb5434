// ExecutablePlan: a compiled graph, ready to run. Made once from a Compilation (engine/passes) and an Engine, which
// says what machine this is, what was tuned and which threads there are.
//
//   HONE_ASSIGN_OR_RETURN(ExecutablePlan plan, ExecutablePlan::create(engine, std::move(compilation)));
//   HONE_ASSIGN_OR_RETURN(Session session, plan.session());
//   session.run(inputs, outputs);              prefill of s tokens
//   session.run(...);                          one more; its position is the graph's
//
// A plan is immutable and may be shared: each sequence has a Session with memory of its own (arena, keys and values,
// position). The bits of the outputs depend on the inputs, the state and the numerics classes of the plan alone: not on
// the Schedule, the threads, the tuning, the code generator or how tokens were cut into calls.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "engine/passes/compilation.h"
#include "engine/weight_store.h"
#include "hone/engine.hpp"

namespace hone::plan {
struct PlanFacts;
}

namespace hone::executable {

struct PlanOptions {
  // Numbers of tokens that matter most, the first most of all: each gets plans of its own in every matmul and
  // attention, and the first decides how weights are packed. Those that the graph's symbols do not allow are left out.
  std::vector<int64_t> expected_tokens = {1};
  // Compile now what every allowed size needs; false: only the expected ones, others in their first call.
  bool warm_up = true;
  // Of matmuls with constant weights of bf16, as MatmulSpec::numerics. All else stays in its default class, or in that
  // of the policy.
  std::string numerics = {};
  // Where packed weights are kept between processes; null: nowhere. Used while the plan is made, its memory as long as
  // the plan lives.
  WeightStore* weights = nullptr;
  // Called with bytes of constants that were packed, which this plan does not read again: whoever maps a file may let
  // its pages go. They stay readable, as another plan may want them.
  std::function<void(std::span<const std::byte>)> done_with = {};
};

// A tensor of the caller's: dense, row-major.
struct InputTensor {
  const void* data = nullptr;
  std::span<const int64_t> shape;
};
struct OutputTensor {
  void* data = nullptr;
  int64_t bytes = 0;  // that are there
};

// One step as it runs, for reports: what was chosen and why.
struct StepReport {
  std::string name, kind;  // of the dispatch
  std::string kernel;      // problem or kernel name
  std::string plan;        // program
  std::string codegen, numerics, reason;
  int threads = 1;
  std::string why;  // of the dispatch: what the fusion saves
};

struct PlanMemory {
  int64_t arena_bytes = 0, without_reuse = 0;  // intermediates of a session
  int64_t packed_bytes = 0;                    // weights as matmuls read them, shared by all sessions
  int64_t constant_bytes = 0;                  // other constants and tables
};

class Session;

class ExecutablePlan {
 public:
  // `compilation` has been through all passes. Constants that matmuls have packed are not kept. Errors: unsupported
  // naming the node (no kernel for it), what preparing a matmul or attention says, resource_exhausted.
  static Result<ExecutablePlan> create(const Engine& engine, passes::Compilation compilation,
                                       const PlanOptions& options = {});

  // Takes the memory for one sequence at the largest sizes. Error: resource_exhausted.
  Result<Session> session() const;

  // The graph without its large constants, and all that passes found.
  const passes::Compilation& compilation() const;
  PlanMemory memory() const;
  // For calls with `tokens` tokens at position `position`, compiling what is not there yet.
  Result<std::vector<StepReport>> report(int64_t tokens, int64_t position) const;
  // Of such calls the resolved plans of matmuls and attention, each once however many steps share it. They live as long
  // as this plan.
  Result<std::vector<const plan::PlanFacts*>> resolved(int64_t tokens, int64_t position) const;

  class Impl;

 private:
  friend class Session;
  explicit ExecutablePlan(std::shared_ptr<const Impl> impl) : impl_(std::move(impl)) {}
  std::shared_ptr<const Impl> impl_;
};

// One sequence. Calls on one session must not overlap.
class Session {
 public:
  // Inputs and outputs in the graph's order; what is not as the guards say is refused before anything runs, naming
  // dimension, value and rule. After a first call of its size it allocates nothing on one thread,
  // but for the room of a cache when that doubles (hone/attention.hpp, KvCacheSpec). With an error the
  // position is as before, and outputs are unspecified. Outputs must not overlap inputs or each other.
  Status run(std::span<const InputTensor> inputs, std::span<const OutputTensor> outputs);

  // What outputs a call with these inputs would give.
  Result<std::vector<std::vector<int64_t>>> output_shapes(std::span<const InputTensor> inputs) const;

  int64_t position() const;
  // Forgets all tokens from `position` on. Error: invalid_argument (it is further than the session is).
  Status truncate(int64_t position);

  // Nanoseconds of each step that runs code, in order, in the last call; measured while on.
  void measure_steps(bool on);
  std::span<const int64_t> step_ns() const;
  std::vector<std::string> step_names() const;

  class Impl;
  explicit Session(std::unique_ptr<Impl> impl);
  Session(Session&&) noexcept;
  Session& operator=(Session&&) noexcept;
  ~Session();

 private:
  std::unique_ptr<Impl> impl_;
};

}  // namespace hone::executable
