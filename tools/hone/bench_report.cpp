// See bench_report.h.
#include "tools/hone/bench_report.h"

#include <algorithm>
#include <cmath>

#include "autotune/search/stats.h"

namespace hone::cli {
namespace {

// What the goal calls slower: by more than this a shape counts.
constexpr double kSlower = 0.95;

constexpr std::string_view kBestPeer = "best peer";

// Median over rounds of work / time as a percentage of the ceiling of the same round. A round in which a sample was
// refused leaves the two lists unequal; then the medians are compared.
Cell percent_of(const std::vector<double>& ceiling, const std::vector<double>& times, double work) {
  if (ceiling.empty() || times.empty()) return {};
  if (ceiling.size() != times.size()) return 100 * work / autotune::median(times) / autotune::median(ceiling);
  std::vector<double> percent;
  for (size_t i = 0; i < times.size(); ++i) percent.push_back(100 * work / times[i] / ceiling[i]);
  return autotune::median(percent);
}

std::string_view name_of(Level level) {
  switch (level) {
    case Level::kL2:
      return "l2";
    case Level::kL3:
      return "l3";
    case Level::kMemory:
      break;
  }
  return "memory";
}

}  // namespace

Level level_of(const op::Problem& problem, const BlockingCaches& caches, int threads) {
  const double bytes = op::bytes(problem);
  if (bytes <= static_cast<double>(caches.l2 * threads)) return Level::kL2;
  if (bytes <= static_cast<double>(caches.l3_share * threads)) return Level::kL3;
  return Level::kMemory;
}

std::string limit_of(const op::Problem& problem, const Implementation& impl, const Ceilings& ceilings) {
  const std::vector<double>& flops = ceilings.flops_of(impl);
  if (flops.empty() || ceilings.gbs.empty() || ceilings.call_ns.empty()) return "";
  const double fma = op::flops(problem) / autotune::median(flops);
  const double move = op::bytes(problem) / autotune::median(ceilings.gbs);
  const double call = autotune::median(ceilings.call_ns);
  if (call > std::max(fma, move)) return "call";
  return std::string(fma >= move ? (impl.dots ? "dot" : "fma") : name_of(ceilings.level));
}

Table bench_table() {
  return {"bench",
          {{"problem"},
           {"impl"},
           {"threads"},
           {"ns", For::kMachines},
           {"us", For::kPeople},
           {"ns_lo", For::kMachines},
           {"ns_hi", For::kMachines},
           {"gflops"},
           {"gbs"},
           {"limit"},
           {"pct_peak"},
           {"pct_read"},
           {"ratio"},
           {"ratio_ci95"},
           {"rounds_ns", For::kMachines},
           {"cycles", For::kMachines},
           {"instructions", For::kMachines},
           {"plan"},
           {"why_not"}},
          {}};
}

std::vector<Cell> measured_row(const op::Problem& p, const Implementation& impl, int index, int threads,
                               const autotune::Race& race, const Ceilings& ceilings, const CounterReading& counted) {
  const std::vector<double> times = race.times(db::Phase::kSearch, index);
  const autotune::Interval t = autotune::median_interval(times, 0.95);
  const std::vector<double> logs = race.log_ratios(db::Phase::kSearch, index, 0);
  const autotune::Interval ratio = autotune::ratio_of(autotune::median_interval(logs, 0.95));
  const double gflops = op::flops(p) / t.mid, gbs = op::bytes(p) / t.mid;
  std::vector<Cell> row = {op::to_string(p),
                           impl.name,
                           int64_t{threads},
                           t.mid,
                           t.mid / 1e3,
                           t.lo,
                           t.hi,
                           gflops,
                           gbs,
                           limit_of(p, impl, ceilings),
                           percent_of(ceilings.flops_of(impl), times, op::flops(p)),
                           percent_of(ceilings.gbs, times, op::bytes(p))};
  if (index == 0) {
    row.insert(row.end(), {Cell(1.0), Range{1, 1}});
  } else if (logs.empty()) {  // hone's own plan was not measured
    row.insert(row.end(), {Cell(), Cell()});
  } else {
    row.insert(row.end(), {ratio.mid, Range{ratio.lo, ratio.hi}});
  }
  const auto cell = [&](Counter c) { return counted[c] ? Cell(*counted[c]) : Cell(); };
  row.insert(row.end(), {times, cell(Counter::kCycles), cell(Counter::kInstructions), impl.plan, std::string()});
  return row;
}

std::vector<Cell> failed_row(const op::Problem& p, const Implementation& impl, int threads, const std::string& why) {
  std::vector<Cell> row(bench_table().columns.size());
  row[0] = op::to_string(p), row[1] = impl.name, row[2] = int64_t{threads};
  row[row.size() - 2] = impl.plan, row.back() = why;
  return row;
}

void Summary::add(const std::string& problem, int threads, const std::string& opponent, bool is_peer, double ratio) {
  Of& of = by_threads_[threads];
  const auto [at, is_new] = of.scores.try_emplace(opponent);
  if (is_new) of.opponents.push_back(opponent);
  at->second.ratios.emplace_back(problem, ratio);
  if (!is_peer) return;
  const auto [best, first] = of.best_peer.try_emplace(problem, ratio);
  if (first) of.problems.push_back(problem);
  best->second = std::min(best->second, ratio);
}

Table Summary::table() const {
  Table table{"bench_summary",
              {{"threads"}, {"against"}, {"problems"}, {"geomean"}, {"worst"}, {"worst_problem"}, {"below_95pct"}},
              {}};
  auto add_row = [&](int threads, const std::string& against, const std::vector<std::pair<std::string, double>>& all) {
    double logs = 0;
    for (const auto& [problem, ratio] : all) logs += std::log(ratio);
    const auto worst =
        std::min_element(all.begin(), all.end(), [](const auto& a, const auto& b) { return a.second < b.second; });
    const auto slower = std::count_if(all.begin(), all.end(), [](const auto& a) { return a.second < kSlower; });
    table.add({int64_t{threads}, against, static_cast<int64_t>(all.size()),
               std::exp(logs / static_cast<double>(all.size())), worst->second, worst->first, int64_t{slower}});
  };
  for (const auto& [threads, of] : by_threads_) {
    std::vector<std::pair<std::string, double>> best;
    for (const std::string& problem : of.problems) best.emplace_back(problem, of.best_peer.at(problem));
    if (!best.empty()) add_row(threads, std::string(kBestPeer), best);
    for (const std::string& opponent : of.opponents) add_row(threads, opponent, of.scores.at(opponent).ratios);
  }
  return table;
}

}  // namespace hone::cli
