// Random problems and programs; see trial.h.
#include <numeric>

#include "engine/base/random.h"
#include "kernels/attention/blocking.h"
#include "kernels/attention/trial.h"

namespace hone::attention {

AttentionProblem random_problem(uint64_t seed, const ProblemLimits& limits) {
  Random random(seed);
  auto below = [&](int64_t n) { return random.below(n); };
  auto pick = [&](std::initializer_list<int64_t> edges, int64_t lowest, int64_t largest) {
    const int64_t edge = edges.begin()[below(static_cast<int64_t>(edges.size()))];
    return edge <= largest && below(3) != 0 ? edge : lowest + below(largest - lowest + 1);
  };
  AttentionProblem p;
  p.kv_heads = 1 + below(3);
  p.heads = p.kv_heads * (1 + below(4));
  p.d = pick({8, 16, 40, 64, 80, 88, 96, 224, 512, 576}, 1, limits.max_d);
  if (below(3) == 0) p.dv = pick({8, 16, 40, 64, 80, 88, 96, 224, 512, 576}, 1, limits.max_d);
  p.q = pick({1, 1, 2, 3, 7, 8, 9, 16, 17, 33}, 0, limits.max_q);
  p.kv = pick({0, 1, 15, 16, 17, 31, 32, 33, 47, 48, 49, 64, 255, 256, 257}, 0, limits.max_kv);
  p.batch = 1 + below(3);
  if (below(4) == 0) p.k = KeyLayout::kBlocked;
  if (below(3) == 0) p.page = p.k == KeyLayout::kBlocked ? kKeyGroup * (1 + below(4)) : pick({1, 7, 16, 30, 64}, 1, 70);
  auto stride = [&](int64_t width, int64_t heads) {
    const int64_t kind = below(4);
    return kind == 0 ? width + below(20) : kind == 1 ? heads * width + below(2) * below(9) : 0;
  };
  p.ldq = stride(p.d, p.heads);
  if (p.k == KeyLayout::kRows) p.ldk = stride(p.d, p.kv_heads);
  p.ldv = stride(p.value_dim(), p.kv_heads);
  p.ldo = stride(p.value_dim(), p.heads);
  p.causal = below(2) == 0;
  if (below(3) == 0) p.window = 1 + below(below(2) == 0 ? 5 : 2 * p.kv + 2);
  p.mask = below(2) == 0 ? MaskKind::kNone : static_cast<MaskKind>(1 + below(2));
  if (below(4) == 0) p.softcap = 30;
  if (below(4) == 0) p.scale = 0.3F;
  p.lse = below(2) == 0;
  return canonical(p);
}

std::optional<AttentionProgram> random_program(const AttentionProblem& problem, uint64_t seed, Isa isa, bool small) {
  Random random(seed);
  auto below = [&](int64_t n) { return random.below(n); };
  auto one_of = [&](std::initializer_list<int64_t> values) { return random.one_of(values); };
  small = small && below(8) != 0;
  for (int attempt = 0; attempt < 300; ++attempt) {
    AttentionProgram p = default_program(problem, isa, {});
    p.algorithm = static_cast<Algorithm>(below(4));
    p.splits = p.algorithm == Algorithm::kSplit ? 2 + below(4) : 1;
    p.bq = 1 + below(problem.q + 3);
    p.bk = one_of({16, 32, 48, 64, 256});
    p.group = below(2) == 0;
    p.mr = 1 + below(small ? 3 : 9);
    p.vr = below(2) == 0 ? p.mr : 1 + below(small ? 3 : 6);
    p.nr = kKeyGroup * (1 + below(small ? 2 : 3));
    p.vn = p.lanes * (1 + below(small ? 2 : 5));
    p.tile_rows = std::lcm(p.mr, p.vr) * (1 + below(small ? 2 : 3));
    p.value_depth = one_of({1, 7, 16, 40, 256});
    if (problem.k == KeyLayout::kRows) p.pack_k = below(2) == 0 ? PackK::kBlock : PackK::kStrip;
    p.pack_v = static_cast<PackV>(below(2));
    p.prefetch = one_of({0, 0, 8, 32, 256});
    p.lead = one_of({0, 1, 4});
    p.parallel = static_cast<ParallelDim>(below(2));
    p = canonical(problem, p);
    if (legal(problem, p).ok()) return p;
  }
  return std::nullopt;
}

}  // namespace hone::attention
