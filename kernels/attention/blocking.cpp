// The default plan: tiles that fill the register file for the rows a task has, blocks that fit L2.
#include "kernels/attention/blocking.h"

#include <algorithm>

#include "engine/base/math.h"

namespace hone::attention {
namespace {

// Vectors of a product tile of `rows` rows: as many as the registers hold, at most `most`.
int64_t tile_vectors(const IsaInfo& isa, int64_t rows, int64_t most) {
  int64_t nv = 1;
  while (nv < most && rows * (nv + 1) + std::min(rows, nv + 1) + 1 < isa.vector_registers) ++nv;
  return nv;
}

// Rows of a task for which a block of K is transposed. 64 shuffles a square of 16 x 16 are a quarter of a cycle an
// element; 256 rows are 16 cycles of fma an element, of K and V together.
constexpr int64_t kTaskRows = 256;

}  // namespace

AttentionProgram default_program(const AttentionProblem& problem, Isa isa, const BlockingCaches& caches,
                                 std::string_view numerics) {
  (void)caches;
  const IsaInfo& info = isa_info(isa);
  AttentionProgram p;
  p.isa = isa;
  p.lanes = info.lanes_f32();
  const int64_t group = problem.group(), all_rows = std::max<int64_t>(problem.q, 1) * group;
  const int64_t wide = p.lanes == 16 ? 14 : 6;
  const int64_t rows = std::min(all_rows, wide);
  const int64_t per_group = kKeyGroup / p.lanes;
  p.mr = p.vr = rows;
  p.nr = std::max<int64_t>(1, tile_vectors(info, rows, 8) / per_group) * kKeyGroup;
  p.vn = tile_vectors(info, rows, ceil_div(problem.value_dim(), p.lanes)) * p.lanes;
  p.tile_rows = rows;
  const NumericsClass wanted = parse_class(numerics).value_or(NumericsClass{.bk = kDefaultKeyBlock});
  p.algorithm = wanted.algorithm;
  p.splits = wanted.splits;
  p.bk = p.value_depth = wanted.bk > 0 ? wanted.bk : kDefaultKeyBlock;
  p.bq = std::max<int64_t>(1, std::min(problem.q, kTaskRows / group));
  if (problem.k == KeyLayout::kBlocked) p.pack_k = PackK::kNone;
  return canonical(problem, p);
}

double region_work(const AttentionProblem& problem) {
  // 20 GFMA/s and 10 GB/s are what slow cores do: only the ratio matters.
  return std::max(problem.flops() / 2, problem.kv_bytes() * 2);
}

}  // namespace hone::attention
