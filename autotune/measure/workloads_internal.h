// The workload of each op; workload.h dispatches.
#pragma once

#include "autotune/measure/workload.h"

namespace hone::autotune {

Result<std::unique_ptr<Workload>> make_workload_of(const matmul::MatmulProblem& problem, uint64_t seed,
                                                   std::shared_ptr<Weights>* weights);
double operand_bytes_of(const matmul::MatmulProblem& problem);

Result<std::unique_ptr<Workload>> make_workload_of(const attention::AttentionProblem& problem, uint64_t seed,
                                                   std::shared_ptr<Weights>* weights);
double operand_bytes_of(const attention::AttentionProblem& problem);

}  // namespace hone::autotune
