#include "tests/engine/model/random_model.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "engine/base/random.h"

namespace hone::model {
namespace {

struct Memory {
  std::vector<std::vector<float>> tensors;
};

class Maker {
 public:
  Maker(uint64_t seed, Memory& memory) : random_(seed), memory_(memory) {}

  Weight weight(const std::string& name, std::vector<int64_t> shape, float center, float range) {
    const int64_t count = std::accumulate(shape.begin(), shape.end(), int64_t{1}, std::multiplies<>());
    std::vector<float>& floats = memory_.tensors.emplace_back(static_cast<size_t>(count));
    for (float& f : floats) f = center + random_.uniform(-range, range);
    return {.name = name, .dtype = DType::kF32, .shape = std::move(shape), .data = std::as_bytes(std::span(floats))};
  }
  Weight matrix(const std::string& name, int64_t out, int64_t in) {
    return weight(name, {out, in}, 0, 1.7F / std::sqrt(static_cast<float>(in)));
  }
  Weight norm(const std::string& name, int64_t n) { return weight(name, {n}, 1, 0.3F); }
  Weight bias(const std::string& name, int64_t n) { return weight(name, {n}, 0, 0.5F); }

 private:
  Random random_;
  Memory& memory_;
};

}  // namespace

ModelFile random_model(const DecoderConfig& c, uint64_t seed) {
  auto memory = std::make_shared<Memory>();
  Maker make(seed, *memory);
  ModelFile file{.path = "random", .format = "memory", .config = c};
  const int64_t q = c.heads * c.head_dim, kv = c.kv_heads * c.head_dim;
  file.weights.embedding = make.weight("embedding", {c.vocabulary, c.width}, 0, 1);
  file.weights.output_norm = make.norm("output_norm", c.width);
  if (!c.tied_embeddings) file.weights.output = make.matrix("output", c.vocabulary, c.width);
  for (int64_t i = 0; i < c.layers; ++i) {
    LayerWeights l{.attention_norm = make.norm("attention_norm", c.width),
                   .q = make.matrix("q", q, c.width),
                   .k = make.matrix("k", kv, c.width),
                   .v = make.matrix("v", kv, c.width)};
    if (c.qkv_bias) {
      l.q_bias = make.bias("q_bias", q);
      l.k_bias = make.bias("k_bias", kv);
      l.v_bias = make.bias("v_bias", kv);
    }
    if (c.qk_norm) {
      l.q_norm = make.norm("q_norm", c.head_dim);
      l.k_norm = make.norm("k_norm", c.head_dim);
    }
    l.o = make.matrix("o", c.width, q);
    if (c.o_bias) l.o_bias = make.bias("o_bias", c.width);
    l.ff_norm = make.norm("ff_norm", c.width);
    l.gate = make.matrix("gate", c.ff, c.width);
    l.up = make.matrix("up", c.ff, c.width);
    l.down = make.matrix("down", c.width, c.ff);
    if (c.mlp_bias) {
      l.gate_bias = make.bias("gate_bias", c.ff);
      l.up_bias = make.bias("up_bias", c.ff);
      l.down_bias = make.bias("down_bias", c.width);
    }
    file.weights.layers.push_back(std::move(l));
  }
  file.memory = memory;
  return file;
}

std::span<float> elements_of(const Weight& weight) {
  float* const data = const_cast<float*>(reinterpret_cast<const float*>(weight.data.data()));
  return {data, weight.data.size() / sizeof(float)};
}

// ---- RoPE, as the reference implementations of each kind have it ----

std::vector<double> naive_frequencies(const DecoderConfig& c) {
  const double dim = static_cast<double>(c.rope_dims), pi = std::acos(-1.0);
  const RopeScaling& s = c.rope_scaling;
  std::vector<double> frequencies;
  for (int64_t i = 0; 2 * i < c.rope_dims; ++i) {
    double f = 1 / std::pow(c.rope_theta, 2 * static_cast<double>(i) / dim);
    if (!c.rope_factors.empty()) f /= static_cast<double>(c.rope_factors[static_cast<size_t>(i)]);
    if (s.kind == RopeScalingKind::kLinear) f /= s.factor;
    if (s.kind == RopeScalingKind::kLlama3) {  // by wavelengths
      const double wave = 2 * pi / f, original = static_cast<double>(s.original_context);
      const double longest = original / s.low_freq_factor, shortest = original / s.high_freq_factor;
      const double smooth = (original / wave - s.low_freq_factor) / (s.high_freq_factor - s.low_freq_factor);
      if (wave > longest)
        f /= s.factor;
      else if (wave >= shortest)
        f = (1 - smooth) * f / s.factor + smooth * f;
    }
    if (s.kind == RopeScalingKind::kYarn) {
      const auto dimension = [&](double rotations) {
        return dim * std::log(static_cast<double>(s.original_context) / (rotations * 2 * pi)) /
               (2 * std::log(c.rope_theta));
      };
      const double low = std::max(std::floor(dimension(s.beta_fast)), 0.0);
      double high = std::min(std::ceil(dimension(s.beta_slow)), dim - 1);
      if (low == high) high += 0.001;
      const double kept = 1 - std::min(1.0, std::max(0.0, (static_cast<double>(i) - low) / (high - low)));
      f = f / s.factor * (1 - kept) + f * kept;
    }
    frequencies.push_back(f);
  }
  return frequencies;
}

double naive_amplitude(const DecoderConfig& c) {
  if (c.rope_scaling.kind != RopeScalingKind::kYarn) return 1;
  if (c.rope_scaling.attention_factor != 0) return c.rope_scaling.attention_factor;
  return 0.1 * std::log(c.rope_scaling.factor) + 1;
}

// ---- the decoder ----

namespace {

using Row = std::vector<double>;

Row times(const Weight& w, const Row& x, const Weight& bias = {}) {
  Row y(static_cast<size_t>(w.shape[0]));
  for (size_t i = 0; i < y.size(); ++i) {
    for (size_t j = 0; j < x.size(); ++j) y[i] += static_cast<double>(elements_of(w)[i * x.size() + j]) * x[j];
    if (bias.present()) y[i] += static_cast<double>(elements_of(bias)[i]);
  }
  return y;
}

void normalise(std::span<double> x, const Weight& w, double eps) {
  double mean = 0;
  for (const double v : x) mean += v * v / static_cast<double>(x.size());
  for (size_t i = 0; i < x.size(); ++i) x[i] *= static_cast<double>(elements_of(w)[i]) / std::sqrt(mean + eps);
}

void rotate(std::span<double> head, size_t position, const DecoderConfig& c) {
  const std::vector<double> frequencies = naive_frequencies(c);
  const double amplitude = naive_amplitude(c);
  for (size_t i = 0; i < frequencies.size(); ++i) {
    const bool half = c.rope_style == RopeStyle::kHalf;
    double& a = head[half ? i : 2 * i];
    double& b = head[half ? i + frequencies.size() : 2 * i + 1];
    const double angle = static_cast<double>(position) * frequencies[i], x = a, y = b;
    a = amplitude * (x * std::cos(angle) - y * std::sin(angle));
    b = amplitude * (x * std::sin(angle) + y * std::cos(angle));
  }
}

// Each head of each row, normed where the model does, and turned.
void place(std::vector<Row>& rows, const Weight& norm, const DecoderConfig& c) {
  const size_t d = static_cast<size_t>(c.head_dim);
  for (size_t t = 0; t < rows.size(); ++t)
    for (size_t at = 0; at < rows[t].size(); at += d) {
      const std::span<double> head = std::span(rows[t]).subspan(at, d);
      if (norm.present()) normalise(head, norm, c.norm_eps);
      rotate(head, t, c);
    }
}

Row attend(size_t t, const std::vector<Row>& q, const std::vector<Row>& k, const std::vector<Row>& v,
           const DecoderConfig& c, int64_t window) {
  const size_t d = static_cast<size_t>(c.head_dim), group = static_cast<size_t>(c.heads / c.kv_heads);
  const size_t first = window > 0 && t >= static_cast<size_t>(window) ? t + 1 - static_cast<size_t>(window) : 0;
  Row out(q[t].size());
  for (size_t h = 0; h < static_cast<size_t>(c.heads); ++h) {
    const size_t of_q = h * d, of_kv = h / group * d;
    Row weights;
    double largest = -1e300, sum = 0;
    for (size_t j = first; j <= t; ++j) {
      double score = 0;
      for (size_t e = 0; e < d; ++e) score += q[t][of_q + e] * k[j][of_kv + e];
      weights.push_back(score / std::sqrt(static_cast<double>(d)));
      largest = std::max(largest, weights.back());
    }
    for (double& w : weights) sum += w = std::exp(w - largest);
    for (size_t j = first; j <= t; ++j)
      for (size_t e = 0; e < d; ++e) out[of_q + e] += weights[j - first] / sum * v[j][of_kv + e];
  }
  return out;
}

void layer(std::vector<Row>& x, const LayerWeights& w, const DecoderConfig& c, int64_t window) {
  std::vector<Row> q, k, v;
  for (Row h : x) {
    normalise(h, w.attention_norm, c.norm_eps);
    q.push_back(times(w.q, h, w.q_bias));
    k.push_back(times(w.k, h, w.k_bias));
    v.push_back(times(w.v, h, w.v_bias));
  }
  place(q, w.q_norm, c);
  place(k, w.k_norm, c);
  for (size_t t = 0; t < x.size(); ++t) {
    const Row o = times(w.o, attend(t, q, k, v, c, window), w.o_bias);
    for (size_t i = 0; i < o.size(); ++i) x[t][i] += o[i];
    Row h = x[t];
    normalise(h, w.ff_norm, c.norm_eps);
    const Row gate = times(w.gate, h, w.gate_bias), up = times(w.up, h, w.up_bias);
    Row act(gate.size());
    for (size_t i = 0; i < act.size(); ++i) act[i] = gate[i] / (1 + std::exp(-gate[i])) * up[i];
    const Row down = times(w.down, act, w.down_bias);
    for (size_t i = 0; i < down.size(); ++i) x[t][i] += down[i];
  }
}

}  // namespace

std::vector<double> naive_logits(const ModelFile& file, std::span<const int32_t> tokens) {
  const DecoderConfig& c = file.config;
  const size_t width = static_cast<size_t>(c.width);
  std::vector<Row> x;
  for (const int32_t id : tokens) {
    const auto row = elements_of(file.weights.embedding).subspan(static_cast<size_t>(id) * width, width);
    x.emplace_back(row.begin(), row.end());
  }
  for (size_t i = 0; i < file.weights.layers.size(); ++i)
    layer(x, file.weights.layers[i], c, c.sliding.empty() || c.sliding[i] ? c.window : 0);
  normalise(x.back(), file.weights.output_norm, c.norm_eps);
  return times(c.tied_embeddings ? file.weights.embedding : file.weights.output, x.back());
}

}  // namespace hone::model
