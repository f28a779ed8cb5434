// LoopIR: the loop nests that hone compiles. It is the ONLY input of the code generators, the interpreter and the cost
// model, so everything clever about a kernel is written here, where all of them see it.
//
// A kernel is a nest of loops over typed buffers and vector registers. Registers are mutable (not SSA): a register tile
// is an array of vector registers indexed by compile-time constants, an accumulator is simply assigned again. That
// keeps a 14x32 microkernel at ten lines of text, and makes interpreter and code generators direct.
//
//   kernel   = params, buffers, registers, body
//   body     = parallel loops (outermost, perfectly nested; one iteration of all of them is one *task*), then
//   statements index    = affine expression over variables (params, loop variables, lets, specialised counts)
//
// What must stay true (verify.h proves it; the code generators rely on it and check nothing):
//  - every access lies inside its buffer, dimension by dimension; a masked lane is not an access;
//  - registers are written before they are read; dtypes and lane counts agree;
//  - only kOut, kInOut and kWorkspace buffers are stored to; different tasks store to disjoint elements;
//  - indices of registers, bounds of unrolled loops and operands of specialised code are compile-time constants once
//  the
//    enclosing unrolled and specialised variables have values.
//
// Floating-point meaning is exact: each op rounds once, nothing is fused or reassociated unless written so. min and max
// are x86's: max(a, b) = a > b ? a : b, min(a, b) = a < b ? a : b (so b when either is NaN). NaN payloads are
// unspecified.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "engine/base/dtype.h"
#include "engine/base/isa.h"
#include "kernels/ir/affine.h"

namespace hone::ir {

using BufferId = int;
using RegId = int;

enum class VarKind : uint8_t {
  kParam,        // runtime argument, >= 0 (an extent or a stride), passed as int64
  kLoop,         // serial loop
  kParallel,     // parallel loop: its value is an argument of the task
  kUnrolled,     // compile-time constant within each copy of the body
  kSpecialised,  // compile-time constant within each version of the body
  kLet,
};

struct Var {
  std::string name;  // unique in the kernel
  VarKind kind;
};

// ---- buffers -------------------------------------------------------------------------------------------------------

enum class Scope : uint8_t {
  kIn,         // argument, read only
  kOut,        // argument, written; may be read back only where this kernel has written before
  kInOut,      // argument, read and written
  kWorkspace,  // private to the task, uninitialised at its start
};

struct Buffer {
  std::string name;
  // f32 or s32. kIn also the narrow ones, which loads without a mask widen (register_dtype): u8, bf16 and f16; single
  // elements of the latter two may be broadcast as well.
  DType dtype = DType::kF32;
  Scope scope = Scope::kIn;
  // Extent and stride (in elements) per dimension, outermost first. Each is a constant or exactly one kParam. The last
  // stride is the constant 1.
  // Workspace buffers have constant extents and strides.
  std::vector<Affine> extents;
  std::vector<Affine> strides;
  int64_t align = 4;  // bytes the caller guarantees for element 0
};

// Bytes from the first to one past the last element of a workspace buffer.
int64_t workspace_bytes(const Buffer& buffer);

// Of the registers that elements of a buffer are loaded into.
constexpr DType register_dtype(DType element) {
  if (element == DType::kU8) return DType::kS32;
  return is_16bit_float(element) ? DType::kF32 : element;
}

struct Access {
  BufferId buffer;
  std::vector<Affine> index;  // one per dimension; vector accesses run along the last dimension
};

// ---- registers -----------------------------------------------------------------------------------------------------

struct RegType {
  DType dtype = DType::kF32;
  int lanes = 1;      // 1 (scalar), 4, 8 or 16
  bool mask = false;  // a lane mask (dtype is ignored)
  bool operator==(const RegType&) const = default;
};

// A register or a tile of registers: dims {} is one register, {14, 2} is a tile of 28.
struct Register {
  std::string name;
  RegType type;
  std::vector<int64_t> dims;
};

struct RegRef {
  RegId reg = -1;
  std::vector<Affine> index;  // over unrolled and specialised variables only
  bool valid() const { return reg >= 0; }
};

// ---- operations ----------------------------------------------------------------------------------------------------

// dst = scalar constant in every lane. `bits` is the bit pattern of the dtype.
struct Const {
  RegRef dst;
  uint32_t bits;
};

// dst = lanes consecutive elements; u8 are extended with zeros, bf16 and f16 become the f32 that they stand for
// (denormals too, whatever MXCSR says). With a mask, inactive lanes are 0 and not accessed.
struct Load {
  RegRef dst;
  Access src;
  RegRef mask;  // optional
};

// dst = one element in every lane, widened as by a load.
struct Broadcast {
  RegRef dst;
  Access src;
};

// With a mask, inactive lanes are not accessed.
struct Store {
  Access dst;
  RegRef src;
  RegRef mask;  // optional
};

enum class BinaryOp : uint8_t { kAdd, kSub, kMul, kDiv, kMin, kMax };  // f32 only; kAdd and kSub also s32 (wrapping)
struct Binary {
  BinaryOp op;
  RegRef dst, a, b;
};

// dst = a * b + c, rounded once.
struct Fma {
  RegRef dst, a, b, c;
};

// A pair of bf16 is one 32-bit element: one in the low half, its successor in the high half. Registers and buffers of
// pairs are s32, their bits. Both ops have 4, 8 or 16 lanes, and are what AVX512_BF16 computes bit for bit: MXCSR does
// not matter to them, denormal operands are zeros of their sign, and so are denormal results.

// Of the 2L elements of a followed by b (f32), dst lane i (s32, L lanes) holds elements 2i (low) and 2i + 1 (high),
// each rounded to nearest, ties to even; a NaN stays one, quiet. vcvtne2ps2bf16.
struct Pairs {
  RegRef dst, a, b;
};

// dst = a.low * b.low + (a.high * b.high + c), each sum rounded once, to nearest even, and flushed when it is denormal;
// dst and c are f32, a and b pairs. vdpbf16ps.
struct DotPairs {
  RegRef dst, a, b, c;
};

enum class UnaryOp : uint8_t {
  kMove,
  kNeg,      // f32: flips the sign bit
  kAbs,      // f32: clears the sign bit
  kRound,    // f32 -> f32, to nearest integer, ties to even, no exception flags wanted
  kToInt,    // f32 -> s32, to nearest, ties to even; out of range or NaN: 0x80000000
  kToFloat,  // s32 -> f32
  kBitcast,  // f32 <-> s32
  kShl,      // s32: shift left by imm (0..31)
  kSqrt,     // f32, rounded to nearest; NaN below -0
};
struct Unary {
  UnaryOp op;
  RegRef dst, src;
  int imm = 0;
};

enum class CompareOp : uint8_t { kLt, kLe, kEq };  // f32; false when either is NaN
struct Compare {
  CompareOp op;
  RegRef dst;  // mask
  RegRef a, b;
};

// dst = mask ? a : b, lane by lane.
struct Select {
  RegRef dst, mask, a, b;
};

// Lane movements on two vectors, named after what x86 does within each 128-bit group of 4 32-bit lanes.
enum class PermuteOp : uint8_t {
  kUnpackLo32,  // per group: a0 b0 a1 b1
  kUnpackHi32,  // per group: a2 b2 a3 b3
  kUnpackLo64,  // per group: a0 a1 b0 b1
  kUnpackHi64,  // per group: a2 a3 b2 b3
  // Whole 128-bit groups. 16 lanes: dst groups = a[imm&3], a[(imm>>2)&3], b[(imm>>4)&3], b[(imm>>6)&3].
  // 8 lanes: dst groups = (a0,a1,b0,b1)[imm&3], (a0,a1,b0,b1)[(imm>>4)&3].
  kGroups,
};
struct Permute {
  PermuteOp op;
  RegRef dst, a, b;
  int imm = 0;
};

// The lane map of a permute: dst lane i = entry[i] < lanes ? a[entry] : b[entry - lanes].
std::vector<int> permute_lanes(PermuteOp op, int imm, int lanes);

// dst (mask): lane i is active iff i < count.
struct LaneMask {
  RegRef dst;
  Affine count;
};

// A hint; its address may lie outside the buffer. locality 0 = nearest cache (t0), 1 = t1, 2 = t2.
struct Prefetch {
  Access src;
  int locality = 0;
};

// ---- structure -----------------------------------------------------------------------------------------------------

struct Stmt;
using Block = std::vector<Stmt>;

// for var in lo..hi step step: var = lo, lo+step, ... while var < hi. Empty when hi <= lo.
// var.kind says which: kLoop, kParallel (task), kUnrolled (lo and hi constant once enclosing constants are known).
struct For {
  VarId var;
  Affine lo, hi;
  int64_t step = 1;
  Block body;
};

// let var = min(args...) | max(args...) | floor(args[0] / divisor), divisor > 0, args[0] >= 0 for kFloorDiv.
enum class LetOp : uint8_t { kMin, kMax, kFloorDiv };
struct Let {
  VarId var;
  LetOp op;
  std::vector<Affine> args;
  int64_t divisor = 1;
};

// let var = the element of a one-dimensional s32 kIn buffer, which the caller promises to be in [0, below). `below`
// uses constants and parameters only.
struct LetLoad {
  VarId var;
  Access table;
  Affine below;
};

// Runs the version of `body` compiled for var == value. lo <= value <= hi is proved by the verifier; lo and hi are
// inclusive and constant.
struct Specialise {
  VarId var;
  int64_t lo, hi;
  Affine value;
  Block body;
};

enum class CondOp : uint8_t { kEqZero, kGeZero };
struct If {
  CondOp op;
  Affine expr;
  Block then_body, else_body;
};

struct Stmt {
  std::variant<Const, Load, Broadcast, Store, Binary, Fma, Pairs, DotPairs, Unary, Compare, Select, Permute, LaneMask,
               Prefetch, For, Let, LetLoad, Specialise, If>
      node;
};

struct Kernel {
  std::string name;
  std::vector<Var> vars;
  std::vector<Buffer> buffers;
  std::vector<Register> registers;
  Block body;

  // Arguments in calling order: params are the kParam variables, buffers the non-workspace buffers, both in declaration
  // order.
  std::vector<VarId> params() const;
  std::vector<BufferId> arguments() const;
};

// CPU features that machine code of the kernel needs beyond those of an ISA: AVX512_BF16 for pairs of bf16.
FeatureSet required_features(const Kernel& kernel);

}  // namespace hone::ir
