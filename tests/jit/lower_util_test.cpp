#include "jit/lower_util.h"

#include <gmock/gmock.h>

#include <bit>
#include <limits>
#include <random>

#include "kernels/ir/builder.h"

namespace hone::jit {
namespace {

using ir::Affine;

struct Fixture {
  ir::Builder b{"k"};
  ir::VarId n = b.param("n"), ld = b.param("ld");
  ir::BufferId x = b.buffer({.name = "x", .scope = ir::Scope::kIn, .extents = {8, 16}, .strides = {20, 1}});
  ir::BufferId y =
      b.buffer({.name = "y", .scope = ir::Scope::kOut, .extents = {8, 16}, .strides = {Affine::var(ld), 1}});
  ir::BufferId w = b.buffer({.name = "w", .scope = ir::Scope::kWorkspace, .extents = {3}, .strides = {1}});
  ir::BufferId w2 = b.buffer({.name = "w2", .scope = ir::Scope::kWorkspace, .extents = {5}, .strides = {1}});
};

TEST(JitLowerUtil, ConstantsFoldAway) {
  ConstEnv env(3);
  const Affine e = Affine::var(0, 2) + Affine::var(2, -3) + 5;
  EXPECT_FALSE(env.constant(e));
  env.bind(2, 4);
  EXPECT_EQ(env.fold(e), Affine::var(0, 2) - 7);
  env.bind(0, 10);
  EXPECT_EQ(env.constant(e), 13);
  env.unbind(2);
  EXPECT_FALSE(env.constant(e));
}

TEST(JitLowerUtil, LetsOfConstants) {
  ConstEnv env(2);
  EXPECT_EQ(constant_let({0, ir::LetOp::kMin, {7, 3, 5}, 1}, env), 3);
  EXPECT_EQ(constant_let({0, ir::LetOp::kMax, {7, 3, 9}, 1}, env), 9);
  EXPECT_EQ(constant_let({0, ir::LetOp::kFloorDiv, {17}, 5}, env), 3);
  EXPECT_FALSE(constant_let({0, ir::LetOp::kMin, {7, Affine::var(1)}, 1}, env));
}

TEST(JitLowerUtil, TileElementsAreRowMajor) {
  const ir::Register tile{"t", {}, {4, 3}};
  ConstEnv env(1);
  env.bind(0, 2);
  EXPECT_EQ(register_element(tile, {0, {Affine::var(0), 1}}, env), 7u);
  EXPECT_EQ(register_elements(tile), 12u);
}

// Accesses whose constant parts differ share the variable part: that is what one pointer per group rests on.
TEST(JitLowerUtil, ConstantPartsGoToTheOffset) {
  Fixture f;
  const ir::VarId i = 2, u = 3;  // loop and unrolled variable
  f.b.serial("i", 0, 4, 1, [&](Affine vi) {
    f.b.unroll("u", 0, 2, 1, [&](Affine vu) { f.b.prefetch({f.x, {vi, vu}}, 0); });
  });
  const ir::Kernel k = f.b.finish();
  const AddressResolver resolver(k);
  ConstEnv env(k.vars.size());
  env.bind(u, 3);
  Address a, c;
  resolver.resolve({f.x, {Affine::var(i) + Affine::var(u), Affine::var(u, 4) + 1}}, env, a);
  resolver.resolve({f.x, {Affine::var(i), 0}}, env, c);
  EXPECT_EQ(a.terms, (std::vector<Affine::Term>{{i, 80}}));
  EXPECT_EQ(a.terms, c.terms);
  EXPECT_EQ(a.offset, 4 * (3 * 20 + 13));
  EXPECT_EQ(c.offset, 0);
}

TEST(JitLowerUtil, RuntimeStridesBecomeProducts) {
  Fixture f;
  f.b.parallel("i", 0, 4, 1, [&](Affine i) { f.b.prefetch({f.y, {i, 0}}, 0); });
  const ir::Kernel k = f.b.finish();
  Address a;
  AddressResolver(k).resolve({f.y, {Affine::var(2, 2) + 3, 1}}, ConstEnv(k.vars.size()), a);
  EXPECT_EQ(a.products, (std::vector<Address::Product>{{f.ld, 2, 8}}));
  EXPECT_EQ(a.terms, (std::vector<Affine::Term>{{f.ld, 12}}));
  EXPECT_EQ(a.offset, 4);
}

TEST(JitLowerUtil, WorkspaceBuffersShareOneBase) {
  Fixture f;
  const ir::Kernel k = f.b.finish();
  Address a;
  AddressResolver(k).resolve({f.w2, {2}}, ConstEnv(k.vars.size()), a);
  EXPECT_EQ(a.base, Address::kWorkspace);
  EXPECT_EQ(a.offset, ir::kWorkspaceAlign + 8);
}

TEST(JitLowerUtil, ReciprocalsDivideExactly) {
  __extension__ typedef unsigned __int128 Wide;
  const auto divided = [](uint64_t n, uint64_t d) {
    const Reciprocal r = reciprocal(d);
    return static_cast<uint64_t>((Wide{n} * r.factor) >> 64) >> r.shift;
  };
  constexpr uint64_t kMost = std::numeric_limits<int64_t>::max();
  std::mt19937_64 rng(3);
  for (int i = 0; i < 20000; ++i) {
    const uint64_t d = i < 200 ? static_cast<uint64_t>(i) + 3 : (rng() & kMost) >> (rng() % 60);
    if (d < 2 || std::has_single_bit(d)) continue;
    for (const uint64_t n :
         {uint64_t{0}, d - 1, d, kMost, kMost / d * d, kMost / d * d - 1, (rng() & kMost) >> (rng() % 63)})
      ASSERT_EQ(divided(n, d), n / d) << n << " / " << d;
  }
}

}  // namespace
}  // namespace hone::jit
