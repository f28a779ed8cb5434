// See plan_cost.h.
#include "engine/passes/plan_cost.h"

#include <algorithm>
#include <set>

namespace hone::passes {
namespace {

using graph::Dim;
using graph::Node;
using graph::OpKind;
using graph::ValueId;

// Reductions and transcendental functions of a row program: about what a polynomial exp takes.
constexpr double kFlopsPerElement = 10;

class Costing {
 public:
  Costing(const Compilation& c, int64_t tokens, int64_t position, const CostMachine& machine) : c_(c), m_(machine) {
    const std::optional<std::string> token_symbol = c.graph.tokens.as_symbol();
    for (const graph::Symbol& s : c.graph.symbols) values_[s.name] = s.max;
    if (token_symbol) values_[*token_symbol] = tokens;
    if (!token_symbol && c.graph.symbols.size() == 1) values_[c.graph.symbols[0].name] = tokens;
    if (!c.graph.position.empty()) values_[c.graph.position] = position;
    in_l2_ = c.memory.arena_bytes <= machine.l2_bytes / 2;
  }

  Result<PlanCost> run() {
    PlanCost cost;
    for (const Dispatch& d : c_.dispatches) {
      HONE_ASSIGN_OR_RETURN(DispatchCost one, dispatch(d));
      cost.launches += one.launches ? 1 : 0;
      cost.bytes += one.constant_bytes + one.moved_bytes;
      cost.flops += one.flops;
      cost.ns += one.ns;
      cost.dispatches.push_back(one);
    }
    return cost;
  }

 private:
  Result<double> elements(ValueId v) const {
    double product = 1;
    for (const Dim& d : c_.graph.value(v).type.dims) {
      const Result<int64_t> size = d.evaluate(values_);
      if (!size.ok()) return invalid_argument(c_.graph.value(v).name + ": " + size.status().message());
      product *= static_cast<double>(*size);
    }
    return product;
  }

  Result<DispatchCost> dispatch(const Dispatch& d) const {
    DispatchCost cost;
    if (d.kind == DispatchKind::kView) return cost;
    cost.launches = true;
    std::set<ValueId> touched(d.inputs.begin(), d.inputs.end());
    touched.insert(d.outputs.begin(), d.outputs.end());
    for (const ValueId v : touched) {
      HONE_ASSIGN_OR_RETURN(const double bytes, bytes_of(v, d));
      (c_.graph.constant(v) != nullptr ? cost.constant_bytes : cost.moved_bytes) += bytes;
    }
    for (const graph::NodeId id : d.nodes) {
      HONE_ASSIGN_OR_RETURN(const double flops, flops_of(c_.graph.node(id), d.kind));
      cost.flops += flops;
    }
    cost.ns = time(cost);
    return cost;
  }

  // What a dispatch reads of a value: of a table and of experts only the rows that are asked for.
  Result<double> bytes_of(ValueId v, const Dispatch& d) const {
    HONE_ASSIGN_OR_RETURN(double count, elements(v));
    const graph::Graph& g = c_.graph;
    const Node& n = g.node(d.nodes.front());
    if (d.kind == DispatchKind::kRows && n.op == OpKind::gather && v == n.operands[0]) {
      HONE_ASSIGN_OR_RETURN(count, elements(n.results[0]));
    } else if (d.kind == DispatchKind::kExperts && g.constant(v) != nullptr) {
      HONE_ASSIGN_OR_RETURN(const double chosen, elements(n.operands[1]));
      const Result<int64_t> experts = g.value(v).type.dims.front().evaluate(values_);
      if (experts.ok() && *experts > 0) count *= std::min(1.0, chosen / static_cast<double>(*experts));
    } else if (d.kind == DispatchKind::kAppend && g.value(v).kind == graph::ValueKind::kState) {
      count = 0;  // the rows that are written are those of the operand
    }
    return count * static_cast<double>(dtype_bytes(g.value(v).type.dtype));
  }

  Result<double> flops_of(const Node& n, DispatchKind kind) const {
    HONE_ASSIGN_OR_RETURN(const double out, elements(n.results[0]));
    const auto last = [&](ValueId v) -> Result<double> {
      HONE_ASSIGN_OR_RETURN(const int64_t size, c_.graph.value(v).type.dims.back().evaluate(values_));
      return static_cast<double>(size);
    };
    if (n.op == OpKind::matmul) {
      HONE_ASSIGN_OR_RETURN(const double k, last(n.operands[0]));
      const bool pairs = n.text("epilogue").find("swiglu") != std::string::npos;  // two columns make one
      return 2 * out * k * (pairs ? 2 : 1);
    }
    if (n.op == OpKind::dot_general) {
      HONE_ASSIGN_OR_RETURN(const double a, elements(n.operands[0]));
      HONE_ASSIGN_OR_RETURN(const double b, elements(n.operands[1]));
      return 2 * std::max(out, std::max(a, b));  // less than it is; never of the policies that are compared
    }
    if (n.op == OpKind::attention) {
      HONE_ASSIGN_OR_RETURN(const double keys, elements(n.operands[1]));
      HONE_ASSIGN_OR_RETURN(const double d, last(n.operands[0]));
      const graph::Shape& k = c_.graph.value(n.operands[1]).type.dims;
      HONE_ASSIGN_OR_RETURN(const int64_t kv_heads, k[k.size() - 2].evaluate(values_));
      return 4 * out * keys / std::max(1.0, d * static_cast<double>(kv_heads));
    }
    if (n.op == OpKind::experts) {
      HONE_ASSIGN_OR_RETURN(const double chosen, elements(n.operands[1]));
      HONE_ASSIGN_OR_RETURN(const double weights, elements(n.operands[3]));
      const Result<int64_t> experts = c_.graph.value(n.operands[3]).type.dims.front().evaluate(values_);
      return experts.ok() && *experts > 0 ? 6 * chosen * weights / static_cast<double>(*experts) : 0;
    }
    return kind == DispatchKind::kAppend ? 0 : kFlopsPerElement * out;
  }

  double time(const DispatchCost& cost) const {
    const double threads = std::max(1, m_.threads);
    const double memory = std::min(m_.memory_gbs * threads, std::max(m_.shared_gbs, m_.memory_gbs));
    const double moving = cost.constant_bytes / memory + cost.moved_bytes / (in_l2_ ? m_.l2_gbs * threads : memory);
    const double computing = cost.flops / (m_.gflops * threads);
    // What is so short that a region does not pay stays on the caller.
    const double alone =
        std::max(cost.constant_bytes / m_.memory_gbs + cost.moved_bytes / (in_l2_ ? m_.l2_gbs : m_.memory_gbs),
                 cost.flops / m_.gflops);
    const double shared = std::max(moving, computing) + (threads > 1 ? m_.region_ns : 0);
    return m_.launch_ns + std::min(alone, shared);
  }

  const Compilation& c_;
  const CostMachine& m_;
  graph::Bindings values_;
  bool in_l2_ = true;
};

}  // namespace

Result<PlanCost> plan_cost(const Compilation& compilation, int64_t tokens, int64_t position,
                           const CostMachine& machine) {
  return Costing(compilation, tokens, position, machine).run();
}

}  // namespace hone::passes
