#include "tests/engine/executable/decoder_graphs.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>

namespace hone::executable {

using graph::Builder;
using graph::Constant;
using graph::Dim;
using graph::Graph;
using graph::TensorType;
using graph::ValueId;

std::vector<float> random_floats(size_t count, uint64_t seed, float scale) {
  std::mt19937_64 random(seed);
  std::uniform_real_distribution<float> number(-scale, scale);
  std::vector<float> floats(count);
  for (float& f : floats) f = number(random);
  return floats;
}

namespace {

class Layer {
 public:
  explicit Layer(const DecoderSizes& sizes) : z(sizes), b("layer") {
    b.symbol({.name = "s", .min = 1, .max = z.max_tokens});
    b.position("p", z.capacity, s);
    x = b.input("x", {DType::kF32, {s, z.width}});
  }

  ValueId weight(const char* name, graph::Shape dims) {
    TensorType type{DType::kF32, std::move(dims)};
    const size_t count = static_cast<size_t>(type.elements());
    const float scale = 1.0F / std::sqrt(static_cast<float>(type.dims.back().value()));
    return b.constant(Constant::f32(type, random_floats(count, z.seed * 977 + ++made, scale)), name);
  }

  ValueId norm_weight(const char* name) {
    std::vector<float> w = random_floats(static_cast<size_t>(z.width), z.seed * 977 + ++made, 0.2F);
    for (float& f : w) f += 1;
    return b.constant(Constant::f32({DType::kF32, {z.width}}, w), name);
  }

  ValueId attention_block() {
    const ValueId h = b.rms_norm(x, norm_weight("attn_norm"), 1e-5, "attn_normed");
    const ValueId q = b.matmul(h, weight("wq", {z.heads * z.head_dim, z.width}), "q");
    const ValueId k = b.matmul(h, weight("wk", {z.kv_heads * z.head_dim, z.width}), "k");
    const ValueId v = b.matmul(h, weight("wv", {z.kv_heads * z.head_dim, z.width}), "v");
    std::vector<float> inv_freq;
    for (int64_t i = 0; i < z.head_dim / 2; ++i)
      inv_freq.push_back(std::pow(10000.0F, -2.0F * static_cast<float>(i) / static_cast<float>(z.head_dim)));
    const ValueId f = b.constant(Constant::f32({DType::kF32, {z.head_dim / 2}}, inv_freq), "inv_freq");
    const Dim p = Dim::symbol("p");
    const ValueId qr = b.rope(b.reshape(q, {s, z.heads, z.head_dim}), f, p, z.rope, "q_rope");
    const ValueId kr = b.rope(b.reshape(k, {s, z.kv_heads, z.head_dim}), f, p, z.rope, "k_rope");
    const ValueId k_state = b.state("k_cache", {DType::kF32, {z.capacity, z.kv_heads, z.head_dim}});
    const ValueId v_state = b.state("v_cache", {DType::kF32, {z.capacity, z.kv_heads, z.head_dim}});
    const ValueId keys = b.kv_append(k_state, kr, "keys");
    const ValueId values = b.kv_append(v_state, b.reshape(v, {s, z.kv_heads, z.head_dim}), "values");
    const ValueId a = b.attention(qr, keys, values, {.causal = true}, "attn");
    const ValueId o =
        b.matmul(b.reshape(a, {s, z.heads * z.head_dim}), weight("wo", {z.width, z.heads * z.head_dim}), "o");
    return b.add(graph::OpKind::add, {x, o}, {}, "attn_residual");
  }

  Graph finish() {
    Result<Graph> g = b.finish();
    EXPECT_TRUE(g.ok()) << g.status().message();
    return g.ok() ? *std::move(g) : Graph();
  }

  DecoderSizes z;
  Builder b;
  Dim s = Dim::symbol("s");
  ValueId x;
  uint64_t made = 0;
};

}  // namespace

Graph decoder_layer(const DecoderSizes& sizes) {
  Layer l(sizes);
  const ValueId mid = l.attention_block();
  const ValueId h = l.b.rms_norm(mid, l.norm_weight("ffn_norm"), 1e-5, "ffn_normed");
  const ValueId gate = l.b.matmul(h, l.weight("w_gate", {sizes.hidden, sizes.width}), "gate");
  const ValueId up = l.b.matmul(h, l.weight("w_up", {sizes.hidden, sizes.width}), "up");
  const ValueId act = l.b.swiglu(gate, up, "swiglu");
  const ValueId down = l.b.matmul(act, l.weight("w_down", {sizes.width, sizes.hidden}), "down");
  l.b.output(l.b.add(graph::OpKind::add, {mid, down}, {}, "out"));
  return l.finish();
}

Graph moe_layer(const DecoderSizes& sizes, int64_t experts, int64_t top_k) {
  Layer l(sizes);
  const ValueId mid = l.attention_block();
  const ValueId h = l.b.rms_norm(mid, l.norm_weight("ffn_norm"), 1e-5, "ffn_normed");
  const ValueId router = l.b.matmul(h, l.weight("router", {experts, sizes.width}), "router_logits");
  const auto [values, indices] = l.b.top_k(router, top_k, "chosen");
  const ValueId weights = l.b.softmax(values, 1, "routing");
  const ValueId y = l.b.experts(h, indices, weights, l.weight("e_gate", {experts, sizes.hidden, sizes.width}),
                                l.weight("e_up", {experts, sizes.hidden, sizes.width}),
                                l.weight("e_down", {experts, sizes.width, sizes.hidden}), "experts");
  l.b.output(l.b.add(graph::OpKind::add, {mid, y}, {}, "out"));
  return l.finish();
}

graph::Tensor random_rows(int64_t rows, int64_t width, uint64_t seed) {
  return graph::Tensor::f32({rows, width}, random_floats(static_cast<size_t>(rows * width), seed, 1));
}

}  // namespace hone::executable
