// Runs the passes of passes.inc and prints what they leave. The list there is the only one: it declares the functions,
// names them, and is the order.
#include "engine/passes/pass.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>

#include "engine/base/printable.h"
#include "engine/graph/text.h"
#include "engine/graph/verify.h"

namespace hone::passes {

#define HONE_PASS(name, summary) Status name(Compilation& compilation);
#include "engine/passes/passes.inc"
#undef HONE_PASS

namespace {

constexpr Pass kPasses[] = {
#define HONE_PASS(name, summary) {#name, summary, name},
#include "engine/passes/passes.inc"
#undef HONE_PASS
};

Status check_name(std::string_view name) {
  if (name.empty()) return {};
  std::string names;
  for (const Pass& p : kPasses) {
    if (p.name == name) return {};
    names += (names.empty() ? "" : ", ") + std::string(p.name);
  }
  return invalid_argument(fmt::format("'{}' is no pass; there are {}", printable(name, 40), names));
}

std::string_view buffer_kind_name(Buffer::Kind kind) {
  constexpr std::string_view kNames[] = {"input", "output", "constant", "state", "intermediate"};
  return kNames[static_cast<size_t>(kind)];
}

template <typename Ids, typename Name>
std::string list_of(const Ids& ids, const Name& name) {
  std::string text;
  for (const auto& id : ids) text += (text.empty() ? "" : ", ") + std::string(name(id));
  return text;
}

void print_dispatches(const Compilation& c, std::string& out) {
  const auto value = [&](graph::ValueId v) { return "%" + c.graph.value(v).name; };
  const auto node = [&](graph::NodeId n) { return c.graph.is_live(n) ? c.graph.node(n).name : std::string("?"); };
  if (!c.dispatches.empty()) out += "dispatches\n";
  for (size_t i = 0; i < c.dispatches.size(); ++i) {
    const Dispatch& d = c.dispatches[i];
    out += fmt::format("  {} {} {}: {} ({}) -> {}\n", i, dispatch_kind_name(d.kind), d.name, list_of(d.nodes, node),
                       list_of(d.inputs, value), list_of(d.outputs, value));
    if (!d.why.empty()) out += fmt::format("      {}\n", d.why);
  }
}

void print_memory(const Compilation& c, std::string& out) {
  if (!c.buffers.empty()) out += "buffers\n";
  for (size_t i = 0; i < c.buffers.size(); ++i) {
    const Buffer& b = c.buffers[i];
    out += fmt::format("  {} {} %{}: {} x {} bytes, dispatches {}..{}, at most {} bytes", i, buffer_kind_name(b.kind),
                       b.value < 0 ? "?" : c.graph.value(b.value).name, to_string(b.elements), b.element_bytes, b.first,
                       b.last, b.max_bytes);
    out += b.offset < 0 ? "\n" : fmt::format(", at {} of the arena\n", b.offset);
  }
  if (!c.placements.empty()) out += "places\n";
  for (const auto& [v, p] : c.placements)
    out += fmt::format("  %{}: buffer {} + {}, strides [{}]\n", c.graph.value(v).name, p.buffer, to_string(p.offset),
                       list_of(p.strides, [](const graph::Dim& d) { return to_string(d); }));
  if (c.memory.without_reuse > 0)
    out += fmt::format("memory: {} bytes, without reuse {}, aligned to {}\n", c.memory.arena_bytes,
                       c.memory.without_reuse, c.memory.alignment);
}

}  // namespace

std::span<const Pass> passes() { return kPasses; }

Result<std::vector<PassTime>> run_passes(Compilation& compilation, const RunOptions& options) {
  HONE_RETURN_IF_ERROR(check_name(options.first));
  HONE_RETURN_IF_ERROR(check_name(options.last));
  HONE_RETURN_IF_ERROR(check_name(options.without));
  HONE_RETURN_IF_ERROR(graph::verify(compilation.graph));
  std::vector<PassTime> times;
  bool begun = options.first.empty();
  for (const Pass& pass : kPasses) {
    begun = begun || pass.name == options.first;
    if (begun && pass.name != options.without) {
      const auto begin = std::chrono::steady_clock::now();
      HONE_RETURN_IF_ERROR(pass.run(compilation));
      const auto end = std::chrono::steady_clock::now();
      if (const Status valid = graph::verify(compilation.graph); !valid.ok())
        return internal_error(fmt::format("pass {} left a graph that is none: {}", pass.name, valid.message()));
      times.push_back({pass.name, std::chrono::duration_cast<std::chrono::nanoseconds>(end - begin).count(),
                       compilation.graph.order().size()});
      if (options.after) options.after(pass, compilation);
    }
    if (pass.name == options.last) break;
  }
  return times;
}

std::string to_string(const Guard& g) {
  switch (g.kind) {
    case Guard::Kind::kEqual:
      return fmt::format("{} == {}", to_string(g.left), to_string(g.right));
    case Guard::Kind::kAtMost:
      return fmt::format("{} <= {}", to_string(g.left), to_string(g.right));
    case Guard::Kind::kAtLeast:
      return fmt::format("{} >= {}", to_string(g.left), to_string(g.right));
    case Guard::Kind::kMultiple:
      return fmt::format("{} % {} == 0", to_string(g.left), to_string(g.right));
  }
  return "?";
}

std::string print(const Compilation& c, std::string_view pass) {
  std::string out = graph::print(c.graph);
  if (c.policy != PlanPolicy{}) out += fmt::format("policy: {}\n", to_string(c.policy));
  if (!c.guards.empty()) out += "guards\n";
  for (const Guard& g : c.guards) out += fmt::format("  {}: {} ({})\n", g.what, to_string(g), g.rule);
  if (!c.layouts.empty()) out += "layouts\n";
  for (const auto& [v, layout] : c.layouts)
    out += fmt::format("  %{}: rows {} apart ({})\n", c.graph.value(v).name,
                       layout.row == 0 ? "dense" : std::to_string(layout.row), layout.why);
  print_dispatches(c, out);
  print_memory(c, out);
  bool any = false;
  for (const Note& n : c.notes) {
    if (!pass.empty() && n.pass != pass) continue;
    if (!any) out += "notes\n";
    any = true;
    out += fmt::format("  {}: {}: {}: {}\n", n.pass, n.node, n.what, n.why);
  }
  return out;
}

}  // namespace hone::passes
