// See cost.h.
#include "autotune/cost/cost.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <utility>

#include "autotune/cost/attention_cost.h"
#include "autotune/cost/matmul_cost.h"

namespace hone::autotune {

CostMachine cost_machine(const Machine& machine, const Peak& peak, bool cold) {
  CostMachine cost{.cpus = machine.cpus_usable, .caches = blocking_caches(machine), .cold = cold};
  if (peak.f32_gflops_1t > 0) {
    cost.gflops_1t = peak.f32_gflops_1t;
    cost.l2_gbs = peak.l2_gbs_1t;
    cost.dram_gbs_1t = peak.read_gbs_1t;
    cost.dram_gbs_all = peak.read_gbs_all;
  }
  const Result<Isa> best = machine.best_isa();
  if (best.ok()) cost.widest_lanes = isa_info(*best).lanes_f32();
  return cost;
}

double estimated_ns(const op::Problem& problem, const Candidate& candidate, const CostMachine& machine) {
  return std::visit(
      [&]<typename P, typename T>(const P& p, const T& t) -> double {
        if constexpr (requires { estimated_ns(p, t, candidate.threads, machine); }) {
          return estimated_ns(p, t, candidate.threads, machine);
        } else {
          return 0;  // a program of another op, which no space has
        }
      },
      problem, candidate.program);
}

std::vector<int> measuring_order(const op::Problem& problem, std::span<const Candidate> candidates,
                                 const CostMachine& machine) {
  std::vector<double> cost;
  for (const Candidate& c : candidates) cost.push_back(estimated_ns(problem, c, machine));
  return order_by_cost(candidates, std::move(cost));
}

std::vector<int> order_by_cost(std::span<const Candidate> candidates, std::vector<double> cost) {
  std::vector<int> order(candidates.size());
  std::iota(order.begin(), order.end(), 0);
  auto by_cost = [&](int a, int b) { return cost[static_cast<size_t>(a)] < cost[static_cast<size_t>(b)]; };
  std::stable_sort(order.begin(), order.end(), by_cost);
  std::map<std::pair<std::vector<int64_t>, int>, int> seen;
  for (int i : order) {
    const Candidate& c = candidates[static_cast<size_t>(i)];
    const int variants = seen[{std::visit([](const auto& t) { return variant_of(t); }, c.program), c.threads}]++;
    cost[static_cast<size_t>(i)] *= 1 + kVariantPenalty * variants;
  }
  std::stable_sort(order.begin(), order.end(), by_cost);
  return order;
}

}  // namespace hone::autotune
