// What holds of every model that a reader accepts.
#pragma once

#include "engine/model/files/model_file.h"
#include "tests/fuzz/fuzz_target.h"

namespace hone::fuzz {

// The span has the bytes that the shape makes, and they can be read.
inline void require_sound(const model::Weight& w) {
  if (!w.present()) return;
  auto bytes = static_cast<size_t>(dtype_bytes(w.dtype));
  for (const int64_t n : w.shape) {
    HONE_FUZZ_REQUIRE(n > 0);
    bytes *= static_cast<size_t>(n);
  }
  HONE_FUZZ_REQUIRE(w.data.size() == bytes);
  volatile std::byte touched = w.data.front();
  touched = w.data.back();
  (void)touched;
}

inline void require_sound(const model::ModelFile& m) {
  HONE_FUZZ_REQUIRE(model::validate(m.config).ok());
  require_sound(m.weights.embedding);
  require_sound(m.weights.output_norm);
  require_sound(m.weights.output);
  HONE_FUZZ_REQUIRE(m.weights.output.present() != m.config.tied_embeddings);
  HONE_FUZZ_REQUIRE(m.weights.layers.size() == static_cast<size_t>(m.config.layers));
  for (const model::LayerWeights& l : m.weights.layers) {
    for (const model::Weight* w : {&l.attention_norm, &l.q, &l.k, &l.v, &l.o, &l.ff_norm, &l.gate, &l.up, &l.down}) {
      HONE_FUZZ_REQUIRE(w->present());
      require_sound(*w);
    }
    HONE_FUZZ_REQUIRE(l.q_bias.present() == m.config.qkv_bias && l.k_norm.present() == m.config.qk_norm);
    HONE_FUZZ_REQUIRE(l.o_bias.present() == m.config.o_bias && l.down_bias.present() == m.config.mlp_bias);
  }
}

inline void require_sound(const model::Vocabulary& v) {
  const auto tokens = static_cast<int64_t>(v.tokens.size());
  for (const int32_t id : {v.bos, v.eos, v.unknown}) HONE_FUZZ_REQUIRE(id >= -1 && id < tokens);
  for (const int32_t id : v.end_of_generation) HONE_FUZZ_REQUIRE(id >= 0 && id < tokens);
}

}  // namespace hone::fuzz
