// What the files of this folder share about lowering a row program.
//
//   lower.cpp     arguments, tasks, rows, passes, the loop over columns, reductions
//   columns.cpp   one vector of columns: loads, stores, and the ways in which a row lies in memory
//   steps.cpp     arithmetic: one step on one vector register
#pragma once

#include <vector>

#include "kernels/ir/builder.h"
#include "kernels/math/ir_ops.h"
#include "kernels/math/lane_reducer.h"
#include "kernels/rows/plan_internal.h"

namespace hone::rows {

class RowLowering {
 public:
  RowLowering(const RowProgram& program, const RowPlan& plan, Isa isa);
  ir::Kernel run();

 private:
  using Affine = ir::Affine;
  using RegRef = ir::RegRef;

  // One vector of columns: the first of them, and its place among the vectors of a group of kChains columns. With a
  // mask, `count` (at least) columns are there, of which a vector has at most its lanes.
  struct Part {
    Affine column;
    int64_t chain = 0;
    bool masked = false;
    Affine count;
  };
  struct Memory {
    ir::BufferId data = -1, table = -1, stage = -1;
    Affine rows;
    Affine gathered;       // index that the table gave for this row
    RegRef first, second;  // kPairs: both vectors, apart
    bool held = false;     // they hold the vector at hand
  };

  // ---- lower.cpp ----
  void declare_arguments();
  void declare_operand(size_t i);
  void declare_registers();
  void declare_constants();
  void outer(int dimension);
  void task();
  void row();
  void pass(const std::vector<int>& steps);
  void each_part(const std::vector<int>& steps);
  void each_column(const std::vector<int>& steps);
  void tail(const std::vector<int>& steps, const Affine& from, const Affine& count);
  void begin_reduction(const Step& step, int i);
  void reduce(const Step& step, int i, const Part& part);
  void end_reduction(const Step& step, int i);
  void columns(const std::vector<int>& steps, const Part& part);

  // ---- columns.cpp ----
  ir::Access access(int operand, std::vector<Affine> column) const;
  void load(const Step& step, int i, const Part& part);
  void load_pairs(const Step& step, const Part& part);
  void load_staged(const Step& step, int i, const Part& part);
  void store(const Step& step, const Part& part);
  void store_pairs(const Step& step, const Part& part);
  void load_per_row(const Step& step, int i);
  void store_per_row(const Step& step);

  // ---- steps.cpp ----
  void compute(const Step& step, int i);
  void unary(StepOp op, const RegRef& out, const RegRef& x);
  void logarithm(const RegRef& out, const RegRef& x);
  void to_float(const RegRef& out, const Step& step);
  void truncate(const RegRef& out, const RegRef& x);
  void compare(const Step& step, const RegRef& out);
  void logic(const Step& step, const RegRef& out);
  void extreme(StepOp op, const RegRef& out, const RegRef& a, const RegRef& b);
  // Constants of all steps, before the rows.
  void declare_step_constants(const Step& step);

  const Operand& operand(const Step& step) const { return p_.operands[static_cast<size_t>(step.operand)]; }
  Memory& memory(const Step& step) { return memory_[static_cast<size_t>(step.operand)]; }
  const RegRef& value(int i) const { return value_[static_cast<size_t>(i)]; }
  const RegRef& arg(const Step& step, size_t which) const { return value(step.args[which]); }
  RegRef vector(const char* name, DType dtype = DType::kF32) {
    return ir::Builder::at(b_.reg(name, {.dtype = dtype, .lanes = lanes_}));
  }
  RegRef mask(const char* name) { return ir::Builder::at(b_.reg(name, {.lanes = lanes_, .mask = true})); }
  RegRef chain(int i, int64_t c) const { return ir::Builder::at(chains_[static_cast<size_t>(i)], {c}); }
  RegRef nan_chain(int i, int64_t c) const { return ir::Builder::at(nan_chains_[static_cast<size_t>(i)], {c}); }
  int64_t vectors() const { return lanes_ == 1 ? 1 : kChains / lanes_; }  // of a group of columns

  const RowProgram& p_;
  const RowPlan& plan_;
  ir::Builder b_;
  const int lanes_;
  std::vector<Affine> extents_, index_;  // by outer dimension
  Affine n_;
  std::vector<Memory> memory_;  // by operand
  std::vector<RegRef> value_;   // by step
  std::vector<ir::RegId> chains_, nan_chains_;
  math::IrOps ops_;
  RegRef live_, live_next_, test_, spare_, spare_next_;
};

// Do the results of this reduction remember a NaN?
inline bool keeps_nan(StepOp op) { return op == StepOp::kReduceMax || op == StepOp::kReduceMin; }

}  // namespace hone::rows
