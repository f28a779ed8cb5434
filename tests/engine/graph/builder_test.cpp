#include "engine/graph/builder.h"

#include "engine/graph/text.h"
#include "tests/engine/graph/graph_testing.h"

namespace hone::graph {
namespace {

using ::testing::HasSubstr;

TEST(Builder, EveryMethodGivesItsOp) {
  Builder b("all");
  b.symbol({.name = "s", .min = 1, .max = 64});
  b.position("p", 64, Dim::symbol("s"));
  const ValueId x = b.input("x", type_of("f32[s, 8]"));
  const ValueId heads = b.reshape(x, type_of("f32[s, 2, 4]").dims, "heads");
  const ValueId w = b.constant(Constant::splat_f32(type_of("f32[8, 8]"), 0.5), "w");
  const ValueId n = b.constant(Constant::splat_f32(type_of("f32[8]"), 1), "n");
  const ValueId f = b.constant(Constant::splat_f32(type_of("f32[2]"), 1), "f");
  const ValueId e = b.constant(Constant::splat_f32(type_of("f32[3, 8, 8]"), 1), "e");
  const ValueId q = b.rope(heads, f, Dim::symbol("p"), "interleaved", "q");
  const ValueId k = b.kv_append(b.state("k", type_of("f32[64, 2, 4]")), q, "keys");
  const auto [values, indices] = b.top_k(x, 2, "router");
  for (const ValueId v :
       {b.matmul(x, w, "mm"), b.attention(q, k, k, {.scale = 0.25}, "att"), b.rms_norm(x, n, 1e-5, "rms"),
        b.layer_norm(x, n, n, 1e-5, "ln"), b.softmax(x, 0.5, "soft"), b.softmax(x, 1, "plain"), b.swiglu(x, x, "swi"),
        b.gather(w, indices, "rows"), b.experts(x, indices, values, e, e, e, "moe"),
        b.add(OpKind::silu, {x}, {}, "act"), b.add_typed(OpKind::convert, {indices}, {}, type_of("f32[s, 2]"), "conv")})
    b.output(v);
  EXPECT_EQ(to_string(b.type(k)), "f32[p + s, 2, 4]");
  const Result<Graph> g = b.finish();
  ASSERT_TRUE(g.ok()) << g.status().message();
  const std::string text = print(*g);
  for (const char* line :
       {"%mm = matmul(%x, %w) {layout = \"nt\"} : f32[s, 8]",
        "%att = attention(%q, %keys, %keys) {causal = true, scale = 0.25} : f32[s, 2, 4]",
        "%rms = rms_norm(%x, %n) {eps = 1e-05} : f32[s, 8]", "%ln = layer_norm(%x, %n, %n) {eps = 1e-05} : f32[s, 8]",
        "%q = rope(%heads, %f) {offset = p, style = \"interleaved\"} : f32[s, 2, 4]",
        "%soft = softmax(%x) {scale = 0.5} : f32[s, 8]", "%plain = softmax(%x) : f32[s, 8]",
        "%swi = swiglu(%x, %x) : f32[s, 8]", "%rows = gather(%w, %router_r1) : f32[s, 2, 8]",
        "%moe = experts(%x, %router_r1, %router, %e, %e, %e) : f32[s, 8]", "%act = silu(%x) : f32[s, 8]",
        "%conv = convert(%router_r1) : f32[s, 2]", "position p in 0..64 step s"})
    EXPECT_THAT(text, HasSubstr(line));
}

TEST(Builder, TheFirstErrorIsKept) {
  Builder b("bad");
  const ValueId x = b.input("x", type_of("f32[2, 3]"));
  const ValueId bad = b.matmul(x, b.input("w", type_of("f32[4, 2]")), "wq");
  EXPECT_EQ(b.type(bad).rank(), 0);
  const ValueId worse = b.rms_norm(bad, x, 1e-5);
  const auto [values, indices] = b.top_k(worse, 2);
  b.output(b.reshape(indices, {4}));
  b.output(values);
  const Result<Graph> g = b.finish();
  ASSERT_FALSE(g.ok());
  EXPECT_THAT(g.status().message(), HasSubstr("wq: matmul: operand 1 (b) is f32[4, 2]: dimension 1 is 2 and must be 3"))
      << g.status().message();
}

TEST(Builder, ForeignValuesAreRefused) {
  Builder b("bad");
  b.output(77);
  EXPECT_THAT(b.finish().status().message(), HasSubstr("value 77 is not of this graph"));
  Builder c("bad");
  c.add(OpKind::neg, {5});
  EXPECT_THAT(c.finish().status().message(), HasSubstr("neg: value 5 is not of this graph"));
}

TEST(Builder, AnOpWithoutItsTypeIsRefused) {
  Builder b("bad");
  b.add(OpKind::iota, {}, {{"axis", int64_t{0}}}, "i");
  EXPECT_EQ(b.finish().status().message(), "i: iota: its result type must be given");
}

TEST(Builder, OnePosition) {
  Builder b("bad");
  b.position("p", 8, 1);
  b.position("q", 8, 1);
  EXPECT_THAT(b.finish().status().message(), HasSubstr("has one already, 'p'"));
}

}  // namespace
}  // namespace hone::graph
