// Constants in one place, in runs, and of 16 bits.
#include "engine/graph/constant.h"

#include <limits>

#include "engine/base/half.h"
#include "tests/engine/graph/evaluate_testing.h"
#include "tests/engine/graph/graph_testing.h"

namespace hone::graph {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

// 0, 1, 2 .. as f32, owned.
Constant counted(int64_t count) {
  std::vector<float> elements;
  for (int64_t i = 0; i < count; ++i) elements.push_back(static_cast<float>(i));
  return Constant::f32({DType::kF32, {Dim(count)}}, elements);
}

Bytes part(const Constant& c, size_t from, size_t count) { return c.data.subspan(4 * from, 4 * count); }

TEST(GraphConstant, RunsAreOneSequenceOfElements) {
  const Constant all = counted(12);
  const Constant c =
      Constant::of_runs(type_of("f32[2, 3]"), {part(all, 8, 2), part(all, 0, 1), part(all, 4, 3)}, all.owner);
  ASSERT_TRUE(c.runs);
  EXPECT_TRUE(c.data.empty());
  EXPECT_EQ(c.stored_bytes(), 24);
  std::vector<float> elements;
  for (int64_t i = 0; i < 6; ++i) elements.push_back(c.f32_at(i));
  EXPECT_THAT(elements, ElementsAre(8, 9, 0, 4, 5, 6));
  const Constant one = c.contiguous();
  EXPECT_FALSE(one.runs);
  std::vector<float> written(6);
  c.write_out(reinterpret_cast<std::byte*>(written.data()));
  EXPECT_EQ(written, elements);
  for (int64_t i = 0; i < 6; ++i) EXPECT_EQ(one.f32_at(i), elements[static_cast<size_t>(i)]);
}

TEST(GraphConstant, RunsThatTouchBecomeOne) {
  const Constant all = counted(12);
  const Constant c = Constant::of_runs(type_of("f32[5]"), {part(all, 2, 2), {}, part(all, 4, 3)}, all.owner);
  EXPECT_FALSE(c.runs);
  EXPECT_EQ(c.data.data(), all.data.data() + 8);
  EXPECT_EQ(c.contiguous().data.data(), c.data.data()) << "nothing is copied";
}

TEST(GraphConstant, ASplatIsWrittenOut) {
  std::vector<float> written(4);
  Constant::splat_f32(type_of("f32[2, 2]"), 3).write_out(reinterpret_cast<std::byte*>(written.data()));
  EXPECT_THAT(written, ElementsAre(3, 3, 3, 3));
}

TEST(GraphConstant, RunsAreCutAcrossTheirEnds) {
  const Constant all = counted(12);
  const std::vector<Bytes> pieces = {part(all, 0, 2), part(all, 5, 1), part(all, 8, 4)};
  RunCutter cutter(pieces);
  std::vector<Bytes> taken;
  cutter.skip(4);
  cutter.take(12, &taken);
  cutter.skip(4);
  cutter.take(1000, &taken);
  const Constant c = Constant::of_runs(type_of("f32[5]"), taken, all.owner);
  std::vector<float> elements;
  for (int64_t i = 0; i < 5; ++i) elements.push_back(c.f32_at(i));
  EXPECT_THAT(elements, ElementsAre(1, 5, 8, 10, 11));
}

// ---- 16 bits ----

TEST(GraphWeights16, CountAsTheF32ThatTheyWidenTo) {
  Random random(7);
  const Tensor x = random_tensor(random, {3, 8});
  for (const DType dtype : {DType::kBf16, DType::kF16}) {
    std::vector<uint16_t> bits;
    std::vector<float> wide;
    for (int i = 0; i < 5 * 8; ++i) {
      const float v = i == 3 ? 1e-7F : random.uniform(-2, 2);  // a denormal of f16
      bits.push_back(dtype == DType::kBf16 ? f32_to_bf16(v) : f32_to_f16(v));
      wide.push_back(dtype == DType::kBf16 ? bf16_to_f32(bits.back()) : f16_to_f32(bits.back()));
    }
    const auto result = [&](Constant weights) {
      Graph g;
      const ValueId in = g.add_input("x", type_of("f32[3, 8]")), rows = g.add_input("i", type_of("s32[2]"));
      const ValueId w = g.result(g.add_constant(std::move(weights)));
      const ValueId y =
          g.result(g.add_node(OpKind::matmul, {in, w}, {{"layout", std::string("nt")}}, {type_of("f32[3, 5]")}));
      const ValueId z = g.result(g.add_node(OpKind::gather, {w, rows}, {}, {type_of("f32[2, 8]")}));
      g.set_outputs({y, z});
      return outputs_of(g, {x, s32({2}, {4, 1})});
    };
    const std::vector<Tensor> got = result(Constant::copy_of({dtype, {5, 8}}, std::as_bytes(std::span(bits))));
    const std::vector<Tensor> want = result(Constant::f32({DType::kF32, {5, 8}}, wide));
    EXPECT_EQ(got, want);
  }
}

TEST(GraphWeights16, TextComesBack) {
  const std::string body =
      "input %i : s32[s]\n%w = constant dense(0x3f80, 0xbf80) : bf16[2, 1]\n"
      "%y = gather(%w, %i) : f32[s, 1]";
  const Result<Graph> g = graph_of(body, "%y");
  ASSERT_TRUE(g.ok()) << g.status().message();
  EXPECT_THAT(print(*g), HasSubstr("constant dense(0x3f80, 0xbf80) : bf16[2, 1]"));
  EXPECT_THAT(floats(run(body, "%y", {s32({3}, {1, 0, 1})})), ElementsAre(-1, 1, -1));
}

}  // namespace
}  // namespace hone::graph
