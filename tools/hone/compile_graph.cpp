// hone compile with a graph: reads it, runs the passes over it, makes the plan or a package of it, and says what became
// of it.
#include <fmt/format.h>

#include <algorithm>

#include "engine/base/env.h"
#include "engine/base/printable.h"
#include "engine/executable/package.h"
#include "engine/executable/record.h"
#include "engine/executable/stored_policy.h"
#include "engine/passes/pass.h"
#include "tools/hone/compile.h"
#include "tools/hone/graph_file.h"
#include "tools/hone/json.h"
#include "tools/hone/table.h"

namespace hone::cli {
namespace {

constexpr std::string_view kEachPass = "all";

// A graph on its way, with what is to be said about it.
struct Work {
  GraphFile file;
  passes::Compilation compilation;
  passes::Compilation kept;  // as a package keeps it
  std::vector<passes::PassTime> times;
  executable::PlanOptions options;
  std::optional<Engine> engine;  // where the policy was looked up
  std::string policy_reason;     // "asked for", or that of the database
};

Status check_pass(const std::string& name) {
  if (name.empty() || name == kEachPass) return {};
  std::string names;
  for (const passes::Pass& p : passes::passes()) {
    if (p.name == name) return {};
    names += fmt::format(", {}", p.name);
  }
  return invalid_argument(
      fmt::format("--print-after: '{}' is no pass; there are all{}", hone::printable(name, 40), names));
}

Result<Work> prepare(const CompileArgs& args) {
  HONE_RETURN_IF_ERROR(check_pass(args.print_after));
  Work work;
  const Result<passes::PlanPolicy> policy = passes::parse_policy(args.policy);
  if (!policy.ok()) return invalid_argument(fmt::format("--policy: {}", policy.status().message()));
  if (!args.tokens.empty()) work.options.expected_tokens = args.tokens;
  Result<GraphFile> file =
      read_graph(args.problems.problems.front(), {.dimensions = args.dimensions, .function = args.function});
  if (!file.ok()) return typed(file.status());
  work.file = std::move(*file);
  for (const std::string& n : work.file.notes) note(n);
  work.compilation.graph = work.file.graph;
  work.compilation.policy = *policy;
  return work;
}

// Without --policy, the one that `hone tune --graph` found for these tokens, if it did.
Status choose_policy(const CompileArgs& args, Work& work) {
  if (!args.policy.empty()) {
    work.policy_reason = "asked for";
    return {};
  }
  HONE_ASSIGN_OR_RETURN(work.engine, Engine::create({.database = args.db, .threads = args.threads}));
  const executable::StoredPolicy stored =
      executable::stored_policy(*work.engine, work.file.graph, {.tokens = work.options.expected_tokens.front()});
  work.compilation.policy = stored.policy;
  work.policy_reason = plan::policy_reason_name(stored.from.reason);
  return {};
}

void print_pass(const passes::Pass& pass, const passes::Compilation& compilation) {
  print("// after {}: {}\n{}", pass.name, pass.summary, passes::print(compilation, pass.name));
}

// With --print-after=PASS no pass behind that one runs: what it left is all that was asked for.
Status run_passes(const CompileArgs& args, Work& work) {
  const bool each = args.print_after == kEachPass;
  passes::RunOptions options;
  if (!each) options.last = args.print_after;
  options.after = [&](const passes::Pass& pass, const passes::Compilation& compilation) {
    if (each || pass.name == args.print_after) print_pass(pass, compilation);
    if (!args.output.empty() && pass.name == executable::kLastKeptPass) work.kept = compilation;
  };
  HONE_ASSIGN_OR_RETURN(work.times, passes::run_passes(work.compilation, options));
  if (each)
    for (const passes::PassTime& t : work.times)
      print("// {}: {:.1f} us, {} nodes\n", t.pass, static_cast<double>(t.ns) / 1e3, t.nodes);
  return {};
}

// ---- the report ----

struct Report {
  std::vector<executable::StepReport> steps;
  executable::PlanMemory memory;
  int64_t tokens = 1;
  // Of a package.
  int64_t package_bytes = 0;
  size_t package_files = 0;
  std::string codegen;  // of all its code
};

// A package has other code than what a plan of this process would run.
const std::string& codegen_of(const Report& report, const executable::StepReport& step) {
  return report.codegen.empty() || step.codegen.empty() ? step.codegen : report.codegen;
}

// Of canonicalize: what looks like an op of a decoder and is none.
std::vector<passes::Note> not_recognised(const passes::Compilation& c) {
  std::vector<passes::Note> notes;
  for (const passes::Note& n : c.notes)
    if (n.what.starts_with("not ")) notes.push_back(n);
  return notes;
}

Json report_json(const CompileArgs& args, const Work& work, const Report& report) {
  Json dispatches = Json::array(), guards = Json::array(), passes = Json::array(), unknown = Json::array();
  for (const executable::StepReport& s : report.steps)
    dispatches.push_back({{"name", s.name},
                          {"kind", s.kind},
                          {"kernel", s.kernel},
                          {"program", s.plan},
                          {"codegen", codegen_of(report, s)},
                          {"numerics", s.numerics},
                          {"reason", s.reason},
                          {"threads", s.threads},
                          {"why", s.why}});
  for (const passes::Guard& g : work.compilation.guards)
    guards.push_back({{"what", g.what}, {"condition", to_string(g)}, {"rule", g.rule}});
  for (const passes::PassTime& t : work.times) passes.push_back({{"pass", t.pass}, {"ns", t.ns}, {"nodes", t.nodes}});
  for (const passes::Note& n : not_recognised(work.compilation))
    unknown.push_back({{"node", n.node}, {"what", n.what}, {"why", n.why}});
  return {{"graph", args.problems.problems.front()},
          {"format", work.file.format},
          {"name", work.compilation.graph.name},
          {"policy", to_string(work.compilation.policy)},
          {"policy_reason", work.policy_reason},
          {"tokens", work.options.expected_tokens},
          {"dispatches", dispatches},
          {"guards", guards},
          {"memory",
           {{"arena_bytes", report.memory.arena_bytes},
            {"without_reuse_bytes", report.memory.without_reuse},
            {"packed_bytes", report.memory.packed_bytes},
            {"constant_bytes", report.memory.constant_bytes}}},
          {"passes", passes},
          {"not_recognised", unknown},
          {"package", args.output.empty() ? Json(nullptr) : Json(args.output)},
          {"package_bytes", args.output.empty() ? Json(nullptr) : Json(report.package_bytes)},
          {"notes", work.file.notes}};
}

void print_report(const CompileArgs& args, const Work& work, const Report& report) {
  if (args.json) return print("{}\n", dump(report_json(args, work, report)));
  print("{}: graph {} of {} nodes, policy {} ({}), as it runs with {} token(s)\n\n", args.problems.problems.front(),
        work.compilation.graph.name, work.file.graph.order().size(), to_string(work.compilation.policy),
        work.policy_reason, report.tokens);
  Table table{.name = "dispatches",
              .columns = {{"name"}, {"kind"}, {"kernel"}, {"codegen"}, {"numerics"}, {"reason"}, {"why"}},
              .rows = {}};
  for (const executable::StepReport& s : report.steps)
    table.add({s.name, s.kind, s.kernel, codegen_of(report, s), s.numerics, s.reason, s.why});
  print("{}\n", render(table, Format::kMd));
  for (const passes::Guard& g : work.compilation.guards) print("guard: {}: {} ({})\n", g.what, to_string(g), g.rule);
  const executable::PlanMemory& m = report.memory;
  print("memory of a session: {} bytes of intermediates, {} without reuse\n", m.arena_bytes, m.without_reuse);
  print("memory of the plan: {} bytes of packed weights, {} of other constants\n", m.packed_bytes, m.constant_bytes);
  int64_t all = 0;
  for (const passes::PassTime& t : work.times) all += t.ns;
  print("passes: {:.1f} us", static_cast<double>(all) / 1e3);
  for (const passes::PassTime& t : work.times)
    print("{}{} {:.1f}", &t == work.times.data() ? " (" : ", ", t.pass, static_cast<double>(t.ns) / 1e3);
  print(")\n");
  if (report.package_files > 0)
    print("{}: {} file(s), {} bytes\n", args.output, report.package_files, report.package_bytes);
  for (const passes::Note& n : not_recognised(work.compilation))
    print("not recognised: {}: {}: {}\n", n.node, n.what, n.why);
}

Result<Report> report_of(const executable::ExecutablePlan& plan, const Work& work) {
  Report report{.steps = {}, .memory = plan.memory(), .tokens = work.options.expected_tokens.front()};
  HONE_ASSIGN_OR_RETURN(report.steps, plan.report(report.tokens, 0));
  return report;
}

// Compiled for this machine, by its code generators.
Result<Report> compile_here(const CompileArgs& args, Work& work) {
  if (!work.engine) {
    HONE_ASSIGN_OR_RETURN(work.engine, Engine::create({.database = args.db, .threads = args.threads}));
  }
  HONE_ASSIGN_OR_RETURN(const executable::ExecutablePlan plan,
                        executable::ExecutablePlan::create(*work.engine, work.compilation, work.options));
  return report_of(plan, work);
}

// ---- packages ----

// What machines are resolved and compiled for.
struct Targets {
  std::vector<jit::AotTarget> cpus;
  Machine here;
  plan::Decisions decisions;
  jit::Replace replace = jit::Replace::kNothing;
};

Result<Targets> prepare_targets(const CompileArgs& args) {
  Targets targets;
  targets.replace = args.force ? jit::Replace::kPackage : jit::Replace::kNothing;
  HONE_RETURN_IF_ERROR(jit::package_place(args.output, targets.replace).status());
  HONE_ASSIGN_OR_RETURN(targets.here, described_machine());
  HONE_ASSIGN_OR_RETURN(targets.cpus, targets_of(args, targets.here.features));
  // Of equal variants the first counts: that of the stronger CPU, all of whose plans then agree on how weights lie.
  std::ranges::stable_sort(targets.cpus, [](const auto& a, const auto& b) { return a.isa > b.isa; });
  HONE_ASSIGN_OR_RETURN(const std::unique_ptr<db::Store> store, open_store(args.db, db::OpenMode::kReadOnly));
  HONE_ASSIGN_OR_RETURN(targets.decisions, plan::Decisions::load(*store));
  return targets;
}

jit::AotTarget with_isa(jit::AotTarget target, Isa isa) {
  target.isa = isa;
  return target;
}

void add_kernels(std::vector<executable::RecordedKernel> recorded, const jit::AotTarget& target,
                 std::vector<jit::AotKernels>& kernels) {
  for (executable::RecordedKernel& k : recorded) {
    const jit::AotTarget its = with_isa(target, k.isa);
    auto at = std::ranges::find(kernels, its, &jit::AotKernels::target);
    if (at == kernels.end()) at = kernels.insert(at, {.target = its, .kernels = {}});
    at->kernels.push_back(std::move(k.kernel));
  }
}

// The variant for `target` of each op, at the op's place in the package.
void add_ops(const executable::Record& record, const jit::AotTarget& target, int threads,
             std::vector<jit::AotOp>& ops) {
  for (const executable::RecordedOp& recorded : record.ops) {
    const std::string problem = op::to_string(recorded.problem);
    auto at = std::ranges::find(ops, problem, &jit::AotOp::problem);
    if (at == ops.end()) at = ops.insert(at, {.problem = problem, .variants = {}});
    // Threads are a preference where somebody measured or asked for them.
    const int preferred = threads > 0 ? threads : recorded.facts.from ? recorded.facts.threads : 0;
    at->variants.push_back({.target = with_isa(target, op::isa(recorded.program)),
                            .program = op::to_string(recorded.program),
                            .numerics = recorded.facts.numerics,
                            .threads = preferred,
                            .kernels = recorded.kernels});
  }
}

// What is recorded is the graph as it will be read again. The report is that of the first CPU.
Result<Report> compile_package(const CompileArgs& args, const Work& work) {
  HONE_ASSIGN_OR_RETURN(const Targets targets, prepare_targets(args));
  jit::AotGraphPackage package{.graph = executable::package_graph(work.kept, work.options), .ops = {}, .kernels = {}};
  Report report;
  report.tokens = work.options.expected_tokens.front();
  for (const jit::AotTarget& target : targets.cpus) {
    HONE_ASSIGN_OR_RETURN(const Machine machine, machine_of(target, targets.here));
    const int threads = args.threads > 0 ? args.threads : threads_in_force(machine).threads;
    HONE_ASSIGN_OR_RETURN(executable::PackagedGraph graph, executable::unpack_graph(package.graph));
    HONE_ASSIGN_OR_RETURN(executable::Record record,
                          executable::record_plan({.machine = machine, .isa = target.isa, .threads = threads},
                                                  targets.decisions, std::move(graph.compilation), graph.options));
    add_ops(record, target, args.threads, package.ops);
    if (&target == targets.cpus.data()) report.steps = std::move(record.steps), report.memory = record.memory;
    add_kernels(std::move(record.kernels), target, package.kernels);
  }
  HONE_ASSIGN_OR_RETURN(const jit::Manifest manifest, jit::write_graph_package(package, args.output, targets.replace));
  for (const jit::PackageFile& file : manifest.files) report.package_bytes += file.bytes;
  report.package_files = manifest.files.size();
  for (const jit::PackageCode& code : manifest.kernels) report.codegen = code.codegen;
  for (const jit::PackageOp& op : manifest.ops) report.codegen = op.variants.front().codegen;
  return report;
}

Status compile(const CompileArgs& args) {
  HONE_ASSIGN_OR_RETURN(Work work, prepare(args));
  HONE_RETURN_IF_ERROR(choose_policy(args, work));
  if (!args.dump_graph.empty()) HONE_RETURN_IF_ERROR(write_graph(args.dump_graph, work.file.graph));
  HONE_RETURN_IF_ERROR(run_passes(args, work));
  if (!args.print_after.empty() && args.output.empty()) return {};
  HONE_ASSIGN_OR_RETURN(const Report report,
                        args.output.empty() ? compile_here(args, work) : compile_package(args, work));
  print_report(args, work, report);
  return {};
}

}  // namespace

void add_graph_options(CLI::App& command, CompileArgs& args) {
  const char* const group = "Graphs (a file of graph text or StableHLO in place of problems)";
  command
      .add_option(
          "--policy", args.policy,
          "what is decided about the plan, such as 'keys=blocked residual=separate' (default: what tune --graph "
          "found for the first of --tokens, else what is good without measuring)")
      ->check(not_empty())
      ->group(group);
  command
      .add_option("--tokens", args.tokens,
                  "numbers of tokens that matter most, such as 1,128: each has plans of its own, and the first decides "
                  "how weights are packed (default: 1)")
      ->delimiter(',')
      ->check(CLI::Range(int64_t{1}, int64_t{1} << 31))
      ->group(group);
  command
      .add_option("--print-after", args.print_after,
                  "print what this pass left and stop there; all: what each left, with its time")
      ->check(not_empty())
      ->group(group);
  command
      .add_option("--dump-graph", args.dump_graph,
                  "write the graph as it was read to this file as graph text, large constants to FILE.constants")
      ->check(not_empty())
      ->group(group);
  command
      .add_option("--dimension", args.dimensions,
                  "a symbol for a dimension that StableHLO leaves open: arg0:0=s:1..4096 for dimension 0 of arg0")
      ->check(not_empty())
      ->group(group);
  command.add_option("--function", args.function, "of a StableHLO module (default: main)")
      ->check(not_empty())
      ->group(group);
}

int run_compile_graph(const CompileArgs& args) {
  const Status status = compile(args);
  return status.ok() ? kDone : fail(status);
}

}  // namespace hone::cli
