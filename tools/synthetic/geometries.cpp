// The geometries of models that people run, by name.
#include <fmt/format.h>

#include <algorithm>

#include "tools/synthetic/model.h"
#include "tools/synthetic/vocabulary.h"

namespace hone::synthetic {
namespace {

constexpr Geometry kGeometries[] = {
    {"tinyllama-1.1b", "22 layers of 2048, 32 heads over 4, vocabulary 32000"},
    {"qwen2-0.5b", "24 layers of 896, 14 heads over 2, biases, vocabulary 151936, tied"},
    {"smollm2-135m", "30 layers of 576, 9 heads over 3, vocabulary 49152, tied"},
    {"tiny", "2 layers of 64, 4 heads over 2, vocabulary 512: for tests"},
};

model::DecoderConfig config_of(std::string_view name) {
  model::DecoderConfig c;
  c.architecture = "llama";
  c.rope_style = model::RopeStyle::kInterleaved;
  c.norm_eps = 1e-5;
  if (name == "tinyllama-1.1b") {
    c.layers = 22, c.width = 2048, c.ff = 5632, c.heads = 32, c.kv_heads = 4, c.vocabulary = 32000, c.context = 2048;
  } else if (name == "qwen2-0.5b") {
    c.architecture = "qwen2";
    c.rope_style = model::RopeStyle::kHalf;
    c.layers = 24, c.width = 896, c.ff = 4864, c.heads = 14, c.kv_heads = 2, c.vocabulary = 151936, c.context = 32768;
    c.rope_theta = 1e6, c.norm_eps = 1e-6, c.qkv_bias = c.tied_embeddings = true;
  } else if (name == "smollm2-135m") {
    c.layers = 30, c.width = 576, c.ff = 1536, c.heads = 9, c.kv_heads = 3, c.vocabulary = 49152, c.context = 8192;
    c.rope_theta = 1e5, c.tied_embeddings = true;
  } else {
    c.layers = 2, c.width = 64, c.ff = 160, c.heads = 4, c.kv_heads = 2, c.vocabulary = 512, c.context = 256;
  }
  c.head_dim = c.rope_dims = c.width / c.heads;
  c.name = fmt::format("synthetic {}", name);
  return c;
}

}  // namespace

std::span<const Geometry> geometries() { return kGeometries; }

Result<SyntheticModel> synthetic_model(std::string_view geometry) {
  if (std::ranges::find(kGeometries, geometry, &Geometry::name) == std::end(kGeometries)) {
    std::string names;
    for (const Geometry& g : kGeometries) names += fmt::format("{}{}", names.empty() ? "" : ", ", g.name);
    return invalid_argument(fmt::format("there is no geometry '{}'; there are {}", geometry, names));
  }
  SyntheticModel m;
  m.config = config_of(geometry);
  const bool qwen = geometry == "qwen2-0.5b", smol = geometry == "smollm2-135m";
  m.vocabulary = made_up_vocabulary(
      qwen || smol ? model::TokenizerKind::kByteLevel : model::TokenizerKind::kSentencePiece, m.config.vocabulary,
      qwen   ? "qwen2"
      : smol ? "smollm"
             : "");
  return m;
}

}  // namespace hone::synthetic
