// hone codegen: the same LoopIR through several code generators: what they emit, what a model of the CPU says of it,
// how fast it is, and that the bits are the same.
#include "tools/hone/codegen.h"

#include <fmt/format.h>

#include <algorithm>
#include <ctime>

#include "autotune/measure/peak.h"
#include "engine/base/env.h"
#include "engine/base/version.h"
#include "engine/plan/resolver.h"
#include "tools/hone/cli.h"
#include "tools/hone/codegen_html.h"
#include "tools/hone/codegen_report.h"
#include "tools/hone/codegen_store.h"
#include "tools/hone/new_file.h"
#include "tools/hone/regions.h"

namespace hone::cli {
namespace {

struct CodegenArgs {
  ProblemArgs problems;
  std::string program, isa, codegen, llvm_opt, numerics, db, html, output = "md", cache = "warm";
  std::vector<std::string> mcpus;
  int threads = 1, repetitions = 75;
  double seconds = 3;
  uint64_t seed = 1;
  bool json = false;
};

struct Setup {
  std::vector<op::Shape> shapes;
  bool is_list = false;  // a file or the shipped list: a line for each problem, and what all of them come to
  Format format = Format::kMd;
  std::string program, numerics;
  std::optional<Isa> isa;
  std::optional<NewFile> html;
  std::unique_ptr<db::Store> store;  // of a list, to write to; else to read
  Machine described;                 // that programs are chosen for
  plan::Target target;
  plan::Decisions decisions;
  StudyOptions options;
};

Status add_generator(const std::string& name, std::vector<jit::CodeGenerator*>& generators) {
  const Result<jit::CodeGenerator*> found = jit::find_code_generator(name);
  if (!found.ok()) return typed(found.status());
  if (std::find(generators.begin(), generators.end(), *found) == generators.end()) generators.push_back(*found);
  return {};
}

Result<std::vector<jit::CodeGenerator*>> generators_of(const CodegenArgs& args) {
  std::vector<jit::CodeGenerator*> generators;
  if (args.codegen.empty()) generators = jit::compiling_generators();
  if (!args.codegen.empty()) {
    HONE_ASSIGN_OR_RETURN(const std::vector<std::string> names, parse_codegens(args.codegen));
    for (const std::string& name : names) HONE_RETURN_IF_ERROR(add_generator(name, generators));
  }
  if (!args.llvm_opt.empty()) {
    const std::vector<std::string> levels = split(args.llvm_opt, ',');
    for (const std::string& level : levels)
      if (level.size() != 2 || level[0] != 'O' || level[1] < '0' || level[1] > '3')
        return invalid_argument(fmt::format("--llvm-opt takes O0,O1,O2,O3 or some of them, got '{}'", args.llvm_opt));
    for (const std::string& level : levels) HONE_RETURN_IF_ERROR(add_generator("llvm-" + level, generators));
  }
  if (generators.empty())
    return unsupported("this build has no code generator: configure with HONE_WITH_ASMJIT=ON or HONE_WITH_LLVM=ON");
  return generators;
}

// A CPU that is misspelt, or of another architecture than the code, is found before anything runs, on an instruction
// that does nothing.
Status check_mcpus(const std::vector<std::string>& mcpus, Isa isa) {
  constexpr std::byte kX86Nop[] = {std::byte{0x90}};
  constexpr std::byte kAarch64Nop[] = {std::byte{0x1f}, std::byte{0x20}, std::byte{0x03}, std::byte{0xd5}};
  const bool x86 = isa_info(isa).arch == Arch::kX86_64;
  const std::span<const std::byte> nop = x86 ? std::span<const std::byte>(kX86Nop) : kAarch64Nop;
  for (const std::string& cpu : mcpus) {
    const Result<jit::StaticThroughput> any = jit::static_throughput(nop, isa, cpu);
    if (!any.ok()) return Status(any.status().code(), fmt::format("--mcpu {}: {}", cpu, any.status().message()));
  }
  return {};
}

Status check_program(const CodegenArgs& args, Setup& s) {
  s.program = args.program;
  if (!args.isa.empty()) {
    s.isa = parse_isa(args.isa);
    std::vector<std::string_view> names;
    for (const Isa isa : all_isas()) names.push_back(isa_info(isa).name);
    if (!s.isa)
      return invalid_argument(fmt::format("--isa takes one of {}, got '{}'", fmt::join(names, ", "), args.isa));
  }
  if (s.program.empty()) return {};
  for (const op::Shape& shape : s.shapes) {
    const Result<op::Program> program = op::parse_program(shape.problem, s.program);
    if (!program.ok())
      return invalid_argument(
          fmt::format("--program for {}: {}", op::to_string(shape.problem), program.status().message()));
    if (s.isa && op::isa(*program) != *s.isa)
      return invalid_argument(
          fmt::format("--isa {} and a --program for {}: leave one out", args.isa, isa_info(op::isa(*program)).name));
    s.isa = op::isa(*program);
  }
  return {};
}

Result<Setup> prepare(const CodegenArgs& args) {
  Setup s;
  HONE_ASSIGN_OR_RETURN(s.shapes, args.problems.resolve(op::codegen_shapes_text(), "codegen.txt"));
  s.is_list = args.problems.problems.empty();
  HONE_ASSIGN_OR_RETURN(s.format, parse_format(args.json ? "json" : args.output));
  HONE_RETURN_IF_ERROR(check_program(args, s));
  HONE_RETURN_IF_ERROR(check_numerics(s.shapes, args.numerics));
  s.numerics = args.numerics;
  StudyOptions& o = s.options;
  HONE_ASSIGN_OR_RETURN(o.generators, generators_of(args));
  HONE_ASSIGN_OR_RETURN(s.described, described_machine());
  const Result<Isa> best = s.described.best_isa();
  HONE_RETURN_IF_ERROR(check_mcpus(args.mcpus, s.isa ? *s.isa : best.ok() ? *best : all_isas().front()));
  if (!args.html.empty()) {
    HONE_ASSIGN_OR_RETURN(NewFile page, NewFile::create(args.html, "codegen.html"));
    s.html.emplace(std::move(page));
  }
  o.mcpus = args.mcpus;
  o.threads = args.threads, o.repetitions = args.repetitions, o.seconds = args.seconds, o.seed = args.seed;
  o.cache = args.cache == "warm" ? autotune::CacheMode::kWarm : autotune::CacheMode::kCold;
  HONE_ASSIGN_OR_RETURN(o.machine, executing_machine());
  HONE_ASSIGN_OR_RETURN(s.store, open_store(args.db, s.is_list ? db::OpenMode::kReadWrite : db::OpenMode::kReadOnly));
  HONE_ASSIGN_OR_RETURN(s.decisions, plan::Decisions::load(*s.store));
  HONE_ASSIGN_OR_RETURN(const plan::RegionPolicy regions,
                        region_policy_in_force(s.store.get(), o.machine, args.threads));
  o.schedule = regions.schedule.kind;
  s.target = plan::make_target(s.described, args.threads, jit::compiling_generators(), plan::Purpose::kAsk);
  if (o.machine.best_isa().ok()) {
    HONE_ASSIGN_OR_RETURN(o.peak, autotune::measure_peak(o.machine, {.seconds = std::min(0.3, args.seconds)}));
  }
  return s;
}

// The program typed, else that of the plan that a call here has, else (where another ISA is asked for) the default one.
Result<Chosen> choose(const op::Problem& problem, const Setup& s) {
  if (!s.program.empty()) {
    HONE_ASSIGN_OR_RETURN(const op::Program program, op::parse_program(problem, s.program));
    HONE_RETURN_IF_ERROR(op::legal(problem, program));
    return Chosen{program, "given"};
  }
  const Result<plan::Plan> plan =
      plan::resolve(problem, s.target, s.decisions, {.codegen = "", .numerics = s.numerics});
  if (plan.ok() && plan->codegen != plan::kFallbackCodegen && (!s.isa || op::isa(plan->program) == *s.isa))
    return Chosen{plan->program, std::string(plan::reason_name(plan->reason))};
  if (!s.isa && !plan.ok()) return plan.status();
  if (!s.isa) return unsupported("no code generator of this build emits code for this CPU; --isa names another one");
  const op::Program program = op::default_program(problem, {.isa = *s.isa,
                                                            .caches = blocking_caches(s.described),
                                                            .threads = s.options.threads,
                                                            .numerics = s.numerics,
                                                            .features = s.described.features});
  HONE_RETURN_IF_ERROR(op::legal(problem, program));
  return Chosen{program, "default"};
}

struct Results {
  std::vector<Study> studies;
  std::vector<std::pair<std::string, std::string>> failed;  // problem, why
};

void write_json(const Results& r, const Table& summary, bool line_each) {
  Json all = Json::array();
  for (const Study& study : r.studies) all.push_back(study_json(study));
  for (const auto& [problem, why] : r.failed) all.push_back(failed_json(problem, why));
  if (line_each) {
    for (const Json& line : all) print("{}\n", dump(line));
    return;
  }
  Json lines = Json::array();
  for (const auto& row : summary.rows) lines.push_back(row_to_json(summary, row));
  print("{}\n", dump(Json({{"codegen", all}, {summary.name, lines}}), 2));
}

// The distribution goes with the rows, where the format has a place for a second table; else to stderr.
void write(const Results& r, const Setup& s) {
  const Table summary = distribution_table(r.studies);
  if (s.format == Format::kJson || s.format == Format::kJsonl) {
    write_json(r, summary, s.format == Format::kJsonl);
  } else if (s.format != Format::kMd) {
    write_results(render(codegen_table(r.studies), s.format, &summary));
  } else if (s.is_list) {
    print("{}\n{}", render(overview_table(r.studies), Format::kMd), render(summary, Format::kMd));
  } else {
    for (const Study& study : r.studies) print("{}\n", study_text(study));
    if (r.studies.size() > 1) write_results(render(summary, Format::kMd));
  }
  if (!has_place_for_summary(s.format) && r.studies.size() > 1) note_lines(render(summary, Format::kMd));
}

void progress(const Study& study, const Setup& s, size_t number) {
  if (!s.is_list) return;
  const LlvmToNative r = llvm_to_native(study);
  note(fmt::format("{}/{} {}: {}", number, s.shapes.size(), op::to_string(study.problem),
                   r.ratio ? fmt::format("llvm / asmjit {:.3f}", r.ratio->mid) : r.why_not));
}

// Rows of a list are kept as they are measured. A store that takes none fails the command once, and ends no study.
Status keep(const Study& study, Setup& s) {
  if (!s.is_list || s.store == nullptr) return {};
  const Status stored = s.store->save_codes(code_records(study, s.options.machine));
  if (!stored.ok()) s.store.reset();
  return stored.ok() ? Status() : Status(stored.code(), fmt::format("rows are not stored: {}", stored.message()));
}

Status write_page(const Results& r, Setup& s) {
  if (!s.html) return {};
  const Machine& m = s.options.machine;
  const PageFacts facts{.machine = fmt::format("{} ({})", m.brand.empty() ? m.vendor : m.brand, m.key()),
                        .build = std::string(engine_label()),
                        .date = utc(std::time(nullptr)) + " UTC",
                        .command = command_line()};
  HONE_RETURN_IF_ERROR(s.html->write(codegen_html(r.studies, facts)));
  return s.html->commit();
}

int run_codegen(const CodegenArgs& args) {
  Result<Setup> setup = prepare(args);
  if (!setup.ok()) return fail(setup.status());
  Setup& s = *setup;
  std::shared_ptr<autotune::Weights> weights;
  s.options.weights = &weights;
  Results results;
  Status failure;
  for (size_t i = 0; i < s.shapes.size() && !interrupted(); ++i) {
    const op::Problem& problem = s.shapes[i].problem;
    const Result<Chosen> chosen = choose(problem, s);
    Result<Study> made = chosen.ok() ? study(problem, *chosen, s.options) : Result<Study>(chosen.status());
    Status status = made.status();
    if (made.ok()) {
      progress(*made, s, i + 1);
      status = keep(*made, s);
      if (!made->failed.empty() && !interrupted()) status = internal_error(made->failed);
      results.studies.push_back(std::move(*made));
    } else {
      results.failed.emplace_back(op::to_string(problem), status.message());
    }
    if (status.ok()) continue;
    // One problem that cannot be studied must not cost the others their turn.
    if (!failure.ok()) note(fmt::format("error: {}", failure.message()));
    failure = Status(status.code(), fmt::format("{}: {}", op::to_string(problem), status.message()));
  }
  if (!results.studies.empty() && !results.studies.front().no_counters.empty())
    note(fmt::format("no hardware counters: {}", results.studies.front().no_counters));
  write(results, s);
  if (const Status page = write_page(results, s); !page.ok() && failure.ok()) failure = page;
  if (!failure.ok()) return fail(failure);
  return interrupted() ? kInterrupted : kDone;
}

}  // namespace

void add_codegen(CLI::App& app, Run& run) {
  CLI::App* command = app.add_subcommand(
      "codegen", "the same LoopIR through each code generator: code, model, time, bits (default: a shipped list)");
  auto args = std::make_shared<CodegenArgs>();
  args->problems.add_to(*command);
  command->add_option("--program", args->program, "this program instead of the plan that the problem gets here")
      ->check(not_empty());
  command
      ->add_option("--isa", args->isa,
                   "the default program for this instruction set, also one that this CPU lacks (then nothing is timed)")
      ->check(not_empty());
  command->add_option("--codegen", args->codegen, "these code generators (default: all)")->check(not_empty());
  command
      ->add_option("--llvm-opt", args->llvm_opt,
                   "besides, LLVM's standard pipelines on the same IR: some of O0,O1,O2,O3")
      ->check(not_empty());
  command
      ->add_option("--mcpu", args->mcpus,
                   "also what llvm-mca says of the inner loop on this CPU, by LLVM's name; may be repeated")
      ->check(not_empty());
  add_numerics(*command, args->numerics);
  command->add_option("--threads", args->threads, "threads of a call (default: 1)")->check(CLI::Range(1, kMaxThreads));
  command->add_option("-r,--repetitions", args->repetitions, "rounds at most (default: 75)")
      ->check(CLI::Range(1, 1000000));
  command->add_option("--seconds", args->seconds, "per problem, then rounds stop once there are enough (default: 3)")
      ->check(positive());
  command->add_option("--cache", args->cache, "warm (default): operands come from cache; cold: from memory")
      ->check(CLI::IsMember({"warm", "cold"}));
  command->add_option("--seed", args->seed, "of operands and of the order in rounds")->check(seed());
  command->add_option("--db", args->db, "database file")->check(not_empty());
  command->add_option("--html", args->html, "besides, a page for a browser with charts and aligned inner loops")
      ->check(not_empty());
  command->add_option("-o,--output", args->output, "md, csv, json, jsonl or sql");
  command->add_flag("--json", args->json, "same as -o json");
  command->callback([args, &run] { run = [args] { return run_codegen(*args); }; });
}

}  // namespace hone::cli
