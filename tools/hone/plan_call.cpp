#include "tools/hone/plan_call.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "engine/base/random.h"
#include "engine/graph/stablehlo/import.h"
#include "engine/graph/text.h"

namespace hone::cli {

using graph::Graph;
using graph::Tensor;

namespace {

// FNV-1a: one name, one sequence, in whatever order constants are asked for.
uint64_t hash_of(const std::string& name) {
  uint64_t h = 0xcbf29ce484222325u;
  for (const char c : name) h = (h ^ static_cast<uint8_t>(c)) * 0x100000001b3u;
  return h;
}

void fill_floats(std::span<float> floats, uint64_t seed, float lo, float hi) {
  Random random(seed);
  for (float& f : floats) f = random.uniform(lo, hi);
}

// The symbol that a call's number of tokens gives a value to; nullptr where the graph has none.
const graph::Symbol* token_symbol(const Graph& graph) {
  if (const auto name = graph.tokens.as_symbol()) return graph.find_symbol(*name);
  return graph.symbols.size() == 1 && graph.symbols[0].name != graph.position ? &graph.symbols[0] : nullptr;
}

graph::Bindings bindings(const Graph& graph, int64_t tokens, int64_t position) {
  graph::Bindings values;
  for (const graph::Symbol& s : graph.symbols) values[s.name] = s.min;
  if (const graph::Symbol* s = token_symbol(graph)) values[s->name] = tokens;
  if (!graph.position.empty()) values[graph.position] = position;
  return values;
}

// Rows of the smallest table of constants that this input indexes; 1 where it indexes none, as any table has a row 0.
int64_t rows_indexed(const Graph& graph, graph::ValueId input) {
  int64_t rows = 0;
  for (const graph::Use& use : graph.value(input).uses) {
    const graph::Node& n = graph.node(use.node);
    if (n.op != graph::OpKind::gather || use.operand != 1) continue;
    const graph::Dim& table = graph.value(n.operands[0]).type.dims.front();
    if (table.is_static()) rows = rows == 0 ? table.value() : std::min(rows, table.value());
  }
  return std::max<int64_t>(rows, 1);
}

}  // namespace

graph::Constant invented_constant(const std::string& name, const graph::TensorType& type, uint64_t seed) {
  Tensor tensor = Tensor::make(type.dtype, [&] {
    std::vector<int64_t> shape;
    for (const graph::Dim& d : type.dims) shape.push_back(d.value());
    return shape;
  }());
  const uint64_t of_name = seed ^ hash_of(name);
  if (type.dtype == DType::kF32 && type.rank() > 1) {
    const float scale = 1 / std::sqrt(static_cast<float>(std::max<int64_t>(1, tensor.shape.back())));
    fill_floats(tensor.as<float>(), of_name, -scale, scale);
  } else if (type.dtype == DType::kF32) {
    fill_floats(tensor.as<float>(), of_name, 0.5F, 1.5F);
  } else if (type.dtype == DType::kU8) {
    std::ranges::fill(tensor.data, std::byte{1});
  }
  return graph::Constant::copy_of(type, tensor.data);
}

Result<Graph> read_invented(const std::string& path, uint64_t seed) {
  std::error_code error;
  if (!std::filesystem::is_regular_file(path, error)) return not_found(fmt::format("there is no file {}", path));
  std::ifstream in(path, std::ios::binary);
  std::stringstream text;
  if (!(text << in.rdbuf())) return not_found(fmt::format("{} is empty or cannot be read", path));
  const std::string content = text.str();
  Result<Graph> graph = content.find("graph @") < content.find("func.func")
                            ? graph::parse(content,
                                           [&](const std::string& name, const graph::TensorType& type) {
                                             return Result<graph::Constant>(invented_constant(name, type, seed));
                                           })
                            : graph::stablehlo::import_stablehlo(content);
  if (!graph.ok()) return Status(graph.status().code(), fmt::format("{}: {}", path, graph.status().message()));
  return graph;
}

Result<std::vector<Tensor>> invented_inputs(const Graph& graph, int64_t tokens, int64_t position, uint64_t seed) {
  const graph::Bindings values = bindings(graph, tokens, position);
  std::vector<Tensor> inputs;
  for (const graph::ValueId v : graph.inputs()) {
    const graph::Value& value = graph.value(v);
    std::vector<int64_t> shape;
    for (const graph::Dim& d : value.type.dims) {
      const Result<int64_t> size = d.evaluate(values);
      if (!size.ok())
        return unsupported(fmt::format("input {}: nothing says how large {} is", value.name, to_string(d)));
      shape.push_back(*size);
    }
    Tensor t = Tensor::make(value.type.dtype, std::move(shape));
    const uint64_t of_name = seed ^ hash_of(value.name);
    if (t.dtype == DType::kF32) fill_floats(t.as<float>(), of_name, -1, 1);
    if (t.dtype == DType::kU8) std::ranges::fill(t.data, std::byte{1});
    if (t.dtype == DType::kS32) {
      Random random(of_name);
      const int64_t rows = rows_indexed(graph, v);
      for (int32_t& i : t.as<int32_t>()) i = static_cast<int32_t>(random.below(rows));
    }
    inputs.push_back(std::move(t));
  }
  return inputs;
}

Result<PlanCall> PlanCall::create(const executable::ExecutablePlan& plan, const Graph& graph, const Options& options) {
  if (options.position > 0 && graph.position.empty())
    return invalid_argument("the graph keeps nothing between calls: its position is always 0");
  HONE_ASSIGN_OR_RETURN(executable::Session session, plan.session());
  PlanCall call(std::move(session), options);
  HONE_RETURN_IF_ERROR(call.fill(graph));
  HONE_RETURN_IF_ERROR(call.make_operands(graph, options.tokens, options.position, options.seed));
  return call;
}

// What came before, in calls as long as the graph allows, but not so long that their operands were gigabytes.
Status PlanCall::fill(const Graph& graph) {
  constexpr int64_t kLongest = 128;
  const graph::Symbol* s = token_symbol(graph);
  while (session_.position() < options_.position) {
    int64_t tokens = std::min(kLongest, options_.position - session_.position());
    if (s != nullptr) tokens = std::min(tokens, s->max) / s->multiple_of * s->multiple_of;
    const bool fixed = s == nullptr && graph.tokens.is_static() && graph.tokens.value() > 0;
    if (fixed) tokens = graph.tokens.value();
    if (fixed ? session_.position() + tokens > options_.position : s == nullptr || tokens < s->min)
      return invalid_argument(fmt::format("position {} cannot be reached from {} in calls that the graph allows",
                                          options_.position, session_.position()));
    const int64_t at = session_.position();
    HONE_RETURN_IF_ERROR(make_operands(graph, tokens, at, seed_before(options_.seed, at)));
    HONE_RETURN_IF_ERROR(run());
    if (session_.position() == at) return invalid_argument("a call does not raise the position of this graph");
  }
  return {};
}

Status PlanCall::make_operands(const Graph& graph, int64_t tokens, int64_t position, uint64_t seed) {
  HONE_ASSIGN_OR_RETURN(std::vector<Tensor> made, invented_inputs(graph, tokens, position, seed));
  operands_ = std::make_unique<std::vector<Tensor>>(std::move(made));
  inputs_.clear();
  for (const Tensor& t : *operands_) inputs_.push_back({t.data.data(), t.shape});
  HONE_ASSIGN_OR_RETURN(const auto shapes, session_.output_shapes(inputs_));
  results_ = std::make_unique<std::vector<Tensor>>();
  outputs_.clear();
  for (size_t i = 0; i < shapes.size(); ++i)
    results_->push_back(Tensor::make(graph.value(graph.outputs()[i]).type.dtype, shapes[i]));
  for (Tensor& t : *results_) outputs_.push_back({t.data.data(), static_cast<int64_t>(t.data.size())});
  return {};
}

}  // namespace hone::cli
