// hone compile: the kernels of problems as a package that runs without a code generator (jit/aot). Graphs:
// compile_graph.cpp.
//
// A variant is code for a CPU (--mcpu) with one instruction set (--isa). Its program is what the resolver would choose
// on that machine: tuned plans where the database has them, else the default for its caches. So this is where a tuning
// machine hands on what it found.
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <optional>

#include "engine/base/env.h"
#include "engine/plan/resolver.h"
#include "tools/hone/compile.h"
#include "tools/hone/graph_file.h"
#include "tools/hone/json.h"

namespace hone::cli {
namespace {

// A variant and why it has its program.
struct Chosen {
  jit::AotVariant variant;
  plan::Reason reason = plan::Reason::kDefault;
  std::string from;  // the tuned problem, and what is not as it was measured
  bool typed = false;
  FeatureSet needs;  // that not every CPU with the instruction set has
};

std::string origin(const plan::Origin& from) {
  return from.difference.empty() ? from.problem : fmt::format("{} ({})", from.problem, from.difference);
}

struct Setup {
  std::vector<op::Shape> shapes;
  std::vector<jit::AotTarget> targets;
  Machine here;
  plan::Decisions decisions;
};

Result<op::Program> typed_program(const op::Problem& problem, const jit::AotTarget& target, const CompileArgs& args) {
  const Result<op::Program> program = op::parse_program(problem, args.program);
  if (!program.ok()) return typed(program.status());
  if (op::isa(*program) != target.isa)
    return invalid_argument(fmt::format("--program is for {}, and {} is to be compiled for {}; give --isa {}",
                                        isa_info(op::isa(*program)).name, op::to_string(problem),
                                        isa_info(target.isa).name, isa_info(op::isa(*program)).name));
  if (const Status s = op::legal(problem, *program); !s.ok()) return typed(s);
  if (!op::numerics_allowed(problem, args.numerics, op::numerics(*program)))
    return invalid_argument(
        fmt::format("--program is of numerics class '{}', which was not asked for; give --numerics {}",
                    op::numerics(*program), op::numerics(*program)));
  return op::canonical(problem, *program);
}

// What that machine would run; where it would rather run another instruction set (panels, a tuned plan), its default.
Result<op::Program> resolved_program(const op::Problem& problem, const jit::AotTarget& target, const Setup& setup,
                                     const CompileArgs& args, Chosen& chosen) {
  HONE_ASSIGN_OR_RETURN(const Machine machine, machine_of(target, setup.here));
  const int threads = args.threads > 0 ? args.threads : threads_in_force(machine).threads;
  plan::Target asked = plan::make_target(machine, threads, jit::compiling_generators(), plan::Purpose::kAsk);
  // Of a variant for any CPU that has the ISA, nobody has asked for more than that; a class by its name does.
  if (target.mcpu.empty() && args.numerics == "any") asked.features = isa_info(target.isa).required;
  const Result<plan::Plan> plan =
      plan::resolve(problem, asked, setup.decisions, {.codegen = "", .numerics = args.numerics});
  if (!plan.ok()) return typed(plan.status());
  if (plan->codegen != plan::kFallbackCodegen && op::isa(plan->program) == target.isa) {
    chosen.reason = plan->reason;
    if (plan->from) {
      chosen.from = origin(*plan->from);
      chosen.variant.threads = plan->threads;
    }
    return plan->program;
  }
  const op::Program program = op::default_program(problem, {.isa = target.isa,
                                                            .caches = blocking_caches(machine),
                                                            .threads = threads,
                                                            .numerics = args.numerics,
                                                            .features = asked.features});
  if (const Status s = op::legal(problem, program); !s.ok()) return s;
  return program;
}

Result<Chosen> choose(const op::Problem& problem, const jit::AotTarget& target, const Setup& setup,
                      const CompileArgs& args) {
  Chosen chosen;
  chosen.typed = !args.program.empty();
  const Result<op::Program> program =
      chosen.typed ? typed_program(problem, target, args) : resolved_program(problem, target, setup, args, chosen);
  if (!program.ok()) return program.status();
  chosen.variant.target = target;
  chosen.needs = op::features(*program).without(isa_info(target.isa).required);
  chosen.variant.program = op::to_string(*program);
  chosen.variant.numerics = op::numerics(*program);
  if (args.threads > 0) chosen.variant.threads = args.threads;
  HONE_ASSIGN_OR_RETURN(chosen.variant.kernels, op::lower(problem, *program));
  return chosen;
}

// ---- what was typed ----

// Whether a graph is meant. Error: a graph among problems, or an option of graphs for problems.
Result<bool> is_graph(const CompileArgs& args) {
  const std::vector<std::string>& words = args.problems.problems;
  const auto graph = std::find_if(words.begin(), words.end(), names_graph);
  if (graph == words.end() && args.asks_for_graph())
    return invalid_argument(
        "--policy, --tokens, --print-after, --dump-graph, --dimension and --function are for graphs: "
        "give a file of graph text or StableHLO");
  if (graph == words.end()) return false;
  if (words.size() > 1 || !args.problems.shapes.empty())
    return invalid_argument(fmt::format("{} is a graph: it is compiled by itself, without problems beside it", *graph));
  if (!args.program.empty() || !args.numerics.empty())
    return invalid_argument("--program and --numerics are for problems; a graph has --policy");
  return true;
}

Result<Setup> prepare(const CompileArgs& args) {
  Setup setup;
  if (args.problems.problems.empty() && args.problems.shapes.empty())
    return invalid_argument("a problem is missing: give one, or --shapes with a file of them, or a file with a graph");
  if (args.output.empty()) return invalid_argument("--output is required");
  HONE_ASSIGN_OR_RETURN(setup.shapes, args.problems.resolve());
  HONE_RETURN_IF_ERROR(check_numerics(setup.shapes, args.numerics));
  for (const op::Shape& shape : setup.shapes)
    if (op::empty(shape.problem))
      return invalid_argument(fmt::format("{}: there is nothing to compute", op::to_string(shape.problem)));
  HONE_RETURN_IF_ERROR(
      jit::package_place(args.output, args.force ? jit::Replace::kPackage : jit::Replace::kNothing).status());
  HONE_ASSIGN_OR_RETURN(setup.here, described_machine());
  HONE_ASSIGN_OR_RETURN(setup.targets, targets_of(args, setup.here.features));
  HONE_ASSIGN_OR_RETURN(const std::unique_ptr<db::Store> store, open_store(args.db, db::OpenMode::kReadOnly));
  HONE_ASSIGN_OR_RETURN(setup.decisions, plan::Decisions::load(*store));
  return setup;
}

// ---- what came out ----

Json variant_json(const jit::Manifest& manifest, const jit::PackageVariant& variant, const Chosen& chosen) {
  return {{"isa", variant.isa},
          {"arch", variant.arch},
          {"mcpu", variant.mcpu},
          {"needs", chosen.needs.names()},
          {"codegen", variant.codegen},
          {"program", variant.program},
          {"numerics", variant.numerics},
          {"threads", variant.threads},
          {"reason", chosen.typed ? "given" : std::string(plan::reason_name(chosen.reason))},
          {"from", chosen.from.empty() ? Json(nullptr) : Json(chosen.from)},
          {"object", variant.object},
          {"object_bytes", manifest.file(variant.object)->bytes}};
}

void report(const CompileArgs& args, const jit::Manifest& manifest, const std::vector<std::vector<Chosen>>& chosen) {
  Json ops = Json::array();
  int64_t bytes = 0;
  for (const jit::PackageFile& file : manifest.files) bytes += file.bytes;
  for (size_t i = 0; i < manifest.ops.size(); ++i) {
    Json variants = Json::array();
    for (size_t v = 0; v < manifest.ops[i].variants.size(); ++v)
      variants.push_back(variant_json(manifest, manifest.ops[i].variants[v], chosen[i][v]));
    ops.push_back({{"problem", manifest.ops[i].problem}, {"variants", variants}});
  }
  if (args.json) return print("{}\n", dump({{"package", args.output}, {"bytes", bytes}, {"ops", ops}}));
  print("{}: {} op(s), {} file(s), {} bytes\n", args.output, ops.size(), manifest.files.size(), bytes);
  for (const Json& op : ops) {
    print("{}\n", op["problem"].get<std::string>());
    for (const Json& v : op["variants"]) {
      std::string cpu = v["mcpu"].get<std::string>();
      if (cpu.empty()) {
        cpu = "any CPU";
        for (const Json& feature : v["needs"]) cpu += " with " + feature.get<std::string>();
      }
      print("  {:7} {:15} {}{}\n          {}\n", v["isa"].get<std::string>(), cpu, v["reason"].get<std::string>(),
            v["from"].is_null() ? "" : fmt::format(", {}", v["from"].get<std::string>()),
            v["program"].get<std::string>());
    }
  }
}

int run_compile(const CompileArgs& args) {
  const Result<bool> graph = is_graph(args);
  if (!graph.ok()) return fail(graph.status());
  if (*graph) return run_compile_graph(args);
  const Result<Setup> setup = prepare(args);
  if (!setup.ok()) return fail(setup.status());
  std::vector<jit::AotOp> ops;
  std::vector<std::vector<Chosen>> chosen;
  for (const op::Shape& shape : setup->shapes) {
    jit::AotOp& op = ops.emplace_back(jit::AotOp{.problem = op::to_string(shape.problem), .variants = {}});
    std::vector<Chosen>& its = chosen.emplace_back();
    for (const jit::AotTarget& target : setup->targets) {
      Result<Chosen> one = choose(shape.problem, target, *setup, args);
      if (!one.ok()) return fail(one.status());
      op.variants.push_back(std::move(one->variant));
      its.push_back(std::move(*one));
    }
  }
  const Result<jit::Manifest> manifest =
      jit::write_package(ops, args.output, args.force ? jit::Replace::kPackage : jit::Replace::kNothing);
  if (!manifest.ok()) return fail(manifest.status());
  report(args, *manifest, chosen);
  return kDone;
}

}  // namespace

void add_compile(CLI::App& app, Run& run) {
  CLI::App* command = app.add_subcommand(
      "compile",
      "compile problems, or a graph, to a package: shared objects that run without a code generator (hone exec, "
      "hone::runtime)");
  auto args = std::make_shared<CompileArgs>();
  args->problems.add_to(*command);
  command
      ->add_option("-o,--output", args->output,
                   "the package, a folder such as kernel.hone (a graph without it is compiled and reported)")
      ->check(not_empty());
  command
      ->add_option("--mcpu", args->mcpu,
                   "CPUs by LLVM's names, such as x86-64-v3,znver4,neoverse-n1: a variant for each, with the strongest "
                   "instruction set "
                   "that it has (default: native)")
      ->check(not_empty());
  command->add_option("--isa", args->isa, "a variant for each of these instruction sets, such as avx2,avx512")
      ->check(not_empty());
  command->add_option("--program", args->program, "this program (default: the tuned plan, else the default of the CPU)")
      ->check(not_empty());
  add_numerics(*command, args->numerics);
  command->add_option("--threads", args->threads, "that it should run on (default: as tuned)")
      ->check(CLI::Range(1, kMaxThreads));
  command->add_option("--db", args->db, "database file")->check(not_empty());
  command->add_flag("--force", args->force, "replace a package that is there");
  command->add_flag("--json", args->json, "one JSON object");
  add_graph_options(*command, *args);
  command->callback([args, &run] { run = [args] { return run_compile(*args); }; });
}

}  // namespace hone::cli
