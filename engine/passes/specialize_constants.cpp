#include "engine/passes/specialize_constants.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "engine/passes/fold_internal.h"
#include "engine/passes/rewrite_internal.h"

namespace hone::passes {
namespace {

using graph::Constant;
using graph::Node;
using graph::NodeId;
using graph::OpKind;
using graph::ValueId;

// A mask of 1024 x 1024 is computed; a larger one is read faster by its rule than from memory.
constexpr FoldLimits kLimits = {.computed = int64_t{1} << 20, .moved = std::numeric_limits<int64_t>::max()};
constexpr int64_t kWorthANote = 4096;

class Specialization {
 public:
  explicit Specialization(Compilation& c) : r_(c, "specialize_constants"), g_(c.graph), stand_ins_(c.stand_ins) {}

  Status run() {
    const std::vector<NodeId> order = g_.order();
    for (const NodeId id : order) {
      if (!g_.is_live(id)) continue;
      if (g_.node(id).op == OpKind::mul && !scale_weights(id)) fold_scale(id);
      if (g_.is_live(id)) fold_node(id);
    }
    if (small_ > 0)
      r_.note("constants", fmt::format("{} small ones", small_), "computed once instead of in every call");
    g_.erase_dead();
    return r_.status();
  }

 private:
  void fold_node(NodeId id) {
    const Node& n = g_.node(id);
    if (n.op == OpKind::iota && grows(n)) return;
    FoldLimits limits = kLimits;
    limits.stand_ins = stand_ins_;
    std::optional<Constant> value = fold(g_, n, limits);
    if (!value) return;
    const int64_t elements = value->splat ? 1 : value->type.elements();
    if (elements >= kWorthANote && n.op != OpKind::reshape) {
      r_.note(n.name, fmt::format("{} of constants", graph::op_info(n.op).name),
              fmt::format("computed once: {} bytes", elements * dtype_bytes(value->type.dtype)));
    } else {
      ++small_;
    }
    r_.before(id);
    const std::vector<ValueId> read = n.operands;
    r_.replace(id, r_.constant(*std::move(value)));
    erase_unused(read);
  }

  // Sources go at once, so that two copies of the weights of one layer are the most there ever is.
  void erase_unused(const std::vector<ValueId>& sources) {
    for (const ValueId v : sources) {
      const Node* source = g_.definition(v);
      if (source != nullptr && g_.value(v).uses.empty() && !g_.is_output(v)) g_.erase(source->id);
    }
  }

  // A row of indices is kept as a rule where it only serves to fill a larger array.
  bool grows(const Node& n) const { return g_.value(n.results[0]).type.rank() > 1 && !only_read_by_constants(n); }
  bool only_read_by_constants(const Node& n) const {
    for (const graph::Use& use : g_.value(n.results[0]).uses)
      for (const ValueId v : g_.node(use.node).operands) {
        const Node* d = g_.definition(v);
        if (d == nullptr || (d->op != OpKind::constant && d->op != OpKind::iota)) return false;
      }
    return true;
  }

  // A product that only matmuls read, as their weights.
  bool makes_weights(const Node& n) const {
    const ValueId v = n.results[0];
    if (n.op != OpKind::mul || g_.is_output(v) || g_.value(v).uses.empty()) return false;
    return std::all_of(g_.value(v).uses.begin(), g_.value(v).uses.end(), [&](const graph::Use& use) {
      return g_.node(use.node).op == OpKind::matmul && use.operand == 1;
    });
  }

  // W * (w along one axis), for matmuls: computed whatever its size, since it is packed once, and without writing out
  // w.
  bool scale_weights(NodeId id) {
    const Node& mul = g_.node(id);
    if (!makes_weights(mul)) return false;
    for (const size_t side : {size_t{0}, size_t{1}}) {
      const Constant* w = g_.constant(mul.operands[side]);
      const Node* wide = g_.definition(mul.operands[1 - side]);
      if (w == nullptr || (w->splat && !stand_ins_) || wide == nullptr || wide->op != OpKind::broadcast) continue;
      const Constant* factors = g_.constant(wide->operands[0]);
      if (factors == nullptr || factors->type.rank() != 1) continue;
      r_.note(mul.name, "weights times a factor for each column or row",
              fmt::format("computed once: {} bytes", w->type.bytes()));
      const std::vector<ValueId> read = {mul.operands[side], mul.operands[1 - side], wide->operands[0]};
      Constant product = w->splat ? *w : scaled(w->contiguous(), *factors, wide->integers("dims")[0] == 1);
      r_.before(id);
      r_.replace(id, r_.constant(std::move(product)));
      erase_unused(read);
      return true;
    }
    return false;
  }

  static Constant scaled(const Constant& w, const Constant& factors, bool by_column) {
    const int64_t rows = w.type.dims[0].value(), columns = w.type.dims[1].value(), count = factors.type.elements();
    std::vector<float> product(static_cast<size_t>(rows * columns));
    for (int64_t i = 0; i < rows; ++i)
      for (int64_t j = 0; j < columns; ++j)
        product[static_cast<size_t>(i * columns + j)] = w.f32_at(i * columns + j) * factors.f32_at(count == 1  ? 0
                                                                                                   : by_column ? j
                                                                                                               : i);
    return Constant::f32(w.type, product);
  }

  // mul(matmul(x, W), 2^i) -> matmul(x, 2^i W)
  void fold_scale(NodeId id) {
    const Node& mul = g_.node(id);
    for (const int side : {0, 1}) {
      const Node* m = g_.definition(mul.operands[static_cast<size_t>(side)]);
      const Constant* scale = g_.constant(mul.operands[static_cast<size_t>(1 - side)]);
      if (m == nullptr || m->op != OpKind::matmul || scale == nullptr || !scale->splat) continue;
      const Constant* w = g_.constant(m->operands[1]);
      // Of a model's file they stay what its pages hold: there is nothing to copy and no key of what is scaled.
      if (w == nullptr || w->splat || w->type.dtype != DType::kF32 || w->runs || !w->content_key.empty()) continue;
      if (!m->text("epilogue").empty() || !used_once(g_, m->results[0]) || !used_once(g_, m->operands[1])) continue;
      const float factor = scale->f32_at(0);
      const auto scaled = exactly_scaled(*w, factor);
      if (!scaled) continue;
      r_.note(m->name, fmt::format("its weights take the factor {}", factor), "a power of two: every bit stays");
      r_.before(id);
      const ValueId folded =
          r_.add(OpKind::matmul, {m->operands[0], r_.constant(*scaled, g_.value(m->operands[1]).name)}, m->attributes);
      r_.replace(id, folded);
      g_.erase_dead();
      return;
    }
  }

  // Nothing where an element would be rounded.
  static std::optional<Constant> exactly_scaled(const Constant& w, float factor) {
    int exponent = 0;
    if (std::frexp(factor, &exponent) != 0.5f) return std::nullopt;
    std::vector<float> scaled(static_cast<size_t>(w.type.elements()));
    for (size_t i = 0; i < scaled.size(); ++i) {
      const float from = w.f32_at(static_cast<int64_t>(i));
      scaled[i] = from * factor;
      if (from != 0 && !std::isnormal(scaled[i])) return std::nullopt;
    }
    return Constant::f32(w.type, scaled);
  }

  Rewriter r_;
  graph::Graph& g_;
  const bool stand_ins_;
  int small_ = 0;
};

}  // namespace

Status specialize_constants(Compilation& compilation) { return Specialization(compilation).run(); }

}  // namespace hone::passes
