// Handlers of dot_general, reduce and top_k.
#include <fmt/format.h>

#include <limits>

#include "engine/base/printable.h"
#include "engine/graph/stablehlo/import_internal.h"
#include "engine/graph/stablehlo/literal.h"

namespace hone::graph::stablehlo {

Importer::Entries Importer::dot_general(const Call& call) {
  HONE_RETURN_IF_ERROR(count(call, 2));
  // Every precision is met: f32 is multiplied and summed as f32.
  if (const Attribute* precision = call.attribute("precision_config")) {
    for (const Attribute& item : resolve(module_, *precision).items) {
      const std::string_view word =
          item.kind == Attribute::Kind::kDialect && !item.items.empty() ? item.items.back().text : item.text;
      if (word != "DEFAULT" && word != "HIGH" && word != "HIGHEST")
        return refused(call, fmt::format("precision {} is none of DEFAULT, HIGH, HIGHEST", printable(word, 30)));
    }
  }
  if (call.attribute("algorithm") != nullptr) return refused(call, "an algorithm is not supported; leave it out");
  const Attribute* numbers = call.attribute("dot_dimension_numbers");
  const Attribute* found = numbers != nullptr ? &resolve(module_, *numbers) : nullptr;
  Attributes attributes;
  for (const auto& [theirs, ours] :
       {std::pair<std::string_view, std::string_view>{"lhs_batching_dimensions", "lhs_batch"},
        {"rhs_batching_dimensions", "rhs_batch"},
        {"lhs_contracting_dimensions", "lhs_contract"},
        {"rhs_contracting_dimensions", "rhs_contract"}}) {
    const Attribute* list = call.attribute(theirs);
    if (list == nullptr && found != nullptr) list = found->find(theirs);
    std::vector<int64_t> dims;
    if (list != nullptr) {
      HONE_ASSIGN_OR_RETURN(dims, parse_integers(module_, *list));
    }
    attributes.emplace(ours, std::move(dims));
  }
  if (found != nullptr)
    for (const NamedAttribute& entry : found->entries)
      if (!entry.name.ends_with("_dimensions"))
        return wrong(call, fmt::format("dot_dimension_numbers has no {}", printable(entry.name, 40)));
  HONE_ASSIGN_OR_RETURN(std::vector<ValueId> operands, values(call));
  return emit(call, OpKind::dot_general, std::move(operands), std::move(attributes));
}

// The last dimension of the left with the first of the right, each a vector or a matrix.
Importer::Entries Importer::dot(const Call& call) {
  HONE_RETURN_IF_ERROR(count(call, 2));
  (void)call.attribute("precision_config");
  HONE_ASSIGN_OR_RETURN(std::vector<ValueId> operands, values(call));
  const int left = type(operands[0]).rank(), right = type(operands[1]).rank();
  if (left < 1 || left > 2 || right < 1 || right > 2) return wrong(call, "its operands must be vectors or matrices");
  Attributes attributes{{"lhs_batch", std::vector<int64_t>{}},
                        {"rhs_batch", std::vector<int64_t>{}},
                        {"lhs_contract", std::vector<int64_t>{left - 1}},
                        {"rhs_contract", std::vector<int64_t>{0}}};
  return emit(call, OpKind::dot_general, std::move(operands), std::move(attributes));
}

// ---- reduce ----

// The name of the one operation that the body is: of `applies`, or of a region that returns op(a, b).
Result<std::string_view> Importer::reduced_by(const Call& call) const {
  if (const Attribute* applies = call.attribute("applies")) return applies->text;
  const std::string_view what = "its body must be one operation on its two arguments, which it returns";
  if (call.op.regions.size() != 1) return refused(call, what);
  const Block& body = call.op.regions[0];
  if (body.arguments.size() != 2 || body.operations.size() != 2) return refused(call, what);
  const Operation &op = body.operations[0], &end = body.operations[1];
  const std::string_view a = body.arguments[0].name, b = body.arguments[1].name;
  const bool on_both = op.operands.size() == 2 && ((op.operands[0].name == a && op.operands[1].name == b) ||
                                                   (op.operands[0].name == b && op.operands[1].name == a));
  const bool returns = end.name == "stablehlo.return" && end.operands.size() == 1 && op.results.size() == 1 &&
                       end.operands[0].name == op.results[0].name;
  if (!on_both || !returns) return refused(call, what);
  return op.name;
}

Importer::Entries Importer::reduce(const Call& call) {
  HONE_RETURN_IF_ERROR(count(call, 2));
  HONE_ASSIGN_OR_RETURN(std::vector<int64_t> axes, integers(call, "dimensions"));
  HONE_ASSIGN_OR_RETURN(const std::string_view by, reduced_by(call));
  if (call.operands[0].type.dtype == DType::kU8) return reduce_truth(call, by, std::move(axes));
  const bool sum = by == "stablehlo.add", max = by == "stablehlo.maximum";
  if (!sum && !max && by != "stablehlo.minimum")
    return refused(
        call,
        fmt::format("a body of {} is not supported; supported are stablehlo.add, stablehlo.maximum, stablehlo.minimum",
                    printable(by, 60)));
  HONE_ASSIGN_OR_RETURN(const std::vector<ValueId> operands, values(call));
  const DType dtype = type(operands[0]).dtype;
  const TensorType& start = type(operands[1]);
  if (!start.dims.empty() || start.dtype != dtype)
    return wrong(call, "the initial value must be a scalar of the operand's type");
  const std::string kind = sum ? "sum" : max ? "max" : "min";
  HONE_ASSIGN_OR_RETURN(std::vector<Entry> reduced,
                        emit(call, OpKind::reduce, {operands[0]}, {{"kind", kind}, {"axes", std::move(axes)}}));
  // An initial value that changes nothing goes; another takes part once.
  if (const Constant* c = graph_.constant(operands[1])) {
    const float inf = std::numeric_limits<float>::infinity();
    if (dtype == DType::kF32 && c->f32_at(0) == (sum ? 0.0f : max ? -inf : inf)) return reduced;
    const int32_t least = std::numeric_limits<int32_t>::min(), most = std::numeric_limits<int32_t>::max();
    if (dtype == DType::kS32 && c->s32_at(0) == (sum ? 0 : max ? least : most)) return reduced;
  }
  HONE_ASSIGN_OR_RETURN(const ValueId all, broadcast_scalar(call, operands[1], reduced[0].type));
  return emit(call, sum ? OpKind::add : max ? OpKind::max : OpKind::min, {*reduced[0].value, all});
}

// Of truth values: all of them (and) or any of them (or), as the least or the greatest of 0 and 1. Of no elements a
// minimum is inf and a maximum -inf, and "> 0" of these is what "and" and "or" of nothing are. Along axes of 1 nothing
// is reduced: jnp.take writes its test of indices so.
Importer::Entries Importer::reduce_truth(const Call& call, std::string_view by, std::vector<int64_t> axes) {
  const bool all = by == "stablehlo.and" || by == "stablehlo.minimum";
  if (!all && by != "stablehlo.or" && by != "stablehlo.maximum")
    return refused(call, fmt::format("a body of {} on i1 is not supported; supported are stablehlo.and, stablehlo.or",
                                     printable(by, 60)));
  HONE_ASSIGN_OR_RETURN(const std::vector<ValueId> operands, values(call));
  const TensorType x = type(operands[0]), start = type(operands[1]);
  if (!start.dims.empty() || start.dtype != DType::kU8)
    return wrong(call, "the initial value must be a scalar of the operand's type");
  const Constant* c = graph_.constant(operands[1]);
  const bool neutral = c != nullptr && (c->u8_at(0) != 0) == all;
  const TensorType number{.dtype = DType::kF32, .dims = x.dims};
  HONE_ASSIGN_OR_RETURN(const ValueId numbers, emit_value(call, OpKind::convert, {operands[0]}, {}, &number));
  bool moves = true;
  for (const int64_t d : axes) moves &= d >= 0 && d < x.rank() && surely_equal(x.dims[static_cast<size_t>(d)], Dim(1));
  HONE_ASSIGN_OR_RETURN(const ValueId reduced,
                        emit_value(call, OpKind::reduce, {numbers},
                                   {{"kind", std::string(all ? "min" : "max")}, {"axes", std::move(axes)}}));
  const TensorType to{.dtype = DType::kU8, .dims = type(reduced).dims};
  ValueId truth = -1;
  if (moves) {
    HONE_ASSIGN_OR_RETURN(truth, emit_value(call, OpKind::reshape, {operands[0]}, {}, &to));
  } else {
    const NodeId zero = graph_.add_constant(Constant::splat_f32({DType::kF32, {}}, 0));
    graph_.node(zero).line = call.op.line;
    HONE_ASSIGN_OR_RETURN(const ValueId zeros, broadcast_scalar(call, graph_.result(zero), type(reduced)));
    HONE_ASSIGN_OR_RETURN(truth,
                          emit_value(call, OpKind::compare, {reduced, zeros}, {{"direction", std::string("GT")}}));
  }
  if (neutral) return std::vector<Entry>{{.type = to, .value = truth, .numbers = {}}};
  HONE_ASSIGN_OR_RETURN(const ValueId first, broadcast_scalar(call, operands[1], to));
  return emit(call, all ? OpKind::logical_and : OpKind::logical_or, {truth, first});
}

// ---- top_k ----

Importer::Entries Importer::top_k(const Call& call) {
  HONE_ASSIGN_OR_RETURN(const int64_t k, integer(call, "k"));
  if (const Attribute* largest = call.attribute("largest"); largest != nullptr && largest->integer == 0)
    return refused(call, "the smallest elements are not supported");
  (void)call.attribute("is_stable");  // ours is
  return top_k_of(call, k);
}

Importer::Entries Importer::top_k_of(const Call& call, int64_t k) {
  HONE_RETURN_IF_ERROR(count(call, 1));
  HONE_ASSIGN_OR_RETURN(std::vector<ValueId> operands, values(call));
  return emit(call, OpKind::top_k, std::move(operands), {{"k", k}});
}

}  // namespace hone::graph::stablehlo
