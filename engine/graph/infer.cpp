// The frame of the rules: counts of operands, attributes, and sizes are checked here, the rest in the file of the op's
// section.
#include "engine/graph/infer.h"

#include <algorithm>
#include <array>

#include "engine/base/printable.h"
#include "engine/graph/attributes.h"
#include "engine/graph/infer_internal.h"

namespace hone::graph {

namespace {

using Names = std::array<std::string_view, 6>;

// Of ops whose operands play different parts; others have numbers only.
std::string_view operand_name(OpKind op, int i) {
  const auto pick = [i](const Names& names) { return i < 6 ? names[static_cast<size_t>(i)] : std::string_view(); };
  switch (op) {
    case OpKind::select:
      return pick({"c", "a", "b"});
    case OpKind::gather:
      return pick({"x", "indices"});
    case OpKind::dynamic_slice:
      return i == 0 ? "x" : "start";
    case OpKind::dynamic_update_slice:
      return i == 0 ? "x" : i == 1 ? "update" : "start";
    case OpKind::dot_general:
      return pick({"lhs", "rhs"});
    case OpKind::matmul:
      return i < 2 ? pick({"a", "b"}) : "of the epilogue";
    case OpKind::attention:
      return pick({"q", "k", "v", "mask"});
    case OpKind::rms_norm:
    case OpKind::rms_scale:
    case OpKind::layer_norm:
      return pick({"x", "w", "b"});
    case OpKind::rope:
      return pick({"x", "inv_freq", "positions"});
    case OpKind::swiglu:
      return pick({"gate", "up"});
    case OpKind::experts:
      return pick({"x", "indices", "weights", "w_gate", "w_up", "w_down"});
    case OpKind::kv_append:
      return pick({"state", "rows"});
    default:
      return {};
  }
}

template <typename T>
const T* find(const Attributes& attributes, std::string_view name) {
  const auto at = attributes.find(name);
  return at == attributes.end() ? nullptr : std::get_if<T>(&at->second);
}

Status check_count(const OpDescription& d) {
  const OpInfo& info = op_info(d.op);
  const int count = static_cast<int>(d.operands.size());
  if (count >= info.least_operands && (info.most_operands < 0 || count <= info.most_operands)) return {};
  std::string wanted = std::to_string(info.least_operands);
  if (info.most_operands < 0) wanted = "at least " + wanted;
  if (info.most_operands > info.least_operands) wanted += fmt::format(" to {}", info.most_operands);
  return invalid_argument(fmt::format("{}: has {} operands and takes {}", info.name, count, wanted));
}

// Elements of 16 bits are weights: what computes widens them on the way, and there it is these two only.
bool takes_weight_storage(OpKind op, int operand) {
  switch (op) {
    case OpKind::matmul:
      return operand == 1;
    case OpKind::gather:
      return operand == 0;
    case OpKind::reshape:
    case OpKind::transpose:
    case OpKind::slice:
    case OpKind::concatenate:
      return true;
    default:
      return false;
  }
}

Status check_weight_storage(const Rules& r) {
  constexpr std::string_view kRule = "bf16 and f16 are for weights: matmul's b, gather's x, and moving constants";
  for (int i = 0; i < r.count(); ++i)
    if (is_16bit_float(r.x(i).dtype) && !takes_weight_storage(r.op(), i))
      return r.fail("{} is {}; {}", r.operand(i), to_string(r.x(i)), kRule);
  const bool makes = (r.op() == OpKind::convert || r.op() == OpKind::iota) && r.wanted() != nullptr;
  if (makes && is_16bit_float(r.wanted()->dtype)) return r.fail("the result is {}; {}", to_string(*r.wanted()), kRule);
  return {};
}

Result<Types> infer_section(const Rules& r) {
  if (r.op() < OpKind::broadcast) return infer_elements(r);
  if (r.op() < OpKind::reduce) return infer_shapes(r);
  if (r.op() < OpKind::matmul) return infer_sums(r);
  return infer_decoder(r);
}

}  // namespace

Result<Types> infer_types(const OpDescription& d) {
  HONE_RETURN_IF_ERROR(check_count(d));
  HONE_RETURN_IF_ERROR(check_attributes(d.op, d.attributes));
  const Rules r(d);
  for (int i = 0; i < r.count(); ++i)
    if (const Status s = check_type(r.x(i)); !s.ok()) return r.fail("{} {}", r.operand(i), s.message());
  if (d.wanted != nullptr)
    if (const Status s = check_type(*d.wanted); !s.ok()) return r.fail("the result {}", s.message());
  HONE_RETURN_IF_ERROR(check_weight_storage(r));
  HONE_ASSIGN_OR_RETURN(Types types, infer_section(r));
  for (const TensorType& type : types)
    if (const Status s = check_type(type); !s.ok()) return r.fail("the result {}", s.message());
  return types;
}

Result<Types> infer_types(const Graph& graph, const Node& node) {
  Types operands;
  for (const ValueId v : node.operands) operands.push_back(graph.value(v).type);
  const TensorType* wanted = node.results.empty() ? nullptr : &graph.value(node.results[0]).type;
  const Dim position = graph.position.empty() ? Dim::unknown() : Dim::symbol(graph.position);
  return infer_types({node.op, operands, node.attributes, wanted, position});
}

Status check_type(const TensorType& type) {
  if (type.rank() > kMaxRank)
    return invalid_argument(fmt::format("has {} dimensions; at most {} are supported", type.rank(), kMaxRank));
  for (size_t i = 0; i < type.dims.size(); ++i) {
    const Dim& d = type.dims[i];
    if (d.terms().size() > kMaxTerms)
      return invalid_argument(fmt::format("has a dimension, {}, that is a sum of {} symbols; at most {} are supported",
                                          i, d.terms().size(), kMaxTerms));
    if (d.is_static() && (d.value() < 0 || d.value() > kMaxElements))
      return invalid_argument(fmt::format("is {}: dimension {} must be in 0..2^40", to_string(type), i));
  }
  // All but what is not known yet, and 0, so that strides are in bounds too.
  TensorType known{type.dtype, {}};
  for (const Dim& d : type.dims)
    if (d.is_static() && d.value() != 0) known.dims.push_back(d);
  if (const int64_t n = known.elements(); n < 0 || n > kMaxElements)
    return invalid_argument(fmt::format("is {}: more than 2^40 elements", to_string(type)));
  return {};
}

Status check_recorded(const TensorType& recorded, const TensorType& inferred) {
  bool same = recorded.dtype == inferred.dtype && recorded.rank() == inferred.rank();
  for (size_t i = 0; same && i < recorded.dims.size(); ++i) same = possibly_equal(recorded.dims[i], inferred.dims[i]);
  if (same) return {};
  return invalid_argument(fmt::format("is {} and must be {}", to_string(recorded), to_string(inferred)));
}

Dim surer(const Dim& a, const Dim& b) {
  if (a.is_unknown()) return b;
  return b.is_static() && !a.is_static() ? b : a;
}

// ---- Rules ----

int64_t Rules::integer(std::string_view name, int64_t otherwise) const {
  const int64_t* v = find<int64_t>(d_.attributes, name);
  return v ? *v : otherwise;
}

double Rules::number(std::string_view name, double otherwise) const {
  if (const double* v = find<double>(d_.attributes, name)) return *v;
  const int64_t* v = find<int64_t>(d_.attributes, name);
  return v ? static_cast<double>(*v) : otherwise;
}

std::string Rules::text(std::string_view name) const {
  const std::string* v = find<std::string>(d_.attributes, name);
  return v ? *v : std::string();
}

std::vector<int64_t> Rules::integers(std::string_view name) const {
  const auto* v = find<std::vector<int64_t>>(d_.attributes, name);
  return v ? *v : std::vector<int64_t>();
}

std::string Rules::operand(int i) const {
  const std::string_view name = operand_name(d_.op, i);
  return name.empty() ? fmt::format("operand {}", i) : fmt::format("operand {} ({})", i, name);
}

Status Rules::wrong(const std::string& what) const {
  return invalid_argument(fmt::format("{}: {}", op_info(d_.op).name, what));
}

Status Rules::dtype(int i, std::initializer_list<DType> allowed) const {
  std::string names;
  for (const DType t : allowed) {
    if (t == x(i).dtype) return {};
    names += fmt::format("{}{}", names.empty() ? "" : " or ", dtype_name(t));
  }
  return fail("{} is {} and must be {}", operand(i), to_string(x(i)), names);
}

Status Rules::rank(int i, int least, int most) const {
  const int rank = x(i).rank();
  if (rank >= least && (most < 0 || rank <= most)) return {};
  const std::string wanted = most < 0        ? fmt::format("{} or more", least)
                             : most == least ? std::to_string(least)
                                             : fmt::format("{} to {}", least, most);
  return fail("{} is {} and must have {} dimensions", operand(i), to_string(x(i)), wanted);
}

Status Rules::agree(int i, int axis, Dim* dim, std::string_view of) const {
  const Dim& own = this->dim(i, axis);
  if (!possibly_equal(own, *dim))
    return fail("{} is {}: dimension {} is {} and must be {}, {}", operand(i), to_string(x(i)), axis, to_string(own),
                to_string(*dim), of);
  *dim = surer(*dim, own);
  return {};
}

Status Rules::agree(int i, TensorType* type, std::string_view of, bool shapes_only) const {
  if ((!shapes_only && x(i).dtype != type->dtype) || x(i).rank() != type->rank())
    return fail("{} is {} and must be as {}, {}", operand(i), to_string(x(i)), of, to_string(*type));
  for (int axis = 0; axis < type->rank(); ++axis)
    HONE_RETURN_IF_ERROR(agree(i, axis, &type->dims[static_cast<size_t>(axis)], fmt::format("as in {}", of)));
  return {};
}

Status Rules::scalar_s32(int i) const {
  HONE_RETURN_IF_ERROR(dtype(i, {DType::kS32}));
  return rank(i, 0);
}

Status Rules::axis(std::string_view name, int64_t value, int rank) const {
  if (value >= 0 && value < rank) return {};
  if (rank == 0) return fail("{} {}: a scalar has no axes", name, value);
  return fail("{} {} is not in 0..{}", name, value, rank - 1);
}

Status Rules::axes(std::string_view name, const std::vector<int64_t>& list, int rank) const {
  std::vector<bool> seen(static_cast<size_t>(rank));
  for (const int64_t a : list) {
    HONE_RETURN_IF_ERROR(axis(name, a, rank));
    if (seen[static_cast<size_t>(a)]) return fail("{} names axis {} twice", name, a);
    seen[static_cast<size_t>(a)] = true;
  }
  return {};
}

Status Rules::word(std::string_view name, std::initializer_list<std::string_view> words) const {
  const std::string given = text(name);
  std::string all;
  for (const std::string_view w : words) {
    if (w == given) return {};
    all += fmt::format("{}\"{}\"", all.empty() ? "" : ", ", w);
  }
  return fail("{} is \"{}\" and must be one of {}", name, printable(given), all);
}

Status Rules::not_negative(std::string_view name) const {
  if (number(name) >= 0) return {};
  return fail("{} is {} and must be 0 or more", name, number(name));
}

Status Rules::needs_wanted() const {
  if (wanted() != nullptr) return {};
  return fail("its result type must be given");
}

}  // namespace hone::graph
