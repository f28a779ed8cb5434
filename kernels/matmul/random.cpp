// Random problems and programs; see trial.h.
#include <algorithm>

#include "engine/base/math.h"
#include "engine/base/random.h"
#include "kernels/matmul/blocking.h"
#include "kernels/matmul/trial.h"

namespace hone::matmul {

namespace {

// Makes the columns of a problem those of gate and up: what is drawn of the epilogue comes after swiglu, but for bias.
void pair_columns(MatmulProblem& p, Random& random) {
  p.n = p.n / (2 * kSwigluColumns) * (2 * kSwigluColumns);
  p.ldb = p.ldc = 0;
  if (p.b != BLayout::kPacked && random.below(3) == 0) p.ldb = (p.b == BLayout::kNt ? p.k : p.n) + random.below(20);
  if (random.below(3) == 0) p.ldc = p.columns() + random.below(20);
  p.beta = 0;
  const bool bias = std::erase(p.epilogue, EpilogueOp::kBias) > 0;
  p.epilogue.insert(p.epilogue.begin(), EpilogueOp::kSwiglu);
  if (bias) p.epilogue.insert(p.epilogue.begin(), EpilogueOp::kBias);
}

bool dot_possible(const MatmulProblem& problem, const TransformProgram& p) {
  return problem.dtype == DType::kBf16 && p.isa == Isa::kAvx512;
}

}  // namespace

MatmulProblem random_problem(uint64_t seed, const ProblemLimits& limits) {
  Random random(seed);
  auto below = [&](int64_t n) { return random.below(n); };
  auto size = [&](int64_t largest) {
    constexpr int64_t kEdges[] = {1, 2, 7, 8, 9, 15, 16, 17, 31, 32, 33, 48, 63, 64, 65, 96};
    const int64_t edge = kEdges[below(std::size(kEdges))];
    return edge <= largest && below(2) == 0 ? edge : 1 + below(largest);
  };
  MatmulProblem p;
  p.m = size(limits.max_m), p.n = size(limits.max_n), p.k = size(limits.max_k);
  p.b = static_cast<BLayout>(below(3));
  if (below(3) == 0) p.lda = p.k + below(20);
  if (below(3) == 0 && p.b != BLayout::kPacked) p.ldb = (p.b == BLayout::kNt ? p.k : p.n) + below(20);
  if (below(3) == 0) p.ldc = p.n + below(20);
  if (below(4) == 0) {
    p.batch = 2 + below(2);
    if (below(3) == 0) p.sa = 0;
    if (below(3) == 0) p.sb = 0;
  }
  if (below(4) == 0) p.alpha = 0.5F;
  if (below(4) == 0) p.beta = 0.3F;
  std::vector<EpilogueOp> ops = {EpilogueOp::kBias, EpilogueOp::kGeluTanh, EpilogueOp::kGeluErf, EpilogueOp::kSilu,
                                 EpilogueOp::kRelu, EpilogueOp::kGate,     EpilogueOp::kResidual};
  random.shuffle(ops);
  if (below(2) == 0) p.epilogue.assign(ops.begin(), ops.begin() + 1 + below(4));
  if (p.n >= 2 * kSwigluColumns && below(4) == 0) pair_columns(p, random);
  if (p.batch == 1 && below(5) == 0) p.epilogue.insert(p.epilogue.begin(), EpilogueOp::kRowScale);
  if (p.b == BLayout::kPacked && below(2) == 0) p.dtype = random.one_of({DType::kBf16, DType::kF16});
  return p;
}

TransformProgram random_program(const MatmulProblem& problem, uint64_t seed, std::optional<Isa> isa, bool small,
                                FeatureSet allowed) {
  Random random(seed);
  auto below = [&](int64_t n) { return random.below(n); };
  for (;;) {
    TransformProgram p;
    p.isa = isa.value_or(random.element(all_isas()));
    p.lanes = isa_info(p.isa).lanes_f32();
    const RegisterTile tile = small && below(8) != 0 ? RegisterTile{1 + below(3), p.lanes * (1 + below(2))}
                                                     : random.element(register_tiles(p.isa));
    p.mr = tile.mr, p.nr = tile.nr;
    if (problem.swiglu()) p.nr = round_up(p.nr, 2 * kSwigluColumns);
    p.mc = p.mr * (1 + below(3));
    p.nc = p.nr * (1 + below(3));
    p.kc = 1 + below(2) * below(problem.k + 1) + below(40);
    if (problem.beta != 0 || problem.swiglu()) p.kc = std::max<int64_t>(problem.k, 1);
    p.order = static_cast<TileOrder>(below(2));
    p.pack_a = static_cast<PackA>(below(2));
    if (allowed.has(Feature::kAvx512Bf16) && dot_possible(problem, p) && below(2) == 0) {
      p.dot = Dot::kBf16, p.pack_a = PackA::kPairs;
      p.kc = round_up(p.kc, kr_of(p.dot));
    }
    p.pack_b = problem.b == BLayout::kPacked ? PackB::kNone : static_cast<PackB>(below(3));
    p.panel = p.lanes * (1 + below(p.nr / p.lanes));
    p.unroll_k = static_cast<int>(1 + below(4));
    p.prefetch_b = static_cast<int>(4 * below(2));
    p.prefetch_next = below(2) == 1;
    p.prefetch_c = below(3) == 0;
    p.parallel = static_cast<ParallelDim>(below(3));
    p = canonical(problem, p);
    if (legal(problem, p).ok()) return p;
  }
}

}  // namespace hone::matmul
