// hone tune: measures candidates for each problem and stores the winners.
#include "autotune/tune.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <ctime>

#include "autotune/isolate/worker.h"
#include "autotune/regions.h"
#include "autotune/search/stats.h"
#include "autotune/session.h"
#include "engine/base/env.h"
#include "engine/plan/resolver.h"
#include "tools/hone/cli.h"
#include "tools/hone/regions.h"
#include "tools/hone/replay.h"
#include "tools/hone/tune_graph.h"
#include "tools/hone/tune_model.h"
#include "tools/hone/tune_progress.h"
#include "tools/hone/tune_report.h"

namespace hone::cli {
namespace {

using autotune::Session;
using autotune::TuneReport;

struct TuneArgs {
  ProblemArgs problems;
  std::string budget, codegen, threads, db;
  std::string cache, output = "md", numerics, isolation = "on";
  uint64_t seed = 0;
  bool fresh = false, exhaustive = false, remeasure = false, json = false;
  ReplayArgs replay;
  TuneGraphArgs graph;
  TuneModelArgs model;
};

constexpr double kDefaultSecondsPerProblem = 10;
constexpr double kPeakSeconds = 1;
constexpr double kRegionSeconds = 1.2;
constexpr double kLeastBudgetForRegions = 3;  // of which a tenth is enough for an answer
constexpr int kCeilingWindows = 25;           // about 5 ms

// The ceiling of programs of a numerics class in the state that tuning has left the clock in; 0 when it cannot be
// measured.
double ceiling_now(const Machine& machine, const runtime::ScheduleRequest& schedule, std::string_view numerics) {
  Result<autotune::CeilingProbe> probe = autotune::CeilingProbe::create(machine, schedule);
  if (!probe.ok()) return 0;
  std::vector<double> windows;
  for (int i = 0; i < kCeilingWindows; ++i)
    windows.push_back(autotune::by_dot_products(numerics) ? probe->bf16_gflops() : probe->gflops());
  return autotune::median(windows);
}

struct Setup {
  std::vector<op::Shape> shapes;
  std::vector<int64_t> panels;        // of packed weights, problem by problem; empty: free
  std::vector<std::string> numerics;  // problem by problem; empty: all as the options say
  std::vector<double> shares;         // of the budget, problem by problem; empty: equal ones
  std::optional<ModelTune> model;     // whose problems these are
  autotune::TuneOptions options;
  double budget = 0;  // seconds, for all problems
  Format format = Format::kMd;
  bool json = false;  // an object as soon as a problem is done, for whoever reads along
  Machine machine;
  std::unique_ptr<db::Store> store;
  std::unique_ptr<autotune::Isolation> isolation;  // null: off
  plan::RegionPolicy regions;
  Json regions_shown;
};

void use_regions(Setup& s) {
  s.options.max_threads = s.regions.schedule.threads;
  s.options.schedule = s.regions.schedule.kind;
  s.options.min_work = s.regions.min_work;
}

Status take_problems_of_model(const TuneArgs& args, Setup& s) {
  const int threads = s.options.threads.empty() ? s.regions.schedule.threads
                                                : *std::max_element(s.options.threads.begin(), s.options.threads.end());
  TuneModelArgs asked = args.model;
  asked.numerics = args.numerics;
  Result<ModelTune> model = ModelTune::create(asked, args.db, threads);
  if (!model.ok()) return model.status();
  s.model = *std::move(model);
  s.shapes = s.model->shapes();
  s.panels = s.model->panels();
  s.numerics = s.model->numerics();
  if (args.cache.empty() && fits_in_cache(s.model->weight_bytes(), s.machine))
    s.options.cache = autotune::CacheMode::kWarm;
  note(fmt::format("{}: {} problems", args.model.file, s.shapes.size()));
  return {};
}

Result<Setup> prepare(const TuneArgs& args) {
  Setup s;
  if (args.model.file.empty()) {
    HONE_ASSIGN_OR_RETURN(s.shapes, args.problems.resolve());
  }
  HONE_ASSIGN_OR_RETURN(s.format, parse_format(args.json ? "json" : args.output));
  s.json = s.format == Format::kJson || s.format == Format::kJsonl;
  HONE_ASSIGN_OR_RETURN(s.options.codegens, parse_codegens(args.codegen));
  HONE_ASSIGN_OR_RETURN(s.options.threads, parse_threads(args.threads));
  s.options.cache = args.cache == "warm" ? autotune::CacheMode::kWarm : autotune::CacheMode::kCold;
  s.options.fresh = args.fresh;
  s.options.numerics = args.numerics;
  autotune::SteadyClock clock;
  s.options.seed = args.seed != 0 ? args.seed : static_cast<uint64_t>(clock.now_ns());
  HONE_ASSIGN_OR_RETURN(s.machine, executing_machine());
  HONE_ASSIGN_OR_RETURN(s.store, open_store(args.db, db::OpenMode::kReadWrite));
  HONE_ASSIGN_OR_RETURN(s.regions,
                        region_policy_in_force(s.store.get(), s.machine, threads_in_force(s.machine).threads));
  use_regions(s);
  if (!args.budget.empty()) {  // before a model is read
    const Result<double> budget = parse_duration(args.budget);
    if (!budget.ok()) return invalid_argument(fmt::format("--budget {}", budget.status().message()));
    s.budget = *budget;
  }
  if (!args.model.file.empty()) HONE_RETURN_IF_ERROR(take_problems_of_model(args, s));
  if (!s.model) HONE_RETURN_IF_ERROR(check_numerics(s.shapes, args.numerics));
  if (args.budget.empty()) s.budget = kDefaultSecondsPerProblem * static_cast<double>(s.shapes.size());
  for (int threads : s.options.threads)
    if (threads > 1 && s.regions.source == "HONE_SCHEDULE" && s.regions.schedule.threads == 1)
      return invalid_argument(fmt::format("--threads {} needs more than HONE_SCHEDULE=sequential has", threads));
  // The very file that runs here, also when its name has another version by now.
  if (args.isolation == "on")
    s.isolation = std::make_unique<autotune::Isolation>(autotune::WorkerCommand{"/proc/self/exe", {kTuneWorker}},
                                                        [](const std::string& message) { note(message); });
  return s;
}

// A problem whose output has no elements takes no time with any plan: the default is kept without a measurement, and
// nothing is stored that a clock's own cost would decide.
TuneReport nothing_to_tune(const op::Problem& problem, const Machine& machine, const autotune::TuneOptions& options) {
  TuneReport report;
  report.problem = op::to_string(problem);
  const int threads = options.threads.empty() ? options.max_threads : options.threads.front();
  const Result<plan::Plan> plan =
      plan::resolve(problem, plan::make_target(machine, threads, jit::compiling_generators()), plan::Decisions(),
                    {.codegen = "", .numerics = options.numerics});
  if (plan.ok()) {
    report.winner = {op::to_string(plan->program), plan->codegen, plan->threads, plan->numerics};
    report.fallback = report.winner;
  }
  note(fmt::format("{}: the output has no elements, there is nothing to tune", report.problem));
  return report;
}

// Of a model: by the time that the problems take in it, at the least. None gets less than a fifth of an equal share: a
// decision needs some rounds.
void share_budget(Setup& s) {
  const autotune::Peak& peak = s.options.peak;
  if (!s.model || peak.f32_gflops_all <= 0 || peak.read_gbs_all <= 0) return;
  double sum = 0;
  for (size_t i = 0; i < s.shapes.size(); ++i) {
    const op::Shape& shape = s.shapes[i];
    const std::string numerics =
        op::narrow_numerics(shape.problem, s.numerics[i], s.machine.features, s.machine.arch());
    const bool pairs = autotune::by_dot_products(numerics) && peak.bf16_gflops_all > 0;
    s.shares.push_back(shape.weight *
                       std::max(op::flops(shape.problem) / (pairs ? peak.bf16_gflops_all : peak.f32_gflops_all),
                                op::bytes(shape.problem) / peak.read_gbs_all));
    sum += s.shares.back();
  }
  constexpr double kLeast = 0.2;
  for (double& share : s.shares) share = std::max(share, kLeast * sum / static_cast<double>(s.shapes.size()));
}

void measure_peak(Setup& s) {
  const Result<autotune::Peak> peak =
      autotune::measure_peak(s.machine, {.seconds = std::min(kPeakSeconds, s.budget / 10)});
  if (!peak.ok()) return note(peak.status().message());
  s.options.peak = *peak;
  note(fmt::format("peak {:.1f} GFLOP/s on 1 thread, {:.1f} on all; read {:.1f} and {:.1f} GB/s; seed {}",
                   peak->f32_gflops_1t, peak->f32_gflops_all, peak->read_gbs_1t, peak->read_gbs_all, s.options.seed));
}

// Once for a machine, an engine and a number of threads. What a kind pays from that HONE_SCHEDULE wants instead of the
// measured choice is no part of that record: it is found each time, and used here.
Status measure_regions_here(Setup& s, bool again) {
  if (s.regions.schedule.threads == 1) return again ? failed_precondition("there is one thread") : Status();
  const auto unix_now = [] { return static_cast<int64_t>(std::time(nullptr)); };
  const autotune::RegionOptions options{.threads = s.regions.schedule.threads,
                                        .seconds = std::min(kRegionSeconds, s.budget / 10),
                                        .seed = s.options.seed,
                                        .stop = &interrupted()};
  if (again || !s.regions.measured || !autotune::is_current(*s.regions.measured, unix_now())) {
    HONE_ASSIGN_OR_RETURN(db::ScheduleChoice choice, autotune::measure_regions(s.machine, options));
    choice.measured_at = unix_now();
    if (const Status kept = s.store->save_schedule(choice); !kept.ok() && s.store->mode() != db::OpenMode::kReadOnly)
      note(fmt::format("how regions run is not kept: {}", kept.message()));
    HONE_ASSIGN_OR_RETURN(const plan::ScheduleWish wish, plan::schedule_wish());
    s.regions = plan::region_policy({choice}, s.machine, choice.threads, wish);
    if (choice.min_work == 0)
      note("no work was found from which regions pay, as on a busy machine; the next tune looks again");
  }
  if (s.regions.overruled) {
    HONE_ASSIGN_OR_RETURN(s.regions.min_work,
                          autotune::measure_smallest_work(s.machine, s.regions.schedule.kind, options));
  }
  return {};
}

void measure_regions(Setup& s, bool again) {
  const std::vector<int>& asked = s.options.threads;
  const bool opens_regions = asked.empty() || *std::max_element(asked.begin(), asked.end()) > 1;
  if (again || (opens_regions && s.budget >= kLeastBudgetForRegions))
    if (const Status measured = measure_regions_here(s, again); !measured.ok())
      note(fmt::format("how regions run was not measured: {}", measured.message()));
  use_regions(s);
  s.regions_shown = regions_json(s.regions);
  note(fmt::format("schedule {}", regions_text(s.regions_shown, "; ")));
}

// One command: the session it is part of, and what became of each problem.
class TuneCommand {
 public:
  TuneCommand(Setup& setup, bool exhaustive, bool remeasure)
      : s_(setup),
        exhaustive_(exhaustive),
        remeasure_(remeasure),
        progress_(setup.shapes.size()),
        begun_(clock_.now_ns()) {}

  int run() {
    measure_peak(s_);
    measure_regions(s_, remeasure_);
    share_budget(s_);
    std::vector<op::Problem> problems;
    for (const op::Shape& shape : s_.shapes) problems.push_back(shape.problem);
    Session session = Session::open(*s_.store, s_.machine, problems, s_.options);
    if (session.resumed())
      note(fmt::format("taking up the tune of {} UTC: {} of {} problem(s) are decided", utc(session.started_at()),
                       session.decided_count(), problems.size()));
    for (size_t i = 0; i < problems.size() && !interrupted(); ++i) {
      if (std::optional<TuneReport> report = session.decided(i)) {
        spent_before_ += report->seconds;
        TuneRow row{.report = *std::move(report), .resumed = true};
        if (exhaustive_ && row.report.winner.ns > 0) measure_all(problems[i], &row);
        finish(std::move(row));
      } else {
        tune(i, session);
      }
    }
    if (!s_.json) write_results(render(report_table(rows_), s_.format));
    print_regret();
    if (s_.model && !interrupted() && failure_.ok())
      failure_ = s_.model->report(rows_, s_.format, *s_.store, s_.machine);
    // What could not be measured now is no better measured by taking it up again.
    if (Status s = session.end(!interrupted());
        !s.ok() && failure_.ok() && s_.store->mode() == db::OpenMode::kReadWrite)
      failure_ = s;
    return summary();
  }

 private:
  double spent() { return spent_before_ + static_cast<double>(clock_.now_ns() - begun_ - unbudgeted_) * 1e-9; }

  // Of problem i in what is left for it and those behind it.
  double share(size_t i) const {
    if (s_.shares.empty()) return 1 / static_cast<double>(s_.shapes.size() - i);
    double sum = 0;
    for (size_t j = i; j < s_.shares.size(); ++j) sum += s_.shares[j];
    return s_.shares[i] / sum;
  }

  void tune(size_t i, const Session& session) {
    const op::Problem& problem = s_.shapes[i].problem;
    // What earlier problems left over or overdrew is shared by the rest.
    const double left = std::max(s_.budget - spent(), 0.0);
    s_.options.budget_seconds = std::max(left * share(i), 0.05);
    s_.options.panel = s_.panels.empty() ? 0 : s_.panels[i];
    if (!s_.numerics.empty()) s_.options.numerics = s_.numerics[i];
    session.resume(i, &s_.options);
    progress_.begin(i, left - s_.options.budget_seconds);
    Result<TuneReport> report = tune_one(problem, s_.options);
    spent_before_ += s_.options.spent_seconds;
    if (!report.ok()) return failed(problem, report.status());
    TuneRow row{.report = *std::move(report)};
    if (!row.report.not_stored.empty() && s_.store->mode() == db::OpenMode::kReadWrite)
      failure_ = resource_exhausted(fmt::format("{}: not all is kept: {}", row.report.problem, row.report.not_stored));
    if (!is_decided(row.report) && row.report.not_stored.empty() && !row.report.interrupted)
      note(
          fmt::format("{}: too few rounds for a decision within the budget; the samples are kept", row.report.problem));
    if (row.report.winner.ns > 0)
      row.ceiling_gflops =
          ceiling_now(s_.machine, {s_.options.schedule, row.report.winner.threads}, row.report.winner.numerics);
    if (exhaustive_ && row.report.winner.ns > 0 && !interrupted()) measure_all(problem, &row);
    finish(std::move(row));
  }

  Result<TuneReport> tune_one(const op::Problem& problem, const autotune::TuneOptions& options) {
    if (op::empty(problem)) return nothing_to_tune(problem, s_.machine, options);
    const autotune::TuneContext context{s_.machine, *s_.store, [&](const autotune::Progress& p) { progress_.show(p); },
                                        &interrupted(), s_.isolation.get()};
    Result<TuneReport> report = autotune::tune(problem, options, context);
    progress_.clear();
    if (report.ok()) note_crashes(*report);
    return report;
  }

  // A code generator that is broken throughout would fill the terminal.
  static void note_crashes(const TuneReport& report) {
    constexpr size_t kShown = 5;
    for (size_t i = 0; i < std::min(kShown, report.crashes.size()); ++i)
      note(fmt::format("{}: a candidate crashed: {}; repeat: {}", report.problem, report.crashes[i].how,
                       report.crashes[i].command));
    if (report.crashes.size() > kShown)
      note(fmt::format("{}: {} more candidates crashed; all are recorded with run {}", report.problem,
                       report.crashes.size() - kShown, report.run_id));
  }

  // Everything there is against what the budget has found.
  void measure_all(const op::Problem& problem, TuneRow* row) {
    const int64_t begin = clock_.now_ns();
    autotune::TuneOptions options = s_.options;
    options.search_all = true;
    options.session_id = options.resume_run = 0;
    options.spent_seconds = 0;
    options.incumbent = row->report.winner;
    Result<TuneReport> all = tune_one(problem, options);
    unbudgeted_ += clock_.now_ns() - begin;
    if (!all.ok()) return failed(problem, all.status());
    if (!all->interrupted) row->exhaustive = *std::move(all);
  }

  // One problem that is too large for this machine must not cost the others their turn.
  void failed(const op::Problem& problem, const Status& why) {
    if (!failure_.ok()) note(fmt::format("error: {}", failure_.message()));
    failure_ = Status(why.code(), fmt::format("{}: {}", op::to_string(problem), why.message()));
  }

  void finish(TuneRow row) {
    if (s_.json) {
      Json json = report_json(row);
      json["schedule"] = s_.regions_shown;
      print("{}\n", dump(json));
    }
    rows_.push_back(std::move(row));
  }

  void print_regret() const {
    double sum = 0;
    int count = 0;
    for (const TuneRow& row : rows_) {
      if (!row.exhaustive) continue;
      sum += std::log1p(regret(*row.exhaustive));
      ++count;
    }
    if (count > 0)
      note(fmt::format("regret against measuring everything: {:.2f}% in geomean over {} problem(s), {} each",
                       std::expm1(sum / count) * 100, count,
                       duration(s_.budget / static_cast<double>(s_.shapes.size()))));
  }

  static std::string duration(double seconds) { return fmt::format("{:.3g} s", seconds); }

  // The exit code, and on stderr what a table does not show.
  int summary() const {
    if (interrupted()) {
      int measured = 0;
      for (const TuneRow& row : rows_) measured += row.report.measured;
      const auto decided =
          std::count_if(rows_.begin(), rows_.end(), [](const TuneRow& r) { return is_decided(r.report); });
      note(fmt::format(
          "interrupted: {} of {} problem(s) decided; samples of {} candidate(s) are kept in {}; the same "
          "command{} takes it up again",
          decided, s_.shapes.size(), measured, s_.store->path(), s_.options.fresh ? " without --fresh" : ""));
      return kInterrupted;
    }
    if (!failure_.ok()) return fail(failure_);
    if (s_.store->mode() != db::OpenMode::kReadWrite)
      return fail(failed_precondition(fmt::format("tuned, but nothing is kept: {}", s_.store->message())));
    return kDone;
  }

  autotune::SteadyClock clock_;
  Setup& s_;
  const bool exhaustive_, remeasure_;
  ProgressLine progress_;
  const int64_t begun_;
  double spent_before_ = 0;  // by earlier processes of the session
  int64_t unbudgeted_ = 0;   // by --exhaustive
  std::vector<TuneRow> rows_;
  Status failure_;
};

int run_tune(const TuneArgs& args) {
  const std::string output = args.json ? "json" : args.output;
  if (!args.graph.file.empty())
    return run_tune_graph(args.graph,
                          {args.budget, args.threads, args.numerics, args.db, output, args.seed, args.fresh});
  if (!args.replay.run.empty()) {
    ReplayArgs replay = args.replay;
    replay.budget = args.budget;
    replay.db = args.db;
    replay.output = output;
    return run_replay(replay);
  }
  Result<Setup> setup = prepare(args);
  if (!setup.ok()) return fail(setup.status());
  return TuneCommand(*setup, args.exhaustive, args.remeasure).run();
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
  command
      ->add_option("--cache", args->cache,
                   "cold (default): weights come from memory, as in a model; warm: from cache (default of --model "
                   "where they fit)")
      ->check(CLI::IsMember({"warm", "cold"}));
  add_numerics(*command, args->numerics);
  command
      ->add_option("--seed", args->seed,
                   "of operands and of the order in rounds (default: from the clock; it is printed)")
      ->check(seed());
  command->add_flag("--fresh", args->fresh,
                    "earlier winners are no incumbents, and a tune that was cut short is not taken up");
  command->add_flag("--remeasure", args->remeasure,
                    "measure again how regions run here (fork-join latency, smallest work that pays), which is known "
                    "for 30 days; needs a budget of 3 s");
  command->add_flag("--exhaustive", args->exhaustive,
                    "afterwards measure every candidate, however long it takes, and report what the budget had missed");
  CLI::Option* replay =
      command
          ->add_option("--replay", args->replay.run,
                       "measure nothing: search the stored samples of this run (number or uid) again, with --budget "
                       "as a list, such as 1s,3s,10s")
          ->check(not_empty());
  command->add_option("--strategy", args->replay.strategy, "with --replay: strategies, such as halving,random (all)")
      ->needs(replay)
      ->check(not_empty());
  command->add_option("--seeds", args->replay.seeds, "with --replay: how often each is repeated (100)")
      ->needs(replay)
      ->check(CLI::Range(1, 100000));
  // What has no part in a replay is a mistake there.
  for (const char* option :
       {"problem", "--shapes", "--codegen", "--threads", "--cache", "--fresh", "--remeasure", "--exhaustive"})
    replay->excludes(command->get_option(option));
  command
      ->add_option("--isolation", args->isolation,
                   "on (default): candidates run in a process of their own, which may crash; off: in this one, as a "
                   "debugger likes it")
      ->check(CLI::IsMember({"on", "off"}));
  args->graph.add_to(*command);
  args->model.add_to(*command);
  command->add_option("--db", args->db, "database file")->check(not_empty());
  command->add_option("-o,--output", args->output, "md, csv, json, jsonl or sql");
  command->add_flag("--json", args->json, "same as -o json: one object a line for each problem");
  command->callback([args, &run] { run = [args] { return run_tune(*args); }; });
}

void add_tune_worker(CLI::App& app, Run& run) {
  CLI::App* command = app.add_subcommand(kTuneWorker)->group("");
  command->callback([&run] {
    run = [] {
      const int code = autotune::run_worker();
      return code == kUsage ? fail(invalid_argument("`hone tune` starts its workers itself")) : code;
    };
  });
}

}  // namespace hone::cli
