// The LoopIR of an activation, run by the interpreter, has the bits of the scalar version.
#include "kernels/math/ir_ops.h"

#include <gtest/gtest.h>

#include <random>

#include "kernels/ir/interpret.h"
#include "kernels/ir/verify.h"
#include "kernels/math/scalar_ops.h"
#include "tests/kernels/math/bounds.h"

namespace hone::math {
namespace {

using ir::Affine;
using ir::Builder;

struct Built {
  ir::Kernel kernel;
  int temporaries = 0;
};

constexpr int64_t kCount = 4096;

// y[i] = activation(x[i]), `declared` or with constants set on the spot.
Built build(Activation activation, int lanes, bool declared) {
  Builder b("activation");
  const ir::BufferId x = b.buffer({.name = "x", .scope = ir::Scope::kIn, .extents = {kCount}, .strides = {1}});
  const ir::BufferId y = b.buffer({.name = "y", .scope = ir::Scope::kOut, .extents = {kCount}, .strides = {1}});
  const ir::RegRef v = Builder::at(b.reg("v", {.lanes = lanes}));
  IrOps ops(b, lanes);
  if (declared) ops.declare(activation);
  b.serial("i", 0, kCount, lanes, [&](Affine i) {
    b.load(v, {x, {i}});
    ops.apply(activation, v);
    b.store({y, {i}}, v);
  });
  return {b.finish(), ops.temporaries()};
}

std::vector<float> inputs() {
  std::vector<float> x = {0.0f, -0.0f,  1.0f,    -1.0f,      INFINITY, -INFINITY,
                          NAN,  1e-45f, 3.4e38f, 88.722839f, -87.5f,   9.02f};
  std::mt19937 random(7);
  std::normal_distribution<float> normal(0, 5);
  while (x.size() < kCount) {
    x.push_back(x.size() % 2 ? normal(random) : std::bit_cast<float>(static_cast<uint32_t>(random())));
  }
  return x;
}

class MathIrOps : public testing::TestWithParam<Activation> {};

TEST_P(MathIrOps, HasTheBitsOfScalar) {
  std::vector<float> x = inputs();
  for (int lanes : {4, 8, 16}) {
    for (bool declared : {true, false}) {
      const Built built = build(GetParam(), lanes, declared);
      ASSERT_EQ(ir::verify(built.kernel).to_string(), "ok");
      std::vector<float> y(x.size(), 42.0f);
      void* buffers[] = {x.data(), y.data()};
      ir::interpret(built.kernel, buffers, nullptr, nullptr, nullptr);
      for (size_t i = 0; i < x.size(); ++i) {
        const float want = scalar_activation(GetParam(), x[i]);
        if (std::isnan(want) && std::isnan(y[i])) continue;
        ASSERT_EQ(std::bit_cast<uint32_t>(y[i]), std::bit_cast<uint32_t>(want)) << "x=" << x[i] << " lanes=" << lanes;
      }
    }
  }
}

TEST_P(MathIrOps, NeedsFewTemporaries) { EXPECT_LE(build(GetParam(), 8, true).temporaries, 5); }

// Constants belong before the loop: the loop sets none, and none is declared twice.
TEST_P(MathIrOps, DeclaresConstantsOnce) {
  Builder b("twice");
  IrOps ops(b, 8);
  ops.declare(GetParam());
  ops.declare(GetParam());
  const size_t declared = b.finish().body.size();
  const Built built = build(GetParam(), 8, true);
  EXPECT_EQ(built.kernel.body.size(), declared + 1);
  const auto& loop = std::get<ir::For>(built.kernel.body.back().node);
  for (const ir::Stmt& s : loop.body) EXPECT_FALSE(std::holds_alternative<ir::Const>(s.node));
}

INSTANTIATE_TEST_SUITE_P(All, MathIrOps, testing::ValuesIn(all_activations()),
                         [](const auto& tested) { return std::string(activation_name(tested.param)); });

}  // namespace
}  // namespace hone::math
