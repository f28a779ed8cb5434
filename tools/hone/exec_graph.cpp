// hone exec with a graph: of a package, or of a file that is compiled now. Calls follow each other in one session, so
// that a decoder gets a prompt and then single tokens.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <map>
#include <optional>
#include <span>

#include "engine/base/printable.h"
#include "engine/executable/package.h"
#include "engine/executable/stored_policy.h"
#include "engine/graph/reference.h"
#include "engine/passes/pass.h"
#include "tools/hone/cli.h"
#include "tools/hone/exec.h"
#include "tools/hone/exec_calls.h"
#include "tools/hone/graph_file.h"
#include "tools/hone/json.h"

namespace hone::cli {
namespace {

using executable::ExecutablePlan;
using executable::Session;
using graph::Tensor;

// Of the largest element of an output's reference. A graph that was recognised in primitive ops sums in another order
// than those do; anything that is wrong differs by more.
constexpr double kTolerance = 1e-4;

struct Loaded {
  graph::Graph graph;  // with its constants: what the reference computes
  ExecutablePlan plan;
  int threads = 1;
  std::string schedule;
};

// ---- what it wants ----

Json type_json(const graph::Value& value) {
  Json dims = Json::array();
  for (const graph::Dim& d : value.type.dims) dims.push_back(d.is_static() ? Json(d.value()) : Json(to_string(d)));
  return {{"name", value.name}, {"dtype", dtype_name(value.type.dtype)}, {"shape", dims}};
}

void list(const ExecArgs& args, const graph::Graph& g) {
  if (args.json) {
    Json inputs = Json::array(), outputs = Json::array(), symbols = Json::array();
    for (const graph::ValueId v : g.inputs()) inputs.push_back(type_json(g.value(v)));
    for (const graph::ValueId v : g.outputs()) outputs.push_back(type_json(g.value(v)));
    for (const graph::Symbol& s : g.symbols)
      symbols.push_back({{"name", s.name}, {"min", s.min}, {"max", s.max}, {"position", s.name == g.position}});
    return print("{}\n", dump({{"graph", g.name}, {"inputs", inputs}, {"outputs", outputs}, {"symbols", symbols}}));
  }
  print("graph {}\ninputs\n", g.name);
  for (const graph::ValueId v : g.inputs()) print("  {:12}{}\n", g.value(v).name, to_string(g.value(v).type));
  print("outputs\n");
  for (const graph::ValueId v : g.outputs()) print("  {:12}{}\n", g.value(v).name, to_string(g.value(v).type));
  for (const graph::Symbol& s : g.symbols)
    print("{} from {} to {}{}\n", s.name, s.min, s.max,
          s.name == g.position ? fmt::format(": the position, which a call raises by {}", to_string(g.tokens)) : "");
  note("give --input name=file.npy, or --random 1 --check");
}

// ---- the plan ----

// The numbers of tokens of the calls, the most frequent first.
std::vector<int64_t> expected_tokens(std::span<const GraphCall> calls) {
  std::map<int64_t, int> times;
  for (const GraphCall& c : calls)
    if (c.tokens > 0) ++times[c.tokens];
  std::vector<std::pair<int64_t, int>> sorted(times.begin(), times.end());
  std::ranges::stable_sort(sorted, [](const auto& a, const auto& b) { return a.second > b.second; });
  std::vector<int64_t> tokens;
  for (const auto& [count, how_often] : sorted) tokens.push_back(count);
  return tokens.empty() ? std::vector<int64_t>{1} : tokens;
}

Result<Engine> make_engine(const ExecArgs& args) { return Engine::create({.threads = args.threads}); }

// What callers see of a file's graph, and what the reference evaluates: the graph as it was read, unless the plan keeps
// what its text hands from call to call (caches and a position that results take the place of).
Result<graph::Graph> seen_by_callers(const graph::Graph& source) {
  passes::Compilation canonical;
  canonical.graph = source;
  HONE_RETURN_IF_ERROR(passes::run_passes(canonical, {.last = "canonicalize"}).status());
  return canonical.graph.position == source.position ? source : std::move(canonical.graph);
}

Result<Loaded> compile_now(const ExecArgs& args, const graph::Graph& source, graph::Graph graph,
                           std::span<const GraphCall> calls) {
  HONE_ASSIGN_OR_RETURN(const Engine engine, make_engine(args));
  passes::Compilation compilation;
  compilation.graph = source;
  const std::vector<int64_t> tokens = expected_tokens(calls);
  compilation.policy =
      executable::stored_policy(engine, source, {.tokens = tokens.empty() ? 1 : tokens.front()}).policy;
  HONE_RETURN_IF_ERROR(passes::run_passes(compilation).status());
  const executable::PlanOptions options{.expected_tokens = tokens, .warm_up = false};
  HONE_ASSIGN_OR_RETURN(ExecutablePlan plan, ExecutablePlan::create(engine, std::move(compilation), options));
  return Loaded{std::move(graph), std::move(plan), engine.info().threads, engine.info().schedule};
}

// ---- running ----

using Outputs = std::vector<Tensor>;

struct Timing {
  int64_t tokens = 0, position = 0;
  std::vector<double> ns;

  double median() const {
    std::vector<double> sorted = ns;
    std::ranges::sort(sorted);
    return sorted.empty() ? 0 : (sorted[(sorted.size() - 1) / 2] + sorted[sorted.size() / 2]) / 2;
  }
  double least() const { return ns.empty() ? 0 : *std::ranges::min_element(ns); }
};

std::vector<executable::InputTensor> inputs_of(const GraphCall& call) {
  std::vector<executable::InputTensor> tensors;
  for (const Tensor& t : call.inputs) tensors.push_back({t.data.data(), t.shape});
  return tensors;
}

Status in_call(size_t index, size_t calls, const Status& status) {
  if (status.ok() || calls == 1) return status;
  return {status.code(), fmt::format("call {}: {}", index, status.message())};
}

class Runner {
 public:
  Runner(const graph::Graph& g, Session& session, std::span<const GraphCall> calls)
      : g_(g), session_(session), calls_(calls), outputs(calls.size()), timings(calls.size()) {}

  // The first round is not timed: it compiles, and makes workspaces.
  Status run(int repetitions) {
    for (int round = 0; round <= repetitions && !interrupted(); ++round) {
      HONE_RETURN_IF_ERROR(session_.truncate(0));
      for (size_t i = 0; i < calls_.size(); ++i) HONE_RETURN_IF_ERROR(in_call(i, calls_.size(), call(i, round > 0)));
    }
    return {};
  }

 private:
  Status call(size_t i, bool timed) {
    const std::vector<executable::InputTensor> inputs = inputs_of(calls_[i]);
    if (outputs[i].empty()) {
      HONE_ASSIGN_OR_RETURN(const auto shapes, session_.output_shapes(inputs));
      for (size_t o = 0; o < shapes.size(); ++o)
        outputs[i].push_back(Tensor::make(g_.value(g_.outputs()[o]).type.dtype, shapes[o]));
    }
    std::vector<executable::OutputTensor> results;
    for (Tensor& t : outputs[i]) results.push_back({t.data.data(), static_cast<int64_t>(t.data.size())});
    timings[i].tokens = calls_[i].tokens;
    timings[i].position = session_.position();
    const auto begin = std::chrono::steady_clock::now();
    HONE_RETURN_IF_ERROR(session_.run(inputs, results));
    const std::chrono::duration<double, std::nano> took = std::chrono::steady_clock::now() - begin;
    if (timed) timings[i].ns.push_back(took.count());
    return {};
  }

  const graph::Graph& g_;
  Session& session_;
  std::span<const GraphCall> calls_;

 public:
  std::vector<Outputs> outputs;  // by call
  std::vector<Timing> timings;   // by call
};

// ---- against the reference ----

struct Check {
  bool bits_equal = true, fits = true;
  double largest = 0;
  std::string where;  // of the largest difference
};

// A number that is not one where the reference has one, or the other way round, is infinitely far.
double difference(float got, float want) {
  if (std::isnan(got) && std::isnan(want)) return 0;
  const double d = std::abs(static_cast<double>(got) - static_cast<double>(want));
  return got == want ? 0 : std::isfinite(d) ? d : INFINITY;
}

void compare(const Tensor& got, const Tensor& want, const std::string& name, Check& check) {
  check.bits_equal = check.bits_equal && got.data == want.data;
  double scale = 0, largest = 0;
  size_t at = 0;
  const auto take = [&](size_t i, double d) {
    if (d > largest) largest = d, at = i;
  };
  if (got.dtype == DType::kF32) {
    for (size_t i = 0; i < got.as<float>().size(); ++i) {
      if (std::isfinite(want.as<float>()[i]))
        scale = std::max(scale, std::abs(static_cast<double>(want.as<float>()[i])));
      take(i, difference(got.as<float>()[i], want.as<float>()[i]));
    }
  } else {
    for (size_t i = 0; i < got.data.size(); ++i) take(i, got.data[i] == want.data[i] ? 0 : INFINITY);
  }
  check.fits = check.fits && largest <= kTolerance * std::max(scale, 1e-30);
  if (largest <= check.largest) return;
  check.largest = largest;
  check.where = fmt::format("{}, element {}", name, at);
}

Result<Check> check_calls(const graph::Graph& g, std::span<const GraphCall> calls,
                          const std::vector<Outputs>& outputs) {
  Check check;
  graph::ReferenceState state;
  for (size_t i = 0; i < calls.size(); ++i) {
    HONE_ASSIGN_OR_RETURN(const std::vector<Tensor> wanted, graph::evaluate(g, calls[i].inputs, &state));
    for (size_t o = 0; o < wanted.size(); ++o) {
      const std::string name = g.value(g.outputs()[o]).name;
      if (outputs[i][o].shape != wanted[o].shape)
        return internal_error(fmt::format("output {} has another shape than that of the reference", name));
      compare(outputs[i][o], wanted[o], calls.size() == 1 ? name : fmt::format("call {}, {}", i, name), check);
    }
  }
  if (!check.fits)
    return data_loss(fmt::format("the result is not that of the reference: the largest difference is {:.3g} ({})",
                                 check.largest, check.where));
  return check;
}

// ---- what came out ----

Result<std::vector<std::pair<size_t, std::string>>> parse_outputs(const ExecArgs& args, const graph::Graph& g) {
  std::vector<std::pair<size_t, std::string>> files;
  for (const std::string& text : args.outputs) {
    const size_t equals = text.find('=');
    const std::string name = equals == std::string::npos ? g.value(g.outputs()[0]).name : text.substr(0, equals);
    std::string names;
    size_t o = g.outputs().size();
    for (size_t i = 0; i < g.outputs().size(); ++i) {
      names += (i ? ", " : "") + g.value(g.outputs()[i]).name;
      if (g.value(g.outputs()[i]).name == name) o = std::min(o, i);
    }
    if (o == g.outputs().size())
      return invalid_argument(fmt::format("--output '{}': there is no '{}'; outputs are {}", text, name, names));
    files.emplace_back(o, equals == std::string::npos ? text : text.substr(equals + 1));
  }
  return files;
}

Json report_json(const ExecArgs& args, const Loaded& loaded, std::span<const Timing> timings,
                 const std::optional<Check>& check) {
  Json calls = Json::array();
  for (const Timing& t : timings)
    calls.push_back({{"tokens", t.tokens}, {"position", t.position}, {"ns", t.median()}, {"ns_min", t.least()}});
  Json report = {{"graph", args.package},
                 {"name", loaded.graph.name},
                 {"threads", loaded.threads},
                 {"schedule", loaded.schedule},
                 {"repetitions", args.repetitions},
                 {"calls", calls},
                 {"bits_equal", check ? Json(check->bits_equal) : Json(nullptr)},
                 {"largest_difference", check ? Json(check->largest) : Json(nullptr)},
                 {"outputs", args.outputs}};
  return report;
}

void print_report(const ExecArgs& args, const Loaded& loaded, std::span<const Timing> timings,
                  const std::optional<Check>& check) {
  if (args.json) return print("{}\n", dump(report_json(args, loaded, timings, check)));
  print("graph {}: {} call(s), {} thread(s), {}\n", loaded.graph.name, timings.size(), loaded.threads, loaded.schedule);
  for (const Timing& t : timings) {
    const std::string what =
        loaded.graph.position.empty() ? "" : fmt::format("{} token(s) at position {}: ", t.tokens, t.position);
    print("  {}{:.1f} us (least {:.1f}) in {} round(s)\n", what, t.median() / 1e3, t.least() / 1e3, t.ns.size());
  }
  if (check && check->bits_equal) print("  every bit is that of the reference\n");
  if (check && !check->bits_equal)
    print("  the largest difference to the reference is {:.3g} ({})\n", check->largest, check->where);
  for (const std::string& file : args.outputs) print("  {} written\n", file);
}

Status run_calls(const ExecArgs& args, const Loaded& loaded, std::span<const GraphCall> calls) {
  const graph::Graph& g = loaded.graph;
  HONE_ASSIGN_OR_RETURN(const auto files, parse_outputs(args, g));
  std::vector<NewFile> places;  // checked before anything runs
  for (const auto& [o, path] : files) {
    HONE_ASSIGN_OR_RETURN(NewFile place, create_npy(path));
    places.push_back(std::move(place));
  }
  HONE_ASSIGN_OR_RETURN(Session session, loaded.plan.session());
  Runner runner(g, session, calls);
  HONE_RETURN_IF_ERROR(runner.run(args.repetitions));
  if (interrupted()) return {};
  std::optional<Check> check;
  if (args.check) {
    HONE_ASSIGN_OR_RETURN(check, check_calls(g, calls, runner.outputs));
  }
  for (size_t i = 0; i < files.size(); ++i) {
    const size_t o = files[i].first;
    std::vector<Tensor> all;
    for (Outputs& outputs : runner.outputs) all.push_back(outputs[o]);
    HONE_ASSIGN_OR_RETURN(const NpyArray array, to_npy(joined(all, token_axis(g, g.value(g.outputs()[o]).type))));
    HONE_RETURN_IF_ERROR(write_npy(places[i], array));
  }
  print_report(args, loaded, runner.timings, check);
  return {};
}

// Without arrays: what the graph wants.
bool only_asks(const ExecArgs& args) {
  return args.inputs.empty() && args.outputs.empty() && !args.random && !args.check;
}

Result<std::vector<GraphCall>> calls_of(const ExecArgs& args, const graph::Graph& graph) {
  return make_calls(graph, {.inputs = args.inputs, .calls = args.calls, .sizes = args.sizes, .random = args.random});
}

Status exec_file(const ExecArgs& args) {
  const Result<GraphFile> file = read_graph(args.package);
  if (!file.ok()) return typed(file.status());
  HONE_ASSIGN_OR_RETURN(graph::Graph graph, seen_by_callers(file->graph));
  if (only_asks(args)) {
    list(args, graph);
    return {};
  }
  HONE_ASSIGN_OR_RETURN(const std::vector<GraphCall> calls, calls_of(args, graph));
  HONE_ASSIGN_OR_RETURN(const Loaded loaded, compile_now(args, file->graph, std::move(graph), calls));
  return run_calls(args, loaded, calls);
}

Status exec_package(const ExecArgs& args, const std::shared_ptr<const jit::Package>& package) {
  HONE_ASSIGN_OR_RETURN(executable::PackagedGraph packed, executable::unpack_graph(package));
  graph::Graph graph = packed.compilation.graph;
  if (only_asks(args)) {
    list(args, graph);
    return {};
  }
  HONE_ASSIGN_OR_RETURN(const std::vector<GraphCall> calls, calls_of(args, graph));
  HONE_ASSIGN_OR_RETURN(const Engine engine, make_engine(args));
  HONE_ASSIGN_OR_RETURN(ExecutablePlan plan, executable::load_plan(engine, package, std::move(packed)));
  return run_calls(args, {std::move(graph), std::move(plan), engine.info().threads, engine.info().schedule}, calls);
}

}  // namespace

Status exec_graph(const ExecArgs& args, const std::shared_ptr<const jit::Package>& package) {
  if (!args.problem.empty() || !args.isa.empty())
    return invalid_argument("--problem and --isa choose among the ops of a package; this is a graph");
  return package == nullptr ? exec_file(args) : exec_package(args, package);
}

}  // namespace hone::cli
