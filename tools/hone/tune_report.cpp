// See tune_report.h.
#include "tools/hone/tune_report.h"

#include <fmt/format.h>

#include <algorithm>

#include "kernels/op/op.h"

namespace hone::cli {
namespace {

using autotune::TuneReport;

std::string decision_of(const TuneReport& r) {
  return is_decided(r) ? std::string(db::verdict_name(r.decision)) : "none";
}

Cell when(bool condition, double value) { return condition ? Cell(value) : Cell(); }

Range regret_interval(const TuneReport& exhaustive) {
  return {std::max(0.0, exhaustive.gain_lo - 1), std::max(0.0, exhaustive.gain_hi - 1)};
}

}  // namespace

bool is_decided(const TuneReport& r) { return r.decided || r.enumerated == 0; }

const autotune::TunedPlan& best_of_all(const TuneReport& exhaustive) {
  return exhaustive.gain > 1 ? exhaustive.challenger : exhaustive.winner;
}

double regret(const TuneReport& exhaustive) { return std::max(0.0, exhaustive.gain - 1); }

Table report_table(const std::vector<TuneRow>& rows) {
  const bool with_regret = std::any_of(rows.begin(), rows.end(), [](const TuneRow& r) { return bool(r.exhaustive); });
  Table table{"tune",
              {{"problem"},
               {"decision"},
               {"default_ns", For::kMachines},
               {"default_us", For::kPeople, "default us"},
               {"ns", For::kMachines},
               {"us", For::kPeople, "tuned us"},
               {"gflops", For::kAll, "GFLOP/s"},
               {"pct_peak", For::kAll, "% peak"},
               {"b_gbs", For::kAll, "GB/s"},
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
  if (with_regret)
    table.columns.insert(table.columns.end(), {{"regret", For::kMachines},
                                               {"regret_pct", For::kPeople, "regret %"},
                                               {"regret_ci95", For::kMachines},
                                               {"exhaustive_measured"},
                                               {"best_program"}});
  for (const TuneRow& row : rows) {
    const TuneReport& r = row.report;
    const Result<op::Problem> p = op::parse_problem(r.problem);
    const double streamed = p.ok() ? op::streamed_bytes(*p) : 0;
    const double limit = row.ceiling_gflops;
    const bool timed = r.winner.ns > 0;  // not so when interrupted before the confirmation, or without an element
    std::vector<Cell> cells = {r.problem,
                               decision_of(r),
                               when(timed, r.fallback.ns),
                               when(timed, r.fallback.ns / 1e3),
                               when(timed, r.winner.ns),
                               when(timed, r.winner.ns / 1e3),
                               when(timed, r.winner.gflops),
                               when(timed && limit > 0, r.winner.gflops / limit * 100),
                               when(timed, streamed / r.winner.ns),
                               when(timed, r.speedup),
                               timed ? Cell(Range{r.speedup_lo, r.speedup_hi}) : Cell(),
                               when(r.noise_bound > 0, r.noise_bound),
                               when(r.noise_bound > 0, r.noise_bound * 100),
                               fmt::format("{} of {}", r.measured, r.enumerated),
                               int64_t{r.measured},
                               int64_t{r.enumerated},
                               int64_t{r.winner.threads},
                               r.winner.codegen,
                               r.winner.program};
    if (with_regret && row.exhaustive) {
      const TuneReport& all = *row.exhaustive;
      cells.insert(cells.end(), {regret(all), regret(all) * 100, regret_interval(all), int64_t{all.measured},
                                 best_of_all(all).program});
    } else if (with_regret) {
      cells.insert(cells.end(), 5, Cell());
    }
    table.add(std::move(cells));
  }
  return table;
}

Json report_json(const TuneRow& row) {
  const TuneReport& r = row.report;
  auto timed = [&r](double value) { return r.winner.ns > 0 ? Json(value) : Json(nullptr); };
  auto plan = [&](const autotune::TunedPlan& p) {
    return Json{{"program", p.program},   {"codegen", p.codegen}, {"threads", p.threads},
                {"numerics", p.numerics}, {"ns", timed(p.ns)},    {"gflops", timed(p.gflops)}};
  };
  Json json = {{"problem", r.problem},
               {"decision", is_decided(r) ? Json(db::verdict_name(r.decision)) : Json(nullptr)},
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
               {"order", r.order},
               {"run", r.run_id},
               {"interrupted", r.interrupted},
               {"resumed", row.resumed}};
  if (row.exhaustive) {
    const TuneReport& all = *row.exhaustive;
    const Range interval = regret_interval(all);
    json["exhaustive"] = {{"regret", regret(all)},          {"regret_ci95", {interval.lo, interval.hi}},
                          {"best", plan(best_of_all(all))}, {"measured", all.measured},
                          {"seconds", all.seconds},         {"run", all.run_id}};
  }
  return json;
}

}  // namespace hone::cli
