// Handlers of operations on elements, and what handlers share.
#include <fmt/format.h>

#include <algorithm>

#include "engine/base/printable.h"
#include "engine/graph/infer.h"
#include "engine/graph/stablehlo/import_internal.h"
#include "engine/graph/stablehlo/literal.h"

namespace hone::graph::stablehlo {

// ---- shared ----

Status Importer::wrong(const Call& call, std::string_view what) {
  return invalid_argument(fmt::format("line {}: {}: {}", call.op.line, call.row.name, what));
}

Status Importer::refused(const Call& call, std::string_view what) {
  return unsupported(fmt::format("line {}: {}: {}", call.op.line, call.row.name, what));
}

Status Importer::count(const Call& call, size_t operands) const {
  if (call.operands.size() == operands) return {};
  return wrong(call, fmt::format("{} operands, it takes {}", call.operands.size(), operands));
}

Result<TensorType> Importer::declared(const Call& call) const {
  if (call.results.size() != 1)
    return wrong(call, fmt::format("{} result types, it has one result", call.results.size()));
  return call.results[0];
}

Result<ValueId> Importer::value_of(const Call& call, const Entry& entry) {
  if (entry.value) return *entry.value;
  // A size that has a name, as a value: as many ones, summed.
  if (entry.type.dims.empty() && !(*entry.numbers)[0].is_static() && !(*entry.numbers)[0].is_unknown()) {
    HONE_ASSIGN_OR_RETURN(const ValueId ones, splat_s32(call, 1, {(*entry.numbers)[0]}));
    return emit_value(call, OpKind::reduce, {ones}, {{"kind", std::string("sum")}, {"axes", std::vector<int64_t>{0}}});
  }
  // Sizes that are known after all.
  std::vector<int32_t> elements;
  for (const Dim& d : *entry.numbers) {
    if (!d.is_static() || d.value() != static_cast<int32_t>(d.value()))
      return refused(call, "an open dimension without a name is supported in shapes only, not as a value");
    elements.push_back(static_cast<int32_t>(d.value()));
  }
  const NodeId id = graph_.add_constant(Constant::s32(entry.type, elements));
  graph_.node(id).line = call.op.line;
  return graph_.result(id);
}

Result<std::vector<ValueId>> Importer::values(const Call& call) {
  std::vector<ValueId> ids;
  for (const Entry& entry : call.operands) {
    HONE_ASSIGN_OR_RETURN(const ValueId id, value_of(call, entry));
    ids.push_back(id);
  }
  return ids;
}

Importer::Entries Importer::emit(const Call& call, OpKind op, std::vector<ValueId> operands, Attributes attributes,
                                 const TensorType* wanted) {
  const OpInfo& info = op_info(op);
  const int given = static_cast<int>(operands.size());
  if (given < info.least_operands || (info.most_operands >= 0 && given > info.most_operands))
    return wrong(call, fmt::format("it cannot have {} operands", given));
  std::vector<TensorType> operand_types;
  for (const ValueId v : operands) operand_types.push_back(type(v));
  Result<std::vector<TensorType>> types =
      infer_types({.op = op, .operands = operand_types, .attributes = attributes, .wanted = wanted, .position = Dim()});
  if (!types.ok())
    return Status(types.status().code(),
                  fmt::format("line {}: {}: {}", call.op.line, call.row.name, types.status().message()));
  const NodeId id = graph_.add_node(op, std::move(operands), std::move(attributes), *types);
  graph_.node(id).line = call.op.line;
  std::vector<Entry> entries;
  for (size_t i = 0; i < types->size(); ++i)
    entries.push_back({.type = (*types)[i], .value = graph_.result(id, static_cast<int>(i)), .numbers = {}});
  return entries;
}

Result<ValueId> Importer::emit_value(const Call& call, OpKind op, std::vector<ValueId> operands, Attributes attributes,
                                     const TensorType* wanted) {
  HONE_ASSIGN_OR_RETURN(const std::vector<Entry> entries,
                        emit(call, op, std::move(operands), std::move(attributes), wanted));
  return *entries[0].value;
}

Result<ValueId> Importer::splat_s32(const Call& call, int64_t value, const Shape& shape) {
  if (value != static_cast<int32_t>(value))
    return refused(call, fmt::format("{} does not fit s32, which is what integers become", value));
  const auto element = static_cast<int32_t>(value);
  Constant c = Constant::s32({DType::kS32, {}}, {&element, 1});
  const NodeId id = graph_.add_constant(std::move(c));
  graph_.node(id).line = call.op.line;
  return broadcast_scalar(call, graph_.result(id), {DType::kS32, shape});
}

Result<ValueId> Importer::broadcast_scalar(const Call& call, ValueId scalar, const TensorType& to) {
  if (to.dims.empty()) return scalar;
  return emit_value(call, OpKind::broadcast, {scalar}, {{"dims", std::vector<int64_t>{}}}, &to);
}

Result<std::vector<int64_t>> Importer::integers(const Call& call, std::string_view name) const {
  const Attribute* list = call.attribute(name);
  if (list == nullptr) return wrong(call, fmt::format("attribute {} is missing", name));
  return parse_integers(module_, *list);
}

Result<int64_t> Importer::integer(const Call& call, std::string_view name) const {
  const Attribute* a = call.attribute(name);
  if (a == nullptr) return wrong(call, fmt::format("attribute {} is missing", name));
  if (a->kind != Attribute::Kind::kInteger) return wrong(call, fmt::format("attribute {} must be an integer", name));
  return a->integer;
}

// ---- elements ----

Importer::Entries Importer::elements(const Call& call) {
  if (const Attribute* accuracy = call.attribute("result_accuracy"); accuracy != nullptr)
    return refused(call, "a result_accuracy is not supported; leave it at its default");
  if (call.row.op != OpKind::dynamic_update_slice)
    HONE_RETURN_IF_ERROR(count(call, static_cast<size_t>(op_info(call.row.op).least_operands)));
  HONE_ASSIGN_OR_RETURN(std::vector<ValueId> operands, values(call));
  return emit(call, call.row.op, std::move(operands));
}

namespace {

// One element of a sum of sizes. Unknown sizes stay unknown only where nothing is done to them.
std::optional<Dim> combine(OpKind op, const Dim& a, const Dim& b) {
  if (a.is_unknown() || b.is_unknown()) return std::nullopt;
  const bool both = a.is_static() && b.is_static();
  int64_t checked = 0;
  switch (op) {
    case OpKind::add:
      if (__builtin_add_overflow(a.value(), b.value(), &checked)) return std::nullopt;
      return a + b;
    case OpKind::sub:
      if (__builtin_sub_overflow(a.value(), b.value(), &checked)) return std::nullopt;
      return a - b;
    case OpKind::mul:
      if (!a.is_static() && !b.is_static()) return std::nullopt;
      if (__builtin_mul_overflow(a.value(), b.value(), &checked)) return std::nullopt;
      return a * b;
    case OpKind::div:
      if (!b.is_static() || b.value() <= 0) return std::nullopt;
      return both ? std::optional<Dim>(Dim(a.value() / b.value())) : Dim::divide(a, b.value());
    case OpKind::max:
      return both ? std::optional<Dim>(Dim(std::max(a.value(), b.value()))) : std::nullopt;
    case OpKind::min:
      return both ? std::optional<Dim>(Dim(std::min(a.value(), b.value()))) : std::nullopt;
    default:
      return std::nullopt;
  }
}

bool is_i64(const Operation& op) { return !op.result_types.empty() && op.result_types[0].element == "i64"; }

bool fits_s32(int64_t v) { return v == static_cast<int32_t>(v); }

}  // namespace

// The constant that an entry is, or that is repeated in it.
const Constant* Importer::constant_of(const Entry& entry) const {
  if (!entry.value) return nullptr;
  if (const Constant* c = graph_.constant(*entry.value)) return c;
  const Node* node = graph_.definition(*entry.value);
  if (node == nullptr || node->op != OpKind::broadcast) return nullptr;
  const Constant* c = graph_.constant(node->operands[0]);
  return c != nullptr && (c->splat || c->type.elements() == 1) ? c : nullptr;
}

// i64 is computed in s32: refused where constants say that the result leaves it.
Status Importer::check_i64(const Call& call, const std::optional<std::vector<Dim>>& numbers) const {
  constexpr int64_t kMostLooked = 4096;
  const auto judge = [&](int64_t v) {
    if (fits_s32(v)) return Status();
    return refused(call, fmt::format("{} does not fit s32, which is what integers become", v));
  };
  if (numbers) {
    for (const Dim& d : *numbers)
      if (d.is_static()) HONE_RETURN_IF_ERROR(judge(d.value()));
    return {};
  }
  const Constant *a = constant_of(call.operands[0]), *b = constant_of(call.operands[1]);
  if (a == nullptr || b == nullptr || a->type.dtype != DType::kS32 || b->type.dtype != DType::kS32) return {};
  const auto single = [](const Constant& c) { return c.splat || c.type.elements() == 1; };
  const int64_t n = !single(*a) ? a->type.elements() : !single(*b) ? b->type.elements() : 1;
  if (n > kMostLooked || (!single(*a) && !single(*b) && a->type != b->type)) return {};
  for (int64_t i = 0; i < n; ++i) {
    const std::optional<Dim> d =
        combine(call.row.op, Dim(a->s32_at(single(*a) ? 0 : i)), Dim(b->s32_at(single(*b) ? 0 : i)));
    if (d) HONE_RETURN_IF_ERROR(judge(d->value()));
  }
  return {};
}

void Importer::note_i64(const Call& call, const Entry& result) {
  if (!is_i64(call.op) || !result.value || result.numbers) return;
  const OpKind op = call.row.op;
  const bool sums = op == OpKind::add || op == OpKind::sub || op == OpKind::mul || op == OpKind::neg ||
                    op == OpKind::abs || op == OpKind::dot_general;
  const bool converts = op == OpKind::convert && call.operands[0].type.dtype == DType::kF32;
  const Result<std::string_view> by =
      op == OpKind::reduce ? reduced_by(call) : Result<std::string_view>(std::string_view());
  const bool reduces = by.ok() && *by == "stablehlo.add";
  if ((sums || converts || reduces) && i64_++ == 0)
    first_i64_ = fmt::format("line {}: {}", call.op.line, call.row.name);
}

// Of values, or of sizes.
Importer::Entries Importer::arithmetic(const Call& call) {
  HONE_RETURN_IF_ERROR(count(call, 2));
  const Entry &a = call.operands[0], &b = call.operands[1];
  std::optional<std::vector<Dim>> numbers;
  if (a.numbers && b.numbers && a.type == b.type) {
    numbers.emplace();
    for (size_t i = 0; numbers && i < a.numbers->size(); ++i) {
      const std::optional<Dim> d = combine(call.row.op, (*a.numbers)[i], (*b.numbers)[i]);
      d ? numbers->push_back(*d) : numbers.reset();
    }
  }
  if (is_i64(call.op)) HONE_RETURN_IF_ERROR(check_i64(call, numbers));
  // i32 wraps, as its values do; sizes do not.
  if (numbers &&
      std::any_of(numbers->begin(), numbers->end(), [](const Dim& d) { return d.is_static() && !fits_s32(d.value()); }))
    numbers.reset();
  // Sizes stay sizes while that can be; with a value among them, they become values.
  if (numbers && !(a.value && b.value))
    return std::vector<Entry>{{.type = a.type, .value = {}, .numbers = std::move(numbers)}};
  const auto unknown = [](const Entry& e) {
    return !e.value && std::any_of(e.numbers->begin(), e.numbers->end(), [](const Dim& d) { return d.is_unknown(); });
  };
  if (unknown(a) || unknown(b))
    return refused(call,
                   "of the size of a dimension: supported are sums, differences, products and exact quotients of "
                   "numbers and of dimensions that have a name");
  HONE_ASSIGN_OR_RETURN(std::vector<Entry> result, elements(call));
  result[0].numbers = std::move(numbers);
  return result;
}

Importer::Entries Importer::truth(const Call& call) {
  HONE_RETURN_IF_ERROR(count(call, call.row.op == OpKind::logical_not ? 1 : 2));
  HONE_ASSIGN_OR_RETURN(std::vector<ValueId> operands, values(call));
  for (const ValueId v : operands)
    if (type(v).dtype != DType::kU8) return refused(call, "supported on i1 only");
  if (call.row.op == OpKind::compare)
    return emit(call, OpKind::compare, std::move(operands), {{"direction", std::string("NE")}});
  return emit(call, call.row.op, std::move(operands));
}

// min(max(x, low), high)
Importer::Entries Importer::clamp(const Call& call) {
  HONE_RETURN_IF_ERROR(count(call, 3));
  HONE_ASSIGN_OR_RETURN(const std::vector<ValueId> operands, values(call));
  const TensorType whole = type(operands[1]);
  ValueId bounds[2] = {operands[0], operands[2]};
  for (ValueId& bound : bounds) {
    if (!type(bound).dims.empty()) continue;
    if (type(bound).dtype != whole.dtype) return wrong(call, "the bounds must be of the operand's type");
    HONE_ASSIGN_OR_RETURN(bound, broadcast_scalar(call, bound, whole));
  }
  HONE_ASSIGN_OR_RETURN(const ValueId raised, emit_value(call, OpKind::max, {operands[1], bounds[0]}));
  return emit(call, OpKind::min, {raised, bounds[1]});
}

Importer::Entries Importer::compare(const Call& call) {
  HONE_RETURN_IF_ERROR(count(call, 2));
  // LT, #stablehlo<comparison_direction LT>
  const auto word = [&](std::string_view name) -> std::string_view {
    const Attribute* a = call.attribute(name);
    if (a == nullptr) return {};
    const Attribute& found = resolve(module_, *a);
    if (found.kind == Attribute::Kind::kDialect && !found.items.empty()) return found.items.back().text;
    return found.text;
  };
  const std::string direction(word("comparison_direction"));
  bool known = false;
  for (const std::string_view d : {"EQ", "NE", "LT", "LE", "GT", "GE"}) known |= direction == d;
  if (!known)
    return wrong(call,
                 fmt::format("comparison_direction '{}' is none of EQ, NE, LT, LE, GT, GE", printable(direction, 20)));
  HONE_ASSIGN_OR_RETURN(std::vector<ValueId> operands, values(call));
  const DType dtype = type(operands[0]).dtype;
  const std::string_view fitting = dtype == DType::kF32 ? "FLOAT" : dtype == DType::kS32 ? "SIGNED" : "UNSIGNED";
  const std::string_view kind = word("compare_type");
  if (!kind.empty() && kind != "NOTYPE" && kind != fitting)
    return refused(call, fmt::format("compare_type {} on {} is not supported; supported is {}", printable(kind, 20),
                                     dtype_name(dtype), fitting));
  return emit(call, OpKind::compare, std::move(operands), {{"direction", direction}});
}

Importer::Entries Importer::constant(const Call& call) {
  constexpr int64_t kMostSizes = 64;  // of a vector of sizes; ranks are smaller
  HONE_RETURN_IF_ERROR(count(call, 0));
  const Attribute* value = call.attribute("value");
  if (value == nullptr) return wrong(call, "attribute value is missing");
  // A function that is inlined again has the elements that it had: decoded once, shared from then on.
  const Attribute* literal = &resolve(module_, *value);
  auto decoded = constants_.find(literal);
  if (decoded == constants_.end()) {
    HONE_ASSIGN_OR_RETURN(Constant fresh, parse_literal(module_, *literal));
    decoded = constants_.emplace(literal, std::move(fresh)).first;
  }
  Constant c = decoded->second;
  Entry entry{.type = c.type, .value = {}, .numbers = {}};
  if (c.type.dtype == DType::kS32 && c.type.rank() <= 1 && c.type.elements() <= kMostSizes) {
    entry.numbers.emplace();
    for (int64_t i = 0; i < c.type.elements(); ++i) entry.numbers->push_back(Dim(c.s32_at(i)));
  }
  const NodeId id = graph_.add_constant(std::move(c));
  graph_.node(id).line = call.op.line;
  entry.value = graph_.result(id);
  return std::vector<Entry>{std::move(entry)};
}

Importer::Entries Importer::convert(const Call& call) {
  HONE_RETURN_IF_ERROR(count(call, 1));
  HONE_ASSIGN_OR_RETURN(TensorType to, declared(call));
  // i64 to i32 and the like.
  if (to.dtype == call.operands[0].type.dtype) return call.operands;
  HONE_ASSIGN_OR_RETURN(std::vector<ValueId> operands, values(call));
  to.dims = type(operands[0]).dims;
  return emit(call, OpKind::convert, std::move(operands), {}, &to);
}

Importer::Entries Importer::iota(const Call& call) {
  HONE_RETURN_IF_ERROR(count(call, 0));
  HONE_ASSIGN_OR_RETURN(const int64_t axis, integer(call, "iota_dimension"));
  HONE_ASSIGN_OR_RETURN(const TensorType to, declared(call));
  if (!to.is_static()) return wrong(call, "its shape must be static; dynamic_iota takes a shape");
  return emit(call, OpKind::iota, {}, {{"axis", axis}}, &to);
}

Importer::Entries Importer::square(const Call& call) {
  HONE_RETURN_IF_ERROR(count(call, 1));
  HONE_ASSIGN_OR_RETURN(const std::vector<ValueId> operands, values(call));
  return emit(call, OpKind::mul, {operands[0], operands[0]});
}

// 1 - erf(x), as GELU needs it: off by half an ulp of 1, which is all of erfc(x) where x is large. check_erfc() sees
// that it is multiplied only.
Importer::Entries Importer::erfc(const Call& call) {
  HONE_RETURN_IF_ERROR(count(call, 1));
  HONE_ASSIGN_OR_RETURN(const std::vector<ValueId> operands, values(call));
  HONE_ASSIGN_OR_RETURN(const ValueId erf, emit_value(call, OpKind::erf, {operands[0]}));
  const NodeId one = graph_.add_constant(Constant::splat_f32({DType::kF32, {}}, 1));
  graph_.node(one).line = call.op.line;
  HONE_ASSIGN_OR_RETURN(const ValueId ones, broadcast_scalar(call, graph_.result(one), type(erf)));
  HONE_ASSIGN_OR_RETURN(std::vector<Entry> result, emit(call, OpKind::sub, {ones, erf}));
  erfcs_.push_back({.value = *result[0].value, .line = call.op.line});
  return result;
}

Status Importer::check_erfc() const {
  for (const Erfc& erfc : erfcs_) {
    if (graph_.definition(erfc.value) == nullptr) continue;  // nobody needed it
    bool multiplied = !graph_.is_output(erfc.value);
    for (const Use& use : graph_.value(erfc.value).uses) multiplied &= graph_.node(use.node).op == OpKind::mul;
    if (!multiplied)
      return unsupported(fmt::format(
          "line {}: chlo.erfc: supported only where all that uses it is a product, as in GELU: it becomes 1 - erf(x), "
          "which is 0 where erfc(x) is small",
          erfc.line));
  }
  return {};
}

Importer::Entries Importer::identity(const Call& call) { return call.operands; }

}  // namespace hone::graph::stablehlo
