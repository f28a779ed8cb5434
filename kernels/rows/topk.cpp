// Top-k without a branch on data and without moving elements.
//
// The order is total, so "what comes after the last one taken" is a condition on an element and its index alone. With v
// and p the value and index taken last (v = +inf, p = -1 at first) and q the index of the NaN taken last, one pass over
// the row finds, lane by lane,
//
//   nan     the least index > q of a NaN
//   equal   the least index > p of an element equal to v
//   below   the largest element < v, and the least index at which it stands
//
// and the next one is the first of the three that exists. Columns are walked from the last to the first, so that "not
// smaller than the best so far" leaves the lowest index, and takes -inf too. An index is a float; kNone stands for
// none. The element itself is picked up by the next pass, which compares indices with the one taken.
#include "kernels/rows/topk.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <vector>

#include "engine/base/math.h"
#include "kernels/ir/builder.h"
#include "kernels/math/lane_reducer.h"

namespace hone::rows {

using ir::Access;
using ir::Affine;
using ir::BinaryOp;
using ir::Builder;
using ir::CompareOp;
using ir::RegRef;
using ir::UnaryOp;

namespace {

constexpr float kNone = 0x1p25F;  // beyond all indices
constexpr int64_t kTaskColumns = 2048;
constexpr int64_t kMaxTaskRows = 16;

class TopKLowering {
 public:
  TopKLowering(const TopK& problem, Isa isa)
      : p_(problem), lanes_(isa_info(isa).lanes_f32()), b_(kernel_name(problem, isa)), reducer_(b_, lanes_) {}

  // Arguments in the order of bind().
  ir::Kernel run() {
    const Affine rows = param("rows"), x_stride = param("xs"), values_stride = param("vs"),
                 indices_stride = param("is");
    x_ = b_.buffer({.name = "x", .scope = ir::Scope::kIn, .extents = {rows, p_.n}, .strides = {x_stride, 1}});
    values_ =
        b_.buffer({.name = "values", .scope = ir::Scope::kOut, .extents = {rows, p_.k}, .strides = {values_stride, 1}});
    indices_ = b_.buffer({.name = "indices",
                          .dtype = DType::kS32,
                          .scope = ir::Scope::kOut,
                          .extents = {rows, p_.k},
                          .strides = {indices_stride, 1}});
    iota_memory_ =
        b_.buffer({.name = "iota", .scope = ir::Scope::kWorkspace, .extents = {lanes_}, .strides = {1}, .align = 64});
    declare_registers();
    const int64_t task_rows = std::clamp<int64_t>(kTaskColumns / p_.n / p_.k, 1, kMaxTaskRows);
    b_.parallel("r", 0, rows, task_rows, [&](const Affine& first) {
      constants();
      const Affine count = b_.let_min("count", {task_rows, rows - first});
      b_.serial("i", 0, count, 1, [&](const Affine& i) { row(first + i); });
    });
    return b_.finish();
  }

 private:
  Affine param(const char* name) { return Affine::var(b_.param(name)); }
  RegRef vector(const char* name) { return Builder::at(b_.reg(name, {.lanes = lanes_})); }
  RegRef mask(const char* name) { return Builder::at(b_.reg(name, {.lanes = lanes_, .mask = true})); }

  void declare_registers() {
    for (auto [reg, name] : std::initializer_list<std::pair<RegRef*, const char*>>{{&iota_, "iota"},
                                                                                   {&none_, "none"},
                                                                                   {&nan_, "nan"},
                                                                                   {&lowest_, "lowest"},
                                                                                   {&lanes_step_, "stride"},
                                                                                   {&value_, "v"},
                                                                                   {&index_, "p"},
                                                                                   {&nan_index_, "q"},
                                                                                   {&taken_, "taken"},
                                                                                   {&best_nan_, "best_nan"},
                                                                                   {&best_equal_, "best_equal"},
                                                                                   {&best_below_, "best_below"},
                                                                                   {&at_below_, "at_below"},
                                                                                   {&element_, "element"},
                                                                                   {&x_now_, "x_now"},
                                                                                   {&at_, "at"},
                                                                                   {&t_, "t"}})
      *reg = vector(name);
    test_ = mask("test");
    live_ = mask("live");
    place_ = Builder::at(b_.reg("place", {.dtype = DType::kS32, .lanes = lanes_}));
    bits_ = Builder::at(b_.reg("bits", {.dtype = DType::kS32, .lanes = lanes_}));
  }

  void constants() {
    const RegRef one = Builder::at(b_.reg("one_lane", {.lanes = 1}));
    for (int64_t i = 0; i < lanes_; ++i) {
      b_.constant(one, static_cast<float>(i));
      b_.store({iota_memory_, {i}}, one);
    }
    b_.load(iota_, {iota_memory_, {0}});
    b_.constant(none_, kNone);
    b_.constant(nan_, std::numeric_limits<float>::quiet_NaN());
    b_.constant(lowest_, -std::numeric_limits<float>::infinity());
    b_.constant(lanes_step_, static_cast<float>(lanes_));
  }

  void row(const Affine& r) {
    row_ = r;
    b_.constant(value_, std::numeric_limits<float>::infinity());
    b_.constant(index_, -1.0F);
    b_.constant(nan_index_, -1.0F);
    b_.constant(taken_, -1.0F);
    b_.serial("k", 0, p_.k, 1, [&](const Affine& k) {
      begin_pass();
      columns([&] { look(); });
      // What the pass before has taken; nothing in the first, which is stored over by the second.
      const Affine before = b_.let_max("before", {k - 1, 0});
      store_element(before);
      next(k);
    });
    b_.constant(element_, 0.0F);
    columns([&] { pick(); });
    store_element(p_.k - 1);
  }

  void begin_pass() {
    for (const RegRef& r : {best_nan_, best_equal_, at_below_}) b_.unary(UnaryOp::kMove, r, none_);
    b_.unary(UnaryOp::kMove, best_below_, lowest_);
    b_.constant(element_, 0.0F);
  }

  // body() for each vector of columns, the last first, with x_now_ and at_; what is no column is NaN at kNone.
  template <typename Body>
  void columns(const Body& body) {
    const int64_t whole = p_.n / lanes_;
    b_.constant(t_, static_cast<float>(whole * lanes_));
    b_.binary(BinaryOp::kAdd, at_, iota_, t_);
    if (p_.n % lanes_ != 0) {
      b_.lane_mask(live_, p_.n - whole * lanes_);
      b_.load(x_now_, {x_, {row_, whole * lanes_}}, live_);
      b_.select(x_now_, live_, x_now_, nan_);
      b_.select(at_, live_, at_, none_);
      body();
      b_.constant(t_, static_cast<float>(whole * lanes_));
      b_.binary(BinaryOp::kAdd, at_, iota_, t_);
    }
    if (whole == 0) return;
    b_.serial("c", 0, whole, 1, [&](const Affine& c) {
      b_.binary(BinaryOp::kSub, at_, at_, lanes_step_);
      b_.load(x_now_, {x_, {row_, Affine((whole - 1) * lanes_) - c * lanes_}});
      body();
    });
  }

  void where(CompareOp op, const RegRef& a, const RegRef& b, const RegRef& yes, const RegRef& no, const RegRef& to) {
    b_.compare(op, test_, a, b);
    b_.select(to, test_, yes, no);
  }

  void look() {
    // nan
    where(CompareOp::kEq, x_now_, x_now_, none_, at_, t_);
    where(CompareOp::kLt, nan_index_, t_, t_, none_, t_);
    b_.binary(BinaryOp::kMin, best_nan_, t_, best_nan_);
    // equal
    where(CompareOp::kEq, x_now_, value_, at_, none_, t_);
    where(CompareOp::kLt, index_, t_, t_, none_, t_);
    b_.binary(BinaryOp::kMin, best_equal_, t_, best_equal_);
    // below: a NaN stands for what is not, no comparison lets it in
    where(CompareOp::kLt, x_now_, value_, x_now_, nan_, t_);
    b_.compare(CompareOp::kLe, test_, best_below_, t_);
    b_.select(best_below_, test_, t_, best_below_);
    b_.select(at_below_, test_, at_, at_below_);
    pick();
  }

  // One lane at most; the others stay 0.
  void pick() { where(CompareOp::kEq, at_, taken_, x_now_, element_, element_); }

  // Sums of integers, because 0 + -0 would be +0 as floats.
  void store_element(const Affine& k) {
    const RegRef a = Builder::at(b_.reg("sum_a", {.dtype = DType::kS32, .lanes = lanes_}));
    const RegRef z = Builder::at(b_.reg("sum_b", {.dtype = DType::kS32, .lanes = lanes_}));
    b_.unary(UnaryOp::kBitcast, bits_, element_);
    auto fold = [&](ir::PermuteOp first, ir::PermuteOp second, int imm_first, int imm_second) {
      b_.permute(first, a, bits_, bits_, imm_first);
      b_.permute(second, z, bits_, bits_, imm_second);
      b_.binary(BinaryOp::kAdd, bits_, a, z);
    };
    if (lanes_ == 16) {
      fold(ir::PermuteOp::kGroups, ir::PermuteOp::kGroups, 0xe4, 0x4e);
      fold(ir::PermuteOp::kGroups, ir::PermuteOp::kGroups, 0xe4, 0xb1);
    } else if (lanes_ == 8) {
      fold(ir::PermuteOp::kGroups, ir::PermuteOp::kGroups, 0x10, 0x01);
    }
    fold(ir::PermuteOp::kUnpackLo64, ir::PermuteOp::kUnpackHi64, 0, 0);
    b_.permute(ir::PermuteOp::kUnpackLo32, bits_, bits_, bits_);
    fold(ir::PermuteOp::kUnpackLo64, ir::PermuteOp::kUnpackHi64, 0, 0);
    b_.unary(UnaryOp::kBitcast, t_, bits_);
    b_.lane_mask(live_, 1);
    b_.store({values_, {row_, k}}, t_, live_);
  }

  void next(const Affine& k) {
    reducer_.reduce(BinaryOp::kMin, best_nan_);
    reducer_.reduce(BinaryOp::kMin, best_equal_);
    b_.unary(UnaryOp::kMove, t_, best_below_);
    reducer_.reduce(BinaryOp::kMax, t_);
    where(CompareOp::kEq, best_below_, t_, at_below_, none_, at_below_);
    reducer_.reduce(BinaryOp::kMin, at_below_);
    // Without a NaN, without an equal one: below.
    where(CompareOp::kLt, best_equal_, none_, best_equal_, at_below_, taken_);
    b_.select(best_below_, test_, value_, t_);
    b_.compare(CompareOp::kLt, test_, best_nan_, none_);
    b_.select(value_, test_, value_, best_below_);
    b_.select(index_, test_, index_, taken_);
    b_.select(nan_index_, test_, best_nan_, nan_index_);
    b_.select(taken_, test_, best_nan_, taken_);
    b_.unary(UnaryOp::kToInt, place_, taken_);
    b_.lane_mask(live_, 1);
    b_.store({indices_, {row_, k}}, place_, live_);
  }

  const TopK& p_;
  const int lanes_;
  Builder b_;
  math::LaneReducer reducer_;
  ir::BufferId x_ = -1, values_ = -1, indices_ = -1, iota_memory_ = -1;
  Affine row_;
  RegRef iota_, none_, nan_, lowest_, lanes_step_, value_, index_, nan_index_, taken_, best_nan_, best_equal_,
      best_below_, at_below_, element_, x_now_, at_, t_, test_, live_, place_, bits_;
};

}  // namespace

Status validate(const TopK& p) {
  if (p.n < 1 || p.n > kMaxTopKColumns)
    return invalid_argument(fmt::format("top-k: n is {}, expected 1..{}", p.n, kMaxTopKColumns));
  if (p.k < 1 || p.k > kMaxTopK || p.k > p.n)
    return invalid_argument(fmt::format("top-k: k is {}, expected 1..{}", p.k, std::min(p.n, kMaxTopK)));
  return {};
}

std::string kernel_name(const TopK& p, Isa isa) {
  return fmt::format("rows_topk_{}_of_{}_{}", p.k, p.n, isa_info(isa).name);
}

Result<ir::Kernel> lower(const TopK& problem, Isa isa) {
  HONE_RETURN_IF_ERROR(validate(problem));
  return TopKLowering(problem, isa).run();
}

TopKArguments bind(const TopKArgs& args) {
  return {.buffers = {const_cast<float*>(args.x), args.values, args.indices},
          .params = {args.rows, args.x_stride, args.values_stride, args.indices_stride}};
}

}  // namespace hone::rows
