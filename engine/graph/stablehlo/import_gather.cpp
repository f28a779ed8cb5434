// stablehlo.gather takes windows of an operand at starts that a tensor of vectors gives, with a mapping for every
// dimension; gather of a graph takes rows of a table. Between them: the indexed dimensions come first in the table and
// are one dimension, the vectors become one number each, and what comes out is put where the mapping says.
//
//   table = reshape(transpose(x, [indexed.., others..]), [product of indexed, others..])
//   row   = sum of clamp(0, start[d], size[d] - 1) * stride[d]       over indexed dimensions d
//
// StableHLO clamps a start that is out of range; a graph refuses it. So indices are clamped here, unless they are
// surely in range.
//
// One vector of starts is no table: where it is a constant, the window is a slice (what frameworks write for x[...,
// 32:]), and where its window is neither 1 nor all of a dimension, a dynamic_slice, which clamps as gather does. Many
// windows of more than one along an indexed dimension are not supported.
#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "engine/base/printable.h"
#include "engine/graph/stablehlo/import_internal.h"
#include "engine/graph/stablehlo/literal.h"

namespace hone::graph::stablehlo {

struct Importer::GatherNumbers {
  std::vector<int64_t> offset, collapsed, batching, index_batching, map, sizes;
  int64_t vector_dim = 0;
  ValueId x = -1, indices = -1;
  std::vector<int64_t> indexed;  // dimensions of x: those with a column of starts, then batching ones
  std::vector<int64_t> columns;  // of starts, for each of `indexed`; batching ones have none: -1
  std::vector<int64_t> others;   // the rest, in order
  Shape batch;                   // of indices without vector_dim
  bool window = false;           // along an indexed dimension, neither 1 nor all of it; then batch is empty
};

namespace {

bool has(const std::vector<int64_t>& list, int64_t d) { return std::find(list.begin(), list.end(), d) != list.end(); }

bool all_in(const std::vector<int64_t>& list, int64_t limit) {
  for (size_t i = 0; i < list.size(); ++i)
    if (list[i] < 0 || list[i] >= limit || std::count(list.begin(), list.end(), list[i]) != 1) return false;
  return true;
}

bool is_identity(const std::vector<int64_t>& perm) {
  for (size_t i = 0; i < perm.size(); ++i)
    if (perm[i] != static_cast<int64_t>(i)) return false;
  return true;
}

}  // namespace

Result<Importer::GatherNumbers> Importer::gather_numbers(const Call& call) {
  HONE_RETURN_IF_ERROR(count(call, 2));
  GatherNumbers n;
  const Attribute* given = call.attribute("dimension_numbers");
  if (given == nullptr) return wrong(call, "attribute dimension_numbers is missing");
  const Attribute& numbers = resolve(module_, *given);
  (void)call.attribute("indices_are_sorted");  // a promise that changes no value
  for (const NamedAttribute& entry : numbers.entries) {
    std::vector<int64_t>* list = entry.name == "offset_dims"                   ? &n.offset
                                 : entry.name == "collapsed_slice_dims"        ? &n.collapsed
                                 : entry.name == "operand_batching_dims"       ? &n.batching
                                 : entry.name == "start_indices_batching_dims" ? &n.index_batching
                                 : entry.name == "start_index_map"             ? &n.map
                                                                               : nullptr;
    if (entry.name == "index_vector_dim" && entry.value.kind == Attribute::Kind::kInteger) {
      n.vector_dim = entry.value.integer;
    } else if (list != nullptr) {
      HONE_ASSIGN_OR_RETURN(*list, parse_integers(module_, entry.value));
    } else {
      return wrong(call, fmt::format("dimension_numbers has no {}", printable(entry.name, 40)));
    }
  }
  HONE_ASSIGN_OR_RETURN(n.sizes, integers(call, "slice_sizes"));
  HONE_ASSIGN_OR_RETURN(const std::vector<ValueId> operands, values(call));
  n.x = operands[0];
  n.indices = operands[1];
  HONE_RETURN_IF_ERROR(check_gather(call, &n));
  for (int64_t d = 0; d < type(n.x).rank(); ++d) HONE_RETURN_IF_ERROR(sort_gather_dimension(call, d, &n));
  for (size_t i = 0; i < n.map.size(); ++i) {
    if (has(n.others, n.map[i])) continue;
    n.indexed.push_back(n.map[i]);
    n.columns.push_back(static_cast<int64_t>(i));
  }
  for (const int64_t d : n.batching) {
    n.indexed.push_back(d);
    n.columns.push_back(-1);
  }
  return n;
}

// The lists fit the operands and each other; gives n.batch.
Status Importer::check_gather(const Call& call, GatherNumbers* n) const {
  const TensorType &x = type(n->x), &indices = type(n->indices);
  const int64_t rank = x.rank(), index_rank = indices.rank();
  if (indices.dtype != DType::kS32) return wrong(call, "indices must be integers");
  const bool ranges = static_cast<int64_t>(n->sizes.size()) == rank && all_in(n->collapsed, rank) &&
                      all_in(n->batching, rank) && all_in(n->map, rank) && n->vector_dim >= 0 &&
                      n->vector_dim <= index_rank && all_in(n->index_batching, index_rank) &&
                      n->batching.size() == n->index_batching.size() && !has(n->index_batching, n->vector_dim);
  const auto windows = static_cast<size_t>(rank) - n->collapsed.size() - n->batching.size();
  if (!ranges || n->offset.size() != windows)
    return wrong(call, "dimension_numbers and slice_sizes do not fit the operands");
  const Dim columns = n->vector_dim == index_rank ? Dim(1) : indices.dims[static_cast<size_t>(n->vector_dim)];
  if (!columns.is_static() || columns.value() != static_cast<int64_t>(n->map.size()))
    return wrong(call, "start_index_map must have an entry for each index of a vector");
  for (size_t i = 0; i < n->batching.size(); ++i)
    if (!surely_equal(x.dims[static_cast<size_t>(n->batching[i])],
                      indices.dims[static_cast<size_t>(n->index_batching[i])]))
      return wrong(call, "batching dimensions of operand and indices must have one size");
  for (int64_t d = 0; d < index_rank; ++d)
    if (d != n->vector_dim) n->batch.push_back(indices.dims[static_cast<size_t>(d)]);
  if (!all_in(n->offset, static_cast<int64_t>(n->batch.size() + windows)) ||
      !std::is_sorted(n->offset.begin(), n->offset.end()))
    return wrong(call, "offset_dims must ascend within the result");
  return {};
}

// Whether dimension d of the operand is indexed, batching, or one of the others.
Status Importer::sort_gather_dimension(const Call& call, int64_t d, GatherNumbers* n) const {
  const Dim& size = type(n->x).dims[static_cast<size_t>(d)];
  const int64_t slice = n->sizes[static_cast<size_t>(d)];
  const bool whole = surely_equal(size, Dim(slice)), batching = has(n->batching, d);
  if (slice < 0 || (size.is_static() && slice > size.value()))
    return wrong(call, fmt::format("slice size {} of dimension {}, which is {}", slice, d, to_string(size)));
  if ((has(n->collapsed, d) || batching) && slice != 1)
    return wrong(call, fmt::format("slice size {} of dimension {}, which goes: it must be 1", slice, d));
  if (batching && (has(n->map, d) || has(n->collapsed, d)))
    return wrong(call, fmt::format("dimension {} is used twice", d));
  // A window as large as the dimension starts at 0 whatever the index says.
  const bool indexed = has(n->map, d) && (!whole || slice == 1);
  if (indexed && slice != 1 && !n->batch.empty())
    return refused(call, fmt::format("windows of {} along dimension {}, which is indexed, are not supported; supported "
                                     "are 1 and all, or one window",
                                     slice, d));
  n->window |= indexed && slice != 1;
  if ((indexed || batching) && !size.is_static())
    return refused(call, fmt::format("dimension {} is indexed and must have a static size", d));
  if (!indexed && !batching) n->others.push_back(d);
  return {};
}

// [product of indexed, others..]
Result<ValueId> Importer::gather_table(const Call& call, GatherNumbers* n) {
  const TensorType x = type(n->x);
  ValueId table = n->x;
  std::vector<int64_t> start(x.dims.size(), 0), limit;
  bool cut = false;
  for (size_t d = 0; d < x.dims.size(); ++d) {
    const bool other = has(n->others, static_cast<int64_t>(d)) && !surely_equal(x.dims[d], Dim(n->sizes[d]));
    cut |= other;
    limit.push_back(other ? n->sizes[d] : x.dims[d].is_static() ? x.dims[d].value() : -1);
  }
  if (cut) {
    HONE_ASSIGN_OR_RETURN(table, emit_value(call, OpKind::slice, {table}, {{"start", start}, {"limit", limit}}));
  }
  std::vector<int64_t> perm = n->indexed;
  perm.insert(perm.end(), n->others.begin(), n->others.end());
  if (!is_identity(perm)) {
    HONE_ASSIGN_OR_RETURN(table, emit_value(call, OpKind::transpose, {table}, {{"perm", perm}}));
  }
  if (n->indexed.size() == 1) return table;
  TensorType flat{.dtype = x.dtype, .dims = {Dim(1)}};
  for (const int64_t d : n->indexed) flat.dims[0] = flat.dims[0] * x.dims[static_cast<size_t>(d)];
  for (const int64_t d : n->others) flat.dims.push_back(Dim(n->sizes[static_cast<size_t>(d)]));
  return emit_value(call, OpKind::reshape, {table}, {}, &flat);
}

bool Importer::surely_below(ValueId indices, int64_t size) const {
  for (int steps = 0; steps < 8; ++steps) {
    const Node* node = graph_.definition(indices);
    if (node == nullptr) return false;
    if (const Constant* c = graph_.constant(indices)) {
      const int64_t elements = c->splat ? 1 : c->type.elements();
      for (int64_t i = 0; i < elements; ++i)
        if (c->s32_at(i) < 0 || c->s32_at(i) >= size) return false;
      return true;
    }
    const bool moves = node->op == OpKind::reshape || node->op == OpKind::broadcast || node->op == OpKind::transpose ||
                       node->op == OpKind::slice;
    if (moves) {
      indices = node->operands[0];
      continue;
    }
    // Places along an axis: of an iota, or of what top_k chose from.
    const Shape* axis = node->op == OpKind::iota    ? &type(indices).dims
                        : node->op == OpKind::top_k ? &type(node->operands[0]).dims
                                                    : nullptr;
    if (axis == nullptr || axis->empty()) return false;
    const Dim& most = node->op == OpKind::iota ? (*axis)[static_cast<size_t>(node->integer("axis"))] : axis->back();
    return most.is_static() && most.value() <= size;
  }
  return false;
}

Result<ValueId> Importer::clamped(const Call& call, ValueId indices, int64_t size) {
  if (surely_below(indices, size)) return indices;
  const Shape shape = type(indices).dims;
  HONE_ASSIGN_OR_RETURN(const ValueId low, splat_s32(call, 0, shape));
  HONE_ASSIGN_OR_RETURN(const ValueId high, splat_s32(call, size - 1, shape));
  HONE_ASSIGN_OR_RETURN(const ValueId raised, emit_value(call, OpKind::max, {indices, low}));
  return emit_value(call, OpKind::min, {raised, high});
}

// Index i of every vector, of the shape n.batch.
Result<ValueId> Importer::starts_of(const Call& call, const GatherNumbers& n, int64_t i) {
  const TensorType indices = type(n.indices);
  const TensorType to{.dtype = DType::kS32, .dims = n.batch};
  ValueId starts = n.indices;
  if (n.vector_dim == indices.rank()) return starts;
  if (n.map.size() > 1) {
    std::vector<int64_t> start(indices.dims.size(), 0), limit;
    for (const Dim& d : indices.dims) limit.push_back(d.is_static() ? d.value() : -1);
    start[static_cast<size_t>(n.vector_dim)] = i;
    limit[static_cast<size_t>(n.vector_dim)] = i + 1;
    HONE_ASSIGN_OR_RETURN(starts, emit_value(call, OpKind::slice, {starts}, {{"start", start}, {"limit", limit}}));
  }
  return emit_value(call, OpKind::reshape, {starts}, {}, &to);
}

// The starts along indexed[column], of the shape n.batch.
Result<ValueId> Importer::index_column(const Call& call, const GatherNumbers& n, size_t column) {
  if (n.columns[column] < 0) {
    const TensorType to{.dtype = DType::kS32, .dims = n.batch};
    const int64_t d = n.index_batching[column - (n.indexed.size() - n.batching.size())];
    return emit_value(call, OpKind::iota, {}, {{"axis", d - (d > n.vector_dim ? 1 : 0)}}, &to);
  }
  HONE_ASSIGN_OR_RETURN(const ValueId starts, starts_of(call, n, n.columns[column]));
  return clamped(call, starts, type(n.x).dims[static_cast<size_t>(n.indexed[column])].value());
}

Result<ValueId> Importer::gather_rows(const Call& call, const GatherNumbers& n) {
  ValueId rows = -1;
  int64_t stride = 1;
  for (size_t i = n.indexed.size(); i-- > 0;) {
    HONE_ASSIGN_OR_RETURN(ValueId column, index_column(call, n, i));
    if (stride != 1) {
      HONE_ASSIGN_OR_RETURN(const ValueId factor, splat_s32(call, stride, n.batch));
      HONE_ASSIGN_OR_RETURN(column, emit_value(call, OpKind::mul, {column, factor}));
    }
    if (rows >= 0) {
      HONE_ASSIGN_OR_RETURN(column, emit_value(call, OpKind::add, {rows, column}));
    }
    rows = column;
    const int64_t size = type(n.x).dims[static_cast<size_t>(n.indexed[i])].value();
    if (__builtin_mul_overflow(stride, size, &stride) || stride > (int64_t{1} << 31))
      return refused(call, "the indexed dimensions have more than 2^31 rows");
  }
  return rows;
}

// The one window of a vector of starts; `known` are these where they are constants.
Importer::Entries Importer::gather_window(const Call& call, const GatherNumbers& n,
                                          const std::optional<std::vector<int64_t>>& known) {
  const TensorType x = type(n.x);
  ValueId window = -1;
  if (known) {
    std::vector<int64_t> start(x.dims.size(), 0), limit = n.sizes;
    for (size_t i = 0; i < n.map.size(); ++i) {
      const auto d = static_cast<size_t>(n.map[i]);
      if (!has(n.indexed, n.map[i])) continue;  // all of the dimension
      start[d] = std::clamp<int64_t>((*known)[i], 0, x.dims[d].value() - n.sizes[d]);
      limit[d] = start[d] + n.sizes[d];
    }
    HONE_ASSIGN_OR_RETURN(
        window, emit_value(call, OpKind::slice, {n.x}, {{"start", std::move(start)}, {"limit", std::move(limit)}}));
  } else {
    HONE_ASSIGN_OR_RETURN(const ValueId zero, splat_s32(call, 0, {}));
    std::vector<ValueId> operands(x.dims.size() + 1, zero);
    operands[0] = n.x;
    for (size_t i = 0; i < n.map.size(); ++i) {
      if (!has(n.indexed, n.map[i])) continue;
      HONE_ASSIGN_OR_RETURN(operands[static_cast<size_t>(n.map[i]) + 1], starts_of(call, n, static_cast<int64_t>(i)));
    }
    HONE_ASSIGN_OR_RETURN(window, emit_value(call, OpKind::dynamic_slice, std::move(operands), {{"sizes", n.sizes}}));
  }
  TensorType to{.dtype = x.dtype, .dims = {}};
  for (size_t d = 0; d < x.dims.size(); ++d)
    if (!has(n.collapsed, static_cast<int64_t>(d))) to.dims.push_back(Dim(n.sizes[d]));
  if (to.dims == type(window).dims) return std::vector<Entry>{{.type = to, .value = window, .numbers = {}}};
  return emit(call, OpKind::reshape, {window}, {}, &to);
}

namespace {

// What is known of a vector when the graph is imported: all of its elements, or nothing.
std::optional<std::vector<int64_t>> known_integers(const Entry& entry, const Constant* constant) {
  std::vector<int64_t> known;
  if (entry.numbers) {
    for (const Dim& d : *entry.numbers) {
      if (!d.is_static()) return std::nullopt;
      known.push_back(d.value());
    }
    return known;
  }
  if (constant == nullptr) return std::nullopt;
  for (int64_t i = 0; i < constant->type.elements(); ++i) known.push_back(constant->s32_at(i));
  return known;
}

}  // namespace

Importer::Entries Importer::gather(const Call& call) {
  HONE_ASSIGN_OR_RETURN(GatherNumbers n, gather_numbers(call));
  if (n.batch.empty()) {  // as many indices as x has dimensions, or fewer
    const std::optional<std::vector<int64_t>> known = known_integers(call.operands[1], graph_.constant(n.indices));
    if (known || n.window) return gather_window(call, n, known);
  }
  if (n.indexed.empty()) return refused(call, "windows as large as the operand are not supported");
  HONE_ASSIGN_OR_RETURN(const ValueId rows, gather_rows(call, n));
  HONE_ASSIGN_OR_RETURN(const ValueId table, gather_table(call, &n));
  HONE_ASSIGN_OR_RETURN(ValueId result, emit_value(call, OpKind::gather, {table, rows}));
  // [batch.., window..]: indexed dimensions that do not go have a size of 1.
  TensorType windows{.dtype = type(n.x).dtype, .dims = n.batch};
  for (int64_t d = 0; d < type(n.x).rank(); ++d)
    if (!has(n.collapsed, d) && !has(n.batching, d)) windows.dims.push_back(Dim(n.sizes[static_cast<size_t>(d)]));
  if (windows.dims != type(result).dims) {
    HONE_ASSIGN_OR_RETURN(result, emit_value(call, OpKind::reshape, {result}, {}, &windows));
  }
  std::vector<int64_t> perm(windows.dims.size(), -1);
  for (size_t i = 0; i < n.offset.size(); ++i)
    perm[static_cast<size_t>(n.offset[i])] = static_cast<int64_t>(n.batch.size() + i);
  int64_t next = 0;
  for (int64_t& p : perm)
    if (p < 0) p = next++;
  if (!is_identity(perm)) return emit(call, OpKind::transpose, {result}, {{"perm", std::move(perm)}});
  return std::vector<Entry>{{.type = type(result), .value = result, .numbers = {}}};
}

}  // namespace hone::graph::stablehlo
