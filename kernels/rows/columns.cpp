// One vector of columns in and out of memory.
//
// Strided rows and the tails of rows of narrow elements have no vector access: their elements go one by one through a
// stage, a vector of workspace. That costs some 20 cycles a vector, less than doing a chain of exp and div element by
// element.
#include "kernels/rows/lower_internal.h"

namespace hone::rows {

using ir::Access;
using ir::Affine;
using ir::Builder;
using ir::PermuteOp;
using ir::RegRef;

Access RowLowering::access(int operand, std::vector<Affine> column) const {
  const Operand& o = p_.operands[static_cast<size_t>(operand)];
  const Memory& m = memory_[static_cast<size_t>(operand)];
  std::vector<Affine> at;
  if (o.role != Role::kScratch) at = index_;
  if (o.gather >= 0) at[static_cast<size_t>(o.gather)] = m.gathered;
  for (Affine& c : column) at.push_back(std::move(c));
  return {m.data, std::move(at)};
}

// ---- one element a row ----

void RowLowering::load_per_row(const Step& step, int i) { b_.broadcast(value(i), access(step.operand, {0})); }

void RowLowering::store_per_row(const Step& step) {
  b_.lane_mask(test_, 1);
  b_.store(access(step.operand, {0}), arg(step, 0), test_);
}

// ---- loads ----

void RowLowering::load(const Step& step, int i, const Part& part) {
  const Operand& o = operand(step);
  const RegRef mask = part.masked ? live_ : RegRef{};
  if (o.columns == Columns::kPairs) {
    if (!memory(step).held) load_pairs(step, part);
    return b_.unary(ir::UnaryOp::kMove, value(i), step.part == 0 ? memory(step).first : memory(step).second);
  }
  if (o.columns == Columns::kStrided && lanes_ == 1) return b_.load(value(i), access(step.operand, {part.column, 0}));
  if (o.columns == Columns::kStrided || (dtype_bytes(o.dtype) != 4 && part.masked)) return load_staged(step, i, part);
  std::vector<Affine> column{part.column};
  if (o.columns == Columns::kHalves) column.insert(column.begin(), step.part);
  b_.load(value(i), access(step.operand, std::move(column)), mask);
}

void RowLowering::load_staged(const Step& step, int i, const Part& part) {
  const Operand& o = operand(step);
  const ir::BufferId stage = memory(step).stage;
  const RegRef one = Builder::at(b_.reg("element", {.dtype = ir::register_dtype(o.dtype), .lanes = 1}));
  const Affine count = part.masked ? b_.let_min("there", {lanes_, part.count}) : Affine(lanes_);
  b_.serial("s", 0, count, 1, [&](const Affine& s) {
    std::vector<Affine> column{part.column + s};
    if (o.columns == Columns::kStrided) column.emplace_back(0);
    b_.load(one, access(step.operand, std::move(column)));
    b_.store({stage, {s}}, one);
  });
  b_.load(value(i), {stage, {0}}, part.masked ? live_ : RegRef{});
}

// Two vectors of neighbours into one of the even and one of the odd elements. Whole 128-bit groups first, so that what
// unpacking leaves within a group comes out in order.
void RowLowering::load_pairs(const Step& step, const Part& part) {
  Memory& m = memory(step);
  const DType dtype = operand(step).dtype;
  const RegRef low = vector("low", dtype), high = vector("high", dtype), a = vector("a", dtype), z = vector("z", dtype);
  if (part.masked) {
    b_.lane_mask(test_, part.count * 2);
    b_.lane_mask(live_next_, part.count * 2 - lanes_);
  }
  b_.load(a, access(step.operand, {part.column * 2}), part.masked ? test_ : RegRef{});
  b_.load(z, access(step.operand, {part.column * 2 + lanes_}), part.masked ? live_next_ : RegRef{});
  if (lanes_ > 4) {
    b_.permute(PermuteOp::kGroups, low, a, z, lanes_ == 8 ? 0x20 : 0x88);
    b_.permute(PermuteOp::kGroups, high, a, z, lanes_ == 8 ? 0x31 : 0xdd);
  } else {
    b_.unary(ir::UnaryOp::kMove, low, a);
    b_.unary(ir::UnaryOp::kMove, high, z);
  }
  b_.permute(PermuteOp::kUnpackLo32, a, low, high);
  b_.permute(PermuteOp::kUnpackHi32, z, low, high);
  b_.permute(PermuteOp::kUnpackLo32, m.first, a, z);
  b_.permute(PermuteOp::kUnpackHi32, m.second, a, z);
  m.held = true;
}

// ---- stores ----

void RowLowering::store(const Step& step, const Part& part) {
  const Operand& o = operand(step);
  const RegRef mask = part.masked ? live_ : RegRef{};
  memory(step).held = false;
  switch (o.columns) {
    case Columns::kPairs:
      return store_pairs(step, part);
    case Columns::kHalves:
      b_.store(access(step.operand, {0, part.column}), arg(step, 0), mask);
      return b_.store(access(step.operand, {1, part.column}), arg(step, 1), mask);
    case Columns::kStrided: {
      if (lanes_ == 1) return b_.store(access(step.operand, {part.column, 0}), arg(step, 0));
      const ir::BufferId stage = memory(step).stage;
      const RegRef one = Builder::at(b_.reg("element", {.dtype = o.dtype, .lanes = 1}));
      const Affine count = part.masked ? b_.let_min("there", {lanes_, part.count}) : Affine(lanes_);
      b_.store({stage, {0}}, arg(step, 0));
      return b_.serial("s", 0, count, 1, [&](const Affine& s) {
        b_.load(one, {stage, {s}});
        b_.store(access(step.operand, {part.column + s, 0}), one);
      });
    }
    default:
      return b_.store(access(step.operand, {part.column}), arg(step, 0), mask);
  }
}

// The way of load_pairs, backwards.
void RowLowering::store_pairs(const Step& step, const Part& part) {
  const DType dtype = operand(step).dtype;
  const RegRef low = vector("low", dtype), high = vector("high", dtype), a = vector("a", dtype), z = vector("z", dtype);
  b_.permute(PermuteOp::kUnpackLo32, low, arg(step, 0), arg(step, 1));
  b_.permute(PermuteOp::kUnpackHi32, high, arg(step, 0), arg(step, 1));
  RegRef first = a, second = z;
  if (lanes_ == 16) {
    b_.permute(PermuteOp::kGroups, a, low, high, 0x44);
    b_.permute(PermuteOp::kGroups, z, low, high, 0xee);
    b_.permute(PermuteOp::kGroups, a, a, a, 0xd8);
    b_.permute(PermuteOp::kGroups, z, z, z, 0xd8);
  } else if (lanes_ == 8) {
    b_.permute(PermuteOp::kGroups, a, low, high, 0x20);
    b_.permute(PermuteOp::kGroups, z, low, high, 0x31);
  } else {
    first = low, second = high;
  }
  if (part.masked) {
    b_.lane_mask(test_, part.count * 2);
    b_.lane_mask(live_next_, part.count * 2 - lanes_);
  }
  b_.store(access(step.operand, {part.column * 2}), first, part.masked ? test_ : RegRef{});
  b_.store(access(step.operand, {part.column * 2 + lanes_}), second, part.masked ? live_next_ : RegRef{});
}

}  // namespace hone::rows
