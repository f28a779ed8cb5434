// The default plan. Two kinds: a task with few rows is bound by reading K and V, one with many by multiplying.
#include "kernels/attention/blocking.h"

#include <algorithm>
#include <numeric>
#include <optional>

#include "engine/base/math.h"

namespace hone::attention {
namespace {

// Vectors of a product tile of `rows` rows: as many as the registers hold, at most `most`.
int64_t tile_vectors(const IsaInfo& isa, int64_t rows, int64_t most) {
  int64_t nv = 1;
  while (nv < most && rows * (nv + 1) + std::min(rows, nv + 1) + 1 < isa.vector_registers) ++nv;
  return nv;
}

// As many sums as hide the latency of fma: 4 cycles, two a cycle.
constexpr int64_t kChains = 8;

// Rows that one tile holds. K is transposed a strip at a time and used while it is in L1; V is read 32 keys at a time,
// so that columns that do not fit one tile come from L1 the second time. One thread of a Granite Rapids VM, 4 rows,
// d=128, 32768 keys, K and V from memory that four streams read at 16.2 GB/s: 12.0 announced 64 keys ahead once, 14.1
// 32 keys ahead in pairs (k=blocked 13.1 and 14.6). Strips of 32 keys instead of 16: K alone 12.6 instead of 14.2; only
// where all is in cache they win (4096 keys, d=64: 26.8 instead of 25.7 GB/s).
void few_rows(const AttentionProblem& problem, const IsaInfo& isa, int64_t rows, AttentionProgram& p) {
  const int64_t per_group = kKeyGroup / p.lanes;
  p.mr = p.vr = p.tile_rows = rows;
  const int64_t wanted = round_up(std::max<int64_t>(ceil_div(kChains, rows), 2), per_group);
  p.nr = std::max(tile_vectors(isa, rows, wanted) / per_group * per_group, per_group) * p.lanes;
  p.vn = tile_vectors(isa, rows, ceil_div(problem.value_dim(), p.lanes)) * p.lanes;
  p.pack_k = PackK::kStrip;
  p.value_depth = 32;
  if (problem.k == KeyLayout::kRows) p.nr = kKeyGroup;
  p.prefetch = 32;
  p.lead = lead_keys(problem);
}

// Tiles with few loads a fma; rows of scores that stay in L1; rows of a task that make transposing K small (64 shuffles
// a square of 16 x 16 are a quarter of a cycle an element of K; each row's fma are an eighth of one, of K and V) while
// their Q and O stay in a quarter of L2.
void many_rows(const AttentionProblem& problem, const BlockingCaches& caches, AttentionProgram& p) {
  if (p.lanes == 16) {
    p.mr = 6, p.nr = 64, p.vr = 14, p.vn = 32;
  } else {
    p.mr = p.vr = 6, p.nr = p.vn = 16;
  }
  p.tile_rows = std::lcm(p.mr, p.vr);
  p.value_depth = p.bk;
  while (p.tile_rows < 24) p.tile_rows *= 2;
  const int64_t group = problem.group();
  const int64_t row_bytes = 4 * (problem.d + problem.value_dim());
  const int64_t rows = std::clamp<int64_t>(caches.l2 / 4 / row_bytes, 64, 512);
  p.bq = std::max<int64_t>(1, rows / group);
}

}  // namespace

AttentionProgram default_program(const AttentionProblem& problem, Isa isa, const BlockingCaches& caches,
                                 std::string_view numerics) {
  const IsaInfo& info = isa_info(isa);
  AttentionProgram p;
  p.isa = isa;
  p.lanes = info.lanes_f32();
  const NumericsClass wanted = parse_class(numerics).value_or(NumericsClass{.bk = kDefaultKeyBlock});
  p.algorithm = wanted.algorithm;
  p.splits = wanted.splits;
  p.bk = wanted.bk > 0 ? wanted.bk : kDefaultKeyBlock;
  p.bq = std::max<int64_t>(problem.q, 1);
  const int64_t rows = p.bq * problem.group();
  const int64_t few = p.lanes == 16 ? 14 : 6;
  if (rows <= few) {
    few_rows(problem, info, rows, p);
  } else {
    many_rows(problem, caches, p);
  }
  if (problem.k == KeyLayout::kBlocked) p.pack_k = PackK::kNone;
  p = canonical(problem, p);
  // Blocks so large that K of one does not fit beside many rows: one position at a time, K a strip at a time.
  if (legal(problem, p).ok() || problem.group() > few) return p;
  p.bq = 1;
  few_rows(problem, info, problem.group(), p);
  if (problem.k == KeyLayout::kBlocked) p.pack_k = PackK::kNone;
  return canonical(problem, p);
}

AttentionProgram materialised_program(const AttentionProblem& problem, Isa isa, const BlockingCaches& caches) {
  AttentionProgram p = default_program(problem, isa, caches, "ordered");
  p.algorithm = Algorithm::kMaterialised;
  // A tile has all rows of the task: a strip of K is transposed once for all of them.
  if (p.pack_k == PackK::kBlock) p.pack_k = PackK::kStrip;
  p.bq = std::max<int64_t>(problem.q, 1);
  while (p.bq > 1 && !legal(problem, p).ok()) p.bq = ceil_div(p.bq, 2);
  return canonical(problem, p);
}

int64_t lead_keys(const AttentionProblem& problem) { return std::clamp<int64_t>(256 / problem.d, 1, 16); }

double region_work(const AttentionProblem& problem) {
  // An element of K or V that comes from memory takes as long as 8 multiply-adds.
  return std::max(problem.flops() / 2, problem.kv_bytes() / 4 * 8);
}

}  // namespace hone::attention
