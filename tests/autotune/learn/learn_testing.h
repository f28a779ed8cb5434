// Measurements with a planted law: what the analytical model believes, off by a factor that depends on the program.
#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <string_view>
#include <vector>

#include "autotune/cost/matmul_cost.h"
#include "autotune/learn/samples.h"
#include "tests/autotune/matmul_of.h"

namespace hone::autotune {

inline matmul::MatmulProblem must_parse(std::string_view text) {
  Result<matmul::MatmulProblem> p = matmul::parse_problem(text);
  EXPECT_TRUE(p.ok()) << p.status().message();
  return *p;
}

inline CostMachine law_machine() { return {.caches = {.l1d = 48 << 10, .l2 = 2 << 20, .l3_share = 4 << 20}}; }

inline std::vector<Candidate> law_candidates(const matmul::MatmulProblem& p) {
  return enumerate(p, {.isas = {Isa::kAvx2, Isa::kAvx512},
                       .caches = law_machine().caches,
                       .threads = {1},
                       .codegens = {"asmjit"}})
      .candidates;
}

// A machine on which unrolling is slow and prefetching by distance costs, unlike anything that estimate() knows.
inline double law_ns(const matmul::MatmulProblem& p, const Candidate& c) {
  const double unroll = matmul_of(c).unroll_k > 1 ? 0.5 : 0;
  const double prefetch = matmul_of(c).prefetch_b > 0 ? 0.3 : 0;
  return estimate(p, matmul_of(c), c.threads, law_machine()).total * std::exp(unroll + prefetch);
}

// Every `stride`-th candidate, measured without noise against the first.
inline MeasuredGroup law_group(std::string_view text, size_t stride) {
  MeasuredGroup group{
      .text = std::string(text), .problem = must_parse(text), .machine = law_machine(), .candidates = {}};
  const std::vector<Candidate> all = law_candidates(group.problem);
  for (size_t i = 0; i < all.size(); i += stride)
    group.candidates.push_back({all[i], std::log(law_ns(group.problem, all[i]) / law_ns(group.problem, all[0])), 3});
  return group;
}

inline std::vector<MeasuredGroup> law_groups(size_t stride) {
  std::vector<MeasuredGroup> groups;
  for (std::string_view text :
       {"matmul:f32:m=64,n=512,k=512", "matmul:f32:m=96,n=768,k=512", "matmul:f32:m=1,n=512,k=512",
        "matmul:f32:m=8,n=512,k=1024,b=nt", "matmul:f32:m=128,n=512,k=256,b=packed"})
    groups.push_back(law_group(text, stride));
  return groups;
}

}  // namespace hone::autotune
