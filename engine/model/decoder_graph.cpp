#include "engine/model/decoder_graph.h"

#include <fmt/format.h>

#include <cmath>
#include <cstring>
#include <utility>

#include "engine/base/half.h"
#include "engine/graph/builder.h"
#include "engine/model/rope_frequencies.h"

namespace hone::model {
namespace {

using graph::Builder;
using graph::Constant;
using graph::Dim;
using graph::OpKind;
using graph::Shape;
using graph::TensorType;
using graph::ValueId;

Shape dims_of(const Weight& w) { return {w.shape.begin(), w.shape.end()}; }

std::vector<float> widened(const Weight& w) {
  std::vector<float> floats(w.data.size() / static_cast<size_t>(dtype_bytes(w.dtype)));
  if (w.dtype == DType::kF32) {
    std::memcpy(floats.data(), w.data.data(), floats.size() * sizeof(float));
    return floats;
  }
  for (size_t i = 0; i < floats.size(); ++i) {
    uint16_t bits = 0;
    std::memcpy(&bits, w.data.data() + 2 * i, 2);
    floats[i] = w.dtype == DType::kBf16 ? bf16_to_f32(bits) : f16_to_f32(bits);
  }
  return floats;
}

class Decoder {
 public:
  Decoder(const ModelFile& file, const DecoderGraphOptions& options)
      : file_(file), c_(file.config), rope_(rope_frequencies(c_)), b_(c_.architecture) {
    b_.symbol({.name = "s", .min = 1, .max = options.max_batch});
    b_.symbol({.name = "r", .min = 1, .max = options.max_rows});
    b_.position("p", options.context, s_);
    context_ = options.context;
    if (whole()) rope_.inv_freq.resize(static_cast<size_t>(c_.head_dim / 2), 0);
  }

  Result<graph::Graph> run() {
    const ValueId tokens = b_.input("tokens", {DType::kS32, {s_}});
    const ValueId rows = b_.input("rows", {DType::kS32, {r_}});
    const DecoderWeights& w = file_.weights;
    const ValueId embedding = matrix(w.embedding, "embedding");
    inv_freq_ = b_.constant(Constant::f32({DType::kF32, {static_cast<int64_t>(rope_.inv_freq.size())}}, rope_.inv_freq),
                            "inv_freq");
    ValueId x = b_.gather(embedding, tokens, "embedded");
    for (size_t i = 0; i < w.layers.size(); ++i) {
      layer_ = i;
      const bool last = i + 1 == w.layers.size();
      const ValueId a = attention(x, w.layers[i]);
      x = feed_forward(last ? b_.gather(x, rows, "chosen_x") : x, last ? b_.gather(a, rows, "chosen_attention") : a,
                       w.layers[i]);
    }
    const ValueId h = b_.rms_norm(x, vector(w.output_norm, "output_norm"), c_.norm_eps, "output_normed");
    b_.output(b_.matmul(h, c_.tied_embeddings ? embedding : matrix(w.output, "output"), "logits"));
    return b_.finish();
  }

 private:
  std::string named(const char* what) const { return fmt::format("l{}_{}", layer_, what); }

  // Bytes of the file, unless they lie where no element may.
  ValueId matrix(const Weight& w, std::string name) {
    const TensorType type{w.dtype, dims_of(w)};
    const std::string key = file_.identity.empty() ? "" : fmt::format("{}:{}", file_.identity, w.name);
    if (reinterpret_cast<uintptr_t>(w.data.data()) % static_cast<uintptr_t>(dtype_bytes(w.dtype)) != 0)
      return b_.constant(Constant::copy_of(type, w.data), std::move(name));
    return b_.constant({.type = type, .owner = file_.memory, .data = w.data, .content_key = key}, std::move(name));
  }
  ValueId vector(const Weight& w, std::string name) {
    return b_.constant(Constant::f32({DType::kF32, dims_of(w)}, widened(w)), std::move(name));
  }

  ValueId projected(ValueId h, const Weight& w, const Weight& bias, const char* name) {
    const ValueId y = b_.matmul(h, matrix(w, named(name) + "_weights"), named(name));
    if (!bias.present()) return y;
    const TensorType type = b_.type(y);
    const ValueId rows = b_.add_typed(OpKind::broadcast, {vector(bias, named(name) + "_bias")},
                                      {{"dims", std::vector<int64_t>{1}}}, type);
    return b_.add(OpKind::add, {y, rows}, {}, named(name) + "_biased");
  }

  ValueId heads(ValueId x, int64_t count) { return b_.reshape(x, {s_, count, c_.head_dim}); }

  // Queries or keys [s, heads, d], ready for scores but for the amplitude of a rotation that is whole.
  ValueId turned(ValueId x, const Weight& norm, const char* name) {
    if (norm.present()) x = b_.rms_norm(x, vector(norm, named(name) + "_norm"), c_.norm_eps, named(name) + "_normed");
    const std::string style = c_.rope_style == RopeStyle::kHalf ? "half" : "interleaved";
    if (whole()) return b_.rope(x, inv_freq_, Dim::symbol("p"), style, named(name) + "_rope");
    const auto part = [&](int64_t from, int64_t to) {
      return b_.add(OpKind::slice, {x},
                    {{"start", std::vector<int64_t>{0, 0, from}}, {"limit", std::vector<int64_t>{-1, -1, to}}});
    };
    ValueId front = b_.rope(part(0, c_.rope_dims), inv_freq_, Dim::symbol("p"), style, named(name) + "_rope");
    if (rope_.amplitude != 1) {
      const TensorType type = b_.type(front);
      const ValueId factor = b_.constant(Constant::splat_f32({DType::kF32, {}}, static_cast<float>(rope_.amplitude)));
      front = b_.add(OpKind::mul,
                     {front, b_.add_typed(OpKind::broadcast, {factor}, {{"dims", std::vector<int64_t>{}}}, type)});
    }
    return b_.add(OpKind::concatenate, {front, part(c_.rope_dims, c_.head_dim)}, {{"axis", int64_t{2}}});
  }
  // One rotation of all of a head: neighbours beyond the part that is turned are turned by 0, which leaves them. The
  // last element of an odd head has no neighbour.
  bool whole() const {
    return c_.rope_dims == c_.head_dim ||
           (c_.rope_style == RopeStyle::kInterleaved && rope_.amplitude == 1 && c_.head_dim % 2 == 0);
  }

  ValueId cached(ValueId rows, const char* name) {
    const ValueId state = b_.state(named(name), {DType::kF32, {context_, c_.kv_heads, c_.head_dim}});
    return b_.kv_append(state, rows, named(name) + "_all");
  }

  ValueId attention(ValueId x, const LayerWeights& w) {
    const ValueId h = b_.rms_norm(x, vector(w.attention_norm, named("attention_norm")), c_.norm_eps, named("normed"));
    const ValueId q = heads(projected(h, w.q, w.q_bias, "q"), c_.heads);
    const ValueId k = heads(projected(h, w.k, w.k_bias, "k"), c_.kv_heads);
    const ValueId v = heads(projected(h, w.v, w.v_bias, "v"), c_.kv_heads);
    const ValueId queries = turned(q, w.q_norm, "q");
    const ValueId keys = cached(turned(k, w.k_norm, "k"), "keys");
    const ValueId values = cached(v, "values");
    const double amplitude = whole() ? rope_.amplitude : 1;
    const double scale = amplitude * amplitude / std::sqrt(static_cast<double>(c_.head_dim));
    const ValueId a = b_.attention(
        queries, keys, values, {.causal = true, .window = window_of(c_, layer_), .scale = amplitude == 1 ? 0 : scale},
        named("attention"));
    return b_.reshape(a, {s_, c_.heads * c_.head_dim});
  }

  ValueId feed_forward(ValueId x, ValueId a, const LayerWeights& w) {
    const ValueId o = projected(a, w.o, w.o_bias, "o");
    const ValueId mid = b_.add(OpKind::add, {x, o}, {}, named("attended"));
    const ValueId h = b_.rms_norm(mid, vector(w.ff_norm, named("ff_norm")), c_.norm_eps, named("ff_normed"));
    const ValueId gate = projected(h, w.gate, w.gate_bias, "gate");
    const ValueId up = projected(h, w.up, w.up_bias, "up");
    const ValueId down = projected(b_.swiglu(gate, up, named("swiglu")), w.down, w.down_bias, "down");
    return b_.add(OpKind::add, {mid, down}, {}, named("out"));
  }

  const ModelFile& file_;
  const DecoderConfig& c_;
  RopeFrequencies rope_;
  Builder b_;
  Dim s_ = Dim::symbol("s"), r_ = Dim::symbol("r");
  int64_t context_ = 0;
  ValueId inv_freq_ = -1;
  size_t layer_ = 0;
};

}  // namespace

Result<graph::Graph> decoder_graph(const ModelFile& file, const DecoderGraphOptions& options) {
  if (options.context < 1 || options.max_batch < 1 || options.max_rows < 1 || options.max_rows > options.max_batch)
    return invalid_argument(
        fmt::format("context {}, max_batch {} and max_rows {} must be at least 1, and max_rows at "
                    "most max_batch",
                    options.context, options.max_batch, options.max_rows));
  const RopeScaling& scaling = file.config.rope_scaling;
  if (scaling.kind == RopeScalingKind::kDynamic && options.context > scaling.original_context)
    return unsupported(
        fmt::format("a context of {}: RoPE scaling \"dynamic\" turns by what the length of the text is "
                    "beyond {} tokens; load the model with a context of at most that",
                    options.context, scaling.original_context));
  if (file.weights.layers.empty()) return invalid_argument(fmt::format("{}: the model has no layers", file.path));
  return Decoder(file, options).run();
}

}  // namespace hone::model
