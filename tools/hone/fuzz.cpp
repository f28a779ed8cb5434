// hone fuzz: random programs through the interpreter and every code generator; what differs, crashes or hangs is made
// small and printed.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <fstream>
#include <map>
#include <sstream>

#include "kernels/ir/shrink.h"
#include "kernels/ir/text.h"
#include "tools/hone/cli.h"
#include "tools/hone/fuzz_campaign.h"
#include "tools/hone/json.h"
#include "tools/hone/status_line.h"
#include "tools/hone/table.h"

namespace hone::cli {
namespace {

struct FuzzArgs {
  std::string seconds, limit = "10s", shrink, kind, codegen, repeat, out = ".";
  uint64_t seed = 1, programs = 0, max_failures = 10;
  std::optional<uint64_t> only;
  int jobs = 0;
  bool json = false;
};

constexpr uint64_t kPrograms = 10'000;
constexpr double kShrinkSeconds = 30;  // of a program that was just found; who repeats one has it small already
constexpr int kShownOfAFault = 2;      // failures of one kind are mostly one fault

// A failure as it is shown.
struct Shown {
  FuzzFailure failure;
  std::optional<FuzzCase> small;
  std::string from, file, repeat, repeat_original;
  int64_t statements = 0;
};

Result<std::vector<std::string>> parse_kinds(const std::string& text) {
  const std::vector<std::string> all = fuzz_kinds();
  if (text.empty()) return all;
  std::vector<std::string> kinds;
  std::istringstream in(text);
  for (std::string word; std::getline(in, word, ',');) {
    if (std::ranges::find(all, word) == all.end())
      return invalid_argument(fmt::format("--kind takes {}, got '{}'", fmt::join(all, ", "), text));
    if (std::ranges::find(kinds, word) == kinds.end()) kinds.push_back(word);
  }
  if (kinds.empty()) return invalid_argument(fmt::format("--kind takes {}, got '{}'", fmt::join(all, ", "), text));
  return kinds;
}

Result<double> shrink_seconds(const FuzzArgs& args) {
  if (args.shrink == "0") return 0;
  if (!args.shrink.empty()) return parse_duration(args.shrink);
  return args.repeat.empty() ? kShrinkSeconds : 0;
}

Result<FuzzPlan> make_plan(const FuzzArgs& args) {
  HONE_ASSIGN_OR_RETURN(const Machine machine, executing_machine());
  FuzzPlan plan{.seed = args.seed, .end = args.programs > 0 ? args.programs : kPrograms};
  plan.jobs = args.jobs > 0 ? args.jobs : machine.cpus_usable;
  plan.max_failures = args.max_failures;
  if (!args.seconds.empty()) {
    HONE_ASSIGN_OR_RETURN(plan.seconds, parse_duration(args.seconds));
    if (args.programs == 0) plan.end = UINT64_MAX;
  }
  if (args.only) plan.first = *args.only, plan.end = *args.only + 1;
  HONE_ASSIGN_OR_RETURN(plan.limit, parse_duration(args.limit));
  HONE_ASSIGN_OR_RETURN(plan.kinds, parse_kinds(args.kind));
  if (args.codegen.empty()) {
    plan.generators = jit::compiling_generators();
    return plan;
  }
  HONE_ASSIGN_OR_RETURN(const std::vector<std::string> names, parse_codegens(args.codegen));
  for (const std::string& name : names) {
    HONE_ASSIGN_OR_RETURN(jit::CodeGenerator * generator, jit::find_code_generator(name));
    plan.generators.push_back(generator);
  }
  return plan;
}

// The options that decide what a program is and what is done with it.
std::vector<std::string> words_of(const FuzzArgs& args, std::vector<std::string> words) {
  words.insert(words.begin(), "fuzz");
  if (!args.codegen.empty()) words.insert(words.end(), {"--codegen", args.codegen});
  if (args.limit != "10s") words.insert(words.end(), {"--limit", args.limit});
  return words;
}

std::string file_text(const Shown& s) {
  std::string text = fmt::format("# {}\n", s.failure.fault);
  if (!s.failure.details.empty()) text += fmt::format("# {}\n", printable(s.failure.details));
  if (!s.from.empty()) text += fmt::format("# from {}\n", s.from);
  return text + to_text(*s.small);
}

// Makes it small, and leaves a file with it. Where that cannot be, the number of the program repeats it as well.
Shown prepare(const FuzzFailure& failure, const FuzzPlan& plan, const FuzzArgs& args, double seconds) {
  Shown s{.failure = failure};
  std::vector<std::string> original = {"--seed", std::to_string(plan.seed)};
  if (failure.index) original.insert(original.end(), {"--only", std::to_string(*failure.index)});
  if (!args.kind.empty()) original.insert(original.end(), {"--kind", args.kind});
  if (!args.shrink.empty()) original.insert(original.end(), {"--shrink", args.shrink});
  if (!args.repeat.empty()) original = {"--repeat", args.repeat};
  if (args.out != ".") original.insert(original.end(), {"--out", args.out});  // it may write the program again
  s.repeat = s.repeat_original = repeat_command(words_of(args, original));
  if (!failure.program) return s;
  s.small = seconds > 0 ? shrink_failure(failure, plan, seconds, interrupted(), &s.from) : *failure.program;
  if (s.small->kind == kLoopIr)
    if (const Result<ir::Kernel> kernel = ir::parse(s.small->kernel); kernel.ok())
      s.statements = ir::count_statements(*kernel);
  if (!failure.index && seconds <= 0) return s;  // it is in a file already
  const std::string name = failure.index ? fmt::format("fuzz-{}-{}", plan.seed, *failure.index)
                                         : std::filesystem::path(args.repeat).stem().string() + "-small";
  const std::filesystem::path path =
      (std::filesystem::path(args.out) / (name + (s.small->kind == kLoopIr ? ".ir" : ".txt"))).lexically_normal();
  std::ofstream out(path, std::ios::binary);
  out << file_text(s);
  out.close();
  if (!out) {
    note(fmt::format("cannot write '{}': the programs are only printed", path.string()));
    return s;
  }
  s.file = path.string();
  s.repeat = repeat_command(words_of(args, {"--repeat", s.file}));
  return s;
}

Json failure_json(const Shown& s) {
  return {{"index", s.failure.index ? Json(*s.failure.index) : Json(nullptr)},
          {"kind", s.failure.program ? Json(s.failure.program->kind) : Json(nullptr)},
          {"fault", s.failure.fault},
          {"details", s.failure.details},
          {"program", s.small ? Json(to_text(*s.small)) : Json(nullptr)},
          {"statements", s.statements > 0 ? Json(s.statements) : Json(nullptr)},
          {"from", s.from.empty() ? Json(nullptr) : Json(s.from)},
          {"file", s.file.empty() ? Json(nullptr) : Json(s.file)},
          {"repeat", s.repeat},
          {"repeat_original", s.repeat_original}};
}

Json counts_json(const FuzzCounts& c) {
  return {{"programs", c.programs},
          {"kernels", c.compiled},
          {"refused", c.refused},
          {"invalid", c.invalid},
          {"failed", c.failed}};
}

double rate(int64_t count, double seconds) { return seconds > 0 ? static_cast<double>(count) / seconds : 0; }

void print_json(const FuzzPlan& plan, const FuzzOutcome& outcome, const std::vector<Shown>& shown) {
  const FuzzCounts total = outcome.total();
  Json kinds = Json::object(), failures = Json::array(), codegens = Json::array();
  for (const auto& [kind, counts] : outcome.kinds) kinds[kind] = counts_json(counts);
  for (const Shown& s : shown) failures.push_back(failure_json(s));
  for (const jit::CodeGenerator* g : plan.generators) codegens.push_back(g->name());
  print("{}\n", dump({{"seed", plan.seed},
                      {"programs", total.programs},
                      {"kernels", total.compiled},
                      {"failed", total.failed},
                      {"seconds", outcome.seconds},
                      {"programs_per_second", rate(total.programs, outcome.seconds)},
                      {"kernels_per_second", rate(total.compiled, outcome.seconds)},
                      {"jobs", plan.jobs},
                      {"codegens", codegens},
                      {"kinds", kinds},
                      {"interrupted", outcome.stopped},
                      {"failures", failures}},
                     2));
}

void print_text(const FuzzPlan& plan, const FuzzOutcome& outcome, const std::vector<Shown>& shown) {
  const FuzzCounts total = outcome.total();
  print(
      "seed {}: {} programs, {} kernels compiled and compared, {} failed; {:.1f} s, {:.0f} programs/s, {:.0f} "
      "kernels/s\n",
      plan.seed, total.programs, total.compiled, total.failed, outcome.seconds, rate(total.programs, outcome.seconds),
      rate(total.compiled, outcome.seconds));
  print("  {:10} {:>9} {:>9} {:>8} {:>8} {:>7}\n", "kind", "programs", "kernels", "refused", "invalid", "failed");
  for (const auto& [kind, c] : outcome.kinds)
    print("  {:10} {:>9} {:>9} {:>8} {:>8} {:>7}\n", kind, c.programs, c.compiled, c.refused, c.invalid, c.failed);
  for (const Shown& s : shown) {
    print("\n{}: {}\n", s.failure.index ? fmt::format("program {}", *s.failure.index) : "the program", s.failure.fault);
    if (!s.failure.details.empty()) print("  {}\n", printable(s.failure.details));
    if (!s.from.empty()) print("  from {}\n", s.from);
    if (s.small) print("{}", to_text(*s.small));
    print("repeat: {}\n", s.repeat);
    if (s.repeat_original != s.repeat) print("as it was: {}\n", s.repeat_original);
  }
}

int report(const FuzzPlan& plan, const FuzzArgs& args, const FuzzOutcome& outcome) {
  const double seconds = shrink_seconds(args).value();  // run_fuzz() has looked
  std::vector<Shown> shown;
  std::map<std::string, int> of_fault;
  for (const FuzzFailure& failure : outcome.failures) {
    if (++of_fault[failure.fault] > kShownOfAFault) continue;
    if (!interrupted().load() && seconds > 0) note(fmt::format("{}: looking for a smaller program", failure.fault));
    shown.push_back(prepare(failure, plan, args, seconds));
  }
  args.json ? print_json(plan, outcome, shown) : print_text(plan, outcome, shown);
  if (outcome.stopped) return kInterrupted;
  return outcome.failures.empty() ? kDone : kFailed;
}

Result<FuzzOutcome> repeat(const FuzzPlan& plan, const FuzzArgs& args) {
  std::ifstream in(args.repeat, std::ios::binary);
  std::stringstream text;
  text << in.rdbuf();
  if (!in) return invalid_argument(fmt::format("cannot read '{}'", args.repeat));
  Result<FuzzCase> c = parse_case(text.str());
  if (!c.ok()) return invalid_argument(fmt::format("'{}': {}", args.repeat, c.status().message()));
  // What people write need not look as it is printed.
  if (const Result<ir::Kernel> kernel = ir::parse(c->kernel); kernel.ok()) c->kernel = ir::print(*kernel);
  FuzzJudge judge(plan, interrupted());
  const std::optional<Verdict> verdict = judge.judge(*c, plan.limit);
  FuzzOutcome outcome;
  if (!verdict) {
    outcome.stopped = interrupted().load();
    if (!outcome.stopped) return unavailable("cannot start a worker process");
    return outcome;
  }
  using Kind = Verdict::Kind;
  if (verdict->kind == Kind::kInvalid || verdict->kind == Kind::kRefused)
    return invalid_argument(fmt::format("'{}' cannot be run: {}", args.repeat, verdict->details));
  outcome.kinds[c->kind] = {.programs = 1, .compiled = verdict->compiled, .failed = verdict->kind == Kind::kFaulty};
  if (verdict->kind == Kind::kFaulty) outcome.failures.push_back({std::nullopt, verdict->fault, verdict->details, *c});
  return outcome;
}

int run_fuzz(const FuzzArgs& args) {
  const Result<FuzzPlan> plan = make_plan(args);
  if (!plan.ok()) return fail(plan.status());
  if (const Result<double> seconds = shrink_seconds(args); !seconds.ok()) return fail(seconds.status());
  if (plan->generators.empty()) note("this build has no code generator: programs are interpreted only");
  if (!args.repeat.empty()) {
    const Result<FuzzOutcome> outcome = repeat(*plan, args);
    return outcome.ok() ? report(*plan, args, *outcome) : fail(outcome.status());
  }
  StatusLine line;
  const Result<FuzzOutcome> outcome = run_campaign(*plan, interrupted(), [&](const FuzzOutcome& so_far) {
    const FuzzCounts total = so_far.total();
    const double per_second = rate(total.programs, so_far.seconds);
    const double left = plan->seconds > 0
                            ? plan->seconds - so_far.seconds
                            : static_cast<double>(plan->end - plan->first - static_cast<uint64_t>(total.programs)) /
                                  std::max(per_second, 1e-3);
    line.show([&] {
      return fmt::format("{} programs, {:.0f}/s, {} failed, ETA {:.0f} s", total.programs, per_second, total.failed,
                         std::max(left, 0.0));
    });
  });
  line.clear();
  return outcome.ok() ? report(*plan, args, *outcome) : fail(outcome.status());
}

}  // namespace

void add_fuzz(CLI::App& app, Run& run) {
  CLI::App* command =
      app.add_subcommand("fuzz", "random programs: the interpreter against every code generator, bit for bit");
  auto args = std::make_shared<FuzzArgs>();
  command
      ->add_option("--programs", args->programs,
                   fmt::format("how many (default {}, or what --seconds allows)", kPrograms))
      ->check(CLI::Range(uint64_t{1}, uint64_t{1} << 40));
  command->add_option("--seconds", args->seconds, "how long: 60, 60s, 1.5m")->check(not_empty());
  command->add_option("--seed", args->seed, "of the programs; program i of a seed is always the same (default 1)")
      ->check(seed());
  CLI::Option* only =
      command->add_option("--only", args->only, "program number I of the seed and no other")->check(seed());
  command->add_option("--kind", args->kind, fmt::format("of {} (default: all)", fmt::join(fuzz_kinds(), ", ")))
      ->check(not_empty());
  command->add_option("--codegen", args->codegen, "these code generators (default: all that compile)")
      ->check(not_empty());
  command->add_option("--jobs", args->jobs, "programs at a time (default: the CPUs there are)")
      ->check(CLI::Range(1, 1024));
  command->add_option("--limit", args->limit, "CPU time of one program, beyond which it hangs (default 10s)")
      ->check(not_empty());
  command
      ->add_option("--shrink", args->shrink,
                   "how long to look for a smaller program that fails: 0, 30s (default 30s; with --repeat 0)")
      ->check(not_empty());
  command->add_option("--max-failures", args->max_failures, "ends after so many (default 10)")
      ->check(CLI::Range(1, 1000));
  command->add_option("--out", args->out, "folder for small programs that fail (default: the current one)")
      ->check(not_empty());
  CLI::Option* repeat_option =
      command
          ->add_option("--repeat", args->repeat, "runs the program of this file: one that was left behind, or LoopIR")
          ->check(not_empty());
  repeat_option->excludes(only);
  command->add_flag("--json", args->json, "one JSON object");
  command->callback([args, &run] { run = [args] { return run_fuzz(*args); }; });
}

}  // namespace hone::cli
