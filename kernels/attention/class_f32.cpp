// The bits of a numerics class: every operation of the contract (reference.h) in f32, one at a time and in the order
// that the class names. Slow and obvious.
#include <array>
#include <cmath>
#include <limits>
#include <optional>

#include "kernels/attention/blocking.h"
#include "kernels/attention/elements_internal.h"
#include "kernels/attention/reference.h"
#include "kernels/math/scalar_ops.h"

namespace hone::attention {
namespace {

constexpr float kInf = std::numeric_limits<float>::infinity();
constexpr int64_t kChains = 16;

float exp_weight(float x) { return math::scalar_activation(math::Activation::kExpNonPositive, x); }
float max(float a, float b) { return math::ScalarOps::max(a, b); }
// What exponents are taken from: finite where all keys are hidden, so that -inf - m is -inf and no NaN.
float safe(float m) { return max(-std::numeric_limits<float>::max(), m); }

// One row over the keys so far.
struct State {
  explicit State(int64_t dv) : o(static_cast<size_t>(dv), 0.0F) {}

  float m = -kInf;
  std::array<float, kChains> l{};
  std::vector<float> o;
};

struct Row {
  const AttentionProblem& p;
  const Sequence& s;
  int64_t h, i;
  Visible visible;
};

float score(const Row& r, int64_t j) {
  if (hidden_by_bytes(r.p, r.s, r.h, r.i, j)) return -kInf;
  const float scale = r.p.scale_in_force();
  float t = 0;
  for (int64_t c = 0; c < r.p.d; ++c) {
    const float scaled = scale * query_element(r.p, r.s, r.h, r.i, c);
    t = std::fma(scaled, key_element(r.p, r.s, r.h, j, c), t);
  }
  if (r.p.softcap > 0) t = r.p.softcap * math::scalar_activation(math::Activation::kTanh, t / r.p.softcap);
  if (r.p.mask == MaskKind::kAdditive) t = t + mask_element(r.s, r.h, r.i, j);
  return t;
}

// Keys [begin, end). A block of which the row sees nothing leaves it as it is.
void add_block(const Row& r, int64_t begin, int64_t end, State* state) {
  begin = std::max(begin, r.visible.begin), end = std::min(end, r.visible.end);
  if (begin >= end) return;
  std::vector<float> t;
  float m = state->m;
  for (int64_t j = begin; j < end; ++j) {
    t.push_back(score(r, j));
    m = max(m, t.back());
  }
  const float from = safe(m);
  const float alpha = exp_weight(state->m - from);
  state->m = m;
  for (float& l : state->l) l = l * alpha;
  for (float& o : state->o) o = o * alpha;
  for (int64_t j = begin; j < end; ++j) {
    const float w = exp_weight(t[static_cast<size_t>(j - begin)] - from);
    float& l = state->l[static_cast<size_t>(j % kChains)];
    l = l + w;
    for (size_t c = 0; c < state->o.size(); ++c) {
      state->o[c] = std::fma(w, value_element(r.p, r.s, r.h, j, static_cast<int64_t>(c)), state->o[c]);
    }
  }
}

// Blocks first, first + step, ..
State run(const Row& r, int64_t block, int64_t first, int64_t step) {
  State state(r.p.value_dim());
  for (int64_t b = first; b * block < r.s.kv; b += step) add_block(r, b * block, (b + 1) * block, &state);
  return state;
}

// Split i takes the blocks i, i + splits, ..; it may have none.
State run_splits(const Row& r, int64_t block, int64_t splits) {
  std::vector<State> parts;
  State merged(r.p.value_dim());
  for (int64_t i = 0; i < splits; ++i) {
    parts.push_back(run(r, block, i, splits));
    merged.m = max(merged.m, parts.back().m);
  }
  for (const State& part : parts) {
    const float w = exp_weight(part.m - safe(merged.m));
    for (size_t c = 0; c < kChains; ++c) merged.l[c] = std::fma(w, part.l[c], merged.l[c]);
    for (size_t c = 0; c < merged.o.size(); ++c) merged.o[c] = std::fma(w, part.o[c], merged.o[c]);
  }
  return merged;
}

float sum_of_chains(std::array<float, kChains> l) {
  for (size_t c = 0; c < 8; ++c) l[c] = l[c] + l[c + 8];
  for (size_t c = 0; c < 4; ++c) l[c] = l[c] + l[c + 4];
  return (l[0] + l[2]) + (l[1] + l[3]);
}

void finish(const Row& r, const State& state) {
  const float l = sum_of_chains(state.l);
  const float inverse = l == 0 ? 0 : 1 / l;
  float* out = r.s.out + r.h * r.s.o_head + r.i * r.p.row_stride_o();
  for (size_t c = 0; c < state.o.size(); ++c) out[c] = state.o[c] * inverse;
  if (!r.p.lse) return;
  r.s.lse[r.h * r.s.lse_head + r.i] = l == 0 ? -kInf : state.m + math::scalar_activation(math::Activation::kLog, l);
}

}  // namespace

void class_f32(const AttentionProblem& p, const Sequence& s, std::string_view numerics) {
  const std::optional<NumericsClass> c = parse_class(numerics);
  for (int64_t h = 0; h < p.heads; ++h)
    for (int64_t i = 0; i < s.q; ++i) {
      const Row row{p, s, h, i, visible_keys(p, s.q, s.kv, i)};
      State state(p.value_dim());
      if (!c) {
        state.l[0] = std::numeric_limits<float>::quiet_NaN();
      } else if (c->algorithm == Algorithm::kSplit) {
        state = run_splits(row, c->bk, c->splits);
      } else {
        state = run(row, c->bk > 0 ? c->bk : std::max<int64_t>(s.kv, 1), 0, 1);
      }
      finish(row, state);
    }
}

}  // namespace hone::attention
