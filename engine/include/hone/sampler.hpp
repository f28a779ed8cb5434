// From logits to the next token.
//
//   auto sampler = hone::Sampler::create({.temperature = 0.8, .seed = 7});
//   sampler->accept(prompt);                             what the repetition penalty looks back on
//   hone::Result<int32_t> next = sampler->sample(*sequence->decode(token));
//
// Steps, in this order, which is that of llama.cpp's default chain:
//
//   repeat_penalty   p: logits of the tokens among the last repeat_window are divided by p where positive, else
//                    multiplied
//   top_k            the k largest stay
//   top_p            of these in order, the fewest whose probabilities add up to top_p
//   min_p            of these, whose probability is at least min_p times the largest
//   temperature      t: logits are divided by t; one of what is left is drawn by its probability
//
// temperature 0 takes the largest logit after the penalty. Of equal logits the lower id comes first, here and in the
// draw. All arithmetic is in double, in one order, with an exponential and a random generator of our own: equal logits,
// options and history give the same token on every machine.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "hone/engine.hpp"

namespace hone {

struct SamplerOptions {
  double temperature = 0;      // >= 0
  int64_t top_k = 40;          // 0: all
  double top_p = 0.95;         // in (0, 1]; 1: all
  double min_p = 0.05;         // in [0, 1]; 0: all
  double repeat_penalty = 1;   // from 0.001 to 1000; 1: none
  int64_t repeat_window = 64;  // from 0 to 2^30 tokens
  uint64_t seed = 0;
};

class HONE_API Sampler {
 public:
  // Error: invalid_argument naming the option.
  static Result<Sampler> create(const SamplerOptions& options = {});

  // The next token, which is accepted. Errors, with nothing changed: invalid_argument (no logits; a logit that is NaN
  // or +infinity, naming its id; none above -infinity).
  Result<int32_t> sample(std::span<const float> logits);

  struct Candidate {
    int32_t id = 0;
    double probability = 0;
  };
  // What sample() would draw from, the most probable first. Draws nothing. Errors: as sample().
  Result<std::vector<Candidate>> distribution(std::span<const float> logits) const;

  // Tokens that the penalty shall know of: a prompt.
  void accept(std::span<const int32_t> tokens);

  class Impl;
  explicit Sampler(std::unique_ptr<Impl> impl);
  Sampler(Sampler&&) noexcept;
  Sampler& operator=(Sampler&&) noexcept;
  ~Sampler();

 private:
  std::unique_ptr<Impl> impl_;
};

}  // namespace hone
