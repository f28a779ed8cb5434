// See package.h.
#include "engine/executable/package.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <functional>
#include <optional>

#include "engine/base/guarded.h"
#include "engine/base/printable.h"
#include "engine/graph/text.h"
#include "engine/passes/pass.h"
#include "engine/state_internal.h"

namespace hone::executable {
namespace {

// In the order of passes::Guard::Kind.
constexpr std::array<std::string_view, 4> kGuardKinds = {"equal", "at_most", "at_least", "multiple"};

Status named(const jit::Package& package, const Status& status) {
  if (status.ok()) return status;
  return {status.code(), fmt::format("package {}: {}", package.path(), status.message())};
}

// A file of the package that does not say what it should is damaged, whatever its reader calls that.
Status damaged(const std::string& what, const Status& status) {
  return data_loss(fmt::format("{}: {}", what, status.message()));
}

// What both sides have of a constant. `owner` keeps `data` alive.
struct Elements {
  std::string what;  // of messages
  std::span<const std::byte> data;
  std::shared_ptr<const void> owner;
};
using FindElements = std::function<std::optional<Elements>(const std::string& name)>;

Result<graph::Constant> constant_of(const FindElements& find, const std::string& name, const graph::TensorType& type) {
  std::optional<Elements> found = find(name);
  if (!found)
    return data_loss(fmt::format("graph.constants does not have '{}', which the graph names", printable(name, 40)));
  if (static_cast<int64_t>(found->data.size()) != type.bytes())
    return data_loss(fmt::format("{} has {} bytes, constant '{}' of {} has {}", found->what, found->data.size(),
                                 printable(name, 40), to_string(type), type.bytes()));
  return graph::Constant{.type = type, .splat = false, .owner = std::move(found->owner), .data = found->data};
}

Result<passes::Guard> guard_of(const jit::PackageGuard& packed) {
  passes::Guard guard;
  guard.kind = static_cast<passes::Guard::Kind>(std::ranges::find(kGuardKinds, packed.kind) - kGuardKinds.begin());
  HONE_ASSIGN_OR_RETURN(guard.left, graph::parse_dim(packed.left));
  HONE_ASSIGN_OR_RETURN(guard.right, graph::parse_dim(packed.right));
  guard.what = packed.what;
  guard.rule = packed.rule;
  return guard;
}

// The pass behind kLastKeptPass.
std::string_view first_pass() {
  const std::span<const passes::Pass> all = passes::passes();
  return (std::ranges::find(all, kLastKeptPass, &passes::Pass::name) + 1)->name;
}

// `packed` has the text in place of a file.
Result<PackagedGraph> read(const jit::AotGraph& packed, const FindElements& find, const std::string& text_name) {
  PackagedGraph read;
  const Result<graph::Graph> graph = graph::parse(
      packed.text,
      [&](const std::string& name, const graph::TensorType& type) { return constant_of(find, name, type); });
  if (!graph.ok()) return damaged(text_name, graph.status());
  read.compilation.graph = *graph;
  const Result<passes::PlanPolicy> policy = passes::parse_policy(packed.policy);
  if (!policy.ok()) return damaged("graph.policy", policy.status());
  read.compilation.policy = *policy;
  for (size_t i = 0; i < packed.guards.size(); ++i) {
    Result<passes::Guard> guard = guard_of(packed.guards[i]);
    if (!guard.ok()) return damaged(fmt::format("graph.guards[{}]", i), guard.status());
    read.compilation.guards.push_back(std::move(*guard));
  }
  read.options.expected_tokens = packed.tokens;
  HONE_RETURN_IF_ERROR(passes::run_passes(read.compilation, {.first = first_pass()}).status());
  return read;
}

Result<PackagedGraph> read_package(const std::shared_ptr<const jit::Package>& package) {
  const std::optional<jit::PackageGraph>& packed = package->manifest().graph;
  if (!packed) return unsupported("it has ops and no graph");
  const auto find = [&](const std::string& name) -> std::optional<Elements> {
    const auto at = std::ranges::find(packed->constants, name, &jit::PackageConstant::name);
    if (at == packed->constants.end()) return std::nullopt;
    std::shared_ptr<const jit::MappedFile> file = package->constant(*at);
    const std::span<const std::byte> bytes = file->bytes();
    return Elements{at->file, bytes, std::move(file)};
  };
  return read({.text = package->graph_text(),
               .policy = packed->policy,
               .tokens = packed->tokens,
               .guards = packed->guards,
               .constants = {}},
              find, packed->text);
}

jit::AotConstant aot_constant(const std::string& name, const graph::Constant& constant) {
  return {.name = name, .data = constant.data, .owner = constant.owner};
}

}  // namespace

jit::AotGraph package_graph(const passes::Compilation& c, const PlanOptions& options) {
  jit::AotGraph packed{.text = graph::print(c.graph),
                       .policy = to_string(c.policy),
                       .tokens = options.expected_tokens,
                       .guards = {},
                       .constants = {}};
  for (const passes::Guard& g : c.guards)
    packed.guards.push_back({.kind = std::string(kGuardKinds[static_cast<size_t>(g.kind)]),
                             .left = to_string(g.left),
                             .right = to_string(g.right),
                             .what = g.what,
                             .rule = g.rule});
  for (const graph::NodeId id : c.graph.order()) {
    const graph::Node& n = c.graph.node(id);
    if (n.constant && !n.constant->splat && n.constant->type.elements() > graph::kInlineElements)
      packed.constants.push_back(aot_constant(n.name, n.constant->contiguous()));
  }
  return packed;
}

Result<PackagedGraph> unpack_graph(const std::shared_ptr<const jit::Package>& package) {
  return guarded([&]() -> Result<PackagedGraph> {
    Result<PackagedGraph> graph = read_package(package);
    if (!graph.ok()) return named(*package, graph.status());
    return graph;
  });
}

Result<PackagedGraph> unpack_graph(const jit::AotGraph& graph) {
  return guarded([&] {
    const auto find = [&](const std::string& name) -> std::optional<Elements> {
      const auto at = std::ranges::find(graph.constants, name, &jit::AotConstant::name);
      if (at == graph.constants.end()) return std::nullopt;
      return Elements{name, at->data, at->owner};
    };
    return read(graph, find, "the graph's text");
  });
}

Result<ExecutablePlan> load_plan(const Engine& engine, const std::shared_ptr<const jit::Package>& package,
                                 PackagedGraph graph) {
  HONE_RETURN_IF_ERROR(guarded([&] { return EngineAccess::state(engine)->load_package(*package); }));
  return ExecutablePlan::create(engine, std::move(graph.compilation), graph.options);
}

Result<ExecutablePlan> load_plan(const Engine& engine, const std::string& path) {
  HONE_ASSIGN_OR_RETURN(const std::shared_ptr<const jit::Package> package, jit::Package::open(path));
  HONE_ASSIGN_OR_RETURN(PackagedGraph graph, unpack_graph(package));
  return load_plan(engine, package, std::move(graph));
}

}  // namespace hone::executable
