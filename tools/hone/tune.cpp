// hone tune: measures candidates for each problem and stores the winners.
#include "autotune/tune.h"

#include <fmt/format.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "autotune/search/stats.h"
#include "engine/base/env.h"
#include "engine/plan/resolver.h"
#include "tools/hone/cli.h"
#include "tools/hone/json.h"
#include "tools/hone/table.h"

namespace hone::cli {
namespace {

using autotune::TuneReport;

struct TuneArgs {
  ProblemArgs problems;
  std::string budget, codegen, threads, db;
  std::string cache = "cold", output = "md", numerics = "ordered";
  uint64_t seed = 0;
  bool fresh = false, json = false;
};

constexpr double kDefaultSecondsPerProblem = 10;
constexpr double kPeakSeconds = 1;
constexpr int kCeilingWindows = 25;  // about 5 ms

// One line that rewrites itself on a terminal, and a line now and then elsewhere.
class ProgressLine {
 public:
  explicit ProgressLine(size_t problems) : problems_(problems), terminal_(isatty(STDERR_FILENO) != 0) {}
  ~ProgressLine() { clear(); }

  void begin(size_t index, double seconds_after) {
    index_ = index;
    seconds_after_ = seconds_after;
    last_phase_.clear();
  }

  void show(const autotune::Progress& p) {
    const double now = static_cast<double>(clock_.now_ns()) * 1e-9;
    const bool phase_changed = last_phase_ != p.phase;
    if (now - last_ < (terminal_ ? 0.1 : 5.0) && !(phase_changed && !terminal_)) return;
    last_ = now;
    last_phase_ = p.phase;
    const std::string line = fmt::format("[{}/{}] {}: {}, {} left, best {:+.1f}% against the incumbent, ETA {:.0f} s",
                                         index_ + 1, problems_, p.problem, p.phase, p.candidates_left,
                                         (1 / p.best_ratio - 1) * 100, std::max(p.seconds_left + seconds_after_, 0.0));
    if (terminal_) {
      write_message(fmt::format("\r\x1b[2K{:.{}}", line, columns()));
      shown_ = true;
    } else {
      write_message(line + "\n");
    }
  }

  void clear() {
    if (shown_) write_message("\r\x1b[2K");
    shown_ = false;
  }

 private:
  // A line that wraps cannot be rewritten.
  static int columns() {
    winsize size{};
    return ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 1 ? size.ws_col - 1 : 79;
  }

  autotune::SteadyClock clock_;
  size_t problems_, index_ = 0;
  bool terminal_, shown_ = false;
  double last_ = 0, seconds_after_ = 0;
  std::string last_phase_;
};

bool decided(const TuneReport& r) { return r.decided || r.enumerated == 0; }
std::string decision_of(const TuneReport& r) { return decided(r) ? std::string(db::verdict_name(r.decision)) : "none"; }

// `ceilings`: GFLOP/s that the threads of each winner could do at most, measured right after it.
Table report_table(const std::vector<TuneReport>& reports, const std::vector<double>& ceilings) {
  Table table{"tune",
              {{"problem"},
               {"decision"},
               {"default_ns", For::kMachines},
               {"default_us", For::kPeople, "default us"},
               {"ns", For::kMachines},
               {"us", For::kPeople, "tuned us"},
               {"gflops", For::kAll, "GFLOP/s"},
               {"pct_peak", For::kAll, "% peak"},
               {"b_gbs", For::kAll, "B GB/s"},
               {"speedup"},
               {"speedup_ci95", For::kAll, "95% interval"},
               {"noise_bound", For::kMachines},
               {"noise_pct", For::kPeople, "noise %"},
               {"measured_of", For::kPeople, "measured"},
               {"measured", For::kMachines},
               {"enumerated", For::kMachines},
               {"threads"},
               {"codegen"},
               {"program"}},
              {}};
  for (size_t i = 0; i < reports.size(); ++i) {
    const TuneReport& r = reports[i];
    const Result<matmul::MatmulProblem> p = matmul::parse_problem(r.problem);
    const double b_bytes = p.ok() ? 4.0 * static_cast<double>(p->n) * static_cast<double>(p->k) : 0;
    const double limit = ceilings[i];
    const bool timed = r.winner.ns > 0;  // not so when interrupted before the confirmation, or without an element
    auto when = [](bool condition, double value) { return condition ? Cell(value) : Cell(); };
    table.add({r.problem, decision_of(r), when(timed, r.fallback.ns), when(timed, r.fallback.ns / 1e3),
               when(timed, r.winner.ns), when(timed, r.winner.ns / 1e3), when(timed, r.winner.gflops),
               when(timed && limit > 0, r.winner.gflops / limit * 100), when(timed, b_bytes / r.winner.ns),
               when(timed, r.speedup), timed ? Cell(Range{r.speedup_lo, r.speedup_hi}) : Cell(),
               when(r.noise_bound > 0, r.noise_bound), when(r.noise_bound > 0, r.noise_bound * 100),
               fmt::format("{} of {}", r.measured, r.enumerated), int64_t{r.measured}, int64_t{r.enumerated},
               int64_t{r.winner.threads}, r.winner.codegen, r.winner.program});
  }
  return table;
}

Json report_json(const TuneReport& r) {
  auto timed = [&r](double value) { return r.winner.ns > 0 ? Json(value) : Json(nullptr); };
  auto plan = [&](const autotune::TunedPlan& p) {
    return Json{{"program", p.program},   {"codegen", p.codegen}, {"threads", p.threads},
                {"numerics", p.numerics}, {"ns", timed(p.ns)},    {"gflops", timed(p.gflops)}};
  };
  return {{"problem", r.problem},
          {"decision", decided(r) ? Json(db::verdict_name(r.decision)) : Json(nullptr)},
          {"winner", plan(r.winner)},
          {"default", plan(r.fallback)},
          {"speedup", r.speedup},
          {"speedup_ci95", {r.speedup_lo, r.speedup_hi}},
          {"noise_bound", r.noise_bound},
          {"enumerated", r.enumerated},
          {"measured", r.measured},
          {"rejected_wrong", r.rejected_wrong},
          {"crashed", r.crashed},
          {"refused", r.refused},
          {"rounds", r.rounds},
          {"seconds", r.seconds},
          {"run", r.run_id},
          {"interrupted", r.interrupted}};
}

// The FMA ceiling in the state that tuning has left the clock in; 0 when it cannot be measured.
double ceiling_now(const Machine& machine, int threads) {
  Result<autotune::CeilingProbe> probe = autotune::CeilingProbe::create(machine, threads);
  if (!probe.ok()) return 0;
  std::vector<double> windows;
  for (int i = 0; i < kCeilingWindows; ++i) windows.push_back(probe->gflops());
  return autotune::median(windows);
}

struct Setup {
  std::vector<matmul::Shape> shapes;
  autotune::TuneOptions options;
  double budget = 0;  // for all problems
  Format format = Format::kMd;
  bool json = false;  // an object as soon as a problem is done, for whoever reads along
  Machine machine;
  std::unique_ptr<db::Store> store;
};

Result<Setup> prepare(const TuneArgs& args) {
  Setup s;
  HONE_ASSIGN_OR_RETURN(s.shapes, args.problems.resolve());
  HONE_ASSIGN_OR_RETURN(s.format, parse_format(args.json ? "json" : args.output));
  s.json = s.format == Format::kJson || s.format == Format::kJsonl;
  HONE_ASSIGN_OR_RETURN(s.options.codegens, parse_codegens(args.codegen));
  HONE_ASSIGN_OR_RETURN(s.options.threads, parse_threads(args.threads));
  s.budget = kDefaultSecondsPerProblem * static_cast<double>(s.shapes.size());
  if (!args.budget.empty()) {
    HONE_ASSIGN_OR_RETURN(s.budget, parse_duration(args.budget));
  }
  s.options.cache = args.cache == "warm" ? autotune::CacheMode::kWarm : autotune::CacheMode::kCold;
  s.options.fresh = args.fresh;
  autotune::SteadyClock clock;
  s.options.seed = args.seed != 0 ? args.seed : static_cast<uint64_t>(clock.now_ns());
  HONE_ASSIGN_OR_RETURN(s.machine, detect_machine());
  s.options.max_threads = threads_in_force(s.machine).threads;
  note_ignored_variables(s.machine);
  HONE_ASSIGN_OR_RETURN(s.store, open_store(args.db, db::OpenMode::kReadWrite));
  return s;
}

// A problem whose C has no elements takes no time with any plan: the default is kept without a measurement, and
// nothing is stored that a clock's own cost would decide.
TuneReport nothing_to_tune(const matmul::MatmulProblem& problem, const Machine& machine,
                           const autotune::TuneOptions& options) {
  TuneReport report;
  report.problem = matmul::to_string(problem);
  const int threads = options.threads.empty() ? threads_in_force(machine).threads : options.threads.front();
  const Result<plan::MatmulPlan> plan =
      plan::resolve(problem, plan::make_target(machine, threads, jit::compiling_generators()), plan::Decisions());
  if (plan.ok()) {
    report.winner = {matmul::to_string(plan->program), plan->codegen, plan->threads, plan->numerics};
    report.fallback = report.winner;
  }
  note(fmt::format("{}: C has no elements, there is nothing to tune", report.problem));
  return report;
}

Result<TuneReport> tune_one(const matmul::MatmulProblem& problem, Setup& s, ProgressLine& progress) {
  if (problem.m == 0 || problem.n == 0) return nothing_to_tune(problem, s.machine, s.options);
  const autotune::TuneContext context{s.machine, *s.store, [&](const autotune::Progress& p) { progress.show(p); },
                                      &interrupted()};
  Result<TuneReport> report = autotune::tune(problem, s.options, context);
  progress.clear();
  return report;
}

void measure_peak(Setup& s) {
  const Result<autotune::Peak> peak =
      autotune::measure_peak(s.machine, {.seconds = std::min(kPeakSeconds, s.budget / 10)});
  if (!peak.ok()) return note(peak.status().message());
  s.options.peak = *peak;
  note(fmt::format("peak {:.1f} GFLOP/s on 1 thread, {:.1f} on all; read {:.1f} and {:.1f} GB/s; seed {}",
                   peak->f32_gflops_1t, peak->f32_gflops_all, peak->read_gbs_1t, peak->read_gbs_all, s.options.seed));
}

// The exit code, and on stderr what a table does not show.
int summary(const Setup& s, const std::vector<TuneReport>& reports, const Status& failure) {
  if (interrupted()) {
    int measured = 0;
    for (const TuneReport& r : reports) measured += r.measured;
    const auto decided_count = std::count_if(reports.begin(), reports.end(), decided);
    note(fmt::format("interrupted: {} of {} problem(s) decided; samples of {} candidate(s) are kept in {}",
                     decided_count, s.shapes.size(), measured, s.store->path()));
    return kInterrupted;
  }
  if (!failure.ok()) return fail(failure);
  if (s.store->mode() != db::OpenMode::kReadWrite)
    return fail(failed_precondition(fmt::format("tuned, but nothing is kept: {}", s.store->message())));
  return kDone;
}

int run_tune(const TuneArgs& args) {
  Result<Setup> setup = prepare(args);
  if (!setup.ok()) return fail(setup.status());
  Setup& s = *setup;
  autotune::SteadyClock clock;
  const int64_t begun = clock.now_ns();
  auto spent = [&] { return static_cast<double>(clock.now_ns() - begun) * 1e-9; };
  measure_peak(s);

  ProgressLine progress(s.shapes.size());
  std::vector<TuneReport> reports;
  std::vector<double> ceilings;
  Status failure;
  for (size_t i = 0; i < s.shapes.size() && !interrupted(); ++i) {
    // What earlier problems left over or overdrew is shared by the rest.
    const double left = std::max(s.budget - spent(), 0.0);
    s.options.budget_seconds = std::max(left / static_cast<double>(s.shapes.size() - i), 0.05);
    progress.begin(i, left - s.options.budget_seconds);
    Result<TuneReport> report = tune_one(s.shapes[i].problem, s, progress);
    if (!report.ok()) {
      // One problem that is too large for this machine must not cost the others their turn.
      if (!failure.ok()) note(fmt::format("error: {}", failure.message()));
      failure = Status(report.status().code(),
                       fmt::format("{}: {}", matmul::to_string(s.shapes[i].problem), report.status().message()));
      continue;
    }
    if (s.json) print("{}\n", dump(report_json(*report)));
    if (!report->not_stored.empty() && s.store->mode() == db::OpenMode::kReadWrite)
      failure = resource_exhausted(fmt::format("{}: not all is kept: {}", report->problem, report->not_stored));
    if (!decided(*report) && report->not_stored.empty() && !report->interrupted)
      note(fmt::format("{}: too few rounds for a decision within the budget; the samples are kept", report->problem));
    ceilings.push_back(report->winner.ns > 0 ? ceiling_now(s.machine, report->winner.threads) : 0);
    reports.push_back(std::move(*report));
  }
  if (!s.json) write_results(render(report_table(reports, ceilings), s.format));
  return summary(s, reports, failure);
}

}  // namespace

void add_tune(CLI::App& app, Run& run) {
  CLI::App* command = app.add_subcommand(
      "tune", "find the fastest plan for each problem and keep it (default: the shipped decoder shapes)");
  auto args = std::make_shared<TuneArgs>();
  args->problems.add_to(*command);
  command->add_option("--budget", args->budget, "time for all problems together, such as 60s (default: 10 s each)")
      ->check(not_empty());
  command->add_option("--codegen", args->codegen, "code generators to try, such as asmjit,llvm (default: all)")
      ->check(not_empty());
  command
      ->add_option("--threads", args->threads,
                   "thread counts to try, such as 1,2 (default: 1, 2, 4 .. HONE_THREADS or all usable CPUs)")
      ->check(not_empty());
  command->add_option("--cache", args->cache, "cold (default): weights come from memory, as in a model; warm: cache")
      ->check(CLI::IsMember({"warm", "cold"}));
  command->add_option("--numerics", args->numerics, "classes that may compete; this build has one")
      ->check(CLI::IsMember({"ordered", "any"}));
  command
      ->add_option("--seed", args->seed,
                   "of operands and of the order in rounds (default: from the clock; it is printed)")
      ->check(CLI::NonNegativeNumber);
  command->add_flag("--fresh", args->fresh, "earlier winners are no incumbents");
  command->add_option("--db", args->db, "database file")->check(not_empty());
  command->add_option("-o,--output", args->output, "md, csv, json, jsonl or sql");
  command->add_flag("--json", args->json, "same as -o json: one object a line for each problem");
  command->callback([args, &run] { run = [args] { return run_tune(*args); }; });
}

}  // namespace hone::cli
