// The generator behind random.h. Each integer in scope carries the interval of its values, so that every access can be
// shifted into its buffer and no kernel has to be thrown away.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "engine/base/random.h"
#include "kernels/ir/builder.h"
#include "kernels/ir/random.h"

namespace hone::ir {

class KernelGenerator {
 public:
  KernelGenerator(uint64_t seed, int max_lanes, bool pairs);
  RandomKernel make();

 private:
  struct Interval {
    int64_t lo, hi;
  };
  struct Integer {
    Affine value;
    Interval range;
    bool constant;  // unrolled or specialised: may index registers
  };
  // Registers of one vector length: a tile of floats, integers, masks, and what no_nan() and its users write and read.
  struct Family {
    int lanes;
    int64_t rows, columns;
    RegId floats, ints, masks, number, spare, other;
  };
  // [one dimension for each parallel variable, if it is stored to][rows][columns and kSlack].
  struct Space {
    BufferId id;
    DType dtype;
    bool stored;
    bool by_task;  // has the dimensions of the tasks
    int64_t rows, columns;
  };
  using Make = std::function<void()>;

  // random.cpp: declarations, control flow, integers.
  void choose_profile();
  void declare();
  void declare_family(int lanes, int64_t rows, int64_t columns);
  void declare_buffers();
  void add_task_dimensions(Buffer& buffer, int64_t elements_of_task) const;
  void space(const std::string& name, Scope scope, DType dtype, Affine stride, int64_t rows, int64_t columns);
  std::vector<int64_t> random_run();
  void tasks(size_t level);
  void body();
  void initialise(const Family& f);
  void statements(int depth, int count);
  void structure(int depth);
  void serial(int depth);
  void unrolled(int depth);
  void specialised(int depth);
  void branch(int depth);
  void sweep(int depth);
  void rows_of_runtime_extent(int depth);
  void let();
  Integer affine(int64_t span, bool constant_only = false);
  Affine index(int64_t extent, bool constant_only = false);
  void with(const Affine& value, Interval range, bool constant, const Make& make);
  void repeated(int64_t copies, int64_t iterations, const Make& make);
  int count_inside() { return static_cast<int>(random_.between(1, 3)); }

  // random_ops.cpp: one operation at a time.
  void operation();
  void float_operation(const Family& f);
  void integer_operation(const Family& f);
  void memory_operation(const Family& f);
  void pair_operation(const Family& f);
  void no_nan(const Family& f, RegId into);
  void bits_of_float(const Family& f);
  void constant(const Family& f);
  RegRef f(const Family& f) { return b_.at(f.floats, {index(f.rows, true), index(f.columns, true)}); }
  RegRef s(const Family& f) { return b_.at(f.ints, {index(3, true)}); }
  RegRef m(const Family& f) { return b_.at(f.masks, {index(2, true)}); }
  RegRef maybe_mask(const Family& f) { return random_.chance(30) ? m(f) : RegRef{}; }
  const Family& family() {
    return families_[static_cast<size_t>(random_.below(static_cast<int64_t>(families_.size())))];
  }
  const Space& any_space(DType dtype, bool stored);
  Access access(const Space& space);
  std::vector<Affine> task_index(const Space& space) const;
  void emitted() { budget_ -= copies_; }

  Random random_;
  Builder b_;
  const int max_lanes_;
  const bool pairs_;

  // The profile.
  bool provable_ = true;  // parameters are clamped before they index anything
  int depth_ = 2;
  int64_t budget_ = 0;  // of statements after unrolling
  struct Tasks {
    int64_t lo, hi, step;
    bool runtime;  // hi is the parameter p
  };
  std::vector<Tasks> parallel_;

  VarId p_ = -1, q_ = -1, n_ = -1, ld_ = -1;
  int64_t rows_ = 0, columns_ = 0;  // of buffers
  std::vector<Family> families_;
  std::vector<Space> spaces_;
  BufferId sweep_ = -1, runtime_rows_ = -1;
  std::vector<BufferId> finals_;
  BufferId table_ = -1, bytes_ = -1;
  std::vector<BufferId> halves_;  // bf16, f16
  Affine most_;                   // elements of the table are below it
  std::vector<Affine> task_vars_;
  std::vector<Integer> scope_;
  int64_t copies_ = 1, iterations_ = 1;  // of the statement at hand
};

}  // namespace hone::ir
