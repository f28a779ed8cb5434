// hone exec: runs an op of a package on arrays from files, or on random ones, without a code generator. Graphs:
// exec_graph.cpp.
//
// It is also a program of its own, hone-exec, which links none.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <optional>

#include "engine/base/env.h"
#include "engine/plan/packages.h"
#include "engine/plan/region_policy.h"
#include "kernels/op/region.h"
#include "tools/hone/cli.h"
#include "tools/hone/exec.h"
#include "tools/hone/exec_work.h"
#include "tools/hone/graph_file.h"
#include "tools/hone/json.h"

namespace hone::cli {
namespace {

// "a=a.npy" -> {"a", "a.npy"}
using Files = std::vector<std::pair<std::string, std::string>>;

struct Opened {
  std::shared_ptr<const jit::Package> package;
  jit::PackageHost host;
};

// The package with the op that runs.
struct Chosen {
  std::shared_ptr<const jit::Package> package;
  jit::PackageOp op;
  jit::PackageHost host;
  plan::PackagedOp admitted;
  std::unique_ptr<ExecWork> work;

  const jit::PackageVariant& variant() const { return op.variants[admitted.variant]; }
};

Result<Files> parse_files(const std::vector<std::string>& texts, const char* option,
                          const std::vector<OperandInfo>& operands, const std::string& unnamed) {
  Files files;
  std::string names;
  for (const OperandInfo& o : operands) names += fmt::format("{}{}", names.empty() ? "" : ", ", o.name);
  for (const std::string& text : texts) {
    const size_t at = text.find('=');
    const std::string name = at == std::string::npos ? unnamed : text.substr(0, at);
    const std::string path = at == std::string::npos ? text : text.substr(at + 1);
    if (name.empty() || path.empty())
      return invalid_argument(fmt::format("{} '{}': give name=file.npy; names are {}", option, text, names));
    const auto known =
        std::find_if(operands.begin(), operands.end(), [&](const OperandInfo& o) { return o.name == name; });
    if (known == operands.end())
      return invalid_argument(fmt::format("{} '{}': there is no '{}'; names are {}", option, text, name, names));
    for (const auto& [other, file] : files)
      if (other == name) return invalid_argument(fmt::format("{} gives '{}' twice", option, name));
    files.emplace_back(name, path);
  }
  return files;
}

Result<jit::PackageOp> choose_op(const jit::Manifest& manifest, const std::string& problem) {
  if (problem.empty() && manifest.ops.size() == 1) return manifest.ops.front();
  // As the package spells it, whatever the order of its keys.
  const Result<op::Problem> parsed =
      problem.empty() ? Result<op::Problem>(invalid_argument("")) : op::parse_problem(problem);
  const std::string wanted = parsed.ok() ? op::to_string(*parsed) : problem;
  std::string all;
  for (const jit::PackageOp& op : manifest.ops) {
    if (op.problem == wanted) return op;
    all += fmt::format("{}{}", all.empty() ? "" : ", ", op.problem);
  }
  return invalid_argument(
      problem.empty() ? fmt::format("the package has {} ops; give one to --problem: {}", manifest.ops.size(), all)
                      : fmt::format("the package does not have {}; it has {}", problem, all));
}

// What runs a problem ("": the only one) here.
Result<Chosen> choose(const ExecArgs& args, const Opened& opened, const std::string& problem) {
  Chosen chosen{.package = opened.package, .op = {}, .host = opened.host, .admitted = {}, .work = nullptr};
  HONE_ASSIGN_OR_RETURN(chosen.op, choose_op(chosen.package->manifest(), problem));
  if (!args.isa.empty()) {
    std::erase_if(chosen.op.variants, [&](const jit::PackageVariant& v) { return v.isa != args.isa; });
    if (chosen.op.variants.empty())
      return invalid_argument(fmt::format("the package has no code for --isa {}", args.isa));
  }
  HONE_ASSIGN_OR_RETURN(chosen.admitted, plan::admit(*chosen.package, chosen.op, chosen.host));
  HONE_ASSIGN_OR_RETURN(chosen.work, make_exec_work(chosen.admitted.problem, chosen.admitted.program));
  return chosen;
}

// ---- what it wants ----

Json operand_json(const OperandInfo& operand) {
  Json shape = Json::array();
  for (const int64_t d : operand.shape) shape.push_back(d == -1 ? Json(nullptr) : Json(d));
  return {{"name", operand.name},
          {"dtype", dtype_name(operand.dtype)},
          {"shape", shape},
          {"broadcasts", operand.broadcasts}};
}

Json variant_json(const jit::PackageVariant& v) {
  return {{"isa", v.isa}, {"mcpu", v.mcpu}, {"codegen", v.codegen}, {"program", v.program}, {"numerics", v.numerics}};
}

void list(const ExecArgs& args, const Chosen& chosen) {
  const std::string problem = op::to_string(chosen.admitted.problem);
  if (args.json) {
    Json inputs = Json::array(), outputs = Json::array();
    for (const OperandInfo& o : chosen.work->inputs) inputs.push_back(operand_json(o));
    for (const OperandInfo& o : chosen.work->outputs) outputs.push_back(operand_json(o));
    return print("{}\n", dump({{"package", args.package},
                               {"problem", problem},
                               {"variant", variant_json(chosen.variant())},
                               {"inputs", inputs},
                               {"outputs", outputs}}));
  }
  const auto line = [](const OperandInfo& o) {
    const std::vector<int64_t>& shape = o.shape;
    std::string text;
    for (const int64_t d : shape)
      text += fmt::format("{}{}", text.empty() ? "" : ", ", d == -1 ? std::string("any") : std::to_string(d));
    return fmt::format("  {:12}{:5}[{}]{}\n", o.name, dtype_name(o.dtype), text,
                       o.broadcasts ? ", or what broadcasts to it" : "");
  };
  print("{}\ninputs\n", problem);
  for (const OperandInfo& o : chosen.work->inputs) print("{}", line(o));
  print("outputs\n");
  for (const OperandInfo& o : chosen.work->outputs) print("{}", line(o));
  std::string example;
  for (const OperandInfo& o : chosen.work->inputs) example += fmt::format(" {0}={0}.npy", o.name);
  note(fmt::format("give --input{} and --output {}.npy, or --random 1 --check", example,
                   chosen.work->outputs.front().name));
}

// ---- running ----

Result<Arrays> read_inputs(const ExecArgs& args, const Files& files, const ExecWork& work) {
  Arrays arrays;
  for (const auto& [name, path] : files) {
    Result<NpyArray> array = read_npy(path);
    if (!array.ok()) return typed(array.status());
    arrays.emplace(name, std::move(*array));
  }
  for (const OperandInfo& input : work.inputs) {
    if (const auto at = arrays.find(input.name); at != arrays.end()) {
      HONE_RETURN_IF_ERROR(check_array(input, at->second));
      continue;
    }
    if (!args.random)
      return invalid_argument(
          fmt::format("input '{}' is missing: give --input {}=file.npy, or --random SEED", input.name, input.name));
    HONE_ASSIGN_OR_RETURN(NpyArray array, work.random(input, *args.random));
    arrays.emplace(input.name, std::move(array));
  }
  return arrays;
}

// As asked, else as the package prefers, else what the work pays for.
Result<std::unique_ptr<runtime::Schedule>> make_schedule(const ExecArgs& args, const Chosen& chosen) {
  HONE_ASSIGN_OR_RETURN(const Machine machine, detect_machine());
  const int most = threads_in_force(machine).threads;
  int threads = args.threads;
  if (threads == 0 && chosen.admitted.threads > 0) threads = std::min(chosen.admitted.threads, most);
  if (threads == 0) threads = op::default_threads(op::region_work(chosen.admitted.problem), most);
  HONE_ASSIGN_OR_RETURN(const plan::ScheduleWish wish, plan::schedule_wish());
  const runtime::ScheduleKind kind = wish.kind.value_or(runtime::ScheduleKind::kTbb);
  if (threads == 1 || kind == runtime::ScheduleKind::kSequential) return runtime::make_schedule({});
  return runtime::make_schedule({kind, threads});
}

struct Timing {
  double median = 0, least = 0;
};

// The first call is not timed: it makes workspaces and wakes threads.
Result<Timing> run(Chosen& chosen, runtime::Schedule& schedule, int repetitions) {
  HONE_ASSIGN_OR_RETURN(const std::vector<jit::Executable> kernels,
                        chosen.package->load(chosen.variant(), chosen.host));
  jit::WorkspacePool workspaces;
  for (const jit::Executable& kernel : kernels)
    HONE_RETURN_IF_ERROR(workspaces.reserve(kernel.workspace_bytes, schedule.parallelism()));
  HONE_RETURN_IF_ERROR(chosen.work->run(kernels, schedule, workspaces));
  std::vector<double> times;
  for (int i = 0; i < repetitions && !interrupted(); ++i) {
    const auto begin = std::chrono::steady_clock::now();
    HONE_RETURN_IF_ERROR(chosen.work->run(kernels, schedule, workspaces));
    times.push_back(std::chrono::duration<double, std::nano>(std::chrono::steady_clock::now() - begin).count());
  }
  std::sort(times.begin(), times.end());
  if (times.empty()) return Timing{};
  return Timing{.median = (times[(times.size() - 1) / 2] + times[times.size() / 2]) / 2, .least = times.front()};
}

Json report_json(const ExecArgs& args, const Chosen& chosen, const runtime::Schedule& schedule, const Timing& timing,
                 const Files& outputs) {
  const bool timed = timing.median > 0;
  Json written = Json::object();
  for (const auto& [name, path] : outputs) written[name] = path;
  return {{"package", args.package},
          {"problem", op::to_string(chosen.admitted.problem)},
          {"variant", variant_json(chosen.variant())},
          {"threads", schedule.parallelism()},
          {"schedule", schedule.name()},
          {"repetitions", args.repetitions},
          {"ns", timed ? Json(timing.median) : Json(nullptr)},
          {"ns_min", timed ? Json(timing.least) : Json(nullptr)},
          {"gflops", timed ? Json(op::flops(chosen.admitted.problem) / timing.median) : Json(nullptr)},
          {"bits_equal", args.check ? Json(true) : Json(nullptr)},
          {"outputs", written}};
}

void print_report(const Json& r) {
  const Json& v = r["variant"];
  print("{}\n  {} code of {}, {} thread(s), {}, numerics {}\n", r["problem"].get<std::string>(),
        v["isa"].get<std::string>(), v["codegen"].get<std::string>(), r["threads"].dump(),
        r["schedule"].get<std::string>(), v["numerics"].get<std::string>());
  if (!r["ns"].is_null())
    print("  {:.1f} us (least {:.1f}) in {} call(s), {:.2f} GFLOP/s\n", r["ns"].get<double>() / 1e3,
          r["ns_min"].get<double>() / 1e3, r["repetitions"].dump(), r["gflops"].get<double>());
  if (!r["bits_equal"].is_null()) print("  every bit is that of the reference\n");
  for (const auto& [name, path] : r["outputs"].items()) print("  {} written to {}\n", name, path.get<std::string>());
}

Result<Opened> open(const ExecArgs& args) {
  HONE_ASSIGN_OR_RETURN(const Machine machine, executing_machine());
  Opened opened{.package = nullptr, .host = {.arch = std::string(jit::process_arch()), .features = machine.features}};
  HONE_ASSIGN_OR_RETURN(opened.package, jit::Package::open(args.package));
  return opened;
}

Status list_all(const ExecArgs& args, const Opened& opened) {
  for (const jit::PackageOp& op : opened.package->manifest().ops) {
    HONE_ASSIGN_OR_RETURN(const Chosen chosen, choose(args, opened, op.problem));
    list(args, chosen);
  }
  return {};
}

Status exec(const ExecArgs& args) {
  if (names_graph(args.package)) return exec_graph(args, nullptr);
  HONE_ASSIGN_OR_RETURN(const Opened opened, open(args));
  if (opened.package->manifest().graph) return exec_graph(args, opened.package);
  if (!args.calls.empty() || !args.sizes.empty())
    return invalid_argument("--calls and --size are for graphs; the package has ops");
  const bool asks = args.inputs.empty() && args.outputs.empty() && !args.random && !args.check;
  if (asks && args.problem.empty()) return list_all(args, opened);
  HONE_ASSIGN_OR_RETURN(Chosen chosen, choose(args, opened, args.problem));
  ExecWork& work = *chosen.work;
  HONE_ASSIGN_OR_RETURN(const Files inputs, parse_files(args.inputs, "--input", work.inputs, ""));
  HONE_ASSIGN_OR_RETURN(const Files outputs,
                        parse_files(args.outputs, "--output", work.outputs, work.outputs.front().name));
  if (asks) {
    list(args, chosen);
    return {};
  }
  if (inputs.empty() && !args.random)
    return invalid_argument("there are no inputs: give --input name=file.npy, or --random SEED");
  std::vector<NewFile> places;  // checked before anything runs
  for (const auto& [name, path] : outputs) {
    HONE_ASSIGN_OR_RETURN(NewFile place, create_npy(path));
    places.push_back(std::move(place));
  }
  HONE_ASSIGN_OR_RETURN(const Arrays arrays, read_inputs(args, inputs, work));
  if (Status s = work.take(arrays); !s.ok()) return s;
  HONE_ASSIGN_OR_RETURN(const std::unique_ptr<runtime::Schedule> schedule, make_schedule(args, chosen));
  HONE_ASSIGN_OR_RETURN(const Timing timing, run(chosen, *schedule, args.repetitions));
  if (args.check) {
    HONE_ASSIGN_OR_RETURN(const numeric::Comparison compared, work.check());
    if (!compared.ok()) return data_loss(fmt::format("the result is not that of the reference: {}", compared.text));
  }
  for (size_t i = 0; i < outputs.size(); ++i) {
    HONE_ASSIGN_OR_RETURN(const NpyArray array, work.output(outputs[i].first));
    HONE_RETURN_IF_ERROR(write_npy(places[i], array));
  }
  const Json report = report_json(args, chosen, *schedule, timing, outputs);
  if (args.json) {
    print("{}\n", dump(report));
  } else {
    print_report(report);
  }
  return {};
}

int run_exec(const ExecArgs& args) {
  const Status status = exec(args);
  if (!status.ok()) return fail(status);
  return interrupted() ? kInterrupted : kDone;
}

}  // namespace

void add_exec(CLI::App& app, Run& run) {
  CLI::App* command =
      app.add_subcommand("exec",
                         "run an op or the graph of a package, or a graph from a file, on arrays; without any it says "
                         "which it wants");
  auto args = std::make_shared<ExecArgs>();
  command->add_option("package", args->package, "what hone compile wrote, or a file of graph text or StableHLO")
      ->required()
      ->check(not_empty());
  command->add_option("--problem", args->problem, "which op of a package with several")->check(not_empty());
  command
      ->add_option("--input", args->inputs,
                   "name=file.npy of inputs; of a graph also a file alone, for the next input, and an input several "
                   "times, for calls that follow each other")
      ->check(not_empty());
  command->add_option("--output", args->outputs, "file.npy for the result, or name=file.npy")->check(not_empty());
  command->add_option("--random", args->random, "seed of random values for the inputs that are not given")
      ->check(seed());
  command->add_flag("--check", args->check, "compare with the naive reference, bit for bit");
  command->add_option("--isa", args->isa, "the variant for this instruction set (default: the strongest)")
      ->check(not_empty());
  command->add_option("--threads", args->threads, "so many threads (default: as the package prefers, else what pays)")
      ->check(CLI::Range(1, kMaxThreads));
  command->add_option("-r,--repetitions", args->repetitions, "timed calls (default: 1)")->check(CLI::Range(1, 1000000));
  command
      ->add_option(
          "--calls", args->calls,
          "of a graph that keeps tokens: cut the inputs into calls of so many, such as 128,1,1 for a prompt of "
          "128 and two single tokens; outputs are joined again")
      ->delimiter(',')
      ->check(CLI::Range(int64_t{1}, int64_t{1} << 31));
  command->add_option("--size", args->sizes, "of a graph with --random: symbol=number for a size that no array says")
      ->check(not_empty());
  command->add_flag("--json", args->json, "one JSON object");
  command->callback([args, &run] { run = [args] { return run_exec(*args); }; });
}

}  // namespace hone::cli
