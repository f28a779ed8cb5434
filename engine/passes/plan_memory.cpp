#include "engine/passes/plan_memory.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "engine/base/math.h"

namespace hone::passes {
namespace {

constexpr int64_t kMost = int64_t{1} << 62;

bool meet(const Buffer& a, const Buffer& b) { return a.first <= b.last && b.first <= a.last; }

std::vector<size_t> intermediates(const Compilation& c) {
  std::vector<size_t> indices;
  for (size_t i = 0; i < c.buffers.size(); ++i)
    if (c.buffers[i].kind == Buffer::Kind::kIntermediate && c.buffers[i].last >= 0) indices.push_back(i);
  return indices;
}

// The lowest offset at which `bytes` are free of all `taken`, which are sorted by offset.
int64_t lowest_gap(const std::vector<std::pair<int64_t, int64_t>>& taken, int64_t bytes) {
  int64_t at = 0;
  for (const auto& [begin, end] : taken) {
    if (begin - at >= bytes) break;
    at = std::max(at, end);
  }
  return at;
}

Result<int64_t> bound(const graph::Graph& graph, const graph::Dim& dim, bool most) {
  graph::Bindings extreme;
  for (const graph::Symbol& s : graph.symbols) {
    const auto factor = dim.terms().find(s.name);
    if (factor != dim.terms().end()) extreme[s.name] = (factor->second > 0) == most ? s.max : s.min;
  }
  return dim.evaluate(extreme);
}

// A product of symbols is no sum of them, but has a largest value all the same.
Result<int64_t> largest_elements(const graph::Graph& graph, const Buffer& b) {
  if (!b.elements.is_unknown()) return largest(graph, b.elements);
  int64_t product = 1;
  for (const graph::Dim& d : graph.value(b.value).type.dims) {
    HONE_ASSIGN_OR_RETURN(const int64_t size, largest(graph, d));
    if (__builtin_mul_overflow(product, size, &product)) return kMost;
  }
  return product;
}

}  // namespace

Result<int64_t> largest(const graph::Graph& graph, const graph::Dim& dim) { return bound(graph, dim, true); }

Result<int64_t> smallest(const graph::Graph& graph, const graph::Dim& dim) { return bound(graph, dim, false); }

Status plan_memory(Compilation& compilation) {
  Compilation& c = compilation;
  c.memory = {.alignment = kBufferAlignment};
  for (Buffer& b : c.buffers) {
    HONE_ASSIGN_OR_RETURN(const int64_t elements, largest_elements(c.graph, b));
    if (elements < 0 || elements > kMost / b.element_bytes)
      return invalid_argument(fmt::format("{} is too large: {} elements; give its symbols smaller bounds",
                                          c.graph.value(b.value).name, elements));
    b.max_bytes = elements * b.element_bytes;
  }
  std::vector<size_t> order = intermediates(c);
  std::stable_sort(order.begin(), order.end(),
                   [&](size_t x, size_t y) { return c.buffers[x].max_bytes > c.buffers[y].max_bytes; });
  std::vector<size_t> placed;
  for (const size_t i : order) {
    Buffer& b = c.buffers[i];
    const int64_t bytes = round_up(b.max_bytes, kBufferAlignment);
    std::vector<std::pair<int64_t, int64_t>> taken;
    for (const size_t j : placed) {
      const Buffer& other = c.buffers[j];
      if (c.policy.reuse == ReusePolicy::kReuse && !meet(b, other)) continue;
      taken.emplace_back(other.offset, other.offset + round_up(other.max_bytes, kBufferAlignment));
    }
    std::sort(taken.begin(), taken.end());
    b.offset = lowest_gap(taken, bytes);
    if (b.offset > kMost - bytes || c.memory.without_reuse > kMost - bytes)
      return invalid_argument("the intermediates are too large together; give symbols smaller bounds");
    c.memory.arena_bytes = std::max(c.memory.arena_bytes, b.offset + bytes);
    c.memory.without_reuse += bytes;
    placed.push_back(i);
  }
  return check_memory(c);
}

Status check_memory(const Compilation& compilation) {
  const std::vector<size_t> all = intermediates(compilation);
  const auto name = [&](const Buffer& b) { return compilation.graph.value(b.value).name; };
  for (size_t i = 0; i < all.size(); ++i) {
    const Buffer& a = compilation.buffers[all[i]];
    if (a.offset < 0 || a.offset % compilation.memory.alignment != 0 ||
        a.max_bytes > compilation.memory.arena_bytes - a.offset)
      return internal_error(
          fmt::format("memory plan: {} at offset {} is not inside the arena of {} bytes, aligned to {}", name(a),
                      a.offset, compilation.memory.arena_bytes, compilation.memory.alignment));
    for (size_t j = i + 1; j < all.size(); ++j) {
      const Buffer& b = compilation.buffers[all[j]];
      if (!meet(a, b) || a.offset + a.max_bytes <= b.offset || b.offset + b.max_bytes <= a.offset) continue;
      return internal_error(fmt::format("memory plan: {} and {} live at the same time and overlap", name(a), name(b)));
    }
  }
  return {};
}

}  // namespace hone::passes
