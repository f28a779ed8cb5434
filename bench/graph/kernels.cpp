#include "bench/graph/kernels.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "engine/passes/bufferize.h"
#include "engine/passes/plan_memory.h"

namespace hone::bench {

using graph::Node;
using graph::ValueId;
using passes::Dispatch;
using passes::DispatchKind;

Kernels::Kernels(const Engine& engine, passes::Compilation compilation, const executable::PlanOptions& options)
    : compilation_(std::move(compilation)), options_(options), preparation_(engine, compilation_, options_) {}

Result<std::unique_ptr<Kernels>> Kernels::create(const Engine& engine, passes::Compilation compilation, int64_t tokens,
                                                 int64_t position, const std::vector<graph::Tensor>& inputs) {
  std::unique_ptr<Kernels> k(
      new Kernels(engine, std::move(compilation), {.expected_tokens = {tokens}, .warm_up = false}));
  const graph::Graph& g = k->compilation_.graph;
  k->position_ = position;
  for (const std::string& s : k->preparation_.symbols) {
    k->bindings_[s] = s == g.position ? position : tokens;
    k->values_.push_back(k->bindings_[s]);
  }
  HONE_RETURN_IF_ERROR(k->make_memory(inputs));
  for (const Dispatch& d : k->compilation_.dispatches) HONE_RETURN_IF_ERROR(k->add(d));
  // Tables that row programs made for themselves come after the buffers of the graph.
  for (size_t i = k->bases_.size(); i < k->preparation_.constants.size(); ++i)
    k->bases_.push_back(const_cast<std::byte*>(k->preparation_.constants[i]));
  k->call_ = std::make_unique<executable::Call>(
      executable::Call{.symbols = k->values_, .bases = k->bases_, .caches = k->caches_});
  HONE_RETURN_IF_ERROR(k->fill_caches(position));
  return k;
}

int64_t Kernels::extent(const graph::Dim& dim) const { return dim.evaluate(bindings_).value(); }
int64_t Kernels::stride(ValueId value, size_t axis) const {
  return extent(compilation_.placements.at(value).strides[axis]);
}
float* Kernels::at(ValueId value) const {
  const passes::Placement& p = compilation_.placements.at(value);
  return reinterpret_cast<float*>(bases_[static_cast<size_t>(p.buffer)]) + extent(p.offset);
}

// Nothing is shared: every buffer has memory of its own.
Status Kernels::make_memory(const std::vector<graph::Tensor>& inputs) {
  const graph::Graph& g = compilation_.graph;
  for (const passes::Buffer& b : compilation_.buffers) {
    bases_.push_back(nullptr);
    if (b.kind == passes::Buffer::Kind::kState) continue;
    if (const graph::Constant* c = b.value < 0 ? nullptr : g.constant(b.value)) {
      constants_.push_back(c->contiguous());
      bases_.back() = const_cast<std::byte*>(constants_.back().data.data());
      continue;
    }
    HONE_ASSIGN_OR_RETURN(const int64_t elements, passes::largest(g, b.elements));
    HONE_ASSIGN_OR_RETURN(AlignedBuffer memory, AlignedBuffer::allocate(elements * b.element_bytes, Touch::kNow));
    bases_.back() = memory.data();
    memory_.push_back(std::move(memory));
  }
  for (size_t i = 0; i < inputs.size(); ++i)
    std::memcpy(bases_[static_cast<size_t>(compilation_.placements.at(g.inputs()[i]).buffer)], inputs[i].data.data(),
                inputs[i].data.size());
  return {};
}

Status Kernels::add(const Dispatch& d) {
  if (d.kind == DispatchKind::kView) return {};
  if (d.kind == DispatchKind::kMatmul && compilation_.graph.node(d.nodes[0]).op == graph::OpKind::matmul)
    return add_matmul(d);
  if (d.kind == DispatchKind::kAttention) return add_attention(d);
  if (d.kind == DispatchKind::kAppend) return add_append(d);
  const size_t first = steps_.size();
  switch (d.kind) {
    case DispatchKind::kRows:
      HONE_RETURN_IF_ERROR(executable::prepare_rows(preparation_, d, steps_));
      break;
    case DispatchKind::kTopK:
      HONE_RETURN_IF_ERROR(executable::prepare_top_k(preparation_, d, steps_));
      break;
    case DispatchKind::kExperts:
      HONE_RETURN_IF_ERROR(executable::prepare_experts(preparation_, d, steps_));
      break;
    default:
      return unsupported(fmt::format("{} has no kernel that this benchmark calls", d.name));
  }
  for (size_t i = first; i < steps_.size(); ++i)
    calls_.push_back([this, step = steps_[i].get()] { return step->run(*call_); });
  return {};
}

Status Kernels::add_matmul(const Dispatch& d) {
  const graph::Graph& g = compilation_.graph;
  const Node& n = g.node(d.nodes[0]);
  const graph::Constant* w = g.constant(n.operands[1]);
  const auto a = passes::as_rows(g.value(n.operands[0]).type, compilation_.placements.at(n.operands[0]));
  const auto c = passes::as_rows(g.value(n.results[0]).type, compilation_.placements.at(n.results[0]));
  if (w == nullptr || !a || !c) return unsupported(fmt::format("{}: only weights that are constants", n.name));
  const bool nt = n.text("layout") != "nn";
  const int64_t rows = w->type.dims[0].value(), columns = w->type.dims[1].value();
  const std::string epilogue = n.text("epilogue");
  HONE_ASSIGN_OR_RETURN(MatmulSpec spec,
                        MatmulSpec::parse(fmt::format("matmul:f32:m=1,n={},k={},b=nt{}{}", nt ? rows : columns,
                                                      nt ? columns : rows, epilogue.empty() ? "" : ":", epilogue)));
  spec.b = nt ? Layout::kNt : Layout::kNn;
  spec.lda = a->stride;
  spec.ldc = c->stride;
  const int64_t m = extent(a->rows);
  spec.expected_m = {m};
  spec.max_m = 0;
  HONE_ASSIGN_OR_RETURN(Matmul made, preparation_.engine.prepare(spec, reinterpret_cast<const float*>(w->data.data())));
  MatmulCall call{.m = m, .a = at(n.operands[0]), .c = at(n.results[0])};
  size_t operand = 2;
  for (const Epilogue e : spec.epilogue) {
    if (e == Epilogue::kBias) call.bias = at(n.operands[operand++]);
    if (e == Epilogue::kGate) call.gate = at(n.operands[operand++]);
    if (e == Epilogue::kResidual) call.residual = at(n.operands[operand++]);
  }
  matmuls_.push_back(std::move(made));
  calls_.push_back([matmul = &matmuls_.back(), call] { return matmul->run(call); });
  return {};
}

// The cache is made where its first rows come: as the plan does.
Status Kernels::add_append(const Dispatch& d) {
  const graph::Graph& g = compilation_.graph;
  HONE_RETURN_IF_ERROR(executable::prepare_append(preparation_, d, steps_));
  const auto& need = preparation_.caches.back();
  HONE_ASSIGN_OR_RETURN(KvCache cache, need.attention->cache({.sequences = 1, .capacity = need.capacity}));
  caches_.push_back(std::move(cache));
  const ValueId key = g.node(d.nodes[0]).operands[1], value = g.node(d.nodes[1]).operands[1];
  const KvRows rows{.tokens = extent(g.value(key).type.dims[0]),
                    .key = at(key),
                    .value = at(value),
                    .k_head = stride(key, 1),
                    .v_head = stride(value, 1)};
  calls_.push_back([this, rows, i = caches_.size() - 1] { return caches_[i].append(0, rows); });
  return {};
}

Status Kernels::add_attention(const Dispatch& d) {
  const graph::Graph& g = compilation_.graph;
  const Node& n = g.node(d.nodes[0]);
  const auto cached = preparation_.cache_of.find(n.operands[1]);
  if (cached == preparation_.cache_of.end() || g.value(n.operands[0]).type.rank() != 3)
    return unsupported(fmt::format("{}: only one sequence over a cache", n.name));
  const size_t i = static_cast<size_t>(cached->second);
  const AttentionSequence sequence{.q = extent(g.value(n.operands[0]).type.dims[0]),
                                   .kv = extent(g.value(n.operands[1]).type.dims[0]),
                                   .query = at(n.operands[0]),
                                   .out = at(n.results[0]),
                                   .q_head = stride(n.operands[0], 1),
                                   .o_head = stride(n.results[0], 1)};
  calls_.push_back([this, sequence, i, attention = preparation_.caches[i].attention] {
    return attention->run(sequence, &caches_[i]);
  });
  return {};
}

// With rows of one number each: what they hold takes no part in how long reading them takes.
Status Kernels::fill_caches(int64_t position) {
  const graph::Graph& g = compilation_.graph;
  size_t i = 0;
  for (const Dispatch& d : compilation_.dispatches) {
    if (d.kind != DispatchKind::kAppend) continue;
    const ValueId key = g.node(d.nodes[0]).operands[1], value = g.node(d.nodes[1]).operands[1];
    const auto width = [&](ValueId v) {
      return stride(v, 0) + g.value(v).type.dims[1].value() * std::max<int64_t>(1, stride(v, 1));
    };
    const std::vector<float> row(static_cast<size_t>(std::max(width(key), width(value))), 0.01F);
    for (int64_t t = 0; t < position; ++t)
      HONE_RETURN_IF_ERROR(caches_[i].append(
          0,
          {.tokens = 1, .key = row.data(), .value = row.data(), .k_head = stride(key, 1), .v_head = stride(value, 1)}));
    ++i;
  }
  return {};
}

Status Kernels::forget() {
  for (KvCache& cache : caches_) HONE_RETURN_IF_ERROR(cache.truncate(0, position_));
  return {};
}

const float* Kernels::output(size_t i) const { return at(compilation_.graph.outputs()[i]); }

}  // namespace hone::bench
