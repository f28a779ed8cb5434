// What a plan runs: a list of steps, each with everything prepared that does not depend on the call.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "engine/executable/plan.h"
#include "engine/executable/size.h"
#include "engine/row_kernel_internal.h"
#include "engine/state_internal.h"
#include "hone/attention.hpp"

namespace hone::executable {

// A value in memory: `offset` elements into a buffer.
struct Place {
  int buffer = -1;
  Size offset;
  int64_t element_bytes = 4;
};

// One call as steps see it.
struct Call {
  std::span<const int64_t> symbols;
  std::span<std::byte* const> bases;  // of buffers
  std::span<KvCache> caches;

  template <typename T>
  T* at(const Place& place) const {
    return reinterpret_cast<T*>(bases[static_cast<size_t>(place.buffer)] +
                                place.offset.at(symbols) * place.element_bytes);
  }
};

class Step {
 public:
  virtual ~Step() = default;
  virtual Status run(const Call& call) const = 0;
  // kind, name and why are the dispatch's.
  virtual Result<StepReport> report(std::span<const int64_t> symbols) const = 0;
  // The resolved plan that such a call runs on; null: the step has none.
  virtual Result<const plan::PlanFacts*> facts(std::span<const int64_t>) const { return nullptr; }

  std::string name, kind, why;
  runtime::NodeScope::Split split = runtime::NodeScope::Split::kAllowed;  // what the node's schedule hint allows
};

// While a plan is made: what steps are prepared from.
class Preparation {
 public:
  Preparation(const Engine& engine, passes::Compilation& compilation, const PlanOptions& options);

  Result<Size> size(const graph::Dim& dim) const { return Size::of(dim, symbols); }
  Result<Place> place(graph::ValueId value) const;
  const passes::Placement& placement(graph::ValueId value) const { return compilation.placements.at(value); }
  const graph::TensorType& type(graph::ValueId value) const { return compilation.graph.value(value).type; }
  // The values that a dimension has for the expected numbers of tokens, without repetitions; and its largest.
  std::vector<int64_t> expected(const graph::Dim& dim) const;
  Result<int64_t> largest(const graph::Dim& dim) const;
  // A buffer whose content is known now, kept by the plan.
  int add_buffer(AlignedBuffer memory);
  // Its bytes were read for the last time.
  void done_with(const graph::Constant& constant) const;

  const Engine& engine;
  Engine::State& state;
  passes::Compilation& compilation;
  const PlanOptions& options;
  std::vector<std::string> symbols;
  std::vector<std::shared_ptr<AlignedBuffer>> owned;  // constants that the plan made, by index
  std::vector<const std::byte*> constants;            // by buffer; null: not a constant
  AlignedBuffer joined;                               // of the weights that are being packed, where they lie in runs
  int64_t packed_bytes = 0, constant_bytes = 0;
  // Attention is shared by all layers of one form.
  struct SharedAttention {
    std::string key;
    std::shared_ptr<const Attention> attention;
  };
  std::vector<SharedAttention> attentions;
  struct CacheNeed {
    std::shared_ptr<const Attention> attention;
    int64_t capacity = 0;
  };
  std::vector<CacheNeed> caches;
  std::map<graph::ValueId, int> cache_of;  // by appended value
  struct RopeTable {
    const void* inv_freq = nullptr;
    int64_t rows = 0;
    int cos = -1, sin = -1;  // buffers
  };
  std::vector<RopeTable> rope_tables;
  std::vector<RowKernel> row_kernels;  // layers have the same programs: each is lowered once
};

using Steps = std::vector<std::unique_ptr<Step>>;

void set_names(Step& step, const passes::Dispatch& dispatch);
// Whether the hint of a dispatch's node leaves it a dimension to be split on that has more than one element.
runtime::NodeScope::Split allowed_split(const graph::Graph& graph, const passes::Dispatch& dispatch);
// The elements of a constant one after the other: where they lie, or written out into that buffer, which grows.
Result<const std::byte*> elements_of(const graph::Constant& constant, AlignedBuffer& written_out);

// Each appends what one dispatch needs. Errors name the node.
Status prepare_matmul(Preparation& p, const passes::Dispatch& dispatch, Steps& steps);
Status prepare_dot_general(Preparation& p, const passes::Dispatch& dispatch, Steps& steps);
Status prepare_append(Preparation& p, const passes::Dispatch& dispatch, Steps& steps);
Status prepare_attention(Preparation& p, const passes::Dispatch& dispatch, Steps& steps);
Status prepare_rows(Preparation& p, const passes::Dispatch& dispatch, Steps& steps);
Status prepare_top_k(Preparation& p, const passes::Dispatch& dispatch, Steps& steps);
Status prepare_experts(Preparation& p, const passes::Dispatch& dispatch, Steps& steps);

}  // namespace hone::executable
