// Every step over a whole row before the next one; no passes, no vectors.
#include "kernels/rows/reference.h"

#include <cmath>
#include <limits>
#include <vector>

#include "engine/base/half.h"
#include "kernels/math/scalar_ops.h"
#include "kernels/rows/plan_internal.h"

namespace hone::rows {
namespace {

using math::Activation;
using math::scalar_activation;

float logarithm(float x) {
  constexpr float kSmall = 0x1p-126F, kLarge = 0x1p126F, kScale = 0x1p64F, kShift = 44.3614196F;  // 64 ln 2
  if (std::isnan(x) || x < 0) return std::numeric_limits<float>::quiet_NaN();
  if (x == 0) return -std::numeric_limits<float>::infinity();
  if (std::isinf(x)) return x;
  if (x < kSmall) return scalar_activation(Activation::kLog, x * kScale) + -kShift;
  if (x > kLarge) return scalar_activation(Activation::kLog, x / kScale) + kShift;
  return scalar_activation(Activation::kLog, x) + 0.0F;
}

float unary(StepOp op, float x) {
  switch (op) {
    case StepOp::kNeg:
      return -x;
    case StepOp::kAbs:
      return std::fabs(x);
    case StepOp::kSqrt:
      return std::sqrt(x);
    case StepOp::kRsqrt:
      return 1.0F / std::sqrt(x);
    case StepOp::kReciprocal:
      return 1.0F / x;
    case StepOp::kExp:
      return scalar_activation(Activation::kExp, x);
    case StepOp::kExpNonPositive:
      return scalar_activation(Activation::kExpNonPositive, x);
    case StepOp::kLog:
      return logarithm(x);
    case StepOp::kTanh:
      return scalar_activation(Activation::kTanh, x);
    case StepOp::kErf:
      return scalar_activation(Activation::kErf, x);
    case StepOp::kSilu:
      return scalar_activation(Activation::kSilu, x);
    case StepOp::kGeluTanh:
      return scalar_activation(Activation::kGeluTanh, x);
    case StepOp::kGeluErf:
      return scalar_activation(Activation::kGeluErf, x);
    case StepOp::kRelu:
      return scalar_activation(Activation::kRelu, x);
    default:
      return 1.0F / (scalar_activation(Activation::kExp, -x) + 1.0F);  // kLogistic
  }
}

// NaN where either is; of equal ones the second.
float largest(float a, float b) { return std::isnan(a) || a > b ? a : b; }
float smallest(float a, float b) { return std::isnan(a) || a < b ? a : b; }

float binary(StepOp op, float a, float b) {
  switch (op) {
    case StepOp::kAdd:
      return a + b;
    case StepOp::kSub:
      return a - b;
    case StepOp::kMul:
      return a * b;
    case StepOp::kDiv:
      return a / b;
    case StepOp::kMax:
      return largest(a, b);
    default:
      return smallest(a, b);  // kMin
  }
}

int32_t truncated(float x) {
  constexpr float kEnd = 0x1p31F;
  return x >= -kEnd && x < kEnd ? static_cast<int32_t>(x) : std::numeric_limits<int32_t>::min();
}

template <typename T>
bool compare(StepOp op, T a, T b) {
  if (op == StepOp::kLt) return a < b;
  return op == StepOp::kLe ? a <= b : a == b;
}

// One element of a column: whatever the type of the value says.
union Cell {
  float f;
  int32_t i;
  bool m;
};

class Row {
 public:
  Row(const RowProgram& program, const RowPlan& plan, const RowArgs& args)
      : p_(program),
        plan_(plan),
        args_(args),
        n_(program.n == kRuntime ? args.n : program.n),
        values_(program.steps.size(), std::vector<Cell>(static_cast<size_t>(std::max<int64_t>(n_, 1)))),
        scratch_(program.operands.size()) {
    for (size_t i = 0; i < p_.operands.size(); ++i)
      if (p_.operands[i].role == Role::kScratch) scratch_[i].resize(static_cast<size_t>(n_));
  }

  void run(const std::array<int64_t, kMaxOuter>& at) {
    at_ = at;
    for (size_t i = 0; i < p_.steps.size(); ++i) {
      const Step& s = p_.steps[i];
      if (is_reduction(s)) {
        const float result = reduce(s);
        for (Cell& cell : values_[i]) cell.f = result;
        continue;
      }
      // What is one a row exists where a row has no columns, too.
      const int64_t columns = plan_.values[i].per_row ? std::max<int64_t>(n_, 1) : n_;
      for (int64_t j = 0; j < columns; ++j) {
        if (is_store(s)) {
          store(s, j);
        } else {
          values_[i][static_cast<size_t>(j)] = s.op == StepOp::kLoad ? load(s, j) : compute(s, j);
        }
      }
    }
  }

 private:
  const Cell& arg(const Step& s, size_t which, int64_t j) const {
    return values_[static_cast<size_t>(s.args[which])][static_cast<size_t>(j)];
  }
  ValueType type(const Step& s, size_t which) const { return plan_.values[static_cast<size_t>(s.args[which])].type; }

  int64_t element(const Step& s, int64_t j, int part) const {
    const Operand& o = p_.operands[static_cast<size_t>(s.operand)];
    const Tensor& t = args_.operands[static_cast<size_t>(s.operand)];
    int64_t at = 0;
    for (int d = 0; d < p_.outer && o.role != Role::kScratch; ++d) {
      const auto i = static_cast<size_t>(d);
      at += (d == o.gather ? t.table[at_[i]] : at_[i]) * t.strides[i];
    }
    switch (o.columns) {
      case Columns::kDense:
        return at + j;
      case Columns::kOne:
        return at;
      case Columns::kStrided:
        return at + j * t.column_stride;
      case Columns::kHalves:
        return at + j + part * n_;
      case Columns::kPairs:
        return at + 2 * j + part;
    }
    return at;
  }
  template <typename T>
  T* memory(const Step& s) {
    const auto i = static_cast<size_t>(s.operand);
    if (p_.operands[i].role == Role::kScratch) return reinterpret_cast<T*>(scratch_[i].data());
    return static_cast<T*>(args_.operands[i].data);
  }

  Cell load(const Step& s, int64_t j) {
    const int64_t at = element(s, j, s.part);
    Cell cell{};
    const DType dtype = p_.operands[static_cast<size_t>(s.operand)].dtype;
    if (dtype == DType::kF32) cell.f = memory<float>(s)[at];
    if (dtype == DType::kS32) cell.i = memory<int32_t>(s)[at];
    if (dtype == DType::kU8) cell.i = memory<uint8_t>(s)[at];
    if (dtype == DType::kBf16) cell.f = bf16_to_f32(memory<uint16_t>(s)[at]);
    if (dtype == DType::kF16) cell.f = f16_to_f32(memory<uint16_t>(s)[at]);
    return cell;
  }

  void store(const Step& s, int64_t j) {
    for (int part = 0; part < 2 && s.args[static_cast<size_t>(part)] >= 0; ++part) {
      const Cell& cell = arg(s, static_cast<size_t>(part), j);
      const int64_t at = element(s, j, part);
      if (p_.operands[static_cast<size_t>(s.operand)].dtype == DType::kF32) {
        memory<float>(s)[at] = cell.f;
      } else {
        memory<int32_t>(s)[at] = cell.i;
      }
    }
  }

  Cell compute(const Step& s, int64_t j) const {
    Cell out{};
    switch (step_info(s.op).family) {
      case StepFamily::kConst:
        out.i = static_cast<int32_t>(s.bits);  // an f32's, too
        break;
      case StepFamily::kUnary:
        out.f = unary(s.op, arg(s, 0, j).f);
        break;
      case StepFamily::kToFloat:
        out.f = type(s, 0) == ValueType::kMask ? (arg(s, 0, j).m ? 1.0F : 0.0F) : static_cast<float>(arg(s, 0, j).i);
        break;
      case StepFamily::kToInt:
        out.i = truncated(arg(s, 0, j).f);
        break;
      case StepFamily::kLogic:
        out.m = s.op == StepOp::kNot   ? !arg(s, 0, j).m
                : s.op == StepOp::kAnd ? arg(s, 0, j).m && arg(s, 1, j).m
                                       : arg(s, 0, j).m || arg(s, 1, j).m;
        break;
      case StepFamily::kBinary:
        if (type(s, 0) == ValueType::kS32) {
          const auto a = static_cast<uint32_t>(arg(s, 0, j).i), b = static_cast<uint32_t>(arg(s, 1, j).i);
          out.i = static_cast<int32_t>(s.op == StepOp::kAdd ? a + b : a - b);
        } else {
          out.f = binary(s.op, arg(s, 0, j).f, arg(s, 1, j).f);
        }
        break;
      case StepFamily::kTernary:
        out.f = std::fma(arg(s, 0, j).f, arg(s, 1, j).f, arg(s, 2, j).f);
        break;
      case StepFamily::kCompare:
        out.m = type(s, 0) == ValueType::kS32 ? compare(s.op, arg(s, 0, j).i, arg(s, 1, j).i)
                                              : compare(s.op, arg(s, 0, j).f, arg(s, 1, j).f);
        break;
      default:  // kSelect
        out = arg(s, 0, j).m ? arg(s, 1, j) : arg(s, 2, j);
        break;
    }
    return out;
  }

  float reduce(const Step& s) const {
    if (s.op == StepOp::kReduceSum || s.op == StepOp::kReduceDot) return sum(s);
    const bool least = s.op == StepOp::kReduceMin;
    float best = least ? std::numeric_limits<float>::infinity() : -std::numeric_limits<float>::infinity();
    for (int64_t j = 0; j < n_; ++j) {
      const float x = arg(s, 0, j).f;
      if (std::isnan(x) && s.op != StepOp::kReduceMaxNumber) return x;
      if (least ? x < best : x > best) best = x;
    }
    return best + 0.0F;  // a zero is +0
  }

  float sum(const Step& s) const {
    float chain[kChains] = {};
    for (int64_t j = 0; j < n_; ++j) {
      float& c = chain[j % kChains];
      c = s.op == StepOp::kReduceSum ? c + arg(s, 0, j).f : std::fma(arg(s, 0, j).f, arg(s, 1, j).f, c);
    }
    for (int64_t half = kChains / 2; half > 0; half /= 2)
      for (int64_t c = 0; c < half; ++c) chain[c] += chain[c + half];
    return chain[0];
  }

  const RowProgram& p_;
  const RowPlan& plan_;
  const RowArgs& args_;
  const int64_t n_;
  std::array<int64_t, kMaxOuter> at_{};
  std::vector<std::vector<Cell>> values_;  // by step, by column
  std::vector<std::vector<float>> scratch_;
};

}  // namespace

Status reference(const RowProgram& program, const RowArgs& args) {
  HONE_ASSIGN_OR_RETURN(const RowPlan plan, make_plan(program));
  HONE_RETURN_IF_ERROR(check(program, args));
  Row row(program, plan, args);
  std::array<int64_t, kMaxOuter> at{}, extents{1, 1, 1, 1};
  for (size_t d = 0; d < static_cast<size_t>(program.outer); ++d) extents[d] = args.extents[d];
  for (at[0] = 0; at[0] < extents[0]; ++at[0])
    for (at[1] = 0; at[1] < extents[1]; ++at[1])
      for (at[2] = 0; at[2] < extents[2]; ++at[2])
        for (at[3] = 0; at[3] < extents[3]; ++at[3]) row.run(at);
  return {};
}

}  // namespace hone::rows
