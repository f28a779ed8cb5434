// Random operations: every one that LoopIR has, on operands that meet its rules.
#include <bit>
#include <limits>

#include "kernels/ir/random_internal.h"

namespace hone::ir {
namespace {

// What rounds, compares or converts unlike its neighbours: NaN, infinities, zeros, denormals, halves, limits of s32.
constexpr uint32_t kBits[] = {0x7fc00000, 0xffc00000, 0x7f800001, 0x7f800000, 0xff800000, 0x00000000, 0x80000000,
                              0x00000001, 0x807fffff, 0x00800000, 0x3f000000, 0xbf000000, 0x40200000, 0x4f000000,
                              0xcf000000, 0x4effffff, 0x7f7fffff, 0x3f800000, 0xbf400000, 0x4b000001};

}  // namespace

const KernelGenerator::Space& KernelGenerator::any_space(DType dtype, bool stored) {
  std::vector<const Space*> fitting;
  for (const Space& s : spaces_)
    if (s.dtype == dtype && (!stored || s.stored)) fitting.push_back(&s);
  return *random_.element(fitting);
}

std::vector<Affine> KernelGenerator::task_index(const Space& space) const {
  return space.by_task ? task_vars_ : std::vector<Affine>();
}

Access KernelGenerator::access(const Space& space) {
  std::vector<Affine> at = task_index(space);
  at.push_back(index(space.rows));
  at.push_back(index(space.columns));
  return {space.id, at};
}

void KernelGenerator::operation() {
  const Family& f = family();
  const int64_t kind = random_.below(100);
  emitted();
  if (kind < 40) return memory_operation(f);
  if (kind < 78) return float_operation(f);
  integer_operation(f);
}

void KernelGenerator::memory_operation(const Family& fam) {
  switch (random_.below(9)) {
    case 0:
    case 1:
    case 2:
      return b_.load(f(fam), access(any_space(DType::kF32, false)), maybe_mask(fam));
    case 7: {
      const Access at{random_.element(halves_), {index(rows_), index(columns_)}};
      return random_.chance(60) ? b_.load(f(fam), at) : b_.broadcast(f(fam), at);
    }
    case 3:
      return b_.broadcast(f(fam), access(any_space(DType::kF32, false)));
    case 4:
    case 5:
    case 6:
      return b_.store(access(any_space(DType::kF32, true)), f(fam), maybe_mask(fam));
    default: {
      // A hint may point anywhere.
      const Space& s = any_space(random_.chance(70) ? DType::kF32 : DType::kS32, false);
      std::vector<Affine> at = task_index(s);
      at.push_back(affine(100).value * 3);
      at.push_back(affine(100).value * random_.one_of<int64_t>({1, 16, -5}));
      return b_.prefetch({s.id, at}, static_cast<int>(random_.below(3)));
    }
  }
}

void KernelGenerator::float_operation(const Family& fam) {
  if (pairs_ && fam.lanes >= 4 && random_.chance(35)) return pair_operation(fam);
  switch (random_.below(12)) {
    case 0:
    case 1:
    case 2:
      return b_.binary(static_cast<BinaryOp>(random_.below(6)), f(fam), f(fam), f(fam));
    case 3:
    case 4:
      return b_.fma(f(fam), f(fam), f(fam), f(fam));
    case 5:
      return b_.unary(random_.one_of({UnaryOp::kMove, UnaryOp::kNeg, UnaryOp::kAbs, UnaryOp::kRound, UnaryOp::kSqrt}),
                      f(fam), f(fam));
    case 6:
      return b_.compare(static_cast<CompareOp>(random_.below(3)), m(fam), f(fam), f(fam));
    case 7:
      return b_.select(f(fam), m(fam), f(fam), f(fam));
    case 8:
    case 9: {
      if (fam.lanes < 4) return b_.unary(UnaryOp::kNeg, f(fam), f(fam));
      const auto op = static_cast<PermuteOp>(random_.below(fam.lanes >= 8 ? 5 : 4));
      const int64_t imm = op != PermuteOp::kGroups ? 0 : random_.below(256) & (fam.lanes == 8 ? 0x33 : 0xff);
      if (random_.chance(80)) return b_.permute(op, f(fam), f(fam), f(fam), static_cast<int>(imm));
      return b_.permute(op, s(fam), s(fam), s(fam), static_cast<int>(imm));
    }
    case 10:
      return b_.lane_mask(m(fam), affine(30).value);
    default:
      return constant(fam);
  }
}

void KernelGenerator::integer_operation(const Family& fam) {
  switch (random_.below(13)) {
    case 0:
    case 1:
      return b_.binary(random_.one_of({BinaryOp::kAdd, BinaryOp::kSub}), s(fam), s(fam), s(fam));
    case 2:
      return b_.unary(UnaryOp::kShl, s(fam), s(fam), static_cast<int>(random_.below(32)));
    case 3:
      return b_.unary(UnaryOp::kToInt, s(fam), f(fam));
    case 4:
      return b_.unary(UnaryOp::kToFloat, f(fam), s(fam));
    case 5:
      return b_.unary(UnaryOp::kBitcast, f(fam), s(fam));
    case 6:
      return bits_of_float(fam);
    case 7:
      return b_.unary(UnaryOp::kMove, s(fam), s(fam));
    case 8:
      return b_.select(s(fam), m(fam), s(fam), s(fam));
    case 9:
      return b_.load(s(fam), {bytes_, {index(rows_), index(columns_)}});
    case 10:
      return b_.store(access(any_space(DType::kS32, true)), s(fam), maybe_mask(fam));
    case 11:
      return b_.load(s(fam), access(any_space(DType::kS32, false)), maybe_mask(fam));
    default:
      return b_.broadcast(s(fam), access(any_space(DType::kS32, false)));
  }
}

void KernelGenerator::pair_operation(const Family& fam) {
  if (random_.chance(65)) {
    const RegRef dst = f(fam);
    return b_.dot_pairs(dst, s(fam), s(fam), random_.chance(50) ? dst : f(fam));
  }
  no_nan(fam, fam.spare);
  no_nan(fam, fam.other);
  b_.pairs(s(fam), b_.at(fam.spare), b_.at(fam.other));
}

// For what makes integers of bits: the payload of a NaN is unspecified, and as an integer it would show.
void KernelGenerator::no_nan(const Family& fam, RegId into) {
  const RegRef number = b_.at(fam.number), x = f(fam), spare = b_.at(into);
  b_.compare(CompareOp::kEq, number, x, x);
  b_.unary(UnaryOp::kToFloat, spare, s(fam));
  b_.select(spare, number, x, spare);
  budget_ -= 3 * copies_;
}

void KernelGenerator::bits_of_float(const Family& fam) {
  no_nan(fam, fam.spare);
  b_.unary(UnaryOp::kBitcast, s(fam), b_.at(fam.spare));
}

void KernelGenerator::constant(const Family& fam) {
  const uint32_t bits = random_.chance(70) ? random_.element(kBits) : static_cast<uint32_t>(random_.next());
  if (random_.chance(75)) return b_.constant(f(fam), std::bit_cast<float>(bits));
  b_.constant_s32(s(fam), static_cast<int32_t>(bits));
}

}  // namespace hone::ir
