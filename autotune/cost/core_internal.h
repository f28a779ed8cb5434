// What the cost models of all ops take from CostMachine, and what every x86 core with AVX2 has had since 2013 (Haswell
// to Sapphire Rapids, Zen 2 to 5): two fma pipes of 4 cycles, two load ports.
#pragma once

#include <algorithm>

#include "autotune/cost/cost.h"

namespace hone::autotune {

inline constexpr double kFmaPipes = 2;
inline constexpr double kLoadPorts = 2;
inline constexpr double kFmaLatency = 4;

// The clock that the measured peak implies: peak = pipes x 2 flops x lanes x GHz.
inline double core_ghz(const CostMachine& m) { return m.gflops_1t / (kFmaPipes * 2 * m.widest_lanes); }

// What `threads` threads read from memory together.
inline double dram_gbs(const CostMachine& m, int threads) {
  if (threads <= 1) return m.dram_gbs_1t;
  return std::min(m.dram_gbs_1t * threads, std::max(m.dram_gbs_all, m.dram_gbs_1t));
}

// Threads that run at once.
inline int parallel_threads(const CostMachine& m, int threads) {
  return std::max(1, std::min(threads, std::max(m.cpus, 1)));
}

}  // namespace hone::autotune
