// Operands of a call of attention with NaN in every gap, and what a naive loop makes of them.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <string>
#include <vector>

#include "bench/peers/peer.h"
#include "tests/bench/peers_testing.h"

namespace hone {

// [batch][heads][rows][width], gaps of NaN.
struct Tensor {
  Tensor(int64_t batch, int64_t heads, int64_t rows, int64_t width, const HonePeerStrides& s, int64_t salt)
      : strides(s) {
    const int64_t all = (batch - 1) * s.batch + (heads - 1) * s.head + (rows - 1) * s.row + width;
    data.assign(static_cast<size_t>(all), kNan);
    element.assign(static_cast<size_t>(all), false);
    for (int64_t b = 0; b < batch; ++b)
      for (int64_t h = 0; h < heads; ++h)
        for (int64_t i = 0; i < rows; ++i)
          for (int64_t c = 0; c < width; ++c) {
            at(b, h, i, c) = value((b * heads + h) * rows + i, c, salt);
            element[index(b, h, i, c)] = true;
          }
  }
  size_t index(int64_t b, int64_t h, int64_t i, int64_t c) const {
    return static_cast<size_t>(b * strides.batch + h * strides.head + i * strides.row + c);
  }
  float& at(int64_t b, int64_t h, int64_t i, int64_t c) { return data[index(b, h, i, c)]; }

  HonePeerStrides strides;
  std::vector<float> data;
  std::vector<bool> element;
};

inline std::string text(const HonePeerAttention& p) {
  return "batch=" + std::to_string(p.batch) + " heads=" + std::to_string(p.heads) + "/" + std::to_string(p.kv_heads) +
         " q=" + std::to_string(p.q) + " kv=" + std::to_string(p.kv) + " d=" + std::to_string(p.d) +
         " dv=" + std::to_string(p.dv) + (p.causal ? " causal" : "") + " q_head=" + std::to_string(p.q_stride.head) +
         " threads=" + std::to_string(p.threads);
}

enum class Layout { kHeadsFirst, kRowsFirst, kGaps };

inline HonePeerStrides strides(Layout layout, int64_t heads, int64_t rows, int64_t width) {
  if (layout == Layout::kHeadsFirst) return {width, rows * width, heads * rows * width};
  if (layout == Layout::kRowsFirst) return {heads * width, width, rows * heads * width};
  const int64_t row = width + 3, head = rows * row + 5;
  return {row, head, heads * head + 7};
}

inline HonePeerAttention problem(int64_t batch, int64_t heads, int64_t kv_heads, int64_t q, int64_t kv, int64_t d,
                                 int64_t dv, Layout layout = Layout::kHeadsFirst) {
  HonePeerAttention p{batch, heads, kv_heads, q, kv, d, dv, {}, {}, {}, {}, 0, 0.5F, 1};
  p.q_stride = strides(layout, heads, q, d);
  p.k_stride = strides(layout, kv_heads, kv, d);
  p.v_stride = strides(layout, kv_heads, kv, dv);
  p.o_stride = strides(layout, heads, q, dv);
  return p;
}

// The row of O in double.
inline std::vector<double> expected_row(const HonePeerAttention& p, Tensor& q, Tensor& k, Tensor& v, int64_t b,
                                        int64_t h, int64_t i) {
  const int64_t g = h / (p.heads / p.kv_heads), keys = p.causal ? i + p.kv - p.q + 1 : p.kv;
  std::vector<double> weight(static_cast<size_t>(keys)), row(static_cast<size_t>(p.dv));
  double sum = 0;
  for (int64_t j = 0; j < keys; ++j) {
    double score = 0;
    for (int64_t c = 0; c < p.d; ++c) score += static_cast<double>(q.at(b, h, i, c)) * k.at(b, g, j, c);
    sum += weight[static_cast<size_t>(j)] = std::exp(score * p.scale);
  }
  for (int64_t j = 0; j < keys; ++j)
    for (int64_t c = 0; c < p.dv; ++c)
      row[static_cast<size_t>(c)] += weight[static_cast<size_t>(j)] / sum * v.at(b, g, j, c);
  return row;
}

// Runs `call` twice; every element of O must be right, and what lies between as it was.
inline void expect_right(const HonePeerAttention& p,
                         const std::function<int(const float*, const float*, const float*, float*)>& call) {
  Tensor q(p.batch, p.heads, p.q, p.d, p.q_stride, 1), k(p.batch, p.kv_heads, p.kv, p.d, p.k_stride, 2);
  Tensor v(p.batch, p.kv_heads, p.kv, p.dv, p.v_stride, 3), o(p.batch, p.heads, p.q, p.dv, p.o_stride, 4);
  for (int repeat = 0; repeat < 2; ++repeat) {
    std::ranges::fill(o.data, kNan);
    ASSERT_EQ(call(q.data.data(), k.data.data(), v.data.data(), o.data.data()), 0);
    for (int64_t b = 0; b < p.batch; ++b)
      for (int64_t h = 0; h < p.heads; ++h)
        for (int64_t i = 0; i < p.q; ++i) {
          const std::vector<double> want = expected_row(p, q, k, v, b, h, i);
          // A mean of values below 1: a key too many or too few of 300 is off by some 1e-3.
          for (int64_t c = 0; c < p.dv; ++c)
            ASSERT_LE(std::abs(o.at(b, h, i, c) - want[static_cast<size_t>(c)]), 2e-5)
                << "at " << b << ", " << h << ", " << i << ", " << c;
        }
    for (size_t at = 0; at < o.data.size(); ++at)
      ASSERT_TRUE(o.element[at] || std::isnan(o.data[at])) << "wrote into a gap, element " << at;
  }
}

// Prefill and decode, edges of blocks, shared KV heads, dv != d.
inline std::vector<HonePeerAttention> attention_problems() {
  std::vector<HonePeerAttention> all;
  for (const Layout layout : {Layout::kHeadsFirst, Layout::kRowsFirst, Layout::kGaps})
    for (const int causal : {0, 1})
      for (const int threads : {1, 2})
        for (HonePeerAttention p : {problem(1, 1, 1, 1, 1, 1, 1, layout), problem(2, 4, 2, 5, 37, 16, 16, layout),
                                    problem(1, 8, 2, 1, 300, 64, 64, layout), problem(2, 3, 3, 1, 65, 33, 20, layout),
                                    problem(1, 4, 1, 130, 130, 40, 24, layout)}) {
          p.causal = causal, p.threads = threads;
          all.push_back(p);
        }
  // More rows than the largest block has, of which the last is a part.
  all.push_back(problem(1, 2, 1, 300, 301, 8, 8));
  all.back().causal = 1, all.back().threads = 2;
  return all;
}

}  // namespace hone
