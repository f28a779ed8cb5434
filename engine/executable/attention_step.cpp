// Steps of attention: rows of K and V go to a cache of the session, or lie where the graph computed them.
#include <fmt/format.h>

#include <algorithm>

#include "engine/executable/step_internal.h"

namespace hone::executable {
namespace {

using graph::Dim;
using graph::Node;
using graph::Shape;
using graph::ValueId;
using passes::Dispatch;

// [b,] rows, heads, d in memory.
struct Heads {
  Dim rows, batch = 1, batch_stride = 0;
  int64_t heads = 0, d = 0, row = 0;  // row: elements from row to row
  Dim head;                           // from head to head
};

Result<Heads> heads_of(const Preparation& p, ValueId v, const Node& n) {
  const Shape& dims = p.type(v).dims;
  const size_t rank = dims.size();
  if (!dims[rank - 2].is_static() || !dims[rank - 1].is_static())
    return unsupported(fmt::format("{} {}: heads and their size have to be static", graph::op_info(n.op).name, n.name));
  Heads h{.rows = dims[rank - 3], .heads = dims[rank - 2].value(), .d = dims[rank - 1].value()};
  if (rank == 4) h.batch = dims[0];
  const auto at = p.compilation.placements.find(v);
  if (at == p.compilation.placements.end()) return h;  // in a cache
  const std::vector<Dim>& strides = at->second.strides;
  if (!strides[rank - 3].is_static())
    return unsupported(
        fmt::format("{} {}: its rows are not a fixed distance apart", graph::op_info(n.op).name, n.name));
  h.row = strides[rank - 3].value();
  h.head = strides[rank - 2];
  if (rank == 4) h.batch_stride = strides[0];
  return h;
}

class AppendStep final : public Step {
 public:
  Status run(const Call& call) const override {
    const KvRows rows{.tokens = tokens.at(call.symbols),
                      .key = call.at<const float>(key),
                      .value = call.at<const float>(value),
                      .k_head = key_head.at(call.symbols),
                      .v_head = value_head.at(call.symbols)};
    if (Status s = call.caches[static_cast<size_t>(cache)].append(0, rows); !s.ok())
      return {s.code(), name + ": " + s.message()};
    return {};
  }
  Result<StepReport> report(std::span<const int64_t>) const override {
    return StepReport{.kernel = "kv_append", .reason = "default"};
  }

  int cache = 0;
  Size tokens, key_head, value_head;
  Place key, value;
};

class AttentionStep final : public Step {
 public:
  Status run(const Call& call) const override {
    const int64_t sequences = batch.at(call.symbols);
    thread_local std::vector<AttentionSequence> each;  // its memory is what calls reuse
    each.clear();
    for (int64_t i = 0; i < sequences; ++i) {
      AttentionSequence s{.q = q_rows.at(call.symbols), .kv = kv_rows.at(call.symbols)};
      s.query = call.at<const float>(query) + i * q_batch.at(call.symbols);
      s.out = call.at<float>(out) + i * o_batch.at(call.symbols);
      s.q_head = q_head.at(call.symbols);
      s.o_head = o_head.at(call.symbols);
      if (cache < 0) {
        s.key = call.at<const float>(key) + i * k_batch.at(call.symbols);
        s.value = call.at<const float>(value) + i * v_batch.at(call.symbols);
        s.k_head = k_head.at(call.symbols);
        s.v_head = v_head.at(call.symbols);
      }
      if (mask) {
        s.mask = call.at<const std::byte>(*mask) + i * mask_batch.at(call.symbols) * mask->element_bytes;
        s.mask_row = mask_row.at(call.symbols);
      }
      each.push_back(s);
    }
    const KvCache* const from = cache < 0 ? nullptr : &call.caches[static_cast<size_t>(cache)];
    if (Status s = attention->run(each, from); !s.ok()) return {s.code(), name + ": " + s.message()};
    return {};
  }

  Result<StepReport> report(std::span<const int64_t> symbols) const override {
    HONE_ASSIGN_OR_RETURN(const PlanInfo info, attention->plan(std::max<int64_t>(1, q_rows.at(symbols)),
                                                               std::max<int64_t>(1, kv_rows.at(symbols))));
    return StepReport{.kernel = info.problem,
                      .plan = info.program,
                      .codegen = info.codegen,
                      .numerics = info.numerics,
                      .reason = info.reason,
                      .threads = info.threads};
  }

  Result<const plan::PlanFacts*> facts(std::span<const int64_t> symbols) const override {
    return EngineAccess::facts(*attention, std::max<int64_t>(1, q_rows.at(symbols)),
                               std::max<int64_t>(1, kv_rows.at(symbols)));
  }

  std::shared_ptr<const Attention> attention;
  int cache = -1;
  Size batch = 1, q_rows, kv_rows, q_head, k_head, v_head, o_head, q_batch, k_batch, v_batch, o_batch, mask_row,
       mask_batch;
  Place query, key, value, out;
  std::optional<Place> mask;
};

KeyLayout key_layout(passes::KeyPolicy policy) {
  switch (policy) {
    case passes::KeyPolicy::kRows:
      return KeyLayout::kRows;
    case passes::KeyPolicy::kBlocked:
      return KeyLayout::kBlocked;
    case passes::KeyPolicy::kChosen:
      break;
  }
  return KeyLayout::kChosen;
}

// Pairs of rows and keys that the expected numbers of tokens give, keys as many as there may be by then.
std::vector<AttentionSpec::Shape> expected_shapes(const Preparation& p, const Dim& rows, int64_t most_keys) {
  std::vector<AttentionSpec::Shape> shapes;
  for (const int64_t q : p.expected(rows)) shapes.push_back({q, std::max(q, most_keys)});
  return shapes;
}

// All layers of one form share one.
Result<std::shared_ptr<const Attention>> shared_attention(Preparation& p, const AttentionSpec& spec) {
  std::string key = fmt::format("{} {} {} {} {} {} {} {} {} {} {} {} {} {} {} {} {}", spec.heads, spec.kv_heads,
                                spec.head_dim, spec.value_dim, spec.ldq, spec.ldk, spec.ldv, spec.ldo, spec.causal,
                                spec.window, static_cast<int>(spec.mask), spec.softcap, spec.scale, spec.cache,
                                spec.max_q, spec.max_kv, spec.batch);
  for (const Preparation::SharedAttention& s : p.attentions)
    if (s.key == key) return s.attention;
  HONE_ASSIGN_OR_RETURN(Attention made, p.engine.prepare(spec));
  p.attentions.push_back({std::move(key), std::make_shared<const Attention>(std::move(made))});
  return p.attentions.back().attention;
}

Result<AttentionSpec> spec_of(Preparation& p, const Node& n) {
  HONE_ASSIGN_OR_RETURN(const Heads q, heads_of(p, n.operands[0], n));
  HONE_ASSIGN_OR_RETURN(const Heads k, heads_of(p, n.operands[1], n));
  HONE_ASSIGN_OR_RETURN(const Heads v, heads_of(p, n.operands[2], n));
  HONE_ASSIGN_OR_RETURN(const Heads o, heads_of(p, n.results[0], n));
  HONE_ASSIGN_OR_RETURN(const int64_t most_rows, p.largest(q.rows));
  HONE_ASSIGN_OR_RETURN(const int64_t most_keys, p.largest(k.rows));
  AttentionSpec spec{
      .heads = q.heads, .kv_heads = k.heads, .head_dim = q.d, .value_dim = v.d, .layout = HeadLayout::kRowsFirst};
  spec.ldq = q.row;
  spec.ldo = o.row;
  spec.ldk = k.row;
  spec.ldv = v.row;
  spec.causal = n.flag("causal");
  spec.window = n.integer("window");
  spec.softcap = static_cast<float>(n.number("softcap"));
  spec.scale = static_cast<float>(n.number("scale"));
  if (n.operands.size() > 3)
    spec.mask = p.type(n.operands[3]).dtype == DType::kU8 ? AttentionMask::kBoolean : AttentionMask::kAdditive;
  spec.numerics = p.compilation.policy.attention;
  spec.expected = expected_shapes(p, q.rows, most_keys);
  spec.max_q = p.options.warm_up ? most_rows : 0;
  spec.max_kv = p.options.warm_up ? most_keys : 0;
  return spec;
}

}  // namespace

// The attention that reads the cache is prepared here, as the cache is laid out for it.
Status prepare_append(Preparation& p, const Dispatch& dispatch, Steps& steps) {
  const graph::Graph& g = p.compilation.graph;
  const Node& keys = g.node(dispatch.nodes[0]);
  const Node& values = g.node(dispatch.nodes[1]);
  const Node& reader = g.node(g.value(keys.results[0]).uses[0].node);
  HONE_ASSIGN_OR_RETURN(const Heads k, heads_of(p, keys.operands[1], keys));
  HONE_ASSIGN_OR_RETURN(const Heads v, heads_of(p, values.operands[1], values));
  const Shape& capacity = p.type(keys.operands[0]).dims;
  if (!capacity[0].is_static() || p.type(values.operands[0]).dims[0] != capacity[0])
    return unsupported(fmt::format("kv_append {}: keys and values need states of one static capacity", keys.name));
  HONE_ASSIGN_OR_RETURN(AttentionSpec spec, spec_of(p, reader));
  spec.cache = true;
  spec.key_layout = key_layout(p.compilation.policy.keys);
  spec.ldk = k.row;
  spec.ldv = v.row;
  HONE_ASSIGN_OR_RETURN(const std::shared_ptr<const Attention> attention, shared_attention(p, spec));
  auto step = std::make_unique<AppendStep>();
  set_names(*step, dispatch);
  step->cache = static_cast<int>(p.caches.size());
  p.caches.push_back({attention, capacity[0].value()});
  p.cache_of[keys.results[0]] = p.cache_of[values.results[0]] = step->cache;
  HONE_ASSIGN_OR_RETURN(step->tokens, p.size(k.rows));
  HONE_ASSIGN_OR_RETURN(step->key_head, p.size(k.head));
  HONE_ASSIGN_OR_RETURN(step->value_head, p.size(v.head));
  HONE_ASSIGN_OR_RETURN(step->key, p.place(keys.operands[1]));
  HONE_ASSIGN_OR_RETURN(step->value, p.place(values.operands[1]));
  steps.push_back(std::move(step));
  return {};
}

Status prepare_attention(Preparation& p, const Dispatch& dispatch, Steps& steps) {
  const Node& n = p.compilation.graph.node(dispatch.nodes[0]);
  HONE_ASSIGN_OR_RETURN(const Heads q, heads_of(p, n.operands[0], n));
  HONE_ASSIGN_OR_RETURN(const Heads k, heads_of(p, n.operands[1], n));
  HONE_ASSIGN_OR_RETURN(const Heads v, heads_of(p, n.operands[2], n));
  HONE_ASSIGN_OR_RETURN(const Heads o, heads_of(p, n.results[0], n));
  auto step = std::make_unique<AttentionStep>();
  set_names(*step, dispatch);
  if (const auto cached = p.cache_of.find(n.operands[1]); cached != p.cache_of.end()) {
    step->cache = cached->second;
    step->attention = p.caches[static_cast<size_t>(step->cache)].attention;
  } else {
    HONE_ASSIGN_OR_RETURN(const AttentionSpec spec, spec_of(p, n));
    HONE_ASSIGN_OR_RETURN(step->attention, shared_attention(p, spec));
    HONE_ASSIGN_OR_RETURN(step->key, p.place(n.operands[1]));
    HONE_ASSIGN_OR_RETURN(step->value, p.place(n.operands[2]));
    HONE_ASSIGN_OR_RETURN(step->k_head, p.size(k.head));
    HONE_ASSIGN_OR_RETURN(step->v_head, p.size(v.head));
    HONE_ASSIGN_OR_RETURN(step->k_batch, p.size(k.batch_stride));
    HONE_ASSIGN_OR_RETURN(step->v_batch, p.size(v.batch_stride));
  }
  HONE_ASSIGN_OR_RETURN(step->batch, p.size(q.batch));
  HONE_ASSIGN_OR_RETURN(step->q_rows, p.size(q.rows));
  HONE_ASSIGN_OR_RETURN(step->kv_rows, p.size(k.rows));
  HONE_ASSIGN_OR_RETURN(step->q_head, p.size(q.head));
  HONE_ASSIGN_OR_RETURN(step->o_head, p.size(o.head));
  HONE_ASSIGN_OR_RETURN(step->q_batch, p.size(q.batch_stride));
  HONE_ASSIGN_OR_RETURN(step->o_batch, p.size(o.batch_stride));
  HONE_ASSIGN_OR_RETURN(step->query, p.place(n.operands[0]));
  HONE_ASSIGN_OR_RETURN(step->out, p.place(n.results[0]));
  if (n.operands.size() > 3) {
    const ValueId mask = n.operands[3];
    const std::vector<Dim>& strides = p.placement(mask).strides;
    HONE_ASSIGN_OR_RETURN(step->mask, p.place(mask));
    HONE_ASSIGN_OR_RETURN(step->mask_row, p.size(strides[strides.size() - 2]));
    if (strides.size() > 2) {
      HONE_ASSIGN_OR_RETURN(step->mask_batch, p.size(strides[0]));
    }
  }
  steps.push_back(std::move(step));
  return {};
}

}  // namespace hone::executable
