// What steps ask for while a plan is made.
#include <fmt/format.h>

#include <algorithm>

#include "engine/executable/step_internal.h"
#include "engine/passes/plan_memory.h"

namespace hone::executable {

Preparation::Preparation(const Engine& its_engine, passes::Compilation& its_compilation, const PlanOptions& its_options)
    : engine(its_engine),
      state(*EngineAccess::state(its_engine)),
      compilation(its_compilation),
      options(its_options),
      constants(its_compilation.buffers.size()) {
  for (const graph::Symbol& s : compilation.graph.symbols) symbols.push_back(s.name);
}

// A constant that is asked for has to stay.
Result<Place> Preparation::place(graph::ValueId value) const {
  const auto at = compilation.placements.find(value);
  if (at == compilation.placements.end())
    return internal_error(fmt::format("{} has no place", compilation.graph.value(value).name));
  Place place{.buffer = at->second.buffer};
  HONE_ASSIGN_OR_RETURN(place.offset, size(at->second.offset));
  place.element_bytes = compilation.buffers[static_cast<size_t>(place.buffer)].element_bytes;
  return place;
}

std::vector<int64_t> Preparation::expected(const graph::Dim& dim) const {
  const graph::Graph& g = compilation.graph;
  if (dim.is_static()) return {dim.value()};
  std::optional<std::string> token_symbol = g.tokens.as_symbol();
  if (!token_symbol && symbols.size() == 1) token_symbol = symbols[0];
  graph::Bindings values;
  for (const graph::Symbol& s : g.symbols) values[s.name] = s.name == g.position ? 0 : s.max;
  std::vector<int64_t> found;
  for (const int64_t tokens : options.expected_tokens) {
    if (token_symbol) {
      const graph::Symbol* s = g.find_symbol(*token_symbol);
      if (s != nullptr && (tokens < s->min || tokens > s->max || tokens % s->multiple_of != 0)) continue;
      values[*token_symbol] = tokens;
    }
    const Result<int64_t> value = dim.evaluate(values);
    if (value.ok() && std::find(found.begin(), found.end(), *value) == found.end()) found.push_back(*value);
  }
  return found;
}

Result<int64_t> Preparation::largest(const graph::Dim& dim) const { return passes::largest(compilation.graph, dim); }

int Preparation::add_buffer(AlignedBuffer memory) {
  constant_bytes += memory.size();
  owned.push_back(std::make_shared<AlignedBuffer>(std::move(memory)));
  constants.push_back(owned.back()->data());
  return static_cast<int>(constants.size()) - 1;
}

void set_names(Step& step, const passes::Dispatch& dispatch) {
  step.name = dispatch.name;
  step.kind = passes::dispatch_kind_name(dispatch.kind);
  step.why = dispatch.why;
}

runtime::NodeScope::Split allowed_split(const graph::Graph& graph, const passes::Dispatch& dispatch) {
  using graph::OpKind;
  const graph::Node& n = graph.node(dispatch.nodes[0]);
  if (!n.schedule) return runtime::NodeScope::Split::kAllowed;
  if (n.schedule->parallelism == 1) return runtime::NodeScope::Split::kForbidden;
  const graph::Shape& dims = graph.value(n.operands[0]).type.dims;
  const bool batched = n.op != OpKind::attention || dims.size() == 4;
  const auto extent = [&](const std::string& name) -> graph::Dim {
    if (name == "batch") return batched ? dims[0] : graph::Dim(1);
    if (name == "heads") return dims[dims.size() - 2];
    if (name == "rows") {
      graph::Dim rows(1);
      for (size_t i = 0; i + 1 < dims.size(); ++i) rows = rows * dims[i];
      return rows;
    }
    return graph::Dim(2);  // columns, experts: never one
  };
  const bool none = std::all_of(n.schedule->parallel_dims.begin(), n.schedule->parallel_dims.end(),
                                [&](const std::string& name) { return surely_equal(extent(name), graph::Dim(1)); });
  return none ? runtime::NodeScope::Split::kForbidden : runtime::NodeScope::Split::kAllowed;
}

Result<const std::byte*> elements_of(const graph::Constant& constant, AlignedBuffer& written_out) {
  if (!constant.splat && !constant.runs) return constant.data.data();
  const int64_t bytes = constant.type.bytes();
  if (written_out.size() < bytes) {
    written_out = {};  // before there are two
    HONE_ASSIGN_OR_RETURN(written_out, AlignedBuffer::allocate(bytes));
  }
  constant.write_out(written_out.data());
  return written_out.data();
}

void Preparation::done_with(const graph::Constant& constant) const {
  if (!options.done_with) return;
  for (const graph::Bytes piece : constant.pieces()) options.done_with(piece);
}

}  // namespace hone::executable
