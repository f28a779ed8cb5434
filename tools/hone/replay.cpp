// See replay.h. Nothing here is compiled or timed, so the host may be any; the order in which candidates would be
// measured is asked of the cost model for the machine that the run is labelled with.
#include "tools/hone/replay.h"

#include <fmt/format.h>

#include <charconv>
#include <numeric>
#include <sstream>

#include "autotune/learn/samples.h"
#include "autotune/search/replay.h"
#include "kernels/op/op.h"
#include "tools/hone/cli.h"
#include "tools/hone/table.h"

namespace hone::cli {
namespace {

std::vector<std::string> parts(const std::string& text) {
  std::vector<std::string> list;
  std::istringstream in(text);
  for (std::string part; std::getline(in, part, ',');) list.push_back(part);
  return list;
}

Result<db::StoredRun> find_run(db::Store& store, const std::string& text) {
  int64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  const bool is_number = error == std::errc() && end == text.data() + text.size();
  HONE_ASSIGN_OR_RETURN(const std::vector<db::StoredRun> runs, store.runs());
  for (const db::StoredRun& run : runs)
    if (run.uid == text || (is_number && run.id == number)) return run;
  if (runs.empty()) return invalid_argument(fmt::format("no run '{}' in {}: it has none", text, store.path()));
  return invalid_argument(
      fmt::format("no run '{}' in {}; the newest is {} ({})", text, store.path(), runs.front().id, runs.front().uid));
}

// In the analytical order, as the run knew its machine; as they were stored where a program cannot be read any more.
std::vector<int> measuring_order_of(const autotune::Recording& recording, const db::StoredRun& run) {
  std::vector<int> order(recording.arms.size());
  std::iota(order.begin(), order.end(), 0);
  const Result<op::Problem> problem = op::parse_problem(run.info.problem.text);
  if (!problem.ok()) return order;
  std::vector<autotune::Candidate> candidates;
  for (const autotune::Recording::Arm& arm : recording.arms) {
    const Result<op::Program> program = op::parse_program(*problem, arm.candidate.program);
    if (!program.ok()) return order;
    candidates.push_back({*program, arm.candidate.codegen, arm.candidate.threads});
  }
  return autotune::measuring_order(*problem, candidates, autotune::cost_machine_of(run));
}

struct Setup {
  std::vector<std::string> strategies;
  std::vector<double> budgets;
  Format format = Format::kMd;
  db::StoredRun run;
  autotune::Recording recording;
};

Result<Setup> prepare(const ReplayArgs& args) {
  Setup s;
  HONE_ASSIGN_OR_RETURN(s.format, parse_format(args.output));
  s.strategies = parts(args.strategy);
  if (s.strategies.empty())
    for (std::string_view name : autotune::strategy_names()) s.strategies.emplace_back(name);
  for (const std::string& name : s.strategies)
    if (const Result<autotune::Strategy> found = autotune::find_strategy(name); !found.ok())
      return typed(found.status());
  for (const std::string& budget : parts(args.budget.empty() ? "1s,3s,10s" : args.budget)) {
    HONE_ASSIGN_OR_RETURN(const double seconds, parse_duration(budget));
    s.budgets.push_back(seconds);
  }
  HONE_ASSIGN_OR_RETURN(const std::unique_ptr<db::Store> store, open_stored(args.db));
  if (store == nullptr) return invalid_argument("there is no database to replay from; name one with --db");
  HONE_ASSIGN_OR_RETURN(s.run, find_run(*store, args.run));
  if (s.run.info.problem.text.empty())
    return failed_precondition(fmt::format("run {} does not say which problem it measured", args.run));
  HONE_ASSIGN_OR_RETURN(const autotune::StoredSamples samples, store->samples(s.run.id, s.run.info.problem.text));
  Result<autotune::Recording> recording = autotune::make_recording(samples, s.run.spent_seconds);
  if (!recording.ok())
    return Status(recording.status().code(),
                  fmt::format("run {} cannot be replayed: {}", args.run, recording.status().message()));
  s.recording = std::move(*recording);
  return s;
}

Table replay_table() {
  return {"replay",
          {{"strategy"},
           {"budget_s", For::kAll, "budget s"},
           {"regret", For::kMachines},
           {"regret_p95", For::kMachines},
           {"regret_pct", For::kPeople, "regret %"},
           {"regret_p95_pct", For::kPeople, "95th pct %"},
           {"best_share", For::kAll, "best chosen"},
           {"measured"},
           {"candidates"},
           {"seconds", For::kAll, "simulated s"},
           {"threads"},
           {"codegen"},
           {"program"}},
          {}};
}

}  // namespace

int run_replay(const ReplayArgs& args) {
  const Result<Setup> setup = prepare(args);
  if (!setup.ok()) return fail(setup.status());
  const Setup& s = *setup;
  const std::vector<int> order = measuring_order_of(s.recording, s.run);
  note(fmt::format("run {}: {}, {} candidates, {} rounds; {} seeds each", s.run.id, s.run.info.problem.text,
                   s.recording.arms.size(), s.recording.baseline_ns.size(), args.seeds));
  Table table = replay_table();
  for (const std::string& name : s.strategies) {
    for (double budget : s.budgets) {
      const Result<autotune::Strategy> strategy = autotune::find_strategy(name);
      if (!strategy.ok()) return fail(strategy.status());
      const autotune::ReplayResult r =
          autotune::replay(s.recording, *strategy,
                           {.order = order, .budget_seconds = budget, .seeds = args.seeds, .stop = &interrupted()});
      if (interrupted()) return kInterrupted;
      const db::Candidate& chosen = s.recording.arms[static_cast<size_t>(r.chosen)].candidate;
      table.add({name, budget, r.regret, r.regret_p95, r.regret * 100, r.regret_p95 * 100, r.best_share, r.measured,
                 static_cast<int64_t>(s.recording.arms.size()), r.seconds, int64_t{chosen.threads}, chosen.codegen,
                 chosen.program});
    }
  }
  write_results(render(table, s.format));
  return kDone;
}

}  // namespace hone::cli
