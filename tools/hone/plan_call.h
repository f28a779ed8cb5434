// Calls of a graph with invented operands: what a plan is measured with, and checked on, when nobody brings a model.
// How long a plan takes depends on shapes, and not on what the numbers are, as long as none is denormal or NaN.
#pragma once

#include <memory>
#include <vector>

#include "engine/executable/plan.h"
#include "engine/graph/tensor.h"

namespace hone::cli {

// Elements of a constant whose file is not there, the same for one name and seed: matrices as a model's weights are
// scaled (so that a layer keeps the size of its rows), vectors around 1 as those of norms, indices 0, truth values 1.
graph::Constant invented_constant(const std::string& name, const graph::TensorType& type, uint64_t seed);

// The graph of a file, graph text or StableHLO. Constants of graph text whose elements are not in it are invented.
// Errors name the file, and the line where there is one.
Result<graph::Graph> read_invented(const std::string& path, uint64_t seed);

// Inputs of a call with `tokens` tokens at `position`. Indices into a table of constants are rows that it has. Error:
// unsupported when an input's size cannot be had from these two.
Result<std::vector<graph::Tensor>> invented_inputs(const graph::Graph& graph, int64_t tokens, int64_t position,
                                                   uint64_t seed);

// One call of `tokens` tokens at `position`, again and again: what came before was put into the session once, and each
// call is forgotten.
class PlanCall {
 public:
  struct Options {
    int64_t tokens = 1;
    int64_t position = 0;
    uint64_t seed = 1;
  };
  // `graph` as it was before the passes. Errors: those of making a session and of running it.
  static Result<PlanCall> create(const executable::ExecutablePlan& plan, const graph::Graph& graph,
                                 const Options& options);

  // The seed of the inputs of the call that put the rows from `position` on there.
  static uint64_t seed_before(uint64_t seed, int64_t position) { return seed + 1 + static_cast<uint64_t>(position); }

  // The call alone, without forgetting it: what is to be timed.
  Status run() { return session_.run(inputs_, outputs_); }
  Status forget() { return session_.truncate(options_.position); }

  // Of the last run.
  const std::vector<graph::Tensor>& outputs() const { return *results_; }
  executable::Session& session() { return session_; }

 private:
  PlanCall(executable::Session session, const Options& options) : session_(std::move(session)), options_(options) {}
  Status fill(const graph::Graph& graph);
  Status make_operands(const graph::Graph& graph, int64_t tokens, int64_t position, uint64_t seed);

  executable::Session session_;
  Options options_;
  // On the heap: what points to them outlives a move of this.
  std::unique_ptr<std::vector<graph::Tensor>> operands_, results_;
  std::vector<executable::InputTensor> inputs_;
  std::vector<executable::OutputTensor> outputs_;
};

}  // namespace hone::cli
