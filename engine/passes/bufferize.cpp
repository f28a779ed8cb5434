#include "engine/passes/bufferize.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "engine/passes/views.h"

namespace hone::passes {
namespace {

using graph::Dim;
using graph::Graph;
using graph::Node;
using graph::NodeId;
using graph::OpKind;
using graph::Shape;
using graph::TensorType;
using graph::ValueId;

class Bufferizer {
 public:
  explicit Bufferizer(Compilation& c) : c_(c), g_(c.graph) {}

  Status run() {
    c_.buffers.clear();
    c_.placements.clear();
    for (const ValueId v : g_.inputs()) place_dense(v, Buffer::Kind::kInput);
    for (const NodeId id : g_.order()) place_constant(g_.node(id));
    std::vector<Dispatch> dispatches = std::move(c_.dispatches);
    c_.dispatches.clear();
    for (Dispatch& d : dispatches) {
      HONE_RETURN_IF_ERROR(place(d));
      c_.dispatches.push_back(std::move(d));
    }
    find_lifetimes();
    return {};
  }

 private:
  const TensorType& type(ValueId v) const { return g_.value(v).type; }
  const Placement* find(ValueId v) const {
    const auto at = c_.placements.find(v);
    return at == c_.placements.end() ? nullptr : &at->second;
  }

  // ---- buffers ----

  int add_buffer(ValueId v, Buffer::Kind kind, Dim elements) {
    Buffer b;
    b.kind = kind;
    b.value = v;
    b.elements = std::move(elements);
    b.element_bytes = type(v).dtype == DType::kU8 && kind != Buffer::Kind::kInput && kind != Buffer::Kind::kConstant
                          ? 4  // truth values between dispatches are numbers: see kernels/rows
                          : dtype_bytes(type(v).dtype);
    c_.buffers.push_back(std::move(b));
    return static_cast<int>(c_.buffers.size()) - 1;
  }

  void place_dense(ValueId v, Buffer::Kind kind) { place_strided(v, kind, dense_strides(type(v).dims)); }

  void place_strided(ValueId v, Buffer::Kind kind, std::vector<Dim> strides) {
    const Shape& dims = type(v).dims;
    const Dim elements = dims.empty() ? Dim(1) : dims[0] * strides[0];
    c_.placements[v] = {add_buffer(v, kind, elements), Dim(0), std::move(strides)};
  }

  // Rows of layout_planning: dense but for the distance of rows.
  std::vector<Dim> planned_strides(ValueId v) const {
    const Shape& dims = type(v).dims;
    std::vector<Dim> strides = dense_strides(dims);
    const auto at = c_.layouts.find(v);
    if (at == c_.layouts.end() || at->second.row == 0 || dims.size() < 2) return strides;
    Dim stride(at->second.row);
    for (size_t i = dims.size() - 1; i-- > 0;) {
      strides[i] = stride;
      stride = stride * dims[i];
    }
    return strides;
  }

  void place_result(ValueId v) {
    if (g_.is_output(v)) {
      place_dense(v, Buffer::Kind::kOutput);
    } else {
      place_strided(v, Buffer::Kind::kIntermediate, planned_strides(v));
    }
  }

  void place_constant(const Node& n) {
    if (n.op == OpKind::constant) {
      const ValueId v = n.results[0];
      if (!n.constant->splat) {
        place_dense(v, Buffer::Kind::kConstant);
        return;
      }
      const std::vector<Dim> strides(type(v).dims.size(), Dim(0));
      c_.placements[v] = {add_buffer(v, Buffer::Kind::kConstant, Dim(1)), Dim(0), strides};
    }
    if (n.op == OpKind::iota) {
      const ValueId v = n.results[0];
      const size_t axis = static_cast<size_t>(n.integer("axis"));
      std::vector<Dim> strides(type(v).dims.size(), Dim(0));
      strides[axis] = Dim(1);
      c_.placements[v] = {add_buffer(v, Buffer::Kind::kConstant, type(v).dims[axis]), Dim(0), std::move(strides)};
    }
  }

  // ---- dispatches ----

  Status place(Dispatch& d) {
    switch (d.kind) {
      case DispatchKind::kView:
        return place_view(d);
      case DispatchKind::kMatmul:
        HONE_RETURN_IF_ERROR(prepare_matmul(d));
        break;
      case DispatchKind::kAttention:
        HONE_RETURN_IF_ERROR(prepare_attention(d));
        break;
      case DispatchKind::kAppend:
        for (const NodeId id : d.nodes) HONE_RETURN_IF_ERROR(prepare_heads(d, id, 1));
        return {};
      case DispatchKind::kTopK:
        HONE_RETURN_IF_ERROR(prepare_rows(d, d.nodes[0], 0));
        d.outputs = g_.node(d.nodes[0]).results;  // the kernel writes both, whoever reads them
        break;
      case DispatchKind::kExperts:
        for (int i = 0; i < 3; ++i) HONE_RETURN_IF_ERROR(prepare_dense(d, d.nodes[0], i));
        break;
      case DispatchKind::kRows:
        if (g_.node(d.nodes[0]).op == OpKind::reshape && d.nodes.size() == 1) return place_copy(d);
        HONE_RETURN_IF_ERROR(prepare_row_program(d));
        if (place_in_place(d)) return {};
        break;
    }
    for (const ValueId v : d.outputs)
      if (find(v) == nullptr) place_result(v);
    return {};
  }

  // ---- views ----

  std::optional<Placement> view_of(const Node& n, const Placement& from) const {
    const Shape& in = type(n.operands[0]).dims;
    const Shape& out = type(n.results[0]).dims;
    Placement to = from;
    switch (n.op) {
      case OpKind::reshape: {
        auto strides = reshape_strides(in, from.strides, out);
        if (!strides) return std::nullopt;
        to.strides = *std::move(strides);
        return to;
      }
      case OpKind::transpose: {
        const auto perm = n.integers("perm");
        for (size_t i = 0; i < perm.size(); ++i) to.strides[i] = from.strides[static_cast<size_t>(perm[i])];
        return to;
      }
      case OpKind::slice: {
        const auto start = n.integers("start"), stride = n.integers("stride");
        for (size_t i = 0; i < start.size(); ++i) {
          to.offset += from.strides[i] * Dim(start[i]);
          if (!stride.empty()) to.strides[i] = from.strides[i] * Dim(stride[i]);
        }
        return to.offset.is_unknown() ? std::nullopt : std::optional<Placement>(to);
      }
      case OpKind::broadcast: {
        const auto dims = n.integers("dims");
        to.strides.assign(out.size(), Dim(0));
        for (size_t i = 0; i < dims.size(); ++i)
          if (surely_equal(in[i], out[static_cast<size_t>(dims[i])]))
            to.strides[static_cast<size_t>(dims[i])] = from.strides[i];
        return to;
      }
      default:
        return std::nullopt;
    }
  }

  Status place_view(Dispatch& d) {
    const Node& n = g_.node(d.nodes[0]);
    const Placement* from = find(n.operands[0]);
    if (from == nullptr)
      return unsupported(fmt::format("{} {}: it is a view of {}, which lies in a cache of keys and values",
                                     graph::op_info(n.op).name, n.name, g_.value(n.operands[0]).name));
    if (auto view = view_of(n, *from)) {
      c_.placements[n.results[0]] = *std::move(view);
      return {};
    }
    d.kind = DispatchKind::kRows;
    d.why = "a copy: no strides express this reshape";
    c_.notes.push_back({"bufferize", d.name, "copy", d.why});
    return place_copy(d);
  }

  // Elements go to dense memory in the order of the operand; the result is that memory with its own dimensions.
  Status place_copy(Dispatch& d) {
    const ValueId to = g_.node(d.nodes[0]).results[0];
    place_dense(to, g_.is_output(to) ? Buffer::Kind::kOutput : Buffer::Kind::kIntermediate);
    return {};
  }

  // ---- what prepared code can read ----

  // A copy of an operand in dense memory, as a dispatch before `d`.
  void copy_operand(Dispatch& d, NodeId id, int operand, const char* why) {
    const ValueId from = g_.node(id).operands[static_cast<size_t>(operand)];
    const NodeId copy = g_.add_node(OpKind::reshape, {from}, {}, {type(from)}, g_.value(from).name + "_dense", id);
    const ValueId to = g_.result(copy);
    g_.set_operand(id, operand, to);
    const auto& operands = g_.node(id).operands;  // another of which may be `from` still
    if (std::find(operands.begin(), operands.end(), from) == operands.end()) std::erase(d.inputs, from);
    d.inputs.push_back(to);
    Dispatch copying;
    copying.kind = DispatchKind::kRows;
    copying.name = g_.node(copy).name;
    copying.nodes = {copy};
    copying.inputs = {from};
    copying.outputs = {to};
    copying.why = why;
    place_dense(to, Buffer::Kind::kIntermediate);
    c_.notes.push_back({"bufferize", copying.name, "copy", why});
    c_.dispatches.push_back(std::move(copying));
  }

  Status prepare_rows(Dispatch& d, NodeId id, int operand) {
    const ValueId v = g_.node(id).operands[static_cast<size_t>(operand)];
    const Placement* p = find(v);
    if (p != nullptr && as_rows(type(v), *p)) return {};
    if (p == nullptr || !type(v).dims.back().is_static())
      return unsupported(fmt::format("{} {}: the last dimension of operand {} is {} and has to be static",
                                     graph::op_info(g_.node(id).op).name, g_.node(id).name, operand,
                                     to_string(type(v).dims.back())));
    copy_operand(d, id, operand, "a copy: its rows are not a fixed distance apart");
    return {};
  }

  Status prepare_dense(Dispatch& d, NodeId id, int operand) {
    const ValueId v = g_.node(id).operands[static_cast<size_t>(operand)];
    const Placement* p = find(v);
    if (p == nullptr || !is_dense(type(v).dims, p->strides)) copy_operand(d, id, operand, "a copy: it has gaps");
    return {};
  }

  // Row programs take any strides, but for these: tables and heads are read along dense rows, indices one after
  // another.
  Status prepare_row_program(Dispatch& d) {
    const NodeId id = d.nodes[0];
    const OpKind op = g_.node(id).op;
    if (op != OpKind::gather && op != OpKind::rope) return {};
    const ValueId rows = g_.node(id).operands[0];
    const Placement* p = find(rows);
    if (p == nullptr || !surely_equal(p->strides.back(), Dim(1))) copy_operand(d, id, 0, "a copy: its rows have gaps");
    const int indices = op == OpKind::gather ? 1 : 2;
    return static_cast<size_t>(indices) < g_.node(id).operands.size() ? prepare_dense(d, id, indices) : Status();
  }

  // [.., s, heads, d]: elements of a head dense, rows a fixed distance apart.
  Status prepare_heads(Dispatch& d, NodeId id, int operand) {
    const ValueId v = g_.node(id).operands[static_cast<size_t>(operand)];
    const Placement* p = find(v);
    if (p == nullptr) return {};  // in the cache
    const size_t rank = p->strides.size();
    const Dim& size = type(v).dims[rank - 1];
    const bool fits = surely_equal(p->strides[rank - 1], Dim(1)) && p->strides[rank - 3].is_static() &&
                      (!size.is_static() || p->strides[rank - 3].value() >= size.value());
    if (!fits) copy_operand(d, id, operand, "a copy: its rows are not a fixed distance apart");
    return {};
  }

  Status prepare_attention(Dispatch& d) {
    const NodeId id = d.nodes[0];
    for (int i = 0; i < 3; ++i) HONE_RETURN_IF_ERROR(prepare_heads(d, id, i));
    if (g_.node(id).operands.size() > 3) {
      const Placement* p = find(g_.node(id).operands[3]);
      if (p == nullptr || !surely_equal(p->strides.back(), Dim(1)))
        copy_operand(d, id, 3, "a copy: the mask's rows have gaps");
    }
    return {};
  }

  // A as rows; gate and residual lie as C does, so C takes over their distance of rows. Bias and row_scale are dense.
  Status prepare_matmul(Dispatch& d) {
    const NodeId id = d.nodes[0];
    if (g_.node(id).op == OpKind::dot_general) {
      for (int i = 0; i < 2; ++i) HONE_RETURN_IF_ERROR(prepare_dense(d, id, i));
      return {};
    }
    HONE_RETURN_IF_ERROR(prepare_rows(d, id, 0));
    if (g_.constant(g_.node(id).operands[1]) == nullptr) HONE_RETURN_IF_ERROR(prepare_rows(d, id, 1));
    return prepare_epilogue(d, id);
  }

  Status prepare_epilogue(Dispatch& d, NodeId id) {
    const ValueId out = g_.node(id).results[0];
    const bool row_scale = g_.node(id).text("epilogue").starts_with("*row_scale");
    std::vector<int> laid_as_result;
    std::set<int64_t> distances;
    int64_t columns = 0;
    for (int i = 2; i < static_cast<int>(g_.node(id).operands.size()); ++i) {
      if (type(operand(id, i)).rank() < 2 || (row_scale && i == 2)) {
        HONE_RETURN_IF_ERROR(prepare_dense(d, id, i));
        continue;
      }
      HONE_RETURN_IF_ERROR(prepare_rows(d, id, i));
      laid_as_result.push_back(i);
      const Rows rows = *as_rows(type(operand(id, i)), *find(operand(id, i)));
      distances.insert(rows.stride);
      columns = rows.columns;
    }
    if (laid_as_result.empty()) return {};
    const int64_t distance = distances.size() == 1 && !g_.is_output(out) ? *distances.begin() : columns;
    for (const int i : laid_as_result)
      if (as_rows(type(operand(id, i)), *find(operand(id, i)))->stride != distance)
        copy_operand(d, id, i, "a copy: it has to lie as the result does");
    if (!g_.is_output(out)) c_.layouts[out] = {distance, "as the operands of its epilogue"};
    return {};
  }

  ValueId operand(NodeId id, int i) const { return g_.node(id).operands[static_cast<size_t>(i)]; }

  // RoPE writes where it reads if no other dispatch reads those elements.
  bool place_in_place(const Dispatch& d) {
    const Node& n = g_.node(d.nodes[0]);
    if (n.op != OpKind::rope || g_.is_output(n.results[0])) return false;
    const Placement* p = find(n.operands[0]);
    if (p == nullptr || c_.buffers[static_cast<size_t>(p->buffer)].kind != Buffer::Kind::kIntermediate) return false;
    for (size_t i = 0; i < p->strides.size(); ++i)  // rows that share memory would be turned again and again
      if (surely_equal(p->strides[i], Dim(0)) && !surely_equal(type(n.operands[0]).dims[i], Dim(1))) return false;
    if (!reads_alone(n.operands[0], n.id)) return false;
    c_.placements[n.results[0]] = *p;
    c_.notes.push_back(
        {"bufferize", d.name, "in place", fmt::format("nothing else reads {}", g_.value(n.operands[0]).name)});
    return true;
  }

  // Whether `user` alone reads what v is a view of, as far as v's elements go: every step from v to the owner of the
  // memory has one use, or is one of several slices of the last axis that do not meet.
  bool reads_alone(ValueId v, NodeId user) const {
    const auto& uses = g_.value(v).uses;
    if (g_.is_output(v)) return false;
    const Node* def = g_.definition(v);
    if (uses.size() != 1) {
      const Node* through = g_.is_live(user) ? &g_.node(user) : nullptr;
      if (through == nullptr || through->op != OpKind::slice) return false;
      for (const graph::Use& u : uses)
        if (u.node != user && !disjoint_slices(g_.node(u.node), *through)) return false;
    }
    if (def == nullptr) return false;
    if (def->op == OpKind::broadcast) return false;
    if (def->op != OpKind::slice && def->op != OpKind::reshape && def->op != OpKind::transpose) return true;
    const Placement* from = find(def->operands[0]);  // none: the value stays inside the dispatch that shows it
    return from == nullptr || find(v)->buffer != from->buffer || reads_alone(def->operands[0], def->id);
  }

  static bool disjoint_slices(const Node& a, const Node& b) {
    if (a.op != OpKind::slice || b.op != OpKind::slice) return false;
    const auto as = a.integers("start"), al = a.integers("limit"), bs = b.integers("start"), bl = b.integers("limit");
    for (size_t i = 0; i < as.size(); ++i)
      if ((al[i] >= 0 && al[i] <= bs[i]) || (bl[i] >= 0 && bl[i] <= as[i])) return true;
    return false;
  }

  // ---- lifetimes ----

  void find_lifetimes() {
    const int last = static_cast<int>(c_.dispatches.size()) - 1;
    for (Buffer& b : c_.buffers) b.first = last + 1, b.last = -1;
    for (int i = 0; i <= last; ++i) {
      const Dispatch& d = c_.dispatches[static_cast<size_t>(i)];
      if (d.kind == DispatchKind::kView) continue;
      for (const auto* values : {&d.inputs, &d.outputs})
        for (const ValueId v : *values)
          if (const Placement* p = find(v)) {
            Buffer& b = c_.buffers[static_cast<size_t>(p->buffer)];
            b.first = std::min(b.first, i);
            b.last = std::max(b.last, i);
          }
    }
  }

  Compilation& c_;
  Graph& g_;
};

}  // namespace

std::optional<Rows> as_rows(const TensorType& type, const Placement& placement) {
  const size_t rank = type.dims.size();
  if (rank == 0 || !type.dims[rank - 1].is_static()) return std::nullopt;
  Rows rows{Dim(1), type.dims[rank - 1].value(), 0};
  const bool dense = surely_equal(placement.strides[rank - 1], Dim(1)) || rows.columns == 1;
  if (!dense) return std::nullopt;
  Dim step;  // from one index of the dimension above to the next
  for (size_t i = rank - 1; i-- > 0;) {
    if (surely_equal(type.dims[i], Dim(1))) continue;
    if (step.is_static() && step.value() == 0 && rows.stride == 0) {
      if (!placement.strides[i].is_static() || placement.strides[i].value() < rows.columns) return std::nullopt;
      rows.stride = placement.strides[i].value();
    } else if (!surely_equal(placement.strides[i], step)) {
      return std::nullopt;
    }
    step = placement.strides[i] * type.dims[i];
    rows.rows = rows.rows * type.dims[i];
  }
  if (rows.stride == 0) rows.stride = rows.columns;
  return rows.stride >= rows.columns ? std::optional<Rows>(rows) : std::nullopt;
}

Status bufferize(Compilation& compilation) { return Bufferizer(compilation).run(); }

}  // namespace hone::passes
