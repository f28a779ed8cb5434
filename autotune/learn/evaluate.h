// Would a learned order have been better on a problem that it has never seen? Models are trained on all problems but
// the held-out ones and judged there, against the analytical order and by what matters: the rank correlation with the
// true times, and the regret when only the first kFirst of an order are measured.
#pragma once

#include <atomic>
#include <string>
#include <vector>

#include "autotune/learn/ranker.h"
#include "autotune/learn/samples.h"

namespace hone::autotune {

inline constexpr int kFirst = 32;
// Fewer than this say nothing about another problem.
inline constexpr int kFewestProblems = 3;
inline constexpr int kFewestCandidates = 16;  // of a problem that counts

struct OrderQuality {
  double correlation = 0;  // Spearman's, with the measured times
  double regret = 0;       // best time among the first kFirst over the best of all, minus 1
};

struct HeldOut {
  std::string problem;
  int candidates = 0;
  OrderQuality learned, analytical;
};

struct Evaluation {
  std::vector<HeldOut> problems;     // in the order of their texts
  OrderQuality learned, analytical;  // means
  int candidates = 0;
  // Better correlation, and regret that is not larger by more than measuring noise.
  bool better() const {
    return learned.correlation > analytical.correlation && learned.regret <= analytical.regret + 0.002;
  }
};

// Rank correlation of two orders of the same things; ties share their rank. 0 for fewer than two, or a constant.
double spearman(const std::vector<double>& a, const std::vector<double>& b);

// By cost of each candidate of `group`, whatever made it.
OrderQuality quality(const MeasuredGroup& group, const std::vector<double>& cost);

// exp(log estimate + learned correction) of each candidate: what order_by_cost takes.
Result<std::vector<double>> learned_cost(std::string_view model, const matmul::MatmulProblem& problem,
                                         std::span<const Candidate> candidates, const CostMachine& machine);

std::vector<TrainingRow> training_rows(const std::vector<MeasuredGroup>& groups);

// Drops groups that are too small. failed_precondition, saying how many there are and how many are needed, when what is
// left is too little.
Status keep_usable(std::vector<MeasuredGroup>& groups);

// Folds over problems: all groups of a problem are held out together. Cancelled by *stop.
Result<Evaluation> evaluate(const std::vector<MeasuredGroup>& groups, uint64_t seed, const std::atomic<bool>* stop);

}  // namespace hone::autotune
