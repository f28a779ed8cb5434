// What the modules of these tests compute, in double and in plain loops: independent of graphs, of importer, exporter
// and reference. Weights are the formula that the texts were written from.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <functional>
#include <vector>

namespace hone::graph::stablehlo::naive {

using Rows = std::vector<std::vector<double>>;

// Element i of weight `seed` of modules/*.mlir.
inline double weight(int seed, int64_t i) { return static_cast<double>((i * 7 + seed * 5) % 17 - 8) / 16; }

inline Rows rows_of(int64_t rows, int64_t columns, const std::function<double(int64_t)>& at) {
  Rows out(static_cast<size_t>(rows), std::vector<double>(static_cast<size_t>(columns)));
  for (int64_t r = 0; r < rows; ++r)
    for (int64_t c = 0; c < columns; ++c) out[static_cast<size_t>(r)][static_cast<size_t>(c)] = at(r * columns + c);
  return out;
}
inline Rows weights(int seed, int64_t rows, int64_t columns, int64_t first = 0) {
  return rows_of(rows, columns, [=](int64_t i) { return weight(seed, first + i); });
}

// a [m, k] times b [k, n]
inline Rows times(const Rows& a, const Rows& b) {
  Rows c(a.size(), std::vector<double>(b[0].size(), 0));
  for (size_t i = 0; i < a.size(); ++i)
    for (size_t j = 0; j < b[0].size(); ++j)
      for (size_t p = 0; p < b.size(); ++p) c[i][j] += a[i][p] * b[p][j];
  return c;
}

inline Rows map(Rows a, const std::function<double(double)>& f) {
  for (auto& row : a)
    for (double& v : row) v = f(v);
  return a;
}
inline Rows combine(Rows a, const Rows& b, const std::function<double(double, double)>& f) {
  for (size_t i = 0; i < a.size(); ++i)
    for (size_t j = 0; j < a[i].size(); ++j) a[i][j] = f(a[i][j], b[i][j]);
  return a;
}
inline Rows plus(const Rows& a, const Rows& b) {
  return combine(a, b, [](double x, double y) { return x + y; });
}

inline double silu(double x) { return x / (1 + std::exp(-x)); }
inline double gelu_erf(double x) { return 0.5 * x * (1 + std::erf(x / std::sqrt(2.0))); }
inline double gelu_tanh(double x) {
  return 0.5 * x * (1 + std::tanh(std::sqrt(2 / M_PI) * (x + 0.044715 * x * x * x)));
}

inline std::vector<double> softmax(std::vector<double> x) {
  const double most = *std::max_element(x.begin(), x.end());
  double sum = 0;
  for (double& v : x) sum += v = std::exp(v - most);
  for (double& v : x) v /= sum;
  return x;
}

// center: LayerNorm, without bias.
inline Rows norm(Rows x, const std::vector<double>& w, double eps, bool center) {
  for (auto& row : x) {
    const auto n = static_cast<double>(row.size());
    double mean = 0, square = 0;
    for (const double v : row) mean += v / n;
    for (double& v : row) v -= center ? mean : 0;
    for (const double v : row) square += v * v / n;
    for (size_t j = 0; j < row.size(); ++j) row[j] = row[j] / std::sqrt(square + eps) * w[j];
  }
  return x;
}

// Rows of heads * size; row r at position first + r. Pairs (j, j + size / 2) or (2j, 2j + 1).
inline Rows rope(Rows x, int64_t heads, int64_t first, bool interleaved, double base = 10000) {
  const auto size = static_cast<int64_t>(x[0].size()) / heads;
  for (size_t r = 0; r < x.size(); ++r) {
    for (int64_t h = 0; h < heads; ++h) {
      for (int64_t j = 0; j < size / 2; ++j) {
        const double angle = static_cast<double>(first + static_cast<int64_t>(r)) *
                             std::pow(base, -2.0 * static_cast<double>(j) / static_cast<double>(size));
        double& a = x[r][static_cast<size_t>(h * size + (interleaved ? 2 * j : j))];
        double& b = x[r][static_cast<size_t>(h * size + (interleaved ? 2 * j + 1 : j + size / 2))];
        const double low = a * std::cos(angle) - b * std::sin(angle), high = b * std::cos(angle) + a * std::sin(angle);
        a = low;
        b = high;
      }
    }
  }
  return x;
}

// Row i of q, the last ones of those of k, sees keys j <= i + k.size() - q.size().
inline Rows attention(const Rows& q, const Rows& k, const Rows& v, int64_t heads, int64_t kv_heads) {
  const size_t size = q[0].size() / static_cast<size_t>(heads), before = k.size() - q.size();
  Rows out(q.size(), std::vector<double>(q[0].size(), 0));
  for (size_t i = 0; i < q.size(); ++i) {
    for (size_t h = 0; h < static_cast<size_t>(heads); ++h) {
      const size_t g = h / static_cast<size_t>(heads / kv_heads);
      std::vector<double> scores;
      for (size_t j = 0; j <= i + before; ++j) {
        double sum = 0;
        for (size_t c = 0; c < size; ++c) sum += q[i][h * size + c] * k[j][g * size + c];
        scores.push_back(sum / std::sqrt(static_cast<double>(size)));
      }
      const std::vector<double> shares = softmax(scores);
      for (size_t j = 0; j < shares.size(); ++j)
        for (size_t c = 0; c < size; ++c) out[i][h * size + c] += shares[j] * v[j][g * size + c];
    }
  }
  return out;
}

}  // namespace hone::graph::stablehlo::naive
