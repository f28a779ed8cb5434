// See session.h.
#include "autotune/session.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>

#include "autotune/recorder.h"
#include "engine/base/log.h"

namespace hone::autotune {
namespace {

// What makes two commands the same session. Not the budget: who kills a tune may well come back with another one. Not
// the seed: rounds of any seed are good rounds.
Result<std::string> identity(const Machine& machine, const std::vector<op::Problem>& problems,
                             const TuneOptions& options) {
  HONE_ASSIGN_OR_RETURN(const Target target, tune_target(machine, options));
  nlohmann::json texts = nlohmann::json::array();
  for (const op::Problem& p : problems) texts.push_back(op::to_string(p));
  return nlohmann::json{{"problems", texts},
                        {"threads", target.threads},
                        {"codegens", target.codegens},
                        {"cache", options.cache == CacheMode::kCold ? "cold" : "warm"},
                        {"strategy", options.strategy},
                        {"schedule", runtime::schedule_kind_name(options.schedule)},
                        {"panel", options.panel},
                        {"numerics", options.numerics}}
      .dump();
}

// The report as tune() gave it, as far as the store has it.
Result<TuneReport> report_of(db::Store& store, const db::StoredRun& run, const op::Problem& problem) {
  HONE_ASSIGN_OR_RETURN(const std::vector<db::StoredDecision> decisions, store.decisions_of_run(run.id));
  if (decisions.empty()) return not_found("no decision");
  const db::Decision& d = decisions.front().decision;
  auto plan = [&](const db::Candidate& c, double ns) {
    return TunedPlan{c.program, c.codegen, c.threads, c.numerics, ns, op::flops(problem) / ns};
  };
  TuneReport report{.problem = op::to_string(problem),
                    .decision = d.verdict,
                    .winner = plan(d.winner, d.ns),
                    .fallback = plan(d.fallback, d.default_ns),
                    .speedup = d.speedup,
                    .speedup_lo = d.speedup_lo,
                    .speedup_hi = d.speedup_hi,
                    .noise_bound = d.noise_bound,
                    .seconds = run.spent_seconds,
                    .run_id = run.id,
                    .decided = true};
  const nlohmann::json settings = nlohmann::json::parse(run.info.settings, nullptr, false);
  if (settings.is_object() && settings.contains("enumerated") && settings["enumerated"].is_number_integer())
    report.enumerated = settings["enumerated"].get<int>();
  HONE_ASSIGN_OR_RETURN(const auto samples, store.samples(run.id, report.problem));
  std::set<int64_t> rounds[3];
  for (const auto& [candidate, list] : samples)
    for (const db::Sample& s : list) rounds[static_cast<size_t>(s.phase)].insert(s.round);
  report.measured = static_cast<int>(samples.size());
  report.rounds = static_cast<int>(rounds[static_cast<size_t>(db::Phase::kSearch)].size() +
                                   rounds[static_cast<size_t>(db::Phase::kConfirm)].size());
  HONE_ASSIGN_OR_RETURN(const std::vector<db::StoredOutcome> outcomes, store.outcomes(run.id));
  for (const db::StoredOutcome& o : outcomes) count_outcome(o.outcome, &report);
  return report;
}

}  // namespace

Session Session::open(db::Store& store, const Machine& machine, const std::vector<op::Problem>& problems,
                      const TuneOptions& options) {
  Session session(store);
  for (const op::Problem& p : problems) session.entries_.push_back({p, std::nullopt, std::nullopt});
  Status s = session.claim(machine, options);
  if (s.ok() && session.resumed_) s = session.read_runs();
  // Without a session everything is measured, and nothing is lost.
  if (!s.ok()) HONE_LOG_EVENT(LogTopic::kTune, "no_session", {{"why", s.message()}});
  return session;
}

Status Session::claim(const Machine& machine, const TuneOptions& options) {
  std::vector<op::Problem> problems;
  for (const Entry& e : entries_) problems.push_back(e.problem);
  HONE_ASSIGN_OR_RETURN(const std::string settings, identity(machine, problems, options));
  HONE_ASSIGN_OR_RETURN(const db::SessionClaim claim,
                        store_->claim_session(machine_record(machine), build_record(), settings, options.fresh));
  id_ = claim.id;
  resumed_ = claim.resumed;
  started_at_ = claim.started_at;
  return {};
}

Status Session::read_runs() {
  HONE_ASSIGN_OR_RETURN(const std::vector<db::StoredRun> runs, store_->session_runs(id_));
  // A problem that is listed twice has two runs, in the order of the list.
  std::vector<bool> taken(runs.size(), false);
  for (Entry& entry : entries_) {
    const std::string text = op::to_string(entry.problem);
    for (size_t i = 0; i < runs.size(); ++i) {
      if (taken[i] || runs[i].info.problem.text != text) continue;
      taken[i] = true;
      entry.run = runs[i];
      break;
    }
    if (!entry.run || !entry.run->decided) continue;
    HONE_ASSIGN_OR_RETURN(entry.report, report_of(*store_, *entry.run, entry.problem));
  }
  return {};
}

int Session::decided_count() const {
  return static_cast<int>(
      std::count_if(entries_.begin(), entries_.end(), [](const Entry& e) { return e.report.has_value(); }));
}

std::optional<TuneReport> Session::decided(size_t i) const { return entries_[i].report; }

void Session::resume(size_t i, TuneOptions* options) const {
  const Entry& entry = entries_[i];
  const bool under_way = entry.run && !entry.run->decided;
  options->session_id = id_;
  options->resume_run = under_way ? entry.run->id : 0;
  options->spent_seconds = under_way ? entry.run->spent_seconds : 0;
  if (under_way) options->seed = static_cast<uint64_t>(entry.run->info.seed);
}

Status Session::end(bool complete) {
  if (id_ == 0) return {};
  return complete ? store_->close_session(id_) : store_->release_session(id_);
}

}  // namespace hone::autotune
