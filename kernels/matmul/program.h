// TransformProgram of matmul: the loop-level recipe that turns a MatmulProblem into LoopIR.
//
// Text (canonical, one line, steps in this order):
//   vectorize(avx512,16) register_tile(14,32) tile(112,512,384) order(ji) pack_a(rows) pack_b(block) panel(16)
//   unroll_k(1) prefetch_b(8) prefetch_next(1) prefetch_c(1) parallel(mn)      prefetch_next, prefetch_c: absent when 0
// and dot(bf16) after vectorize, absent in class `ordered`. It selects the numerics class `bf16`: A is rounded to bf16,
//   T = +0; for t ascending: T = fma(a[2t], b[2t], fma(a[2t + 1], b[2t + 1], T))      what is beyond k is 0
// each fma rounded to f32, denormal operands and results flushed to zero (kernels/ir/bf16_pairs.h): what vdpbf16ps does
// in one instruction, twice the products of an fma. Everything after the sum is as in class `ordered`. Where a step of
// a program counts k-steps it counts such pairs then, except kc.
//
// Applied to a problem it gives the same LoopIR every time; a program that does not fit a problem is refused with the
// reason.
#pragma once

#include <compare>
#include <cstdint>
#include <string>
#include <string_view>

#include "engine/base/isa.h"
#include "engine/base/status.h"
#include "kernels/ir/ir.h"
#include "kernels/matmul/operands.h"
#include "kernels/matmul/problem.h"

namespace hone::matmul {

// Loops over the register tiles of a block, outermost first. ji keeps a panel of B hot while the rows of A stream past
// it, ij keeps the rows of A hot.
enum class TileOrder : uint8_t { kJi, kIj };

enum class PackA : uint8_t {
  kNone,
  kRows,   // copies an mc x kc block row by row: the rows of a tile stop sharing cache sets when lda is a power of two
  kPairs,  // the same, rounded to pairs of bf16: what dot(bf16) multiplies, with it alone and always
};

// How products are summed: what selects the numerics class.
enum class Dot : uint8_t {
  kNone,  // one fma each. Class `ordered`
  kBf16,  // pairs of bf16. Class `bf16`; needs weights of bf16, AVX512_BF16
};
// k-steps of a column that lie side by side in packed panels.
constexpr int64_t kr_of(Dot dot) { return dot == Dot::kBf16 ? 2 : 1; }

enum class PackB : uint8_t {
  kNone,   // read where it is: nn rows, or panels packed beforehand
  kBlock,  // copies (nn) or transposes (nt) a kc x nc block into panels, reused by all rows of the task
  kStrip,  // copies or transposes kc x nr at a time within one register tile, sums stay in registers: for few rows
};

// Which block loops may run as tasks. The other one becomes a serial loop inside the task, where packed blocks are
// reused.
enum class ParallelDim : uint8_t { kM, kN, kMn };

struct TransformProgram {
  Isa isa = Isa::kAvx2;
  int lanes = 8;
  Dot dot = Dot::kNone;
  int64_t mr = 6, nr = 16;               // register tile, nr a multiple of lanes
  int64_t mc = 72, nc = 1024, kc = 256;  // block sizes, mc a multiple of mr, nc of nr
  TileOrder order = TileOrder::kJi;
  PackA pack_a = PackA::kNone;
  PackB pack_b = PackB::kNone;
  int64_t panel = 8;   // width of panels packed beforehand (b=packed), divides nr
  int unroll_k = 1;    // KU
  int prefetch_b = 0;  // k-steps ahead within the panel; 0: none
  // The panels of B that come next, from memory into L2: every register tile of rows announces its share of them. Of
  // panels packed beforehand only.
  bool prefetch_next = false;
  bool prefetch_c = false;  // C of the next register tile, at the start of each
  ParallelDim parallel = ParallelDim::kMn;

  auto operator<=>(const TransformProgram&) const = default;  // some total order, for sets
};

std::string to_string(const TransformProgram& program);
// Error: invalid_argument naming the step and the column.
Result<TransformProgram> parse_program(std::string_view text);

// Bytes of the blocks of A and B that one task packs; INT64_MAX when they do not fit 63 bits. More than kMaxPackedBytes
// is not legal: each thread holds its own.
inline constexpr int64_t kMaxPackedBytes = int64_t{256} << 20;
int64_t packed_bytes(const MatmulProblem& problem, const TransformProgram& program);

// Vector registers that the innermost loop needs: accumulators, the smaller side of the tile, one for the larger side.
int64_t tile_registers(const TransformProgram& program);

// "ordered" or "bf16".
std::string_view numerics(const TransformProgram& program);
// How B is to be packed for it, b=packed.
inline PackedB layout_of(const TransformProgram& p) { return {.width = p.panel, .kr = kr_of(p.dot)}; }
// Features of a CPU that its code needs beyond those of its ISA.
FeatureSet features(const TransformProgram& program);

// ok, or unsupported/invalid_argument with the rule and the numbers ("avx2: tile 14x32 needs 59 vector registers, has
// 16").
Status legal(const MatmulProblem& problem, const TransformProgram& program);

// The same program with block sizes cut to the problem (nc to n, kc to k) and knobs that cannot matter reset, so that
// programs with equal effect become equal.
TransformProgram canonical(const MatmulProblem& problem, TransformProgram program);

// What lower() makes of a program: canonical, with every knob that it does not read for this problem reset. Legal
// programs of one ISA have the same LoopIR (but for the name) exactly when these are equal, for n > 0, so that
// thousands of programs can be told apart without lowering them. An identity, not a program to run: it need not be
// legal itself.
TransformProgram lowering_identity(const MatmulProblem& problem, const TransformProgram& program);

// "matmul_f32_f32_f32_14x32_avx512": A as it is multiplied, B, C, tile, ISA
std::string kernel_name(const MatmulProblem& problem, const TransformProgram& program);

// Argument order of the lowered kernel: a, b, c, then bias, gate, residual as far as the epilogue uses them.
// Params: m, then sa, sb, sc when batch > 1.
Result<ir::Kernel> lower(const MatmulProblem& problem, const TransformProgram& program);

// Packing of a constant B into panels: arguments src (nn or nt, row stride ldb of `source`), dst
// [ceil(n/panel)][k][panel], columns beyond n are zero. No params; one task per panel.
Result<ir::Kernel> lower_pack_b(const MatmulProblem& source, int64_t panel, Isa isa);
// Of one batch item.
int64_t packed_elements(int64_t n, int64_t k, int64_t panel, int64_t kr = 1);

}  // namespace hone::matmul
