// What the two halves of the oneDNN peer share: matmul (onednn.cpp) and attention made of it (onednn_attention.cpp).
#pragma once

#include <omp.h>
#include <dnnl.hpp>

#include <unordered_map>
#include <vector>

#include "bench/peers/attention_internal.h"

namespace hone::peers {

using Arguments = std::unordered_map<int, dnnl::memory>;

inline dnnl::engine& cpu() {
  static dnnl::engine engine(dnnl::engine::kind::cpu, 0);
  return engine;
}

constexpr auto kF32 = dnnl::memory::data_type::f32;

std::vector<Named<AttentionWay>> attention_ways(const HonePeerAttention& problem);

}  // namespace hone::peers
