// Text of a decoder layer as JAX prints a Llama layer with a KV cache: RMSNorm, projections, RoPE (half), grouped
// attention over the whole cache with a mask from iota, SwiGLU; the cache and the position are arguments that results
// take the place of. For tests of the importer and for benchmarks of what becomes of it.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace hone::graph::stablehlo {

enum class WeightForm : uint8_t {
  kText,      // dense<[[..]]>
  kHex,       // dense<"0x..">
  kResource,  // dense_resource<w_q>, with the blobs at the end
  kArgument,  // of the function, after the others
};

struct DecoderModule {
  int64_t d = 16, heads = 4, kv_heads = 2, ff = 32;
  int64_t tokens = 2, capacity = 8;  // rows of x; rows of the cache
  double eps = 1e-5, rope_base = 10000;
  WeightForm weights = WeightForm::kHex;
  // JAX checks an index for being negative before it uses it: compare, add, select.
  bool checks_indices = false;

  int64_t head_dim() const { return d / heads; }
};

// The weights by name, in the order of the arguments: norm_1 [d], w_q [d, heads * head_dim], w_k and w_v
// [d, kv_heads * head_dim], w_o [heads * head_dim, d], norm_2 [d], w_gate and w_up [d, ff], w_down [ff, d].
struct DecoderWeight {
  std::string name;
  std::vector<int64_t> shape;
  uint64_t seed = 0;
  float around = 0, scale = 1;
  int64_t elements() const;
  // Element i, whatever the shape: a fixed function of the weight and i, within 1 / sqrt(rows) of 0; 1/8 of 1 for
  // norms.
  float at(int64_t i) const;
};
std::vector<DecoderWeight> decoder_weights(const DecoderModule& module);

// @main(x [1, tokens, d], k and v [1, capacity, kv_heads, head_dim], position [] [, weights])
//   -> (y [1, tokens, d], k, v, position + tokens)
std::string decoder_module(const DecoderModule& module);

}  // namespace hone::graph::stablehlo
