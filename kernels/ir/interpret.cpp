// Executes a FlatProgram. One loop over instructions; every vector op is a plain loop over 16 lanes (lanes beyond the
// register's width compute garbage that nothing reads), so the compiler vectorises it where the CPU allows.
//
// The loop exists twice, for the baseline and for AVX2+FMA. Both are the same source and give the same bits: fma is
// correctly rounded in hardware and in libm alike, and nothing else contracts (-ffp-contract=off).
#include "kernels/ir/interpret.h"

#include <bit>
#include <cstring>

#include "engine/base/half.h"
#include "kernels/ir/bf16_pairs.h"
#include "kernels/ir/flat_internal.h"

#if defined(__x86_64__)
#define HONE_HAVE_FAST_PATH 1
#endif
#define HONE_INLINE __attribute__((always_inline)) inline

namespace hone::ir {
namespace {

constexpr int kLanes = 16;

struct alignas(64) Vector {
  uint32_t u[kLanes];
};

HONE_INLINE float as_float(uint32_t u) { return std::bit_cast<float>(u); }
HONE_INLINE uint32_t as_bits(float f) { return std::bit_cast<uint32_t>(f); }

HONE_INLINE uint32_t to_int(float x) {
  const float r = __builtin_roundevenf(x);
  const bool fits = r >= -0x1p31f && r < 0x1p31f;  // false for NaN
  return fits ? static_cast<uint32_t>(static_cast<int32_t>(fits ? r : 0.0f)) : 0x80000000u;
}

template <typename F>
HONE_INLINE void lanewise(Vector& d, const Vector& a, const Vector& b, F f) {
  for (int i = 0; i < kLanes; ++i) d.u[i] = f(a.u[i], b.u[i]);
}
template <typename F>
HONE_INLINE void lanewise_float(Vector& d, const Vector& a, const Vector& b, F f) {
  for (int i = 0; i < kLanes; ++i) d.u[i] = as_bits(f(as_float(a.u[i]), as_float(b.u[i])));
}
template <typename F>
HONE_INLINE void compare(Vector& d, const Vector& a, const Vector& b, F f) {
  for (int i = 0; i < kLanes; ++i) d.u[i] = f(as_float(a.u[i]), as_float(b.u[i])) ? 0xffffffffu : 0u;
}

// What one run of a task needs besides the program.
struct Frame {
  const FlatProgram& program;
  Vector* registers;
  int64_t* values;
  void* const* buffers;
  std::byte* workspace;

  HONE_INLINE int64_t value(const FlatLinear& l) const {
    int64_t v = l.constant;
    const Affine::Term* t = program.terms.data() + l.first;
    for (int32_t i = 0; i < l.count; ++i) v += t[i].coef * values[t[i].var];
    return v;
  }
  HONE_INLINE Vector& reg(const FlatLinear& l) const { return registers[value(l)]; }

  HONE_INLINE std::byte* address(const FlatOp& op) const {
    const FlatAddress& at = program.addresses[static_cast<size_t>(op.address)];
    int64_t element = value(at.offset);
    for (int32_t i = 0; i < at.products; ++i) {
      const FlatProduct& p = program.products[static_cast<size_t>(at.first_product + i)];
      element += values[p.stride] * value(p.index);
    }
    const int32_t argument = program.argument_of[static_cast<size_t>(at.buffer)];
    std::byte* base = argument >= 0 ? static_cast<std::byte*>(buffers[argument])
                                    : workspace + program.workspace_offset[static_cast<size_t>(at.buffer)];
    return base + element * at.width;
  }
};

HONE_INLINE void load(const Frame& f, const FlatOp& op) {
  const std::byte* from = f.address(op);
  Vector out{};
  if (op.masked) {
    const Vector& mask = f.reg(op.c);
    for (int i = 0; i < op.lanes; ++i)
      if (mask.u[i]) std::memcpy(&out.u[i], from + 4 * i, 4);
  } else {
    for (int i = 0; i < op.lanes; ++i) std::memcpy(&out.u[i], from + 4 * i, 4);
  }
  f.reg(op.dst) = out;
}

template <typename F>
HONE_INLINE void load_halves(const Frame& f, const FlatOp& op, F widen) {
  const std::byte* from = f.address(op);
  Vector out{};
  for (int i = 0; i < op.lanes; ++i) {
    uint16_t bits;
    std::memcpy(&bits, from + 2 * i, 2);
    out.u[i] = as_bits(widen(bits));
  }
  f.reg(op.dst) = out;
}
template <typename F>
HONE_INLINE void broadcast_half(const Frame& f, const FlatOp& op, F widen) {
  uint16_t bits;
  std::memcpy(&bits, f.address(op), 2);
  for (uint32_t& lane : f.reg(op.dst).u) lane = as_bits(widen(bits));
}

HONE_INLINE void store(const Frame& f, const FlatOp& op) {
  std::byte* to = f.address(op);
  const Vector& from = f.reg(op.a);
  if (op.masked) {
    const Vector& mask = f.reg(op.c);
    for (int i = 0; i < op.lanes; ++i)
      if (mask.u[i]) std::memcpy(to + 4 * i, &from.u[i], 4);
  } else {
    std::memcpy(to, from.u, static_cast<size_t>(op.lanes) * 4);
  }
}

HONE_INLINE void pairs(const Frame& f, const FlatOp& op) {
  uint16_t halves[2 * kLanes];
  for (int i = 0; i < op.lanes; ++i) {
    halves[i] = round_to_bf16(f.reg(op.a).u[i]);
    halves[op.lanes + i] = round_to_bf16(f.reg(op.b).u[i]);
  }
  Vector& d = f.reg(op.dst);
  for (int i = 0; i < op.lanes; ++i) d.u[i] = bf16_pair(halves[2 * i], halves[2 * i + 1]);
}

// sum[i] = half of a[i] * half of b[i] + sum[i] of the first `lanes`. Vectors of ordinary numbers at once; one lane
// next to denormals, and each lane is computed by itself. A factor of zero brings no lane there: the sum is what was
// added to.
template <typename Half>
HONE_INLINE void add_products(Vector& sum, const Vector& a, const Vector& b, int lanes, Half half) {
  Vector made;
  uint32_t small = 0;
  for (int i = 0; i < kLanes; ++i) {
    const uint32_t x = without_denormals(half(a.u[i])), y = without_denormals(half(b.u[i]));
    made.u[i] = as_bits(__builtin_fmaf(as_float(x), as_float(y), as_float(without_denormals(sum.u[i]))));
    const bool near = (made.u[i] & 0x7fffffffu) <= kNearDenormals, exact = (x << 1) == 0 || (y << 1) == 0;
    small |= static_cast<uint32_t>(near & !exact & (i < lanes));
  }
  if (small != 0)
    for (int i = 0; i < kLanes; ++i) made.u[i] = as_bits(flushed_fma(half(a.u[i]), half(b.u[i]), as_float(sum.u[i])));
  sum = made;
}

HONE_INLINE void dot_pairs(const Frame& f, const FlatOp& op) {
  const Vector a = f.reg(op.a), b = f.reg(op.b);
  Vector sum = f.reg(op.c);
  add_products(sum, a, b, op.lanes, [](uint32_t pair) { return pair & 0xffff0000u; });
  add_products(sum, a, b, op.lanes, [](uint32_t pair) { return pair << 16; });
  f.reg(op.dst) = sum;
}

HONE_INLINE void permute(const Frame& f, const FlatOp& op) {
  const std::array<int, 16>& map = f.program.maps[static_cast<size_t>(op.imm)];
  const Vector both[2] = {f.reg(op.a), f.reg(op.b)};
  Vector& d = f.reg(op.dst);
  for (int i = 0; i < op.lanes; ++i)
    d.u[i] = both[map[static_cast<size_t>(i)] / kLanes].u[map[static_cast<size_t>(i)] % kLanes];
}

HONE_INLINE int64_t let_value(const Frame& f, const FlatOp& op) {
  if (op.code == FlatCode::kLetFloorDiv) return f.value(op.a) / op.imm;  // the verifier proved it is not negative
  const FlatLinear* args = f.program.lets.data() + op.bound;
  int64_t best = f.value(args[0]);
  for (int32_t i = 1; i < op.target; ++i) {
    const int64_t v = f.value(args[i]);
    if (op.code == FlatCode::kLetMin ? v < best : v > best) best = v;
  }
  return best;
}

HONE_INLINE void execute(const Frame& f) {
  const FlatOp* const ops = f.program.ops.data();
  int64_t* const values = f.values;
  for (const FlatOp* op = ops;; ++op) {
    switch (op->code) {
      case FlatCode::kConst:
        for (uint32_t& lane : f.reg(op->dst).u) lane = static_cast<uint32_t>(op->imm);
        break;
      case FlatCode::kLoad:
        load(f, *op);
        break;
      case FlatCode::kLoadU8: {
        const std::byte* from = f.address(*op);
        Vector out{};
        for (int i = 0; i < op->lanes; ++i) out.u[i] = static_cast<uint32_t>(from[i]);
        f.reg(op->dst) = out;
        break;
      }
      case FlatCode::kLoadBf16:
        load_halves(f, *op, bf16_to_f32);
        break;
      case FlatCode::kLoadF16:
        load_halves(f, *op, f16_to_f32);
        break;
      case FlatCode::kBroadcastBf16:
        broadcast_half(f, *op, bf16_to_f32);
        break;
      case FlatCode::kBroadcastF16:
        broadcast_half(f, *op, f16_to_f32);
        break;
      case FlatCode::kBroadcast: {
        uint32_t u;
        std::memcpy(&u, f.address(*op), 4);
        for (uint32_t& lane : f.reg(op->dst).u) lane = u;
        break;
      }
      case FlatCode::kStore:
        store(f, *op);
        break;
      case FlatCode::kAdd:
        lanewise_float(f.reg(op->dst), f.reg(op->a), f.reg(op->b), [](float a, float b) { return a + b; });
        break;
      case FlatCode::kSub:
        lanewise_float(f.reg(op->dst), f.reg(op->a), f.reg(op->b), [](float a, float b) { return a - b; });
        break;
      case FlatCode::kMul:
        lanewise_float(f.reg(op->dst), f.reg(op->a), f.reg(op->b), [](float a, float b) { return a * b; });
        break;
      case FlatCode::kDiv:
        lanewise_float(f.reg(op->dst), f.reg(op->a), f.reg(op->b), [](float a, float b) { return a / b; });
        break;
      case FlatCode::kMin:
        lanewise_float(f.reg(op->dst), f.reg(op->a), f.reg(op->b), [](float a, float b) { return a < b ? a : b; });
        break;
      case FlatCode::kMax:
        lanewise_float(f.reg(op->dst), f.reg(op->a), f.reg(op->b), [](float a, float b) { return a > b ? a : b; });
        break;
      case FlatCode::kAddS32:
        lanewise(f.reg(op->dst), f.reg(op->a), f.reg(op->b), [](uint32_t a, uint32_t b) { return a + b; });
        break;
      case FlatCode::kSubS32:
        lanewise(f.reg(op->dst), f.reg(op->a), f.reg(op->b), [](uint32_t a, uint32_t b) { return a - b; });
        break;
      case FlatCode::kFma: {
        Vector& d = f.reg(op->dst);
        const Vector &a = f.reg(op->a), &b = f.reg(op->b), &c = f.reg(op->c);
        for (int i = 0; i < kLanes; ++i)
          d.u[i] = as_bits(__builtin_fmaf(as_float(a.u[i]), as_float(b.u[i]), as_float(c.u[i])));
        break;
      }
      case FlatCode::kPairs:
        pairs(f, *op);
        break;
      case FlatCode::kDotPairs:
        dot_pairs(f, *op);
        break;
      case FlatCode::kMove:
        f.reg(op->dst) = Vector(f.reg(op->a));
        break;
      case FlatCode::kNeg:
        for (int i = 0; i < kLanes; ++i) f.reg(op->dst).u[i] = f.reg(op->a).u[i] ^ 0x80000000u;
        break;
      case FlatCode::kAbs:
        for (int i = 0; i < kLanes; ++i) f.reg(op->dst).u[i] = f.reg(op->a).u[i] & 0x7fffffffu;
        break;
      case FlatCode::kRound:
        for (int i = 0; i < kLanes; ++i)
          f.reg(op->dst).u[i] = as_bits(__builtin_roundevenf(as_float(f.reg(op->a).u[i])));
        break;
      case FlatCode::kSqrt:
        for (int i = 0; i < kLanes; ++i) f.reg(op->dst).u[i] = as_bits(__builtin_sqrtf(as_float(f.reg(op->a).u[i])));
        break;
      case FlatCode::kToInt:
        for (int i = 0; i < kLanes; ++i) f.reg(op->dst).u[i] = to_int(as_float(f.reg(op->a).u[i]));
        break;
      case FlatCode::kToFloat:
        for (int i = 0; i < kLanes; ++i)
          f.reg(op->dst).u[i] = as_bits(static_cast<float>(static_cast<int32_t>(f.reg(op->a).u[i])));
        break;
      case FlatCode::kShl:
        for (int i = 0; i < kLanes; ++i) f.reg(op->dst).u[i] = f.reg(op->a).u[i] << op->imm;
        break;
      case FlatCode::kLt:
        compare(f.reg(op->dst), f.reg(op->a), f.reg(op->b), [](float a, float b) { return a < b; });
        break;
      case FlatCode::kLe:
        compare(f.reg(op->dst), f.reg(op->a), f.reg(op->b), [](float a, float b) { return a <= b; });
        break;
      case FlatCode::kEq:
        compare(f.reg(op->dst), f.reg(op->a), f.reg(op->b), [](float a, float b) { return a == b; });
        break;
      case FlatCode::kSelect: {
        const Vector &m = f.reg(op->c), &a = f.reg(op->a), &b = f.reg(op->b);
        Vector& d = f.reg(op->dst);
        for (int i = 0; i < kLanes; ++i) d.u[i] = (a.u[i] & m.u[i]) | (b.u[i] & ~m.u[i]);
        break;
      }
      case FlatCode::kPermute:
        permute(f, *op);
        break;
      case FlatCode::kLaneMask: {
        const int64_t count = f.value(op->a);
        Vector& d = f.reg(op->dst);
        for (int i = 0; i < kLanes; ++i) d.u[i] = i < count ? 0xffffffffu : 0u;
        break;
      }
      case FlatCode::kLoopEnter:
        values[op->var] = f.value(op->a);
        values[op->bound] = f.value(op->b);
        if (values[op->var] >= values[op->bound]) op = ops + op->target - 1;
        break;
      case FlatCode::kLoopNext:
        values[op->var] += op->imm;
        if (values[op->var] < values[op->bound]) op = ops + op->target - 1;
        break;
      case FlatCode::kLetMin:
      case FlatCode::kLetMax:
      case FlatCode::kLetFloorDiv:
        values[op->var] = let_value(f, *op);
        break;
      case FlatCode::kLetLoad: {
        int32_t index;
        std::memcpy(&index, f.address(*op), 4);
        values[op->var] = index;
        break;
      }
      case FlatCode::kSet:
        values[op->var] = f.value(op->a);
        break;
      case FlatCode::kJump:
        op = ops + op->target - 1;
        break;
      case FlatCode::kJumpUnlessZero:
        if (f.value(op->a) != 0) op = ops + op->target - 1;
        break;
      case FlatCode::kJumpUnlessGeZero:
        if (f.value(op->a) < 0) op = ops + op->target - 1;
        break;
      case FlatCode::kEnd:
        return;
    }
  }
}

#ifdef HONE_HAVE_FAST_PATH
__attribute__((target("avx2,fma"))) void execute_avx2(const Frame& f) { execute(f); }
#endif
void execute_baseline(const Frame& f) { execute(f); }

}  // namespace

Interpreter::Interpreter(const Kernel& kernel) : program_(std::make_shared<const FlatProgram>(flatten(kernel))) {}

void Interpreter::run(void* const* buffers, const int64_t* params, const int64_t* tasks, void* workspace) const {
  const FlatProgram& p = *program_;
  std::vector<Vector> registers(static_cast<size_t>(p.slots));
  std::vector<int64_t> values(static_cast<size_t>(p.values));
  for (size_t i = 0; i < p.params.size(); ++i) values[static_cast<size_t>(p.params[i])] = params[i];
  for (size_t i = 0; i < p.parallel.size(); ++i) values[static_cast<size_t>(p.parallel[i])] = tasks[i];
  const Frame frame{p, registers.data(), values.data(), buffers, static_cast<std::byte*>(workspace)};
#ifdef HONE_HAVE_FAST_PATH
  static const bool fast = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
  if (fast) return execute_avx2(frame);
#endif
  execute_baseline(frame);
}

void interpret(const Kernel& kernel, void* const* buffers, const int64_t* params, const int64_t* tasks,
               void* workspace) {
  Interpreter(kernel).run(buffers, params, tasks, workspace);
}

}  // namespace hone::ir
