// What the files of this folder share about lowering.
#pragma once

#include <functional>
#include <string>

#include "engine/base/math.h"
#include "kernels/ir/builder.h"
#include "kernels/math/ir_ops.h"
#include "kernels/matmul/problem.h"
#include "kernels/matmul/program.h"

namespace hone::matmul {

// How prefetch_next walks, of a canonical program: with ji the panels of the next tile of the same block; else those of
// the next block, which where the loop over k is the inner one lie further down in the same panels.
inline bool announces_next_tile(const TransformProgram& p) { return p.order == TileOrder::kJi && p.nc > p.nr; }

// Pairs from one row to the next of a block of A in pairs (pack_a), kc k-steps wide: whole vectors, and an odd number
// of cache lines, so that rows of a tile never share the sets of L1.
constexpr int64_t pair_row(int64_t kc) {
  constexpr int64_t kLine = 16;
  return (ceil_div(ceil_div(kc, 2), kLine) | 1) * kLine;
}

// Where the elements of a strip of B come from and where the packed strip goes. Coordinates: p counts k-rows from the
// start of the strip, c columns.
struct StripCopy {
  BLayout layout;  // kNn or kNt
  std::function<ir::Access(ir::Affine p, ir::Affine c)> src;
  std::function<ir::Access(ir::Affine p, ir::Affine c)> dst;
  int64_t cols;           // valid columns, compile-time
  int64_t width;          // columns to write (>= cols): the rest becomes zero
  ir::Affine rows;        // k-rows in this strip
  bool dst_rows_rounded;  // dst has room for rows rounded up to the vector length
};

// Emits the copy (nn) or transposition (nt) of one strip; registers are created per call.
class StripPacker {
 public:
  StripPacker(ir::Builder& builder, int lanes);
  void emit(const StripCopy& copy);
  // One k-row of an nn strip, for callers that walk several strips row by row.
  void emit_row(const StripCopy& copy, const ir::Affine& p);

 private:
  void emit_transposed(const StripCopy& copy);
  void transpose_block(const StripCopy& copy, ir::Affine p, int64_t c0, ir::RegRef load_mask, int64_t store_rows);

  ir::Builder& b_;
  int lanes_;
  ir::RegId x_, y_, mask_;
};

// Where one vector of a tile finds its operands. Only those that the problem uses are read.
struct EpilogueAccesses {
  ir::Access sum;
  bool sum_masked;  // the sum lies in C (whose tail must not be touched) rather than in the workspace
  ir::Access c;
  ir::Access bias = {}, gate = {}, residual = {}, row_scale = {};
  ir::Access up = {}, up_bias = {};  // swiglu: of the up columns, where sum and bias are those of the gate's
};

// Emits what follows the sum: alpha, beta, then the chain of the problem, on one vector at a time, in a rolled loop.
// Doing it there and not in the microkernel keeps the accumulators' registers free and the code small; the tile is hot
// in L1.
class EpilogueEmitter {
 public:
  EpilogueEmitter(ir::Builder& builder, const MatmulProblem& problem, int lanes);

  // Constants, into the open block, which must enclose every emit().
  void declare();
  // C = epilogue(sum) for one vector; mask may be invalid (all lanes).
  void emit(const EpilogueAccesses& at, ir::RegRef mask);

 private:
  void apply(EpilogueOp op, const EpilogueAccesses& at, ir::RegRef mask);
  void swiglu(const EpilogueAccesses& at);

  ir::Builder& b_;
  const MatmulProblem& p_;
  math::IrOps ops_;
  ir::RegId v_, w_, alpha_ = -1, beta_ = -1, up_operand_ = -1;
};

}  // namespace hone::matmul
