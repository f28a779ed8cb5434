// See workload.h.
#include "autotune/measure/workload.h"

#include "autotune/measure/workloads_internal.h"

namespace hone::autotune {

Result<std::unique_ptr<Workload>> make_workload(const op::Problem& problem, uint64_t seed,
                                                std::shared_ptr<Weights>* weights) {
  return std::visit([&](const auto& p) { return make_workload_of(p, seed, weights); }, problem);
}

double operand_bytes(const op::Problem& problem) {
  return std::visit([](const auto& p) { return operand_bytes_of(p); }, problem);
}

}  // namespace hone::autotune
