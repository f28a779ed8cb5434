// Reads the code that asmjit emitted: what must not be in an inner loop (stack accesses, moves between registers,
// anything beyond the operations that LoopIR asks for) is checked on instructions, for instruction sets this CPU may
// lack.
#include <gmock/gmock.h>

#include <algorithm>

#include "jit/codegen.h"
#include "kernels/ir/builder.h"
#include "tests/jit/inspect/bytes.h"
#include "tests/jit/inspect/emitted.h"
#include "tests/jit/sample_kernels.h"

namespace hone::jit {
namespace {

Result<Emitted> emitted(const ir::Kernel& kernel, Isa isa) {
  return emit(*find_code_generator("asmjit").value(), kernel, isa);
}

struct Tile {
  Isa isa;
  int mr, nr, lanes;
  bool one_b = false;
};

std::string tile_name(const testing::TestParamInfo<Tile>& info) {
  return std::to_string(info.param.mr) + "x" + std::to_string(info.param.nr) + "_" +
         std::string(isa_info(info.param.isa).name);
}

class JitAsmjitInnerLoop : public testing::TestWithParam<Tile> {};

// Per iteration: the loads of b, the broadcasts of a, the fmas; two pointers, the counter, the jump. Nothing else. Of
// what is used once the load is part of its fma: b of a single row, and where the ISA has it a of a single vector.
TEST_P(JitAsmjitInnerLoop, HasNothingButItsOperations) {
  HONE_NEEDS_INSPECT();
  const auto [isa, mr, nr, lanes, one_b] = GetParam();
  for (const auto& [packed, unroll, pairs] : {std::tuple{false, 1, false},
                                              {false, 4, false},
                                              {true, 1, false},
                                              {true, 4, false},
                                              {true, 1, true},
                                              {true, 4, true}}) {
    if (!pairs || isa == Isa::kAvx512) {
      const auto code = emitted(tile_kernel({.mr = mr,
                                             .nr = nr,
                                             .k = 512,
                                             .lanes = lanes,
                                             .unroll = unroll,
                                             .packed_a = packed,
                                             .one_b = one_b,
                                             .pairs = pairs}),
                                isa);
      ASSERT_TRUE(code.ok()) << code.status().to_string();
      const std::vector<InnerLoop> loops = code->inner_loops();
      ASSERT_EQ(loops.size(), 1u);
      const InnerLoop& loop = loops.front();
      const int vectors = nr / lanes;
      const int loads = mr == 1 ? 0 : vectors, broadcasts = isa == Isa::kAvx512 && vectors == 1 ? 0 : mr;
      const int folded = mr == 1 ? vectors : mr - broadcasts;
      EXPECT_EQ(loop.counts.fma, unroll * mr * vectors);
      EXPECT_EQ(loop.mnemonic(pairs ? "vdpbf16ps" : "vfmadd231ps"), loop.counts.fma);
      EXPECT_EQ(loop.mnemonic("vbroadcastss"), unroll * broadcasts);
      EXPECT_EQ(loop.mnemonic("vmovups"), unroll * loads);
      EXPECT_EQ(loop.counts.load, unroll * (broadcasts + loads + folded));
      EXPECT_EQ(loop.counts.store, 0);
      EXPECT_EQ(loop.mnemonic("add"), 2);
      EXPECT_EQ(loop.mnemonic("sub"), 1);
      EXPECT_EQ(loop.mnemonic("jg"), 1);
      EXPECT_EQ(loop.counts.address, 3);
      EXPECT_EQ(loop.counts.branch, 1);
      EXPECT_EQ(loop.counts.total, unroll * (mr * vectors + broadcasts + loads) + 4) << loop.text();
      EXPECT_EQ(loop.counts.stack, 0) << loop.text();
    }
  }
}

// Every version of a specialised tile keeps its own inner loop free of the stack.
TEST_P(JitAsmjitInnerLoop, VersionsDoNotSpill) {
  HONE_NEEDS_INSPECT();
  const auto [isa, mr, nr, lanes, one_b] = GetParam();
  const auto code = emitted(
      tile_kernel({.mr = mr, .nr = nr, .k = 512, .lanes = lanes, .packed_a = true, .versions = true, .one_b = one_b}),
      isa);
  ASSERT_TRUE(code.ok()) << code.status().to_string();
  const std::vector<InnerLoop> loops = code->inner_loops();
  ASSERT_EQ(loops.size(), static_cast<size_t>(mr));
  for (const InnerLoop& loop : loops) EXPECT_EQ(loop.counts.stack, 0) << loop.text();
  EXPECT_EQ(code->hot_loop().counts.fma, mr * nr / lanes) << "the version of all rows is the hot one";
}

std::vector<Tile> tiles() {
  std::vector<Tile> all = {{Isa::kAvx512, 14, 32, 16}, {Isa::kAvx512, 12, 32, 16},   {Isa::kAvx512, 6, 64, 16},
                           {Isa::kAvx512, 8, 48, 16},  {Isa::kAvx512, 9, 48, 16},    {Isa::kAvx512, 28, 16, 16},
                           {Isa::kAvx512, 5, 80, 16},  {Isa::kAvx512, 4, 96, 16},    {Isa::kAvx512, 14, 16, 8},
                           {Isa::kAvx2, 6, 16, 8},     {Isa::kAvx2, 4, 24, 8},       {Isa::kAvx2, 3, 32, 8, true},
                           {Isa::kAvx2, 12, 8, 8},     {Isa::kAvx2, 1, 64, 8, true}, {Isa::kAvx2, 6, 8, 4}};
  for (int mr = 1; mr <= 6; ++mr)
    if (mr != 6) all.push_back({Isa::kAvx512, mr, 64, 16});
  return all;
}

INSTANTIATE_TEST_SUITE_P(Tiles, JitAsmjitInnerLoop, testing::ValuesIn(tiles()), tile_name);

// x is loaded and added to v, with something in between or behind that decides whether the load may be part of the sum.
enum class Twist { kNone, kStoreBetween, kSecondUse, kUsedAfterTheLoop, kSubtracted };

InnerLoop sum_loop(Twist twist) {
  using ir::Affine;
  ir::Builder b("sum");
  const auto n = b.param("n");
  const auto x = b.buffer({.name = "x", .scope = ir::Scope::kInOut, .extents = {Affine::var(n)}, .strides = {1}});
  const auto v = b.at(b.reg("v", {.lanes = 8})), t = b.at(b.reg("t", {.lanes = 8}));
  b.constant(v, 0.0f);
  b.constant(t, 0.0f);
  b.serial("i", 0, Affine::var(n), 8, [&](Affine i) {
    b.load(t, {x, {i}});
    if (twist == Twist::kStoreBetween) b.store({x, {i}}, v);
    b.binary(twist == Twist::kSubtracted ? ir::BinaryOp::kSub : ir::BinaryOp::kAdd, v, t, v);
    if (twist == Twist::kSecondUse) b.binary(ir::BinaryOp::kMul, v, v, t);
  });
  if (twist == Twist::kUsedAfterTheLoop) b.binary(ir::BinaryOp::kMul, v, v, t);
  b.store({x, {0}}, v);
  return emitted(b.finish(), Isa::kAvx2)->inner_loops().at(0);
}

TEST(JitAsmjitListing, ALoadWithOneUseIsAnOperand) {
  HONE_NEEDS_INSPECT();
  const auto loads = [](Twist twist) {
    const InnerLoop loop = sum_loop(twist);
    return std::count_if(loop.instructions.begin(), loop.instructions.end(), [](const Instruction& i) {
      return i.classes.load && (i.text.starts_with("vmovups") || i.text.starts_with("vmovaps"));
    });
  };
  EXPECT_EQ(loads(Twist::kNone), 0);
  EXPECT_EQ(loads(Twist::kStoreBetween), 1);
  EXPECT_EQ(loads(Twist::kSecondUse), 1);
  EXPECT_EQ(loads(Twist::kUsedAfterTheLoop), 1);
  EXPECT_EQ(loads(Twist::kSubtracted), 1);  // memory is the second operand only
}

// Variables of outer loops, strides and bases must not compete with the inner loop for registers: twelve of each are
// live around it.
TEST(JitAsmjitListing, OuterIntegersStayOutOfTheInnerLoop) {
  HONE_NEEDS_INSPECT();
  using ir::Affine;
  ir::Builder b("deep");
  const auto n = b.param("n");
  std::vector<ir::BufferId> xs;
  for (int i = 0; i < 12; ++i)
    xs.push_back(b.buffer(
        {.name = "x" + std::to_string(i), .scope = ir::Scope::kInOut, .extents = {Affine::var(n)}, .strides = {1}}));
  const auto v = b.at(b.reg("v", {.lanes = 4}));
  std::function<void(int, Affine)> nest = [&](int depth, Affine sum) {
    if (depth == 8) {
      b.serial("k", 0, Affine::var(n), 4, [&](Affine k) {
        b.load(v, {xs[0], {sum + k}});
        b.store({xs[1], {sum + k}}, v);
      });
      for (auto x : xs) b.store({x, {sum}}, v);
      return;
    }
    const Affine bound = b.let_min("bound", {Affine::var(n), 100 - sum});
    b.serial("i" + std::to_string(depth), 0, bound, 1, [&](Affine i) { nest(depth + 1, sum + i * (depth + 3)); });
  };
  b.constant(v, 0.0f);
  nest(0, 0);
  const auto code = emitted(b.finish(), Isa::kAvx2);
  ASSERT_TRUE(code.ok()) << code.status().to_string();
  const std::vector<InnerLoop> loops = code->inner_loops();
  ASSERT_EQ(loops.size(), 1u);
  EXPECT_EQ(loops.front().counts.total, 6) << loops.front().text();  // load, store, two pointers, counter, jump
}

// Rows at a runtime stride: a row's product is computed once a row, and a loop over rows adds a multiple of the stride.
TEST(JitAsmjitListing, RuntimeStridesCostNoProductInTheInnerLoop) {
  HONE_NEEDS_INSPECT();
  using ir::Affine;
  for (bool rows_inside : {false, true}) {
    ir::Builder b("rows");
    const auto n = b.param("n"), ld = b.param("ld");
    const auto x = b.buffer({.name = "x",
                             .scope = ir::Scope::kInOut,
                             .extents = {Affine::var(n), Affine::var(n)},
                             .strides = {Affine::var(ld), 1}});
    const auto v = b.at(b.reg("v", {.lanes = 4}));
    b.serial(rows_inside ? "j" : "i", 0, Affine::var(n), rows_inside ? 4 : 1, [&](Affine outer) {
      b.serial(rows_inside ? "i" : "j", 0, Affine::var(n), rows_inside ? 1 : 4, [&](Affine inner) {
        const ir::Access access{x, rows_inside ? std::vector{inner, outer} : std::vector{outer, inner}};
        b.load(v, access);
        b.binary(ir::BinaryOp::kAdd, v, v, v);
        b.store(access, v);
      });
    });
    const auto code = emitted(b.finish(), Isa::kAvx2);
    ASSERT_TRUE(code.ok()) << code.status().to_string();
    const std::vector<InnerLoop> loops = code->inner_loops();
    ASSERT_EQ(loops.size(), 1u);
    // load, add, store, one pointer, counter, jump
    EXPECT_EQ(loops.front().counts.total, 6) << loops.front().text();
    EXPECT_EQ(loops.front().mnemonic("imul"), 0);
  }
}

// Only the constants of a kernel decide its registers: zmm16 and up are used, and no xmm state is left dirty.
TEST(JitAsmjitListing, UsesAllRegistersAndCleansUp) {
  HONE_NEEDS_INSPECT();
  const auto code = emitted(tile_kernel({.mr = 14, .nr = 32, .k = 8, .lanes = 16}), Isa::kAvx512);
  ASSERT_TRUE(code.ok());
  EXPECT_TRUE(code->has("zmm30"));
  EXPECT_TRUE(code->has("vzeroupper"));
}

}  // namespace
}  // namespace hone::jit
