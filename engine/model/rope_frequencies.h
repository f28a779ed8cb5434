// The angles that RoPE turns by, one frequency for each pair of a head's elements: theta ^ (-2 i / d), stretched as a
// model's scaling says. With f the factor, c the context of training, and b the frequency after division by the file's
// own factors:
//
//   linear   b / f
//   llama3   b / f where a turn is longer than c / low_freq_factor tokens, b where it is shorter than c /
//            high_freq_factor, and between the two a mixture that is linear in the number of turns within c
//   yarn     b / f and b mixed by a ramp over pairs, between the pair that turns beta_fast times within c (b before it)
//            and the one that turns beta_slow times (b / f after it). cos and sin are multiplied by the attention
//            factor
//   dynamic  b: texts longer than c, for which theta grows with the length, are refused (decoder_graph)
//
// Everything is computed in double and rounded to f32 once.
#pragma once

#include <vector>

#include "engine/model/config.h"

namespace hone::model {

struct RopeFrequencies {
  std::vector<float> inv_freq;  // rope_dims / 2
  // What cos and sin are multiplied by. As it multiplies queries and keys, scores are multiplied by its square: where
  // all of a head is turned that is a scale of attention and no work.
  double amplitude = 1;
};

// `config` has been validated.
RopeFrequencies rope_frequencies(const DecoderConfig& config);

}  // namespace hone::model
