// See evaluate.h.
#include "autotune/learn/evaluate.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <numeric>
#include <set>

#include "autotune/learn/features.h"

namespace hone::autotune {
namespace {

// One problem at a time up to here, then equal parts: ten trainings take seconds, fifty do not.
constexpr size_t kMostFolds = 10;
// A median of more rounds is no better known than the features can explain.
constexpr int kMostWeight = 8;

std::vector<double> ranks(const std::vector<double>& values) {
  std::vector<size_t> order(values.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::sort(order.begin(), order.end(), [&](size_t a, size_t b) { return values[a] < values[b]; });
  std::vector<double> rank(values.size());
  for (size_t i = 0; i < order.size();) {
    size_t end = i;
    while (end < order.size() && values[order[end]] == values[order[i]]) ++end;
    for (size_t j = i; j < end; ++j) rank[order[j]] = static_cast<double>(i + end - 1) / 2;
    i = end;
  }
  return rank;
}

std::vector<Candidate> candidates_of(const MeasuredGroup& group) {
  std::vector<Candidate> list;
  for (const MeasuredCandidate& m : group.candidates) list.push_back(m.candidate);
  return list;
}

std::vector<double> estimates(const matmul::MatmulProblem& problem, std::span<const Candidate> candidates,
                              const CostMachine& machine) {
  std::vector<double> list;
  for (const Candidate& c : candidates) list.push_back(std::max(estimated_ns(problem, c, machine), 1.0));
  return list;
}

std::vector<std::string> problems_of(const std::vector<MeasuredGroup>& groups) {
  std::set<std::string> texts;
  for (const MeasuredGroup& g : groups) texts.insert(g.text);
  return {texts.begin(), texts.end()};
}

void add(OrderQuality& sum, const OrderQuality& q, double weight) {
  sum.correlation += weight * q.correlation;
  sum.regret += weight * q.regret;
}

// A problem measured warm and cold, or on two machines of one key, is one line: the mean of its groups.
HeldOut merged(const std::string& problem, const std::vector<HeldOut>& groups) {
  HeldOut out{.problem = problem};
  for (const HeldOut& g : groups) {
    out.candidates += g.candidates;
    add(out.learned, g.learned, 1.0 / static_cast<double>(groups.size()));
    add(out.analytical, g.analytical, 1.0 / static_cast<double>(groups.size()));
  }
  return out;
}

}  // namespace

Result<Evaluation> evaluate(const std::vector<MeasuredGroup>& groups, uint64_t seed, const std::atomic<bool>* stop) {
  const std::vector<std::string> problems = problems_of(groups);
  const size_t folds = std::min(problems.size(), kMostFolds);
  std::map<std::string, std::vector<HeldOut>> held_out;
  for (size_t fold = 0; fold < folds; ++fold) {
    if (stop != nullptr && stop->load()) return unavailable("stopped");
    std::set<std::string> out;
    for (size_t i = fold; i < problems.size(); i += folds) out.insert(problems[i]);
    std::vector<MeasuredGroup> rest;
    std::copy_if(groups.begin(), groups.end(), std::back_inserter(rest),
                 [&](const MeasuredGroup& g) { return !out.contains(g.text); });
    HONE_ASSIGN_OR_RETURN(const std::string model, train_ranker(training_rows(rest), seed));
    for (const MeasuredGroup& g : groups) {
      if (!out.contains(g.text)) continue;
      const std::vector<Candidate> candidates = candidates_of(g);
      HONE_ASSIGN_OR_RETURN(const std::vector<double> learned, learned_cost(model, g.problem, candidates, g.machine));
      held_out[g.text].push_back({.problem = g.text,
                                  .candidates = static_cast<int>(candidates.size()),
                                  .learned = quality(g, learned),
                                  .analytical = quality(g, estimates(g.problem, candidates, g.machine))});
    }
  }
  Evaluation evaluation;
  for (const auto& [problem, list] : held_out) {
    evaluation.problems.push_back(merged(problem, list));
    evaluation.candidates += evaluation.problems.back().candidates;
    add(evaluation.learned, evaluation.problems.back().learned, 1.0 / static_cast<double>(problems.size()));
    add(evaluation.analytical, evaluation.problems.back().analytical, 1.0 / static_cast<double>(problems.size()));
  }
  return evaluation;
}

Status keep_usable(std::vector<MeasuredGroup>& groups) {
  std::erase_if(groups, [](const MeasuredGroup& g) { return g.candidates.size() < kFewestCandidates; });
  const size_t problems = problems_of(groups).size();
  if (problems >= kFewestProblems) return {};
  return failed_precondition(
      fmt::format("too few samples to learn from: {} problem(s) with at least {} measured candidates, {} are needed: "
                  "tune more problems",
                  problems, kFewestCandidates, kFewestProblems));
}

std::vector<TrainingRow> training_rows(const std::vector<MeasuredGroup>& groups) {
  std::vector<TrainingRow> rows;
  for (const MeasuredGroup& g : groups) {
    const std::vector<Candidate> candidates = candidates_of(g);
    const std::vector<double> estimated = estimates(g.problem, candidates, g.machine);
    const size_t first = rows.size();
    double sum = 0, weights = 0;
    for (size_t i = 0; i < candidates.size(); ++i) {
      const MeasuredCandidate& m = g.candidates[i];
      const double weight = std::min(m.rounds, kMostWeight);
      rows.push_back({features(g.problem, m.candidate, g.machine), m.log_ratio - std::log(estimated[i]), weight});
      sum += weight * rows.back().correction;
      weights += weight;
    }
    // Within a group only differences mean anything: the baseline's own error belongs to nobody.
    for (size_t i = first; i < rows.size(); ++i) rows[i].correction -= sum / weights;
  }
  return rows;
}

Result<std::vector<double>> learned_cost(std::string_view model, const matmul::MatmulProblem& problem,
                                         std::span<const Candidate> candidates, const CostMachine& machine) {
  // Neighbours often differ in the code generator only, which is no feature: one row for both.
  std::vector<std::vector<float>> rows;
  std::vector<size_t> row_of;
  for (size_t i = 0; i < candidates.size(); ++i) {
    const bool same = i > 0 && candidates[i].threads == candidates[i - 1].threads &&
                      candidates[i].program == candidates[i - 1].program;
    if (!same) rows.push_back(features(problem, candidates[i], machine));
    row_of.push_back(rows.size() - 1);
  }
  HONE_ASSIGN_OR_RETURN(const std::vector<double> corrections, predict(model, rows));
  std::vector<double> cost = estimates(problem, candidates, machine);
  for (size_t i = 0; i < cost.size(); ++i) cost[i] *= std::exp(std::clamp(corrections[row_of[i]], -5.0, 5.0));
  return cost;
}

OrderQuality quality(const MeasuredGroup& group, const std::vector<double>& cost) {
  std::vector<double> truth;
  for (const MeasuredCandidate& m : group.candidates) truth.push_back(m.log_ratio);
  const std::vector<Candidate> candidates = candidates_of(group);
  double best_first = std::numeric_limits<double>::infinity();
  const std::vector<int> order = order_by_cost(candidates, cost);
  for (size_t i = 0; i < std::min<size_t>(order.size(), kFirst); ++i)
    best_first = std::min(best_first, truth[static_cast<size_t>(order[i])]);
  return {.correlation = spearman(cost, truth),
          .regret = std::exp(best_first - *std::min_element(truth.begin(), truth.end())) - 1};
}

double spearman(const std::vector<double>& a, const std::vector<double>& b) {
  if (a.size() != b.size() || a.size() < 2) return 0;
  const std::vector<double> x = ranks(a), y = ranks(b);
  const double mean = static_cast<double>(x.size() - 1) / 2;
  double xy = 0, xx = 0, yy = 0;
  for (size_t i = 0; i < x.size(); ++i) {
    xy += (x[i] - mean) * (y[i] - mean);
    xx += (x[i] - mean) * (x[i] - mean);
    yy += (y[i] - mean) * (y[i] - mean);
  }
  return xx > 0 && yy > 0 ? xy / std::sqrt(xx * yy) : 0;
}

}  // namespace hone::autotune
