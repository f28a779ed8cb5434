#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <numeric>

#include "engine/base/sha256.h"
#include "engine/graph/reference.h"
#include "engine/passes/fold_internal.h"

namespace hone::passes {
namespace {

using graph::Constant;
using graph::Graph;
using graph::Node;
using graph::OpKind;
using graph::TensorType;

using Sizes = std::vector<int64_t>;

Sizes sizes_of(const TensorType& type) {
  Sizes sizes;
  for (const graph::Dim& d : type.dims) sizes.push_back(d.value());
  return sizes;
}

int64_t product(const Sizes& sizes, size_t from, size_t to) {
  int64_t p = 1;
  for (size_t i = from; i < to; ++i) p *= sizes[i];
  return p;
}

// Joined constants of this size and more are runs of their parts, where the parts are long enough to be read at speed:
// weights of a model stay in its mapped file. Gate and up are 16 rows in turn, 4 KiB from 64 columns of f32 on.
constexpr int64_t kRunsFrom = int64_t{1} << 16;
constexpr int64_t kShortestRun = int64_t{1} << 12;
// Keys are hashed beyond this many characters.
constexpr size_t kLongestKey = 160;

// The same elements under another type.
Constant retyped(const Constant& c, const TensorType& type) {
  Constant r = c;
  r.type = type;
  return r;
}

Constant one_element(const Constant& c, const TensorType& type) {
  Constant r;
  r.type = type;
  r.splat = true;
  r.owner = c.owner;
  r.data = c.pieces()[0].subspan(0, static_cast<size_t>(dtype_bytes(type.dtype)));
  return r;
}

// What says which elements they are now, from the keys of what is moved; "" where one has none.
std::string key_of(const Graph& g, const Node& n) {
  std::string key = fmt::format("{}(", graph::op_info(n.op).name);
  for (const auto& [name, value] : n.attributes) {
    key += name + "=";
    if (const auto* numbers = std::get_if<std::vector<int64_t>>(&value))
      key += fmt::format("{}", fmt::join(*numbers, " "));
    if (const auto* number = std::get_if<int64_t>(&value)) key += std::to_string(*number);
    key += ",";
  }
  for (const graph::ValueId v : n.operands) {
    const Constant& c = *g.constant(v);
    if (c.content_key.empty()) return "";
    key += fmt::format("{}{};", to_string(c.type), c.content_key);
  }
  key += ")";
  return key.size() <= kLongestKey ? key : fmt::format("{}({})", graph::op_info(n.op).name, sha256_hex(key));
}

// Memory of a constant that is being made.
struct Storage {
  explicit Storage(const TensorType& type) : bytes(std::make_shared<std::vector<std::byte>>()) {
    bytes->resize(static_cast<size_t>(type.bytes()));
  }
  Constant finish(const TensorType& type) const {
    Constant c;
    c.type = type;
    c.owner = bytes;
    c.data = *bytes;
    return c;
  }
  std::shared_ptr<std::vector<std::byte>> bytes;
};

// Along an axis, seen as `outer` items, each one part of every operand in turn.
struct Concatenation {
  std::vector<const Constant*> operands;
  std::vector<int64_t> part;  // bytes of an operand in one item
  int64_t outer = 1, element = 4;
};

Concatenation concatenation_of(const Graph& g, const Node& n, const TensorType& type) {
  Concatenation c;
  const size_t axis = static_cast<size_t>(n.integer("axis"));
  const Sizes sizes = sizes_of(type);
  c.outer = product(sizes, 0, axis);
  c.element = dtype_bytes(type.dtype);
  for (const graph::ValueId v : n.operands) {
    c.operands.push_back(g.constant(v));
    c.part.push_back(sizes_of(c.operands.back()->type)[axis] * product(sizes, axis + 1, sizes.size()) * c.element);
  }
  return c;
}

bool stays_in_runs(const Concatenation& c, const TensorType& type) {
  if (type.bytes() < kRunsFrom) return false;
  for (size_t i = 0; i < c.operands.size(); ++i)
    if (c.operands[i]->splat || (c.part[i] > 0 && c.part[i] < kShortestRun)) return false;
  return true;
}

Constant joined_runs(const Concatenation& c, const TensorType& type) {
  std::vector<graph::RunCutter> cutters;
  auto owners = std::make_shared<std::vector<std::shared_ptr<const void>>>();
  for (const Constant* operand : c.operands) {
    cutters.emplace_back(operand->pieces());
    owners->push_back(operand->owner);
  }
  std::vector<graph::Bytes> runs;
  for (int64_t item = 0; item < c.outer; ++item)
    for (size_t i = 0; i < cutters.size(); ++i) cutters[i].take(c.part[i], &runs);
  return Constant::of_runs(type, std::move(runs), std::move(owners));
}

Constant concatenated(const Concatenation& c, const TensorType& type) {
  if (stays_in_runs(c, type)) return joined_runs(c, type);
  const Storage out(type);
  const int64_t row = std::accumulate(c.part.begin(), c.part.end(), int64_t{0});
  int64_t at = 0;
  for (size_t operand = 0; operand < c.operands.size(); ++operand) {
    const Constant from = c.operands[operand]->contiguous();
    const int64_t part = c.part[operand];
    for (int64_t i = 0; i < c.outer; ++i) {
      std::byte* to = out.bytes->data() + i * row + at;
      if (from.splat) {
        for (int64_t e = 0; e < part; e += c.element)
          std::memcpy(to + e, from.data.data(), static_cast<size_t>(c.element));
      } else if (part > 0) {
        std::memcpy(to, from.data.data() + i * part, static_cast<size_t>(part));
      }
    }
    at += part;
  }
  return out.finish(type);
}

// Result element i.. is that of `c` at offset + sum of i * strides, all in elements.
Constant gathered(const Constant& scattered, const TensorType& type, int64_t offset, const Sizes& strides) {
  const Constant c = scattered.contiguous();
  const Storage out(type);
  const Sizes sizes = sizes_of(type);
  const size_t element = static_cast<size_t>(dtype_bytes(type.dtype)), rank = sizes.size();
  const int64_t columns = rank == 0 ? 1 : sizes[rank - 1], rows = rank == 0 ? 1 : product(sizes, 0, rank - 1);
  const int64_t step = rank == 0 ? 1 : strides[rank - 1];
  std::byte* to = out.bytes->data();
  Sizes index(rank, 0);
  for (int64_t r = 0; r < rows && columns > 0; ++r) {
    int64_t from = offset;
    for (size_t i = 0; i + 1 < rank; ++i) from += index[i] * strides[i];
    const std::byte* source = c.data.data() + static_cast<size_t>(from) * element;
    if (step == 1) {
      std::memcpy(to, source, static_cast<size_t>(columns) * element);
    } else {
      for (int64_t j = 0; j < columns; ++j)
        std::memcpy(to + static_cast<size_t>(j) * element, source + static_cast<size_t>(j * step) * element, element);
    }
    to += static_cast<size_t>(columns) * element;
    for (size_t i = rank > 0 ? rank - 1 : 0; i-- > 0;) {
      if (++index[i] < sizes[i]) break;
      index[i] = 0;
    }
  }
  return out.finish(type);
}

Sizes dense_strides_of(const Sizes& sizes) {
  Sizes strides(sizes.size(), 1);
  for (size_t i = sizes.size(); i-- > 1;) strides[i - 1] = strides[i] * sizes[i];
  return strides;
}

Constant transposed(const Node& n, const Constant& c, const TensorType& type) {
  const Sizes from = dense_strides_of(sizes_of(c.type));
  Sizes strides;
  for (const int64_t axis : n.integers("perm")) strides.push_back(from[static_cast<size_t>(axis)]);
  return gathered(c, type, 0, strides);
}

Constant sliced(const Node& n, const Constant& c, const TensorType& type) {
  const Sizes whole = sizes_of(c.type), sizes = sizes_of(type);
  Sizes strides = dense_strides_of(whole);
  const auto start = n.integers("start"), steps = n.integers("stride");
  int64_t offset = 0;
  bool rows = true;  // whole rows of the first axis, one after the other
  for (size_t i = 0; i < whole.size(); ++i) {
    offset += start[i] * strides[i];
    if (!steps.empty()) strides[i] *= steps[i];
    rows &= (steps.empty() || steps[i] == 1) && (i == 0 || sizes[i] == whole[i]);
  }
  if (!rows || type.elements() == 0) return gathered(c, type, offset, strides);
  graph::RunCutter cutter(c.pieces());
  std::vector<graph::Bytes> runs;
  cutter.skip(offset * dtype_bytes(type.dtype));
  cutter.take(type.bytes(), &runs);
  return Constant::of_runs(type, std::move(runs), c.owner);
}

// By the reference evaluator; `type` may be smaller than the node's.
std::optional<Constant> computed(const Graph& g, const Node& n, const TensorType& type, bool one) {
  Graph small;
  std::vector<graph::ValueId> operands;
  for (const graph::ValueId v : n.operands) {
    Constant c = *g.constant(v);
    if (one) c.type.dims.clear();
    operands.push_back(small.result(small.add_constant(std::move(c))));
  }
  const graph::NodeId id = small.add_node(n.op, std::move(operands), n.attributes, {type});
  small.set_outputs({small.result(id)});
  auto values = graph::evaluate(small, {}, nullptr);
  if (!values.ok()) return std::nullopt;  // an index out of range: the call says so
  return Constant::copy_of(type, (*values)[0].data);
}

bool is_elementwise(OpKind op) { return op > OpKind::iota && op < OpKind::broadcast; }
bool moves(OpKind op) { return op == OpKind::transpose || op == OpKind::concatenate || op == OpKind::slice; }

}  // namespace

std::optional<Constant> fold(const Graph& g, const Node& n, const FoldLimits& limits) {
  if (n.op == OpKind::constant || n.op >= OpKind::kv_append || n.results.size() != 1) return std::nullopt;
  const TensorType& type = g.value(n.results[0]).type;
  if (!type.is_static() || (n.operands.empty() && n.op != OpKind::iota)) return std::nullopt;
  bool splats = !n.operands.empty();
  const int64_t largest = type.elements();
  int64_t stored = 0;
  for (const graph::ValueId v : n.operands) {
    const Constant* c = g.constant(v);
    if (c == nullptr) return std::nullopt;
    splats &= c->splat || c->type.elements() == 1;
    stored += c->splat ? 1 : c->type.elements();
  }
  if (n.op == OpKind::reshape) return retyped(*g.constant(n.operands[0]), type);
  if (splats && (n.op == OpKind::broadcast || n.op == OpKind::transpose || n.op == OpKind::slice))
    return type.elements() == 0 ? std::nullopt : std::optional(one_element(*g.constant(n.operands[0]), type));
  if (splats && is_elementwise(n.op)) {
    const auto c = computed(g, n, {type.dtype, {}}, true);
    return c ? std::optional(one_element(*c, type)) : std::nullopt;
  }
  if (moves(n.op)) {
    if (splats && limits.stand_ins) return one_element(*g.constant(n.operands[0]), type);
    // Splats may be made of nothing and fill any memory.
    if (largest > limits.moved || largest > std::max(stored, limits.computed)) return std::nullopt;
    const Constant& c = *g.constant(n.operands[0]);
    Constant moved = n.op == OpKind::concatenate ? concatenated(concatenation_of(g, n, type), type)
                     : n.op == OpKind::transpose ? transposed(n, c, type)
                                                 : sliced(n, c, type);
    moved.content_key = key_of(g, n);
    return moved;
  }
  // A row that is repeated is read as a row.
  if (n.op == OpKind::broadcast && type.elements() > g.constant(n.operands[0])->type.elements()) return std::nullopt;
  return std::max(largest, stored) > limits.computed ? std::nullopt : computed(g, n, type, false);
}

}  // namespace hone::passes
