// See matmul_testing.h.
#include "tests/kernels/matmul/matmul_testing.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>

#include "kernels/matmul/blocking.h"
#include "kernels/matmul/lower_internal.h"

namespace hone::matmul {
namespace {

float uniform(std::mt19937_64& rng) { return std::uniform_real_distribution<float>(-1, 1)(rng); }

int64_t elements_of(int64_t batch, int64_t stride, int64_t rows, int64_t cols, int64_t ld) {
  if (rows == 0 || cols == 0) return 0;
  return (batch - 1) * stride + (rows - 1) * ld + cols;
}

}  // namespace

TestOperands::TestOperands(const MatmulProblem& problem, int64_t panel, uint64_t seed) : problem_(problem), rng_(seed) {
  const MatmulProblem& p = problem_;
  operands_.a = matrix(a_, p.batch_stride_a(), p.m, p.k, p.row_stride_a(), true);
  make_b(panel);
  operands_.c = matrix(c_, p.batch_stride_c(), p.m, p.n, p.row_stride_c(), p.beta != 0);
  initial_c_.assign(operands_.c, operands_.c + c_elements());
  if (p.has(EpilogueOp::kBias)) {
    float* bias = allocate(bias_, p.n);
    for (int64_t j = 0; j < p.n; ++j) bias[j] = uniform(rng_);
    operands_.bias = bias;
  }
  if (p.has(EpilogueOp::kGate)) operands_.gate = matrix(gate_, p.batch_stride_c(), p.m, p.n, p.row_stride_c(), true);
  if (p.has(EpilogueOp::kResidual))
    operands_.residual = matrix(residual_, p.batch_stride_c(), p.m, p.n, p.row_stride_c(), true);
}

float* TestOperands::allocate(Buffer& buffer, int64_t elements) {
  Result<GuardedBuffer> made = GuardedBuffer::create(elements * 4);
  if (!made.ok()) {
    ADD_FAILURE() << made.status().message();
    std::abort();
  }
  buffer.emplace(std::move(made).value());
  return reinterpret_cast<float*>(buffer->data());
}

float* TestOperands::matrix(Buffer& buffer, int64_t stride, int64_t rows, int64_t cols, int64_t ld, bool fill) {
  float* base = allocate(buffer, elements_of(problem_.batch, stride, rows, cols, ld));
  if (!fill) return base;
  for (int64_t b = 0; b < problem_.batch; ++b)
    for (int64_t i = 0; i < rows; ++i)
      for (int64_t j = 0; j < cols; ++j) base[b * stride + i * ld + j] = uniform(rng_);
  return base;
}

void TestOperands::make_b(int64_t panel) {
  const MatmulProblem& p = problem_;
  if (p.b != BLayout::kPacked) {
    const bool nt = p.b == BLayout::kNt;
    operands_.b = matrix(b_, p.batch_stride_b(), nt ? p.n : p.k, nt ? p.k : p.n, p.row_stride_b(), true);
    return;
  }
  MatmulProblem source = p;
  source.b = BLayout::kNn;
  source.ldb = 0;
  const int64_t items = p.sb == 0 ? 1 : p.batch;
  std::vector<float> rows(static_cast<size_t>(items * p.k * p.n));
  for (float& f : rows) f = uniform(rng_);
  source.batch = items;
  const std::vector<float> panels = pack_b_reference(source, rows.data(), panel);
  float* b = allocate(b_, static_cast<int64_t>(panels.size()));
  std::copy(panels.begin(), panels.end(), b);
  operands_.b = b;
  packed_ = {.width = panel, .batch_stride = items == 1 ? 0 : packed_elements(p.n, p.k, panel)};
}

int64_t TestOperands::c_elements() const {
  return elements_of(problem_.batch, problem_.batch_stride_c(), problem_.m, problem_.n, problem_.row_stride_c());
}

void TestOperands::reset_c() { std::copy(initial_c_.begin(), initial_c_.end(), operands_.c); }

Comparison TestOperands::compare_with_reference() const {
  std::vector<float> expected = initial_c_;
  MatmulOperands reference = operands_;
  reference.c = expected.data();
  ordered_f32(problem_, reference, packed_);
  Comparison comparison = compare_bits(problem_, operands_.c, expected.data());
  // What lies between the rows of C was NaN in both; anything else there was written.
  for (int64_t i = 0; i < c_elements(); ++i) {
    if (std::isnan(expected[static_cast<size_t>(i)]) != std::isnan(operands_.c[i])) {
      ++comparison.mismatches;
      comparison.text += " element " + std::to_string(i) + " of C's memory was written though it is padding";
      break;
    }
  }
  return comparison;
}

MatmulProblem random_problem(uint64_t seed, const ProblemLimits& limits) {
  std::mt19937_64 rng(seed);
  auto below = [&](int64_t n) { return static_cast<int64_t>(rng() % static_cast<uint64_t>(n)); };
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
  std::shuffle(ops.begin(), ops.end(), rng);
  if (below(2) == 0) p.epilogue.assign(ops.begin(), ops.begin() + 1 + below(4));
  return p;
}

TransformProgram random_program(const MatmulProblem& problem, uint64_t seed, std::optional<Isa> isa) {
  std::mt19937_64 rng(seed);
  auto below = [&](int64_t n) { return static_cast<int64_t>(rng() % static_cast<uint64_t>(n)); };
  for (;;) {
    TransformProgram p;
    p.isa = isa.value_or(all_isas()[static_cast<size_t>(below(static_cast<int64_t>(all_isas().size())))]);
    p.lanes = isa_info(p.isa).lanes_f32();
    const std::vector<RegisterTile> tiles = register_tiles(p.isa);
    const RegisterTile tile = tiles[static_cast<size_t>(below(static_cast<int64_t>(tiles.size())))];
    p.mr = tile.mr, p.nr = tile.nr;
    p.mc = p.mr * (1 + below(3));
    p.nc = p.nr * (1 + below(3));
    p.kc = 1 + below(2) * below(problem.k + 1) + below(40);
    if (problem.beta != 0) p.kc = std::max<int64_t>(problem.k, 1);
    p.order = static_cast<TileOrder>(below(2));
    p.pack_a = static_cast<PackA>(below(2));
    p.pack_b = problem.b == BLayout::kPacked ? PackB::kNone : static_cast<PackB>(below(3));
    p.panel = p.lanes * (1 + below(p.nr / p.lanes));
    p.unroll_k = static_cast<int>(1 + below(4));
    p.prefetch_b = static_cast<int>(4 * below(2));
    p.prefetch_next = below(2) == 1;
    p.parallel = static_cast<ParallelDim>(below(3));
    p = canonical(problem, p);
    if (legal(problem, p).ok()) return p;
  }
}

}  // namespace hone::matmul
