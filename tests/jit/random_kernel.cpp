// Kernels of random structure for differential tests. Each integer in scope carries the interval of its values, so that
// every access can be shifted into its buffer: legal by construction, without asking the verifier (which need not be
// able to prove what is true only for the parameter values that are run).
#include <random>

#include "kernels/ir/builder.h"
#include "tests/jit/sample_kernels.h"

namespace hone::jit {

using ir::Affine;
using ir::Builder;
using ir::Scope;

namespace {

constexpr int64_t kMaxParam = 9;
constexpr int64_t kRows = 24, kColumns = 64, kTable = 13;

struct Interval {
  int64_t lo, hi;
};
struct Integer {
  Affine value;
  Interval range;
  bool constant;  // unrolled or specialised: may index registers
};

class RandomKernel {
 public:
  RandomKernel(uint32_t seed, int max_lanes) : rng_(seed), b_("random_" + std::to_string(seed)), seed_(seed) {
    do lanes_ = std::array{1, 4, 8, 16}[pick(4)];
    while (lanes_ > max_lanes);
  }

  KernelCase make() {
    for (const char* name : {"p", "q"}) scope_.push_back({Affine::var(b_.param(name)), {0, kMaxParam}, false});
    const auto ld = b_.param("ld");
    auto buffer = [&](const char* name, Scope scope, Affine stride) {
      buffers_.push_back(b_.buffer(
          {.name = name, .scope = scope, .extents = {kRows, kColumns + 16}, .strides = {std::move(stride), 1}}));
    };
    buffer("src", Scope::kIn, kColumns + 16);
    buffer("io", Scope::kInOut, kColumns + 19);
    buffer("ws", Scope::kWorkspace, kColumns + 16);
    buffer("strided", Scope::kInOut, Affine::var(ld));
    table_ =
        b_.buffer({.name = "table", .dtype = DType::kS32, .scope = Scope::kIn, .extents = {kTable}, .strides = {1}});
    bytes_ = b_.buffer({.name = "bytes",
                        .dtype = DType::kU8,
                        .scope = Scope::kIn,
                        .extents = {kRows, kColumns + 16},
                        .strides = {Affine::var(ld), 1},
                        .align = 1});
    most_ = chance(50) ? Affine(draw(1, 12)) : scope_.front().value + 1;
    // Few registers, about as many as there are, or more.
    rows_ = std::array<int64_t, 3>{2, 4, 7}[pick(3)];
    columns_ = 2 + rows_;
    floats_ = b_.reg("f", {.lanes = lanes_}, {rows_, columns_});
    final_ = b_.buffer({.name = "final",
                        .scope = Scope::kOut,
                        .extents = {rows_, columns_, lanes_},
                        .strides = {columns_ * lanes_, lanes_, 1}});
    ints_ = b_.reg("s", {.dtype = DType::kS32, .lanes = lanes_}, {3});
    masks_ = b_.reg("m", {.lanes = lanes_, .mask = true}, {2});
    tasks(static_cast<int>(pick(3)));
    std::vector<std::vector<int64_t>> runs;
    for (int i = 0; i < 3; ++i) runs.push_back({draw(0, kMaxParam), draw(0, kMaxParam), kColumns + 16 + draw(0, 9)});
    return {"random " + std::to_string(seed_), b_.finish(), runs, false};
  }

 private:
  size_t pick(size_t n) { return rng_() % n; }
  int64_t draw(int64_t lo, int64_t hi) { return lo + static_cast<int64_t>(pick(static_cast<size_t>(hi - lo + 1))); }
  bool chance(int percent) { return pick(100) < static_cast<size_t>(percent); }

  void tasks(int parallel) {
    if (parallel == 0) {
      for (int64_t i = 0; i < rows_; ++i)
        for (int64_t j = 0; j < columns_; ++j)
          b_.constant(b_.at(floats_, {i, j}), static_cast<float>(i) - 0.5f * static_cast<float>(j));
      for (int64_t i = 0; i < 3; ++i) b_.constant_s32(b_.at(ints_, {i}), static_cast<int32_t>(i * 1000003));
      for (int64_t i = 0; i < 2; ++i) b_.lane_mask(b_.at(masks_, {i}), i + 1);
      statements(3, 6);
      // What every register ends up with.
      for (int64_t i = 0; i < rows_; ++i)
        for (int64_t j = 0; j < columns_; ++j) b_.store({final_, {i, j, 0}}, b_.at(floats_, {i, j}));
      return;
    }
    const int64_t lo = draw(0, 2), hi = lo + draw(1, 4), step = draw(1, 3);
    b_.parallel("t", lo, hi, step, [&](Affine t) {
      scope_.push_back({t, {lo, hi - 1}, false});
      tasks(parallel - 1);
      scope_.pop_back();
    });
  }

  void statements(int depth, int count) {
    const size_t outer = scope_.size();
    for (int i = 0; i < count; ++i) {
      if (depth > 0 && chance(35)) {
        structure(depth);
      } else {
        operation();
      }
    }
    scope_.resize(outer);
  }

  // An affine value over what is in scope whose range spans at most `span`.
  Integer affine(int64_t span, bool constant_only = false) {
    Integer e{draw(-3, 3), {0, 0}, true};
    e.range = {e.value.constant(), e.value.constant()};
    for (int terms = static_cast<int>(pick(4)); terms > 0; --terms) {
      if (scope_.empty()) break;
      const Integer& v = scope_[pick(scope_.size())];
      if (constant_only && !v.constant) continue;
      const int64_t coef = std::array<int64_t, 7>{1, 1, 2, -1, 3, -2, 5}[pick(7)];
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
  Affine index(int64_t extent, bool constant_only = false) {
    Integer e = affine(extent - 1, constant_only);
    const int64_t room = extent - 1 - (e.range.hi - e.range.lo);
    return e.value + (draw(0, room) - e.range.lo);
  }

  void with(const Affine& v, Interval range, bool constant, const std::function<void()>& body) {
    scope_.push_back({v, range, constant});
    body();
    scope_.pop_back();
  }

  void structure(int depth) {
    const int count = static_cast<int>(draw(1, 4));
    const int64_t step = draw(1, 3);
    switch (pick(6)) {
      case 0:
      case 1: {
        const Integer lo = affine(6), length = affine(8);
        const int64_t last = lo.range.hi + std::max<int64_t>(length.range.hi, 1) - 1;
        b_.serial("i", lo.value, lo.value + length.value, step, [&](Affine i) {
          with(i, {lo.range.lo, last}, false, [&] { statements(depth - 1, count); });
        });
        return;
      }
      case 2: {
        const Integer lo = affine(2, true);
        const int64_t length = draw(1, 4);
        b_.unroll("u", lo.value, lo.value + length, step, [&](Affine u) {
          with(u, {lo.range.lo, lo.range.hi + length - 1}, true, [&] { statements(depth - 1, count); });
        });
        return;
      }
      case 3: {
        const Integer v = affine(5);
        b_.specialise("c", v.range.lo, v.range.hi, v.value,
                      [&](Affine c) { with(c, v.range, true, [&] { statements(depth - 1, count); }); });
        return;
      }
      case 4: {
        const Integer e = affine(20);
        const auto then_body = [&] { statements(depth - 1, count); };
        const auto else_body = chance(50) ? std::function<void()>([&] { statements(depth - 1, count); }) : nullptr;
        chance(50) ? b_.if_eq_zero(e.value, then_body, else_body) : b_.if_ge_zero(e.value, then_body, else_body);
        return;
      }
      default:
        let();
    }
  }

  void let() {
    const Integer a = affine(20), c = affine(20);
    switch (pick(4)) {
      case 0:
        scope_.push_back({b_.let_min("l", {a.value, c.value}),
                          {std::min(a.range.lo, c.range.lo), std::min(a.range.hi, c.range.hi)},
                          false});
        return;
      case 1:
        scope_.push_back({b_.let_max("l", {a.value, c.value}),
                          {std::max(a.range.lo, c.range.lo), std::max(a.range.hi, c.range.hi)},
                          false});
        return;
      case 2:
        scope_.push_back({b_.let_load("l", {table_, {index(kTable)}}, most_),
                          {0, most_.is_constant() ? most_.constant() - 1 : kMaxParam},
                          false});
        return;
      default: {
        const int64_t by = draw(1, 8);
        const int64_t up = std::max<int64_t>(0, -a.range.lo);
        scope_.push_back(
            {b_.let_floor_div("l", a.value + up, by), {(a.range.lo + up) / by, (a.range.hi + up) / by}, false});
      }
    }
  }

  ir::RegRef f() { return b_.at(floats_, {index(rows_, true), index(columns_, true)}); }
  ir::RegRef s() { return b_.at(ints_, {index(3, true)}); }
  ir::RegRef m() { return b_.at(masks_, {index(2, true)}); }
  ir::RegRef maybe_mask() { return chance(30) ? m() : ir::RegRef{}; }
  ir::Access access(bool store) {
    const size_t b = store ? 1 + pick(3) : pick(4);
    return {buffers_[b], {index(kRows), index(kColumns)}};
  }

  void operation() {
    switch (pick(14)) {
      case 0:
      case 1:
        return b_.load(f(), access(false), maybe_mask());
      case 2:
        return b_.broadcast(f(), access(false));
      case 3:
      case 4:
        return b_.store(access(true), f(), maybe_mask());
      case 5:
        return b_.binary(static_cast<ir::BinaryOp>(pick(6)), f(), f(), f());
      case 6:
        return b_.fma(f(), f(), f(), f());
      case 7:
        return b_.unary(static_cast<ir::UnaryOp>(pick(4)), f(), f());
      case 8:
        return b_.compare(static_cast<ir::CompareOp>(pick(3)), m(), f(), f());
      case 9:
        return b_.select(f(), m(), f(), f());
      case 10:
        return lanes_ > 1 ? b_.permute(static_cast<ir::PermuteOp>(pick(4)), f(), f(), f())
                          : b_.unary(ir::UnaryOp::kNeg, f(), f());
      case 11:
        return b_.lane_mask(m(), affine(30).value);
      case 12:
        return b_.prefetch({buffers_[pick(3)], {affine(100).value * 3, affine(100).value}}, static_cast<int>(pick(3)));
      default:
        return integers();
    }
  }
  void integers() {
    switch (pick(6)) {
      case 5:
        return b_.load(s(), {bytes_, {index(kRows), index(kColumns)}});
      case 0:
        return b_.binary(chance(50) ? ir::BinaryOp::kAdd : ir::BinaryOp::kSub, s(), s(), s());
      case 1:
        return b_.unary(ir::UnaryOp::kShl, s(), s(), static_cast<int>(pick(32)));
      case 2:
        return b_.unary(ir::UnaryOp::kToInt, s(), f());
      case 3:
        return b_.unary(ir::UnaryOp::kToFloat, f(), s());
      default:
        return b_.constant(f(), static_cast<float>(draw(-2, 2)) * 0.75f);
    }
  }

  std::mt19937 rng_;
  Builder b_;
  uint32_t seed_;
  int lanes_ = 1;
  int64_t rows_ = 0, columns_ = 0;
  std::vector<Integer> scope_;
  std::vector<ir::BufferId> buffers_;
  ir::BufferId final_ = -1, table_ = -1, bytes_ = -1;
  Affine most_;  // elements of the table are below it
  ir::RegId floats_ = -1, ints_ = -1, masks_ = -1;
};

}  // namespace

KernelCase random_kernel(uint32_t seed, int max_lanes) { return RandomKernel(seed, max_lanes).make(); }

}  // namespace hone::jit
