// Handlers of operations that move elements. Vectors of sizes go through them as vectors of sizes.
#include <fmt/format.h>

#include "engine/graph/stablehlo/import_internal.h"

namespace hone::graph::stablehlo {

namespace {

constexpr int64_t kMostSizes = 64;  // of a vector; ranks are smaller

std::vector<Entry> sizes(TensorType type, std::vector<Dim> numbers) {
  return {{.type = std::move(type), .value = {}, .numbers = std::move(numbers)}};
}

// A vector of sizes that is no value of the graph.
bool is_lazy(const Entry& entry) { return !entry.value; }

// A value whose elements are known as sizes, too.
Result<std::vector<Entry>> with_numbers(Result<std::vector<Entry>> entries, std::optional<std::vector<Dim>> numbers) {
  if (entries.ok()) (*entries)[0].numbers = std::move(numbers);
  return entries;
}

}  // namespace

Importer::Entries Importer::broadcast(const Call& call) {
  HONE_RETURN_IF_ERROR(count(call, 1));
  HONE_ASSIGN_OR_RETURN(std::vector<int64_t> dims, integers(call, "broadcast_dimensions"));
  HONE_ASSIGN_OR_RETURN(const TensorType to, declared(call));
  const Entry& x = call.operands[0];
  std::optional<std::vector<Dim>> numbers;
  if (x.numbers && dims.empty() && x.type.dims.empty() && to.rank() == 1 && to.is_static() &&
      to.elements() <= kMostSizes)
    numbers.emplace(static_cast<size_t>(to.elements()), (*x.numbers)[0]);
  if (is_lazy(x) && numbers) return sizes(to, *std::move(numbers));
  HONE_ASSIGN_OR_RETURN(std::vector<ValueId> operands, values(call));
  return with_numbers(emit(call, OpKind::broadcast, std::move(operands), {{"dims", std::move(dims)}}, &to),
                      std::move(numbers));
}

Importer::Entries Importer::concatenate(const Call& call) {
  HONE_ASSIGN_OR_RETURN(const int64_t axis, integer(call, "dimension"));
  std::optional<std::vector<Dim>> numbers{std::in_place};
  bool lazy = false;
  for (const Entry& entry : call.operands) {
    lazy |= is_lazy(entry);
    if (!entry.numbers || entry.type.rank() != 1 || axis != 0) numbers.reset();
    if (numbers) numbers->insert(numbers->end(), entry.numbers->begin(), entry.numbers->end());
  }
  if (numbers && static_cast<int64_t>(numbers->size()) > kMostSizes) numbers.reset();
  if (lazy && numbers) {
    const TensorType vector{DType::kS32, {Dim(static_cast<int64_t>(numbers->size()))}};
    return sizes(vector, *std::move(numbers));
  }
  HONE_ASSIGN_OR_RETURN(std::vector<ValueId> operands, values(call));
  return with_numbers(emit(call, OpKind::concatenate, std::move(operands), {{"axis", axis}}), std::move(numbers));
}

// The declared type with the sizes that the operand `shape` gives, where they say more.
Result<TensorType> Importer::computed_type(const Call& call, const Entry& shape) const {
  HONE_ASSIGN_OR_RETURN(TensorType to, declared(call));
  if (!shape.numbers)
    return refused(
        call, "the shape must be of numbers, get_dimension_size and sums of them, known when the graph is imported");
  if (shape.numbers->size() != to.dims.size() || shape.type.rank() != 1)
    return wrong(call, fmt::format("a shape of {} sizes for a result of rank {}", shape.numbers->size(), to.rank()));
  for (size_t i = 0; i < to.dims.size(); ++i) {
    const Dim& d = (*shape.numbers)[i];
    if (d.is_static() && d.value() < 0) return wrong(call, fmt::format("size {} is {}", i, d.value()));
    if (!possibly_equal(to.dims[i], d))
      return wrong(call, fmt::format("size {} is {} and the result says {}", i, to_string(d), to_string(to.dims[i])));
    if (to.dims[i].is_unknown()) to.dims[i] = d;
  }
  return to;
}

Importer::Entries Importer::dynamic_broadcast(const Call& call) {
  HONE_RETURN_IF_ERROR(count(call, 2));
  HONE_ASSIGN_OR_RETURN(std::vector<int64_t> dims, integers(call, "broadcast_dimensions"));
  // Which dimensions expand follows from the sizes; where those are open, infer_types takes them as equal.
  (void)call.attribute("known_expanding_dimensions");
  (void)call.attribute("known_nonexpanding_dimensions");
  HONE_ASSIGN_OR_RETURN(const TensorType to, computed_type(call, call.operands[1]));
  HONE_ASSIGN_OR_RETURN(const ValueId x, value_of(call, call.operands[0]));
  return emit(call, OpKind::broadcast, {x}, {{"dims", std::move(dims)}}, &to);
}

Importer::Entries Importer::dynamic_iota(const Call& call) {
  HONE_RETURN_IF_ERROR(count(call, 1));
  HONE_ASSIGN_OR_RETURN(const int64_t axis, integer(call, "iota_dimension"));
  HONE_ASSIGN_OR_RETURN(const TensorType to, computed_type(call, call.operands[0]));
  return emit(call, OpKind::iota, {}, {{"axis", axis}}, &to);
}

Importer::Entries Importer::dynamic_reshape(const Call& call) {
  HONE_RETURN_IF_ERROR(count(call, 2));
  HONE_ASSIGN_OR_RETURN(const TensorType to, computed_type(call, call.operands[1]));
  HONE_ASSIGN_OR_RETURN(const ValueId x, value_of(call, call.operands[0]));
  return emit(call, OpKind::reshape, {x}, {}, &to);
}

Importer::Entries Importer::dynamic_slice(const Call& call) {
  HONE_ASSIGN_OR_RETURN(std::vector<int64_t> slice_sizes, integers(call, "slice_sizes"));
  HONE_ASSIGN_OR_RETURN(std::vector<ValueId> operands, values(call));
  return emit(call, OpKind::dynamic_slice, std::move(operands), {{"sizes", std::move(slice_sizes)}});
}

Importer::Entries Importer::dimension_size(const Call& call) {
  HONE_RETURN_IF_ERROR(count(call, 1));
  HONE_ASSIGN_OR_RETURN(const int64_t dimension, integer(call, "dimension"));
  const Shape& dims = call.operands[0].type.dims;
  if (dimension < 0 || dimension >= static_cast<int64_t>(dims.size()))
    return wrong(call, fmt::format("dimension {} of {}", dimension, to_string(call.operands[0].type)));
  return sizes({DType::kS32, {}}, {dims[static_cast<size_t>(dimension)]});
}

Importer::Entries Importer::reshape(const Call& call) {
  HONE_RETURN_IF_ERROR(count(call, 1));
  HONE_ASSIGN_OR_RETURN(const TensorType to, declared(call));
  const Entry& x = call.operands[0];
  std::optional<std::vector<Dim>> numbers;
  if (x.numbers && to.rank() <= 1 && to.is_static() && to.elements() == static_cast<int64_t>(x.numbers->size()))
    numbers = x.numbers;
  if (is_lazy(x) && numbers) return sizes(to, *std::move(numbers));
  HONE_ASSIGN_OR_RETURN(std::vector<ValueId> operands, values(call));
  return with_numbers(emit(call, OpKind::reshape, std::move(operands), {}, &to), std::move(numbers));
}

Importer::Entries Importer::slice(const Call& call) {
  HONE_RETURN_IF_ERROR(count(call, 1));
  HONE_ASSIGN_OR_RETURN(std::vector<int64_t> start, integers(call, "start_indices"));
  HONE_ASSIGN_OR_RETURN(std::vector<int64_t> limit, integers(call, "limit_indices"));
  HONE_ASSIGN_OR_RETURN(std::vector<int64_t> stride, integers(call, "strides"));
  bool plain = true;
  for (const int64_t limits : limit)
    if (limits < 0) return wrong(call, fmt::format("limit {} is negative", limits));
  for (const int64_t s : stride) plain &= s == 1;
  const Entry& x = call.operands[0];
  std::optional<std::vector<Dim>> numbers;
  if (x.numbers && x.type.rank() == 1 && start.size() == 1 && limit.size() == 1 && plain) {
    const auto size = static_cast<int64_t>(x.numbers->size());
    if (start[0] < 0 || start[0] > limit[0] || limit[0] > size)
      return wrong(call, fmt::format("[{}:{}] of {} elements", start[0], limit[0], size));
    numbers.emplace(x.numbers->begin() + start[0], x.numbers->begin() + limit[0]);
  }
  if (is_lazy(x) && numbers) return sizes({DType::kS32, {Dim(limit[0] - start[0])}}, *std::move(numbers));
  Attributes attributes{{"start", std::move(start)}, {"limit", std::move(limit)}};
  if (!plain) attributes.emplace("stride", std::move(stride));
  HONE_ASSIGN_OR_RETURN(std::vector<ValueId> operands, values(call));
  return with_numbers(emit(call, OpKind::slice, std::move(operands), std::move(attributes)), std::move(numbers));
}

// A slice whose bounds are vectors of sizes: numbers, or the whole of a dimension.
Importer::Entries Importer::real_dynamic_slice(const Call& call) {
  HONE_RETURN_IF_ERROR(count(call, 4));
  HONE_ASSIGN_OR_RETURN(const ValueId x, value_of(call, call.operands[0]));
  const TensorType from = type(x);
  std::vector<int64_t> bounds[3];
  for (size_t part = 0; part < 3; ++part) {
    const Entry& entry = call.operands[part + 1];
    if (!entry.numbers || entry.numbers->size() != from.dims.size())
      return refused(call,
                     "its bounds must be vectors of sizes, one for each dimension, known when the graph is imported");
    for (size_t i = 0; i < from.dims.size(); ++i) {
      const Dim& d = (*entry.numbers)[i];
      // The limit of a dimension that is taken whole; two open dimensions are not surely the same.
      const bool whole = part == 1 && !from.dims[i].is_static() && (d == from.dims[i] && !d.is_unknown());
      if (!whole && !d.is_static())
        return refused(call, fmt::format("bound {} must be a number or the size of dimension {}, which needs a name",
                                         to_string(d), i));
      // A limit of -1 would be the end of the dimension in a graph, and is nothing in StableHLO.
      if (!whole && d.value() < (part == 2 ? 1 : 0))
        return wrong(call, fmt::format("the {} of dimension {} is {} and must be at least {}",
                                       part == 0   ? "start"
                                       : part == 1 ? "limit"
                                                   : "stride",
                                       i, d.value(), part == 2 ? 1 : 0));
      bounds[part].push_back(whole ? -1 : d.value());
    }
  }
  return emit(call, OpKind::slice, {x},
              {{"start", std::move(bounds[0])}, {"limit", std::move(bounds[1])}, {"stride", std::move(bounds[2])}});
}

Importer::Entries Importer::transpose(const Call& call) {
  HONE_RETURN_IF_ERROR(count(call, 1));
  HONE_ASSIGN_OR_RETURN(std::vector<int64_t> perm, integers(call, "permutation"));
  HONE_ASSIGN_OR_RETURN(std::vector<ValueId> operands, values(call));
  return emit(call, OpKind::transpose, std::move(operands), {{"perm", std::move(perm)}});
}

}  // namespace hone::graph::stablehlo
