// Races whole plans of one graph against each other: compiles each policy's plan, checks what it computes, times calls.
//
// Nothing is timed before it was found right. The default plan is held to the eager reference, on a call of a few
// tokens and one more behind it, as the reference is naive; every other plan is held to the default plan on the very
// call that is timed. Same numerics class: the same bits. Another class: within kClassBound of the largest element.
// All plans run in this process: their kernels are those that a kernel's own tune has isolated and gated.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "autotune/measure/clock.h"
#include "autotune/search/racer.h"
#include "engine/passes/policy.h"
#include "hone/engine.hpp"
#include "tools/hone/plan_call.h"

namespace hone::cli {

// Sums of a few thousand terms in another order differ by some 2^-24 * sqrt(terms) of what they are made of; a wrong
// kernel differs by all of it.
inline constexpr float kClassBound = 1e-3F;

// "" when `got` is what `want` says, else one line: which output and element, and both values. NaN equals NaN in place
// only.
std::string difference(const std::vector<graph::Tensor>& got, const std::vector<graph::Tensor>& want, bool same_bits);

class PlanRacer final : public autotune::Racer {
 public:
  // `policies[0]` is the default. `graph` has its constants and outlives the racer.
  PlanRacer(const graph::Graph& graph, Engine engine, std::vector<passes::PlanPolicy> policies, autotune::Clock& clock,
            const PlanCall::Options& call)
      : graph_(graph), engine_(std::move(engine)), policies_(std::move(policies)), clock_(clock), call_(call) {}

  autotune::Prepared prepare(int candidate) override;
  std::vector<autotune::Timing> round(std::span<const int> arms) override;
  void release(int candidate) override { ready_.erase(candidate); }

 private:
  struct Ready {
    PlanCall call;
    int repeat = 1;
    bool settles = true;  // an untimed call goes before the timed ones
  };

  Result<executable::ExecutablePlan> compile(const passes::PlanPolicy& policy) const;
  // Errors: data_loss when the plan computes something else.
  Status check_reference(const executable::ExecutablePlan& plan) const;
  Status check_call(int candidate, PlanCall& call);
  Result<Ready> make(int candidate);
  Result<int64_t> time_once(PlanCall& call);
  Result<int64_t> sample(Ready& ready);

  const graph::Graph& graph_;
  const Engine engine_;
  const std::vector<passes::PlanPolicy> policies_;
  autotune::Clock& clock_;
  const PlanCall::Options call_;
  std::map<int, Ready> ready_;
  std::vector<graph::Tensor> wanted_;  // of the default plan; empty until it has run
};

}  // namespace hone::cli
