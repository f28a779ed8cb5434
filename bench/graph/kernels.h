// The prepared ops of a plan without the plan: matmuls and attention through the public API with operands bound
// beforehand, row programs, top-k and experts as their steps, one after the other in memory of their own.
#pragma once

#include <functional>
#include <list>
#include <memory>
#include <vector>

#include "engine/executable/step_internal.h"
#include "engine/graph/tensor.h"

namespace hone::bench {

class Kernels {
 public:
  // `compilation` has been through all passes, with its constants; calls have `tokens` tokens at `position`.
  static Result<std::unique_ptr<Kernels>> create(const Engine& engine, passes::Compilation compilation, int64_t tokens,
                                                 int64_t position, const std::vector<graph::Tensor>& inputs);

  Status run() const {
    for (const std::function<Status()>& call : calls_) HONE_RETURN_IF_ERROR(call());
    return {};
  }
  // Takes back what a run appended to caches.
  Status forget();
  size_t size() const { return calls_.size(); }
  // The bytes of graph output `i` after a run.
  const float* output(size_t i) const;

 private:
  Kernels(const Engine& engine, passes::Compilation compilation, const executable::PlanOptions& options);
  Status make_memory(const std::vector<graph::Tensor>& inputs);
  Status add(const passes::Dispatch& dispatch);
  Status add_matmul(const passes::Dispatch& dispatch);
  Status add_attention(const passes::Dispatch& dispatch);
  Status add_append(const passes::Dispatch& dispatch);
  Status fill_caches(int64_t position);
  float* at(graph::ValueId value) const;
  int64_t stride(graph::ValueId value, size_t axis) const;
  int64_t extent(const graph::Dim& dim) const;

  passes::Compilation compilation_;
  executable::PlanOptions options_;
  executable::Preparation preparation_;
  int64_t position_ = 0;
  graph::Bindings bindings_;
  std::vector<int64_t> values_;    // of symbols
  std::vector<std::byte*> bases_;  // of buffers
  std::vector<AlignedBuffer> memory_;
  std::vector<graph::Constant> constants_;
  std::vector<KvCache> caches_;
  executable::Steps steps_;
  std::list<Matmul> matmuls_;
  std::unique_ptr<executable::Call> call_;
  std::vector<std::function<Status()>> calls_;
};

}  // namespace hone::bench
