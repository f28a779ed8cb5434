// Primitive ops: what StableHLO has under another name.
#include <fmt/format.h>

#include "engine/graph/stablehlo/export_internal.h"

namespace hone::graph::stablehlo {

namespace {

// Of ops of one shape.
std::string_view element_op(OpKind op) {
  switch (op) {
    case OpKind::neg:
      return "stablehlo.negate";
    case OpKind::abs:
      return "stablehlo.abs";
    case OpKind::exp:
      return "stablehlo.exponential";
    case OpKind::log:
      return "stablehlo.log";
    case OpKind::tanh:
      return "stablehlo.tanh";
    case OpKind::logistic:
      return "stablehlo.logistic";
    case OpKind::sqrt:
      return "stablehlo.sqrt";
    case OpKind::rsqrt:
      return "stablehlo.rsqrt";
    case OpKind::sin:
      return "stablehlo.sine";
    case OpKind::cos:
      return "stablehlo.cosine";
    case OpKind::logical_not:
      return "stablehlo.not";
    case OpKind::add:
      return "stablehlo.add";
    case OpKind::sub:
      return "stablehlo.subtract";
    case OpKind::mul:
      return "stablehlo.multiply";
    case OpKind::div:
      return "stablehlo.divide";
    case OpKind::max:
      return "stablehlo.maximum";
    case OpKind::min:
      return "stablehlo.minimum";
    case OpKind::pow:
      return "stablehlo.power";
    case OpKind::logical_and:
      return "stablehlo.and";
    case OpKind::logical_or:
      return "stablehlo.or";
    default:
      return {};
  }
}

Ints ints(std::span<const int64_t> numbers) { return {numbers.begin(), numbers.end()}; }

}  // namespace

Status Exporter::elements(const Node& n, const std::vector<Ref>& x) {
  const TensorType result = *sized(graph_.value(n.results[0]).type, n.name);
  switch (n.op) {
    case OpKind::constant:
      bind(n, e_.constant(*n.constant));
      return {};
    case OpKind::iota:
      bind(n, e_.iota(result.dtype, result.dims, static_cast<int>(n.integer("axis"))));
      return {};
    case OpKind::convert:
      bind(n, e_.convert(x[0], result.dtype));
      return {};
    case OpKind::erf:
      bind(n, e_.erf(x[0]));
      return {};
    case OpKind::compare:
      bind(n, e_.compare(n.text("direction"), x[0], x[1]));
      return {};
    case OpKind::select:
      bind(n, e_.select(x[0], x[1], x[2]));
      return {};
    default:
      break;
  }
  const std::string_view op = element_op(n.op);
  bind(n, x.size() == 1 ? e_.unary(op, x[0]) : e_.binary(op, x[0], x[1]));
  return {};
}

Status Exporter::shapes(const Node& n, const std::vector<Ref>& x) {
  const TensorType result = *sized(graph_.value(n.results[0]).type, n.name);
  switch (n.op) {
    case OpKind::broadcast:
      bind(n, e_.broadcast(x[0], ints(n.integers("dims")), result.dims));
      return {};
    case OpKind::reshape:
      bind(n, e_.reshape(x[0], result.dims));
      return {};
    case OpKind::transpose:
      bind(n, e_.transpose(x[0], ints(n.integers("perm"))));
      return {};
    case OpKind::slice: {
      Ints stride = ints(n.integers("stride"));
      if (stride.empty()) stride.assign(x[0].type.dims.size(), 1);
      bind(n, e_.slice(x[0], ints(n.integers("start")), ints(n.integers("limit")), stride));
      return {};
    }
    case OpKind::concatenate:
      bind(n, e_.concatenate(x, static_cast<int>(n.integer("axis"))));
      return {};
    case OpKind::gather:
      bind(n, e_.gather_rows(x[0], x[1]));
      return {};
    case OpKind::dynamic_slice:
      bind(n, e_.dynamic_slice(x, ints(n.integers("sizes"))));
      return {};
    default:
      bind(n, e_.dynamic_update_slice(x));
      return {};
  }
}

Status Exporter::sums(const Node& n, const std::vector<Ref>& x) {
  if (n.op == OpKind::reduce) {
    bind(n, e_.reduce(x[0], n.text("kind"), ints(n.integers("axes"))));
  } else if (n.op == OpKind::dot_general) {
    bind(n, e_.dot(x[0], x[1], ints(n.integers("lhs_batch")), ints(n.integers("rhs_batch")),
                   ints(n.integers("lhs_contract")), ints(n.integers("rhs_contract"))));
  } else {
    const std::vector<Ref> both = e_.top_k(x[0], n.integer("k"));
    bind(n, both[0], 0);
    bind(n, both[1], 1);
  }
  return {};
}

}  // namespace hone::graph::stablehlo
