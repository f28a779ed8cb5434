// hone tune: measures candidates for each problem and stores the winners.
#include "autotune/tune.h"

#include <fmt/format.h>
#include <unistd.h>

#include <nlohmann/json.hpp>

#include "autotune/search/stats.h"
#include "tools/hone/cli.h"
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
                                         (1 / p.best_ratio - 1) * 100, p.seconds_left + seconds_after_);
    if (terminal_) {
      fmt::print(stderr, "\r\x1b[2K{:.{}}", line, 160);
      shown_ = true;
    } else {
      fmt::print(stderr, "{}\n", line);
    }
    std::fflush(stderr);
  }

  void clear() {
    if (shown_) fmt::print(stderr, "\r\x1b[2K");
    shown_ = false;
  }

 private:
  autotune::SteadyClock clock_;
  size_t problems_, index_ = 0;
  bool terminal_, shown_ = false;
  double last_ = 0, seconds_after_ = 0;
  std::string last_phase_;
};

// `ceilings`: GFLOP/s that the threads of each winner could do at most, measured right after it.
Table report_table(const std::vector<TuneReport>& reports, const std::vector<double>& ceilings) {
  Table table{"tune",
              {{"problem"},
               {"decision"},
               {"default us"},
               {"tuned us"},
               {"GFLOP/s"},
               {"% peak"},
               {"B GB/s"},
               {"speedup"},
               {"95% interval"},
               {"noise %"},
               {"measured"},
               {"threads"},
               {"codegen"},
               {"program"}},
              {}};
  for (size_t i = 0; i < reports.size(); ++i) {
    const TuneReport& r = reports[i];
    const Result<matmul::MatmulProblem> p = matmul::parse_problem(r.problem);
    const double b_bytes = p.ok() ? 4.0 * static_cast<double>(p->n) * static_cast<double>(p->k) : 0;
    const double limit = ceilings[i];
    table.add({r.problem, r.decided ? std::string(db::verdict_name(r.decision)) : "none", r.fallback.ns / 1e3,
               r.winner.ns / 1e3, r.winner.gflops, limit > 0 ? Cell(r.winner.gflops / limit * 100) : Cell(),
               r.winner.ns > 0 ? Cell(b_bytes / r.winner.ns) : Cell(), r.speedup,
               fmt::format("[{:.3f}, {:.3f}]", r.speedup_lo, r.speedup_hi), r.noise_bound * 100,
               fmt::format("{} of {}", r.measured, r.enumerated), int64_t{r.winner.threads}, r.winner.codegen,
               r.winner.program});
  }
  return table;
}

nlohmann::ordered_json report_json(const TuneReport& r) {
  auto plan = [](const autotune::TunedPlan& p) {
    return nlohmann::ordered_json{{"program", p.program},   {"codegen", p.codegen}, {"threads", p.threads},
                                  {"numerics", p.numerics}, {"ns", p.ns},           {"gflops", p.gflops}};
  };
  return {
      {"problem", r.problem},
      {"decision", r.decided ? nlohmann::ordered_json(db::verdict_name(r.decision)) : nlohmann::ordered_json(nullptr)},
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
  Machine machine;
  std::unique_ptr<db::Store> store;
};

Result<Setup> prepare(const TuneArgs& args) {
  Setup s;
  HONE_ASSIGN_OR_RETURN(s.shapes, args.problems.resolve());
  HONE_ASSIGN_OR_RETURN(s.format, parse_format(args.json ? "json" : args.output));
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
  HONE_ASSIGN_OR_RETURN(s.store, open_store(args.db, db::OpenMode::kReadWrite));
  return s;
}

int run_tune(const TuneArgs& args) {
  Result<Setup> setup = prepare(args);
  if (!setup.ok()) return fail(setup.status());
  Setup& s = *setup;
  autotune::SteadyClock clock;
  const int64_t begun = clock.now_ns();
  auto spent = [&] { return static_cast<double>(clock.now_ns() - begun) * 1e-9; };

  const Result<autotune::Peak> peak =
      autotune::measure_peak(s.machine, {.seconds = std::min(kPeakSeconds, s.budget / 10)});
  if (peak.ok()) {
    s.options.peak = *peak;
    note(fmt::format("peak {:.1f} GFLOP/s on 1 thread, {:.1f} on all; read {:.1f} and {:.1f} GB/s; seed {}",
                     peak->f32_gflops_1t, peak->f32_gflops_all, peak->read_gbs_1t, peak->read_gbs_all, s.options.seed));
  } else {
    note(peak.status().message());
  }

  ProgressLine progress(s.shapes.size());
  std::vector<TuneReport> reports;
  std::vector<double> ceilings;
  for (size_t i = 0; i < s.shapes.size() && !interrupted(); ++i) {
    // What earlier problems left over or overdrew is shared by the rest.
    const double left = std::max(s.budget - spent(), 0.0);
    s.options.budget_seconds = std::max(left / static_cast<double>(s.shapes.size() - i), 0.05);
    progress.begin(i, left - s.options.budget_seconds);
    const autotune::TuneContext context{s.machine, *s.store, [&](const autotune::Progress& p) { progress.show(p); },
                                        &interrupted()};
    Result<TuneReport> report = autotune::tune(s.shapes[i].problem, s.options, context);
    progress.clear();
    if (!report.ok()) return fail(report.status());
    if (s.format == Format::kJsonl || s.format == Format::kJson) {
      fmt::print("{}\n", report_json(*report).dump());
      std::fflush(stdout);
    }
    ceilings.push_back(ceiling_now(s.machine, report->winner.threads));
    reports.push_back(std::move(*report));
  }
  if (s.format != Format::kJsonl && s.format != Format::kJson)
    fmt::print("{}", render(report_table(reports, ceilings), s.format));
  if (interrupted()) {
    note(fmt::format("interrupted: what was measured of {} problem(s) is kept in {}", reports.size(), s.store->path()));
    return kInterrupted;
  }
  if (s.store->mode() != db::OpenMode::kReadWrite)
    return fail(failed_precondition(fmt::format("tuned, but nothing is kept: {}", s.store->message())));
  return kDone;
}

}  // namespace

void add_tune(CLI::App& app, Run& run) {
  CLI::App* command = app.add_subcommand(
      "tune", "find the fastest plan for each problem and keep it (default: the shipped decoder shapes)");
  auto args = std::make_shared<TuneArgs>();
  args->problems.add_to(*command);
  command->add_option("--budget", args->budget, "time for all problems together, such as 60s (default: 10 s each)");
  command->add_option("--codegen", args->codegen, "code generators to try, such as asmjit,llvm (default: all)");
  command->add_option("--threads", args->threads, "thread counts to try, such as 1,2 (default: 1 to all usable CPUs)");
  command->add_option("--cache", args->cache, "cold: weights come from memory, as in a model; warm: from cache")
      ->check(CLI::IsMember({"warm", "cold"}));
  command->add_option("--numerics", args->numerics, "classes that may compete; this build has one")
      ->check(CLI::IsMember({"ordered", "any"}));
  command->add_option("--seed", args->seed,
                      "of operands and of the order in rounds (default: from the clock; it is printed)");
  command->add_flag("--fresh", args->fresh, "earlier winners are no incumbents");
  command->add_option("--db", args->db, "database file");
  command->add_option("-o,--output", args->output, "md, csv, json, jsonl or sql");
  command->add_flag("--json", args->json, "one JSON object a problem");
  command->callback([args, &run] { run = [args] { return run_tune(*args); }; });
}

}  // namespace hone::cli
