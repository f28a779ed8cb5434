// Kernels on pairs of bf16: special values, any bits and numbers next to the least normal one, as operands from memory
// and from registers.
#include "kernels/ir/builder.h"
#include "tests/jit/sample_kernels.h"

namespace hone::jit {

using ir::Affine;
using ir::Builder;
using ir::Scope;

namespace {

constexpr int64_t kVectors = 24;  // vectors per input: enough for all specials to meet

// Pairs of x, where it is a number (the payload of a NaN is unspecified), each operand from memory and from a register.
KernelCase pairs(int lanes) {
  Builder b("pairs");
  const int64_t n = kVectors * lanes;
  const auto x = b.buffer(dense("x", Scope::kIn, {n})), y = b.buffer(dense("y", Scope::kIn, {n}));
  const auto numbers = b.buffer(dense("numbers", Scope::kWorkspace, {n}));
  const auto out = b.buffer(dense("o", Scope::kOut, {6, n}, DType::kS32));
  const ir::RegType f{.lanes = lanes}, s{.dtype = DType::kS32, .lanes = lanes}, m{.lanes = lanes, .mask = true};
  const auto a = b.at(b.reg("a", f)), c = b.at(b.reg("c", f)), once = b.at(b.reg("once", f));
  const auto p = b.at(b.reg("p", s)), mask = b.at(b.reg("mask", m));
  b.serial("i", 0, n, lanes, [&](Affine i) {
    b.load(a, {x, {i}});
    b.load(c, {y, {i}});
    b.compare(ir::CompareOp::kEq, mask, a, a);
    b.select(a, mask, a, c);
    b.compare(ir::CompareOp::kEq, mask, a, a);
    b.constant(c, 1.0f);
    b.select(a, mask, a, c);
    b.store({numbers, {i}}, a);
  });
  b.serial("i", 0, n, lanes, [&](Affine i) {
    int64_t row = 0;
    auto put = [&](ir::RegRef first, ir::RegRef second) {
      b.pairs(p, first, second);
      b.store({out, {row++, i}}, p);
    };
    b.load(a, {numbers, {i}});
    b.load(c, {numbers, {i * -1 + (n - lanes)}});
    put(a, c);
    put(a, a);
    b.load(once, {numbers, {i}});
    put(once, c);
    b.load(once, {numbers, {i}});
    put(c, once);
    b.broadcast(once, {numbers, {i}});
    put(once, a);
    b.broadcast(once, {numbers, {i + 1}});
    put(a, once);
  });
  return {"pairs", b.finish(), {{}}};
}

// Dots of any bits, of bf16 that are small, and of what f32 round to; the destination is the addend or is not.
KernelCase dots(int lanes) {
  Builder b("dots");
  const int64_t n = 4 * kVectors * lanes;
  const auto x = b.buffer(dense("x", Scope::kIn, {n}, DType::kS32)),
             y = b.buffer(dense("y", Scope::kIn, {n}, DType::kS32));
  const auto z = b.buffer(dense("z", Scope::kIn, {n}));
  const auto out = b.buffer(dense("o", Scope::kOut, {8, n}));
  const ir::RegType f{.lanes = lanes}, s{.dtype = DType::kS32, .lanes = lanes};
  const auto p = b.at(b.reg("p", s)), q = b.at(b.reg("q", s)), once = b.at(b.reg("once", s));
  const auto c = b.at(b.reg("c", f)), r = b.at(b.reg("r", f)), d = b.at(b.reg("d", f));
  b.serial("i", 0, n, lanes, [&](Affine i) {
    int64_t row = 0;
    auto put = [&] { b.store({out, {row++, i}}, r); };
    b.load(p, {x, {i}});
    b.load(q, {y, {i}});
    b.load(c, {z, {i}});
    b.dot_pairs(r, p, q, c);
    put();
    b.load(r, {z, {i}});
    b.dot_pairs(r, p, p, r);
    put();
    b.load(once, {x, {i * -1 + (n - lanes)}});
    b.dot_pairs(r, once, q, r);
    put();
    b.broadcast(once, {y, {i}});
    b.dot_pairs(r, p, once, c);
    put();
    b.broadcast(once, {y, {i + 1}});
    b.dot_pairs(r, once, p, r);
    put();
    // Exponents of 2^-63: products next to the least normal number.
    b.constant_s32(once, 0x20002000);
    b.dot_pairs(r, once, once, c);
    put();
    b.constant(d, 0x1p-126f);
    b.binary(ir::BinaryOp::kMul, d, d, c);
    b.dot_pairs(r, once, once, d);
    put();
    b.load(d, {z, {i * -1 + (n - lanes)}});
    b.pairs(once, c, d);
    b.dot_pairs(r, once, p, c);
    put();
  });
  return {"dots", b.finish(), {{}}};
}

// More constants than registers, so that some become operands from memory.
KernelCase constants(int lanes) {
  Builder b("constants");
  constexpr int64_t kMany = 40;
  const int64_t n = kVectors * lanes;
  const auto x = b.buffer(dense("x", Scope::kIn, {n}, DType::kS32));
  const auto out = b.buffer(dense("o", Scope::kOut, {n}));
  const ir::RegType f{.lanes = lanes}, s{.dtype = DType::kS32, .lanes = lanes};
  const auto many = b.reg("many", s, {kMany});
  const auto p = b.at(b.reg("p", s)), sum = b.at(b.reg("sum", f));
  for (int64_t i = 0; i < kMany; ++i) b.constant_s32(b.at(many, {i}), static_cast<int32_t>(0x3f803f40 + 3 * i));
  b.serial("v", 0, n, lanes, [&](Affine v) {
    b.load(p, {x, {v}});
    b.constant(sum, 1.0f);
    b.unroll("i", 0, kMany, 2, [&](Affine i) {
      b.dot_pairs(sum, p, b.at(many, {i}), sum);
      b.dot_pairs(sum, b.at(many, {i + 1}), p, sum);
    });
    b.store({out, {v}}, sum);
  });
  return {"constants", b.finish(), {{}}};
}

}  // namespace

std::vector<KernelCase> pair_kernels(int lanes) {
  std::vector<KernelCase> all = {pairs(lanes), dots(lanes), constants(lanes)};
  all.push_back(
      {"tile", tile_kernel({.mr = 3, .nr = 2 * lanes, .k = 21, .lanes = lanes, .unroll = 3, .pairs = true}), {{}}});
  all.push_back({"row", tile_kernel({.mr = 1, .nr = 2 * lanes, .k = 5, .lanes = lanes, .pairs = true}), {{}}});
  return all;
}

}  // namespace hone::jit
