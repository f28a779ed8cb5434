// A row program: one fused function over the rows of some tensors, as a value. Norms, softmax, RoPE, elementwise chains
// with broadcasts, reductions, gathers and copies are row programs (decoder.h); lower.h makes a kernel of one,
// reference.h runs one.
//
//   for every index (i0, .., i[outer-1]), each below a run-time extent        -- one row; rows are independent
//     run the steps in order, a step on columns for each of the n columns
//
// A value has one number a column, or one a row (then it is the same in every column). Loads of kOne operands,
// constants and reductions give one a row; whatever uses only such is one a row itself.
//
// Why a list and not a tree of ops: what is fused is what is in the list; the order of the list is the order of stores
// and loads of one operand, and each step rounds once, so the bits follow from the text.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "engine/base/dtype.h"
#include "engine/base/isa.h"
#include "engine/base/status.h"

namespace hone::rows {

inline constexpr int kMaxOuter = 4;  // as many parallel loops as LoopIR has
inline constexpr size_t kMaxOperands = 16;
inline constexpr size_t kMaxSteps = 256;
inline constexpr int64_t kRuntime = -1;                   // n is a parameter of the call
inline constexpr int64_t kMaxColumns = int64_t{1} << 30;  // of a program with a constant n
// Sums are kChains chains, column j in chain j mod kChains ascending, each from +0; then chain c + chain c+8, c + c+4,
// c + c+2, c + c+1. Sixteen are one vector of AVX-512, two of AVX2, four of NEON.
inline constexpr int64_t kChains = 16;

enum class Role : uint8_t {
  kIn,
  kOut,
  kScratch,  // one row that the task keeps for itself, f32, dense; n must be constant
};

// Where column j of a row is, in elements from the row's start.
enum class Columns : uint8_t {
  kDense,    // j
  kOne,      // 0: one element a row
  kStrided,  // j * (run-time stride)
  kHalves,   // a column is two elements, j and n + j; n constant
  kPairs,    // a column is two elements, 2 j and 2 j + 1; n constant
};

struct Operand {
  Role role = Role::kIn;
  // f32 or s32; kIn also the narrow ones (dense or strided): u8 is loaded as s32, bf16 and f16 as the f32 that they
  // are.
  DType dtype = DType::kF32;
  Columns columns = Columns::kDense;
  int gather = -1;  // kIn: this outer dimension is indexed by the s32 table[i] instead of i
  bool operator==(const Operand&) const = default;
};

enum class StepOp : uint8_t {
#define HONE_ROW_STEP(id, ...) id,
#include "kernels/rows/steps.inc"
#undef HONE_ROW_STEP
};

enum class StepFamily : uint8_t {
  kLoad,     // operand, part
  kConst,    // bits of an f32 or s32
  kUnary,    // f32 -> f32
  kToFloat,  // s32, or a mask (1 and 0) -> f32
  kToInt,    // f32 -> s32
  kBinary,   // f32 x f32; add and sub also s32 x s32
  kTernary,  // f32
  kCompare,  // f32 x f32 or s32 x s32 -> mask
  kLogic,    // masks -> mask
  kSelect,   // mask ? second : third
  kReduce,   // f32 over the columns -> one a row
  kStore,    // operand; one value, or two for kHalves and kPairs
};

struct StepInfo {
  std::string_view name;
  StepFamily family;
  int operands;  // values; kStore: at least
};
const StepInfo& step_info(StepOp op);

// Values are numbered by the step that makes them. A store makes none, but has a number.
struct Step {
  StepOp op = StepOp::kConst;
  int operand = -1;  // kLoad, kStore
  int part = 0;      // kLoad of kHalves or kPairs: which of the two
  uint32_t bits = 0;
  std::array<int, 3> args{-1, -1, -1};
  bool operator==(const Step&) const = default;
};

struct RowProgram {
  std::string name;      // a-z, 0-9 and _, for messages and kernel names
  int outer = 1;         // 0..kMaxOuter
  int64_t n = kRuntime;  // columns, >= 1, or kRuntime
  std::vector<Operand> operands;
  std::vector<Step> steps;
  bool operator==(const RowProgram&) const = default;
};

// Writes a program step by step; what is wrong with it, validate() says.
class ProgramBuilder {
 public:
  using Value = int;
  ProgramBuilder(std::string name, int outer, int64_t n) {
    program_.name = std::move(name), program_.outer = outer, program_.n = n;
  }

  int in(Columns columns = Columns::kDense, DType dtype = DType::kF32, int gather = -1);
  int out(Columns columns = Columns::kDense, DType dtype = DType::kF32);
  int scratch();

  Value load(int operand, int part = 0);
  Value constant(float value);
  Value constant_s32(int32_t value);
  Value apply(StepOp op, Value a, Value b = -1, Value c = -1);
  void store(int operand, Value a, Value b = -1);

  RowProgram finish() { return std::move(program_); }

 private:
  int operand(Operand operand);
  Value push(const Step& step);
  RowProgram program_;
};

// Error: invalid_argument naming program, step and rule.
Status validate(const RowProgram& program);

// May `out` be the same memory as `in`, with equal strides (and no gather)? True when every element of `in` is read for
// the last time before it is stored. Other aliasing is illegal; outputs never alias one another.
bool may_share(const RowProgram& program, size_t in, size_t out);

// Canonical text in one line; parse() of it gives an equal program. Grammar: README.md. Errors name the statement.
std::string to_string(const RowProgram& program);
Result<RowProgram> parse(std::string_view text);

// "rows_rms_norm_2048_1f0c9a3b_avx512": the number tells programs of one name apart.
std::string kernel_name(const RowProgram& program, Isa isa);

}  // namespace hone::rows
