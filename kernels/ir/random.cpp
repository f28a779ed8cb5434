// See random.h and random_internal.h. Here: what a kernel has to work with, its control flow and its integers.
//
// Sizes are chosen for the code generator that compiles slowest: a kernel is some 10 to 100 statements after unrolling,
// so that LLVM takes milliseconds, and now and then some hundreds. Small kernels miss little: what two statements do to
// each other shows in small ones, and what needs many registers gets a large tile.
#include "kernels/ir/random.h"

#include <algorithm>

#include "kernels/ir/random_internal.h"

namespace hone::ir {
namespace {

constexpr int64_t kMaxParam = 9;          // of p and q, and of what ld is more than a row
constexpr int64_t kMaxSweep = 40;         // of n
constexpr int64_t kTable = 13;            // elements
constexpr int64_t kSlack = 16;            // columns behind the last one that a vector may start at
constexpr int64_t kMaxCopies = 64;        // of a statement by unrolling
constexpr int64_t kMaxIterations = 1500;  // of a statement by loops: the interpreter takes 0.1 us for one

int64_t trips(int64_t length, int64_t step) { return std::max<int64_t>(1, (length + step - 1) / step); }

}  // namespace

RandomKernel random_kernel(uint64_t seed, int max_lanes, bool pairs) {
  return KernelGenerator(seed, max_lanes, pairs).make();
}

KernelGenerator::KernelGenerator(uint64_t seed, int max_lanes, bool pairs)
    : random_(seed), b_("random_" + std::to_string(seed)), max_lanes_(max_lanes), pairs_(pairs) {}

RandomKernel KernelGenerator::make() {
  choose_profile();
  declare();
  tasks(0);
  RandomKernel made{b_.finish(), {}};
  for (int i = 0; i < 3; ++i) made.runs.push_back(random_run());
  made.runs.front()[0] = std::max<int64_t>(made.runs.front()[0], 1);  // p: where it counts tasks, there are some
  return made;
}

// ---- what there is to work with ------------------------------------------------------------------------------------

void KernelGenerator::choose_profile() {
  provable_ = random_.chance(88);
  const int64_t levels[] = {0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 1, 2, 2, 3, 4};
  for (int64_t level = random_.element(levels); level > 0; --level) {
    const int64_t lo = random_.between(0, 1);
    parallel_.push_back({lo, lo + random_.between(1, 3), random_.one_of<int64_t>({1, 1, 2}), random_.chance(15)});
    if (parallel_.back().runtime) parallel_.back().lo = 0;
  }
  rows_ = parallel_.size() > 1 ? 3 : random_.one_of<int64_t>({3, 8, 24});
  columns_ = parallel_.size() > 1 ? 20 : random_.one_of<int64_t>({20, 20, 64});

  int lanes = 1;
  do lanes = random_.one_of({1, 4, 8, 16});
  while (lanes > max_lanes_);
  int64_t rows = 1;
  const int64_t size = random_.below(100);
  if (size < 60) {
    budget_ = 30, depth_ = 2, rows = random_.one_of<int64_t>({1, 1, 2});
  } else if (size < 90) {
    budget_ = 80, depth_ = 3, rows = random_.one_of<int64_t>({1, 2, 4});
  } else if (size < 98) {
    budget_ = 250, depth_ = 4, rows = random_.one_of<int64_t>({2, 4, 7});
  } else {
    budget_ = 600, depth_ = 8, rows = random_.one_of<int64_t>({2, 7});
  }
  declare_family(lanes, rows, rows + 2);
  if (random_.chance(35)) {
    int other = 1;
    do other = random_.one_of({1, 4, 8, 16});
    while (other > max_lanes_);
    declare_family(other, 1, 2);
  }
}

void KernelGenerator::declare_family(int lanes, int64_t rows, int64_t columns) {
  const RegType f32{.lanes = lanes}, s32{.dtype = DType::kS32, .lanes = lanes}, mask{.lanes = lanes, .mask = true};
  families_.push_back({lanes, rows, columns, b_.reg("f", f32, {rows, columns}), b_.reg("s", s32, {3}),
                       b_.reg("m", mask, {2}), b_.reg("number", mask), b_.reg("spare", f32),
                       pairs_ ? b_.reg("other", f32) : RegId{-1}});
}

void KernelGenerator::declare() {
  p_ = b_.param("p"), q_ = b_.param("q"), n_ = b_.param("n"), ld_ = b_.param("ld");
  declare_buffers();
  most_ = provable_ || random_.chance(50) ? Affine(random_.between(1, 12)) : Affine::var(p_) + 1;
}

// Dimensions in front, one for each parallel variable. Their strides leave room for p at its largest.
void KernelGenerator::add_task_dimensions(Buffer& buffer, int64_t elements_of_task) const {
  std::vector<Affine> extents, strides;
  for (const Tasks& t : parallel_) extents.push_back(t.runtime ? Affine::var(p_) : Affine(t.hi));
  for (size_t i = parallel_.size(); i-- > 0;) {
    strides.insert(strides.begin(), elements_of_task);
    elements_of_task *= parallel_[i].runtime ? kMaxParam : parallel_[i].hi;
  }
  buffer.extents.insert(buffer.extents.begin(), extents.begin(), extents.end());
  buffer.strides.insert(buffer.strides.begin(), strides.begin(), strides.end());
}

void KernelGenerator::space(const std::string& name, Scope scope, DType dtype, Affine stride, int64_t rows,
                            int64_t columns) {
  const int64_t widest = stride.is_constant() ? stride.constant() : columns + kSlack + kMaxParam;
  Buffer buffer{.name = name, .dtype = dtype, .scope = scope, .extents = {rows, columns + kSlack}, .strides = {}};
  buffer.strides = {std::move(stride), 1};
  const bool by_task = scope == Scope::kInOut;
  if (by_task) add_task_dimensions(buffer, rows * widest);
  if (scope == Scope::kWorkspace) buffer.align = random_.one_of<int64_t>({4, 16, 64});
  spaces_.push_back({b_.buffer(std::move(buffer)), dtype, scope != Scope::kIn, by_task, rows, columns});
}

void KernelGenerator::declare_buffers() {
  const int64_t row = columns_ + kSlack;
  const Affine ld = Affine::var(ld_);
  space("src", Scope::kIn, DType::kF32, row, rows_, columns_);
  space("io", Scope::kInOut, DType::kF32, row + 3, rows_, columns_);
  space("ws", Scope::kWorkspace, DType::kF32, row, rows_, columns_);
  space("strided", random_.chance(70) ? Scope::kInOut : Scope::kIn, DType::kF32, ld, 3, columns_);
  space("isrc", Scope::kIn, DType::kS32, row, 3, columns_);
  space("iout", Scope::kInOut, DType::kS32, row, 3, 20);
  space("iws", Scope::kWorkspace, DType::kS32, row, 2, columns_);
  table_ = b_.buffer({.name = "table", .dtype = DType::kS32, .scope = Scope::kIn, .extents = {kTable}, .strides = {1}});
  bytes_ = b_.buffer({.name = "bytes",
                      .dtype = DType::kU8,
                      .scope = Scope::kIn,
                      .extents = {rows_, row},
                      .strides = {ld, 1},
                      .align = 1});
  // Rows of any stride: elements of two bytes at odd multiples of two.
  for (const DType dtype : {DType::kBf16, DType::kF16})
    halves_.push_back(b_.buffer({.name = std::string(dtype_name(dtype)) + "s",
                                 .dtype = dtype,
                                 .scope = Scope::kIn,
                                 .extents = {rows_, row},
                                 .strides = {ld, 1},
                                 .align = 2}));
  // n elements for each task; and p rows, which tasks may only read.
  Buffer sweep{.name = "sweep", .scope = Scope::kInOut, .extents = {Affine::var(n_)}, .strides = {1}};
  add_task_dimensions(sweep, kMaxSweep);
  sweep_ = b_.buffer(std::move(sweep));
  runtime_rows_ = b_.buffer({.name = "rows",
                             .scope = parallel_.empty() ? Scope::kInOut : Scope::kIn,
                             .extents = {Affine::var(p_), row},
                             .strides = {random_.chance(50) ? ld : Affine(row), 1}});
  for (const Family& f : families_) {
    const int64_t elements = f.rows * f.columns * f.lanes;
    Buffer final{.name = "final" + std::to_string(finals_.size()), .scope = Scope::kOut};
    final.extents = {elements}, final.strides = {1};
    add_task_dimensions(final, elements);
    finals_.push_back(b_.buffer(std::move(final)));
  }
}

std::vector<int64_t> KernelGenerator::random_run() {
  return {random_.between(0, kMaxParam), random_.between(0, kMaxParam), random_.between(0, kMaxSweep),
          columns_ + kSlack + random_.between(0, kMaxParam)};
}

// ---- control flow --------------------------------------------------------------------------------------------------

void KernelGenerator::tasks(size_t level) {
  if (level == parallel_.size()) return body();
  const Tasks& t = parallel_[level];
  b_.parallel("t", t.lo, t.runtime ? Affine::var(p_) : Affine(t.hi), t.step, [&](Affine v) {
    task_vars_.push_back(v);
    if (!t.runtime || !provable_) scope_.push_back({v, {t.lo, t.runtime ? kMaxParam - 1 : t.hi - 1}, false});
    tasks(level + 1);
  });
}

void KernelGenerator::body() {
  if (provable_) {
    scope_.push_back({b_.let_min("pc", {Affine::var(p_), kMaxParam}), {0, kMaxParam}, false});
    scope_.push_back({b_.let_min("qc", {Affine::var(q_) + 2, 7}), {2, 7}, false});
  } else {
    scope_.push_back({Affine::var(p_), {0, kMaxParam}, false});
    scope_.push_back({Affine::var(q_), {0, kMaxParam}, false});
    scope_.push_back({Affine::var(n_), {0, kMaxSweep}, false});
  }
  for (const Family& f : families_) initialise(f);
  statements(depth_, static_cast<int>(random_.between(3, 7)));
  // What every register ends up with.
  for (size_t i = 0; i < families_.size(); ++i) {
    const Family& f = families_[i];
    for (int64_t r = 0; r < f.rows; ++r)
      for (int64_t c = 0; c < f.columns; ++c) {
        std::vector<Affine> at = task_vars_;
        at.emplace_back((r * f.columns + c) * f.lanes);
        b_.store({finals_[i], at}, b_.at(f.floats, {r, c}));
      }
  }
}

void KernelGenerator::initialise(const Family& f) {
  for (int64_t r = 0; r < f.rows; ++r)
    for (int64_t c = 0; c < f.columns; ++c) {
      const RegRef reg = b_.at(f.floats, {r, c});
      if (random_.chance(50)) {
        b_.load(reg, {spaces_.front().id, {random_.below(rows_), random_.below(columns_)}});
      } else {
        b_.constant(reg, static_cast<float>(r) - 0.5F * static_cast<float>(c));
      }
    }
  for (int64_t i = 0; i < 3; ++i) b_.constant_s32(b_.at(f.ints, {i}), static_cast<int32_t>(i * 1000003 - 7 * (i & 1)));
  for (int64_t i = 0; i < 2; ++i) b_.lane_mask(b_.at(f.masks, {i}), random_.between(0, f.lanes));
}

void KernelGenerator::statements(int depth, int count) {
  const size_t outer = scope_.size();
  for (int i = 0; i < count && budget_ > 0; ++i) {
    if (depth > 0 && random_.chance(40)) {
      structure(depth);
    } else {
      operation();
    }
  }
  scope_.erase(scope_.begin() + static_cast<std::ptrdiff_t>(outer), scope_.end());
}

void KernelGenerator::with(const Affine& value, Interval range, bool constant, const Make& make) {
  scope_.push_back({value, range, constant});
  make();
  scope_.pop_back();
}

void KernelGenerator::repeated(int64_t copies, int64_t iterations, const Make& make) {
  copies_ *= copies, iterations_ *= iterations;
  make();
  copies_ /= copies, iterations_ /= iterations;
}

void KernelGenerator::structure(int depth) {
  switch (random_.below(9)) {
    case 0:
    case 1:
      return serial(depth);
    case 2:
      return unrolled(depth);
    case 3:
      return specialised(depth);
    case 4:
      return branch(depth);
    case 5:
      return sweep(depth);
    case 6:
      return rows_of_runtime_extent(depth);
    default:
      return let();
  }
}

// Empty for some values, or for all.
void KernelGenerator::serial(int depth) {
  const Integer lo = affine(6), length = affine(8);
  const int64_t step = random_.one_of<int64_t>({1, 1, 1, 2, 3, 7});
  const int64_t most = trips(length.range.hi, step);
  if (iterations_ * most > kMaxIterations) return operation();
  const int64_t last = lo.range.hi + std::max<int64_t>(length.range.hi, 1) - 1;
  const int count = count_inside();
  b_.serial("i", lo.value, lo.value + length.value, step, [&](Affine i) {
    with(i, {lo.range.lo, last}, false, [&] { repeated(1, most, [&] { statements(depth - 1, count); }); });
  });
}

void KernelGenerator::unrolled(int depth) {
  const Integer lo = affine(2, true);
  const int64_t length = random_.between(0, 4), step = random_.between(1, 3), copies = trips(length, step);
  if (copies_ * copies > kMaxCopies) return operation();
  const int count = count_inside();
  b_.unroll("u", lo.value, lo.value + length, step, [&](Affine u) {
    with(u, {lo.range.lo, std::max(lo.range.lo, lo.range.hi + length - 1)}, true,
         [&] { repeated(copies, 1, [&] { statements(depth - 1, count); }); });
  });
}

void KernelGenerator::specialised(int depth) {
  const Integer v = affine(5);
  const int64_t versions = v.range.hi - v.range.lo + 1;
  if (copies_ * versions > kMaxCopies) return operation();
  const int count = count_inside();
  b_.specialise("c", v.range.lo, v.range.hi, v.value, [&](Affine c) {
    with(c, v.range, true, [&] { repeated(versions, 1, [&] { statements(depth - 1, count); }); });
  });
}

void KernelGenerator::branch(int depth) {
  const Integer e = affine(20);
  const int count = count_inside();
  const auto inside = [&] { statements(depth - 1, count); };
  const Make otherwise = random_.chance(50) ? Make(inside) : nullptr;
  random_.chance(50) ? b_.if_eq_zero(e.value, inside, otherwise) : b_.if_ge_zero(e.value, inside, otherwise);
}

// A run-time count of elements in vectors: the last one under a mask, or in full vectors only, behind them single ones.
void KernelGenerator::sweep(int depth) {
  const Family& f = family();
  const int64_t lanes = f.lanes, most = trips(kMaxSweep, lanes);
  if (iterations_ * most > kMaxIterations) return operation();
  const Affine n = b_.let_min("e", {Affine::var(n_), kMaxSweep});
  const RegRef x = b_.at(b_.reg("x", {.lanes = f.lanes}));
  const RegRef tail = b_.at(b_.reg("tail", {.lanes = f.lanes, .mask = true}));
  auto at = [&](const Affine& i) {
    std::vector<Affine> where = task_vars_;
    where.push_back(i);
    return Access{sweep_, where};
  };
  auto inside = [&](const RegRef& mask, const Affine& i, Interval range) {
    b_.load(x, at(i), mask);
    b_.binary(random_.one_of({BinaryOp::kAdd, BinaryOp::kMul, BinaryOp::kMin}), x, x, this->f(f));
    with(i, range, false, [&] { repeated(1, most, [&] { statements(depth - 1, 1); }); });
    b_.store(at(i), x, mask);
    b_.unary(UnaryOp::kMove, this->f(f), x);
  };
  budget_ -= 5 * copies_;
  if (random_.chance(60)) {
    const int64_t lo = random_.between(0, 3);
    b_.serial("i", lo, n, lanes, [&](Affine i) {
      b_.lane_mask(tail, n - i);
      inside(tail, i, {lo, kMaxSweep - 1});
    });
  } else {
    const Affine full = b_.let_floor_div("v", n, lanes);
    b_.serial("i", 0, full, 1, [&](Affine i) { inside({}, i * lanes, {0, kMaxSweep - lanes}); });
  }
}

// Rows of a buffer with a run-time number of them: each, or those that the table names.
void KernelGenerator::rows_of_runtime_extent(int depth) {
  if (iterations_ * kMaxParam > kMaxIterations) return operation();
  const Affine p = Affine::var(p_);
  const Affine count = b_.let_min("r", {p, kMaxParam});
  const int inner = count_inside();
  b_.serial("i", 0, count, random_.between(1, 3), [&](Affine i) {
    const Affine row = random_.chance(40) ? b_.let_load("l", {table_, {index(kTable)}}, p) : i;
    const Family& f = family();
    b_.load(this->f(f), {runtime_rows_, {row, index(columns_)}}, maybe_mask(f));
    if (parallel_.empty()) b_.store({runtime_rows_, {i, index(columns_)}}, this->f(f), maybe_mask(f));
    budget_ -= 2 * copies_;
    with(i, {0, kMaxParam - 1}, false, [&] { repeated(1, kMaxParam, [&] { statements(depth - 1, inner); }); });
  });
}

// ---- integers ------------------------------------------------------------------------------------------------------

void KernelGenerator::let() {
  const Integer a = affine(20), c = affine(20);
  switch (random_.below(4)) {
    case 0:
      scope_.push_back({b_.let_min("l", {a.value, c.value}),
                        {std::min(a.range.lo, c.range.lo), std::min(a.range.hi, c.range.hi)},
                        false});
      return;
    case 1: {
      const Integer third = affine(9);
      scope_.push_back(
          {b_.let_max("l", {a.value, c.value, third.value}),
           {std::max({a.range.lo, c.range.lo, third.range.lo}), std::max({a.range.hi, c.range.hi, third.range.hi})},
           false});
      return;
    }
    case 2:
      scope_.push_back({b_.let_load("l", {table_, {index(kTable)}}, most_),
                        {0, most_.is_constant() ? most_.constant() - 1 : kMaxParam},
                        false});
      return;
    default: {
      const int64_t by = random_.between(1, 8), up = std::max<int64_t>(0, -a.range.lo);
      scope_.push_back(
          {b_.let_floor_div("l", a.value + up, by), {(a.range.lo + up) / by, (a.range.hi + up) / by}, false});
    }
  }
}

// An affine value over what is in scope whose range spans at most `span`.
KernelGenerator::Integer KernelGenerator::affine(int64_t span, bool constant_only) {
  const int64_t c = random_.between(-3, 3);
  Integer e{c, {c, c}, true};
  for (int64_t terms = random_.below(4); terms > 0 && !scope_.empty(); --terms) {
    const Integer& v = random_.element(scope_);
    if (constant_only && !v.constant) continue;
    const int64_t coef = random_.one_of<int64_t>({1, 1, 2, -1, 3, -2, 5});
    const Interval add =
        coef > 0 ? Interval{v.range.lo * coef, v.range.hi * coef} : Interval{v.range.hi * coef, v.range.lo * coef};
    const Interval sum{e.range.lo + add.lo, e.range.hi + add.hi};
    if (sum.hi - sum.lo > span) continue;
    e.value += v.value * coef;
    e.range = sum;
    e.constant = e.constant && v.constant;
  }
  return e;
}

// The same, moved into [0, extent).
Affine KernelGenerator::index(int64_t extent, bool constant_only) {
  const Integer e = affine(extent - 1, constant_only);
  const int64_t room = extent - 1 - (e.range.hi - e.range.lo);
  return e.value + (random_.between(0, room) - e.range.lo);
}

}  // namespace hone::ir
