// The verifier accepts the kernels we build and refuses each single mistake with a message that names it. Mistakes are
// made in text, one at a time.
#include "kernels/ir/verify.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "kernels/ir/builder.h"
#include "kernels/ir/text.h"
#include "tests/kernels/ir/sample_kernels.h"

namespace hone::ir {
namespace {

using testing::HasSubstr;

struct Mistake {
  const char* from;
  const char* to;
  std::vector<std::string> message;  // all must occur
};

void expect_refused(const std::string& good, const std::vector<Mistake>& mistakes, const std::string& after = "") {
  const Status fine = verify(parsed(good));
  ASSERT_TRUE(fine.ok()) << fine.message();
  for (const Mistake& m : mistakes) {
    const Status status = verify(parsed(edited(good, m.from, m.to) + after));
    EXPECT_FALSE(status.ok()) << m.from << " -> " << m.to;
    EXPECT_EQ(status.code(), Code::kInvalidArgument);
    for (const std::string& part : m.message)
      EXPECT_THAT(status.message(), HasSubstr(part)) << m.from << " -> " << m.to;
  }
}

void expect_accepted(const std::string& good, const std::vector<std::pair<const char*, const char*>>& edits) {
  for (const auto& [from, to] : edits) {
    const Status status = verify(parsed(edited(good, from, to)));
    EXPECT_TRUE(status.ok()) << from << " -> " << to << ": " << status.message();
  }
}

std::string sample_text() { return print(sample_matmul({})); }

TEST(IrVerify, AcceptsBlockedMatmulOfAnyShape) {
  for (bool batch : {false, true}) {
    for (bool split : {false, true}) {
      for (int64_t n : {1, 31, 32, 33, 64, 72, 250}) {
        for (int64_t k : {0, 1, 7, 20, 37, 64}) {
          for (int64_t kc : {4, 16, 20, 64}) {
            const Kernel kernel = sample_matmul({.n = n, .k = k, .kc = kc, .batch = batch, .split_tail = split});
            const Status status = verify(kernel);
            ASSERT_TRUE(status.ok()) << status.message() << "\n" << print(kernel);
          }
        }
      }
    }
  }
}

// The largest nest that the lowering makes: verified without running into the prover's limits.
TEST(IrVerify, ProvesALargeNest) {
  const Kernel kernel =
      sample_matmul({.n = 250, .k = 1000, .mc = 112, .kc = 384, .ku = 8, .mr = 14, .batch = true, .split_tail = true});
  const Status verified = verify(kernel);
  EXPECT_TRUE(verified.ok()) << verified.message();
}

TEST(IrVerify, RefusesIndexMistakes) {
  expect_refused(
      sample_text(),
      {
          {"min(8, m - i)",
           "min(8, m - i + 1)",
           {"dimension 0 of 'A'", "cannot prove i + r < m", "`a = load A[i + r, p + k]`"}},
          {"min(8, m - i)", "min(9, m - i)", {"`store Ap[r, k] = a`", "dimension 0 of 'Ap'", "r < 8"}},
          {"min(20, 37 - p)", "min(20, 38 - p)", {"dimension 1 of 'A'", "< 37"}},
          {"min(20, 37 - p)", "min(33, 37 - p)", {"dimension 1 of 'Ap'", "16*ka + 15 < 32"}},
          {"(kc) / 4", "(kc + 1) / 4", {"dimension 1 of 'B'", "p + k_1 + u < 37"}},
          {"for k_1 in 0..4*q", "for k_1 in 0..4*q + 4", {"dimension 1 of 'B'"}},
          {"for k_1 in 0..4*q", "for k_1 in -1..4*q", {"dimension 1 of 'B'"}},
          {"for k_2 in 4*q..kc", "for k_2 in 4*q..kc + 1", {"dimension 1 of 'B'", "p + k_2 < 37"}},
          {"for k_2 in 4*q..kc", "for k_2 in 4*q - 20..kc", {"dimension 1 of 'Ap'", "k_2 >= 0"}},
          {"min(2, 3 - j)", "min(2, 4 - j)", {"dimension 0 of 'B'", "j + jj < 3"}},
          {"B: f32[3, 37, 32]", "B: f32[3, 37, 31]", {"dimension 2 of 'B'", "16*v_2 + 15 < 31"}},
          {"B: f32[3, 37, 32]", "B: f32[3, 36, 32]", {"dimension 1 of 'B'", "< 36"}},
          {"A: f32[m, 37]", "A: f32[m, 36]", {"dimension 1 of 'A'"}},
          {"C: f32[m, 72]", "C: f32[m, 71]", {"dimension 1 of 'C'", "active lanes", "< 71"}},
          {"workspace Ap: f32[8, 32]", "workspace Ap: f32[8, 31]", {"dimension 1 of 'Ap'"}},
          {"broadcast Ap[ii + r_3, k_1 + u]",
           "broadcast Ap[ii + r_3 + 1, k_1 + u]",
           {"dimension 0 of 'Ap'", "ii + r_3 + 1 < 8"}},
          {"broadcast Ap[ii + r_3, k_1 + u]",
           "broadcast Ap[ii + r_3 - 1, k_1 + u]",
           {"cannot prove ii + r_3 - 1 >= 0"}},
          {"load B[j + jj, p + k_1 + u, 16*v_2]", "load B[j + jj, p + k_1 + u, 16*v_2 + 1]", {"16*v_2 + 1 + 15 < 32"}},
      });
  expect_refused(print(sample_matmul({.k = 48, .kc = 16})),
                 {{"if kc - 16*ka - 1 >= 0", "if kc - 16*ka >= 0", {"dimension 1 of 'Ap'", "16*ka + 15 < 16"}}});
}

TEST(IrVerify, RefusesMaskMistakes) {
  expect_refused(sample_text(),
                 {
                     {" = acc[r_5, v_6] if tail", " = acc[r_5, v_6]", {"store C", "+ 15 < 72"}},
                     {"16*v_1] if tail", "16*v_1]", {"load C", "+ 15 < 72"}},
                     {"lanes(72 - 32*j - 32*jj - 16*v_6)",
                      "lanes(73 - 32*j - 32*jj - 16*v_6)",
                      {"store C", "(active lanes - 1) < 72"}},
                     {"lanes(72 - 32*j - 32*jj - 16*v_6)", "lanes(72 - 32*j - 32*jj)", {"store C"}},
                     {"lanes(kc - 16*ka)", "lanes(kc - 16*ka + 1)", {"load A"}},
                     // Written by a comparison: any lane may be active.
                     {"tail = lanes(72 - 32*j - 32*jj - 16*v_6)", "tail = lt(acc[0, 0], acc[0, 0])", {"store C"}},
                 });
  expect_refused(kAxpyText,
                 {{"m = lanes(e - 16*q)", "m = lanes(16)", {"dimension 0 of 'x'"}},
                  {"let q = (e) / 16", "let q = (e + 1) / 16", {"i + j + 15 < n"}},
                  {"let q = (e) / 16", "let q = (e - 64) / 16", {"cannot prove that the dividend is at least 0"}},
                  {"min(64, n - i)", "max(64, n - i)", {"i + j + 15 < n"}}});
}

// A mask is known by its last write on every path, and counts go out of date with their variables.
TEST(IrVerify, MasksFollowControlFlow) {
  const std::string text = R"(kernel masks {
    param n
    in x: f32[n] stride [1] align 4
    out y: f32[n] stride [1] align 4
    reg a: f32x16
    reg m: mask16
    reg t: mask16[2]
    m = lanes(n)
    for i in 0..3 step 1 {
      a = load x[0] if m
    }
    if n - 4 == 0 {
      m = lanes(n - 1)
    } else {
      m = lanes(n - 1)
    }
    a = load x[0] if m
    t[0] = lanes(n)
    t[1] = lanes(n - 1)
    a = load x[0] if t[0]
    store y[0] = a if t[1]
  })";
  expect_refused(text, {{"a = load x[0] if m\n    }", "a = load x[0] if m\n m = lanes(16)\n }", {"a = load x[0] if m"}},
                        {"m = lanes(n - 1)\n    } else", "m = lanes(16 - n)\n    } else", {"a = load x[0] if m"}},
                        {"t[1] = lanes(n - 1)", "t[1] = lanes(n + 1)", {"store y[0] = a if t[1]"}},
                        {"a = load x[0] if t[0]", "a = load x[1] if t[0]", {"x[1]"}}});
  expect_accepted(text, {{"a = load x[0] if t[0]", "a = load x[1] if t[1]"}, {"y[0] = a if t[1]", "y[1] = a if t[1]"}});
  // No active lane, no access: any index is fine then.
  expect_accepted(text, {{"a = load x[0] if m\n    }", "t[0] = lanes(n - 100*i)\n a = load x[100*i] if t[0]\n }"}});
}

TEST(IrVerify, RefusesRegisterMistakes) {
  expect_refused(sample_text(),
                 {
                     {"acc[r_1, v] = const 0x00000000  # 0",
                      "a = const 0x00000000",
                      {"register acc[0, 0] is read before it is written"}},
                     {"unroll r_1 in 0..rows", "unroll r_1 in 0..rows - 1", {"register acc[0, 0] is read before"}},
                     {"unroll v in 0..2", "unroll v in 0..1", {"register acc[0, 1] is read before"}},
                     {"specialise rows in 1..4 = left",
                      "specialise rows in 1..5 = left",
                      {"register 'acc'", "is 4 here, outside 0..3"}},
                     {"reg acc: f32x16[4, 2]", "reg acc: f32x16[4, 1]", {"index 1", "is 1 here, outside 0..0"}},
                     {"acc[r_1, v] = const", "acc[r_1 - 1, v] = const", {"is -1 here"}},
                     {"a = broadcast Ap[ii + r_3, k_1 + u]", "acc[0, 0] = broadcast Ap[ii + r_3, k_1 + u]", {}},
                     // Written in one branch, and in a loop that may not run.
                     {"} else {", "} if p - 1 >= 0 {", {"acc[0, 0] is read before"}},
                     {"if p == 0 {", "for z in 0..kc { b[0] = move(a) } if p == 0 {", {"register a is read before"}},
                     {"unroll u in 0..4", "unroll u in 0..4000000", {"grows beyond 1000000 statements"}},
                 });
}

TEST(IrVerify, LoopsThatSurelyRunInitialise) {
  const std::string text = R"(kernel k {
    param n
    out y: f32[1] stride [1] align 4
    reg a: f32x1
    for i in 0..4 step 1 {
      a = const 0x0
    }
    store y[0] = a
  })";
  expect_refused(text,
                 {{"0..4", "0..n", {"register a is read before"}}, {"0..4", "4..4", {"register a is read before"}}});
}

TEST(IrVerify, RefusesStoresWhereTheyDoNotBelong) {
  expect_refused(sample_text(), {{"out C: f32", "in C: f32", {"buffer 'C' is read only", "store C"}},
                                 {"store Ap[r, k] = a", "store A[i + r, p + k] = a", {"buffer 'A' is read only"}}});
}

TEST(IrVerify, RefusesOverlappingTasks) {
  expect_refused(sample_text(),
                 {{"parallel i in 0..m step 8", "parallel i in 0..m step 7", {"tasks that differ in 'i'", "'C'"}},
                  {"parallel j in 0..3 step 2", "parallel j in 0..3 step 1", {"tasks that differ in 'j'"}},
                  {"store C[i + ii + r_5", "store C[ii + r_5", {"tasks that differ in 'i'"}},
                  {"stride [75, 1]", "stride [71, 1]", {"buffer 'C'", "the same element"}}});
  const std::string batched = print(sample_matmul({.batch = true}));
  expect_refused(batched, {{"store C[bb, i", "store C[0, i", {"tasks that differ in 'bb'"}}});
  const std::string text = R"(kernel shifted {
    param n
    out y: f32[n] stride [1] align 4
    reg a: f32x1
    a = const 0x0
  })";
  const std::string loop = "a = const 0x0\n";
  auto with = [&](const std::string& body) { return edited(text, "a = const 0x0\n", body); };
  // A fixed offset is fine; a reversed order is not understood, hence refused; one task has no neighbour.
  EXPECT_TRUE(
      verify(parsed(with("parallel i in 4..n step 2 { a = const 0x0 store y[i - 3] = a store y[i - 4] = a }"))).ok());
  EXPECT_FALSE(
      verify(parsed(with("parallel i in 4..n step 2 { a = const 0x0 store y[i - 2] = a store y[i - 4] = a }"))).ok());
  EXPECT_TRUE(
      verify(parsed(with("parallel i in 0..1 step 1 { if n - 1 >= 0 { a = const 0x0 store y[0] = a } }"))).ok());
  EXPECT_THAT(
      verify(parsed(with("parallel i in 0..2 step 1 { if n - 1 >= 0 { a = const 0x0 store y[0] = a } }"))).message(),
      HasSubstr("tasks that differ in 'i'"));
}

// What one task stores another must not read: the result would depend on who came first.
TEST(IrVerify, RefusesReadingWhatOtherTasksStore) {
  const std::string text = R"(kernel neighbours {
    param n
    inout y: f32[n] stride [1] align 4
    reg a: f32x1
    parallel i in 0..n - 1 step 1 {
      a = load y[i]
      store y[i] = a
    }
  })";
  EXPECT_TRUE(verify(parsed(text)).ok()) << verify(parsed(text)).message();
  for (const char* reads : {"a = load y[i + 1]", "a = broadcast y[i + 1]", "a = load y[0]"})
    EXPECT_THAT(verify(parsed(edited(text, "a = load y[i]", reads))).message(), HasSubstr("tasks that differ in 'i'"))
        << reads;
}

TEST(IrVerify, RefusesShapelessNests) {
  expect_refused(sample_text(),
                 {
                     {"for p in 0..37", "parallel p in 0..37", {"parallel loops must be outermost"}},
                     {"let mc = min(8, m - i)\n",
                      "let mc = min(8, m - i)\n unroll z in 0..mc step 1 { }\n",
                      {"is not a compile-time constant: 'mc'"}},
                     {"acc[r_1, v] = const", "acc[r_1, jj] = const", {"`jj` is not a compile-time constant"}},
                     {"for ii in 0..mc step 4", "for ii in 0..mc step 0", {"a step is at least 1"}},
                     {"parallel j in 0..3",
                      "parallel j in 0..i",
                      {"the bounds of parallel loops use parameters and constants only"}},
                     {"specialise rows in 1..4 = left", "specialise rows in 1..3 = left", {"cannot prove left <= 3"}},
                     {"specialise rows in 1..4 = left", "specialise rows in 2..4 = left", {"cannot prove left >= 2"}},
                     {"specialise rows in 1..4 = left", "specialise rows in 4..1 = left", {"is empty"}},
                     {"acc[r_1, v] = const", "acc[v] = const", {"register 'acc' has 2 dimensions, not 1"}},
                     {"load A[i + r, p + k]", "load A[i + r]", {"buffer 'A' has 2 dimensions, not 1"}},
                 });
}

TEST(IrVerify, RefusesTypeMistakes) {
  expect_refused(sample_text(),
                 {
                     {"reg b: f32x16[2]", "reg b: f32x8[2]", {"register 'b' is f32x8, expected f32x16"}},
                     {"reg b: f32x16[2]", "reg b: s32x16[2]", {"register 'b' is s32x16, expected f32x16"}},
                     {"reg tail: mask16", "reg tail: mask8", {"register 'tail' is mask8, expected mask16"}},
                     {"] if tail", "] if a", {"register 'a' is f32x16, expected mask16"}},
                     {"in A: f32", "in A: s32", {"expected s32x16"}},
                     {"a = broadcast", "tail = broadcast", {}},
                 });
  auto ops = [](const std::string& op) {
    return verify(parsed("kernel k {\n reg f: f32x8\n reg g: f32x4\n reg i: s32x8\n reg m: mask8\n f = const 0x0\n g = "
                         "const 0x0\n i = const 0x0\n m = lanes(3)\n" +
                         op + "\n}"))
        .message();
  };
  EXPECT_EQ(ops("f = to_float(i)"), "");
  EXPECT_EQ(ops("i = add(i, i)"), "");
  EXPECT_EQ(ops("f = groups(f, f, 0x31)"), "");
  EXPECT_EQ(ops("i = select(m, i, i)"), "");
  EXPECT_THAT(ops("i = mul(i, i)"), HasSubstr("s32 has add and sub only"));
  EXPECT_THAT(ops("i = neg(i)"), HasSubstr("expected f32x8"));
  EXPECT_THAT(ops("f = to_int(f)"), HasSubstr("expected s32x8"));
  EXPECT_THAT(ops("f = bitcast(f)"), HasSubstr("expected s32x8"));
  EXPECT_THAT(ops("f = add(f, g)"), HasSubstr("register 'g' is f32x4, expected f32x8"));
  EXPECT_THAT(ops("m = lt(g, g)"), HasSubstr("expected mask4"));
  EXPECT_THAT(ops("m = const 0x1"), HasSubstr("a mask has no constant"));
  EXPECT_THAT(ops("m = move(m)"), HasSubstr("masks are not moved"));
  EXPECT_THAT(ops("f = groups(f, f, 0x44)"), HasSubstr("bits that mean nothing"));
  EXPECT_THAT(ops("g = groups(g, g, 0x31)"), HasSubstr("too few lanes"));
  EXPECT_THAT(ops("f = lanes(2)"), HasSubstr("expected mask8"));
}

TEST(IrVerify, RefusesBadDeclarations) {
  expect_refused(
      print(sample_matmul({.batch = true})),
      {
          {"stride [sa, 40, 1]", "stride [sa, 40, 2]", {"the last stride is 2"}},
          {"stride [sa, 40, 1]", "stride [sa, 40]", {"3 extents but 2 strides"}},
          {"stride [sa, 40, 1]", "stride [sa + 1, 40, 1]", {"neither a size nor a parameter"}},
          {"stride [sa, 40, 1]", "stride [2*sa, 40, 1]", {"neither a size nor a parameter"}},
          {"f32[3, m, 37]", "f32[3, m, -37]", {"neither a size"}},
          {"workspace Ap: f32[8, 32]", "workspace Ap: f32[m, 32]", {"a workspace needs constant sizes"}},
          {"workspace Ap: f32[8, 32] stride [32", "workspace Ap: f32[8, 32] stride [99999999999", {"is too large"}},
          {"align 64", "align 63", {"not a power of two"}},
          {"align 64", "align 128", {"aligned to 64 bytes at most"}},
          {"reg acc: f32x16[4, 2]", "reg acc: f32x16[4, 2000]", {"more than 4096 registers"}},
          {"reg acc: f32x16[4, 2]", "reg acc: f32x16[4, 0]", {"dimension 0 is not in 1..4096"}},
          {"p + k]", "p + 1152921504606846977*k]", {"beyond 2^60"}},
          {"A[bb, i + r, p + k]", "A[bb, i + 1152921504606846*r, p + k]", {}},
      });
}

// A builder with a bug must get a message too: no id is followed before it is checked.
TEST(IrVerify, SurvivesBrokenKernels) {
  auto broken = [](const std::function<void(Kernel&, For&)>& change) {
    Kernel kernel = parsed(kAxpyText);
    change(kernel, std::get<For>(kernel.body.front().node));
    const Status status = verify(kernel);
    EXPECT_FALSE(status.ok());
    (void)print(kernel);
    return status.message();
  };
  EXPECT_THAT(broken([](Kernel&, For& f) { f.var = 99; }), HasSubstr("no such variable"));
  EXPECT_THAT(broken([](Kernel&, For& f) { f.var = -1; }), HasSubstr("no such variable"));
  EXPECT_THAT(broken([](Kernel&, For& f) { f.var = 0; }), HasSubstr("of another kind"));
  EXPECT_THAT(broken([](Kernel&, For& f) { f.hi = Affine::var(50); }), HasSubstr("has no value here"));
  EXPECT_THAT(broken([](Kernel&, For& f) {
                f.body.push_back({Store{{7, {0}}, {0, {}}, {}}});
              }),
              HasSubstr("no such buffer"));
  EXPECT_THAT(broken([](Kernel&, For& f) {
                f.body.push_back({Fma{{0, {}}, {0, {}}, {0, {}}, {-1, {}}}});
              }),
              HasSubstr("no such register"));
  EXPECT_THAT(broken([](Kernel&, For& f) {
                f.body.push_back({Let{2, LetOp::kMin, {1}, 1}});
              }),
              HasSubstr("defined twice"));
  EXPECT_THAT(broken([](Kernel&, For& f) {
                f.body.push_back({Let{3, LetOp::kMin, {}, 1}});
              }),
              HasSubstr("number of arguments"));
  EXPECT_THAT(broken([](Kernel&, For& f) {
                f.body.push_back({LaneMask{{3, {}}, Affine::var(4)}});
              }),
              HasSubstr("has no value here"));
  EXPECT_THAT(broken([](Kernel&, For& f) {
                f.body.push_back({LetLoad{2, {9, {0}}, 1}});
              }),
              HasSubstr("no such buffer"));
  EXPECT_THAT(broken([](Kernel& k, For& f) {
                k.buffers[0].dtype = DType::kS32;
                f.body.insert(f.body.begin(), {LetLoad{2, {0, {0}}, Affine::var(77)}});
              }),
              HasSubstr("has no value here"));
  EXPECT_THAT(broken([](Kernel& k, For& f) {
                k.buffers[0].dtype = DType::kS32;
                f.body.insert(f.body.begin(), {LetLoad{99, {0, {0}}, 1}});
              }),
              HasSubstr("no such variable"));
  EXPECT_THAT(broken([](Kernel& k, For&) { k.vars[1].name = "n"; }), HasSubstr("two variables are named 'n'"));
  EXPECT_THAT(broken([](Kernel& k, For&) { k.registers[0].name = "store"; }),
              HasSubstr("not a name the text form can spell"));
  EXPECT_THAT(broken([](Kernel& k, For&) { k.name = "a b"; }), HasSubstr("its name"));
  EXPECT_THAT(broken([](Kernel& k, For&) { k.buffers[0].extents.clear(); }), HasSubstr("0 dimensions"));
  EXPECT_THAT(broken([](Kernel& k, For&) { k.registers[0].type.lanes = 3; }), HasSubstr("3 lanes"));
}

TEST(IrVerify, ConditionsAreFacts) {
  const std::string text = R"(kernel k {
    param n
    inout y: f32[n] stride [1] align 4
    reg a: f32x1
    if n - 3 >= 0 {
      a = load y[2]
    } else {
      if n == 0 {
      } else {
        a = load y[0]
      }
    }
    if n - 7 == 0 {
      a = load y[6]
    }
    if 3 - n >= 0 {
      for i in 0..n step 1 {
        a = load y[i]
      }
    } else {
      a = load y[3]
    }
  })";
  expect_refused(text, {{"y[2]", "y[3]", {"cannot prove 3 < n"}},
                        {"y[0]", "y[1]", {"cannot prove 1 < n"}},
                        {"y[6]", "y[7]", {"cannot prove 7 < n"}},
                        {"load y[3]", "load y[4]", {"cannot prove 4 < n"}},
                        {"if n == 0 {", "if n - 1 == 0 {", {"cannot prove 0 < n"}}});
}

// Extents are proved, dimension by dimension, whatever the strides are.
TEST(IrVerify, RuntimeStridesUnderAnyIndex) {
  const std::string text = R"(kernel k {
    param n
    param s
    param t
    inout y: f32[n, n, 8] stride [s, t, 1] align 4
    reg a: f32x8
    parallel p in 0..n step 1 {
      for i in 0..n step 1 {
        let j = max(0, i - 3)
        a = load y[p, i, 0]
        store y[p, j, 0] = a
        unroll u in 0..2 {
          if n - 2 >= 0 {
            a = load y[p, u, 0]
          }
        }
      }
    }
  })";
  expect_refused(text, {{"load y[p, i, 0]", "load y[p, i + 1, 0]", {"dimension 1 of 'y': cannot prove i + 1 < n"}},
                        {"max(0, i - 3)", "max(0, i + 3)", {"dimension 1 of 'y': cannot prove j < n"}},
                        {"unroll u in 0..2", "unroll u in 0..3", {"dimension 1 of 'y': cannot prove u < n"}},
                        {"store y[p, j, 0]", "store y[i, j, 0]", {"tasks that differ in 'p'"}},
                        {"load y[p, i, 0]", "load y[p, 1152921504606846977*i, 0]", {"beyond 2^60"}}});
}

// What a table holds is the caller's promise; everything else about a loaded index is proved.
TEST(IrVerify, LoadedIndices) {
  expect_refused(
      kGatherText,
      {{"load T[i]", "load T[i + 1]", {"dimension 0 of 'T': cannot prove i + 1 < n", "`let v = load T[i + 1]"}},
       {"load T[i]", "load T[v]", {"uses a variable that has no value here"}},
       {"x[v, 0]", "x[v + 1, 0]", {"dimension 0 of 'x': cannot prove v + 1 < rows"}},
       {"x[v, 0]", "x[v - 1, 0]", {"cannot prove v - 1 >= 0"}},
       {"below rows", "below rows + 1", {"cannot prove v < rows"}},
       {"below rows", "below i", {"the bound of a loaded index uses parameters and constants only"}},
       {"in T: s32[n] stride [1]", "in T: f32[n] stride [1]", {"a table of indices", "'T'"}},
       {"in T: s32[n] stride [1]", "inout T: s32[n] stride [1]", {"a table of indices"}},
       {"store y[i, 0]", "store y[v, 0]", {"dimension 0 of 'y'"}},
       {"f32[n, 8] stride [8", "f32[rows, 8] stride [8", {"cannot prove i < rows"}}});
  // Different tasks may find the same row: it is not theirs alone.
  EXPECT_THAT(verify(parsed(edited(edited(kGatherText, "out y: f32[n, 8]", "out y: f32[rows, 8]"), "store y[i, 0]",
                                   "store y[v, 0]")))
                  .message(),
              HasSubstr("tasks that differ in 'i'"));
  expect_accepted(kGatherText, {{"x[v, 0]", "x[rows - 1 - v, 0]"}, {"below rows", "below rows - 2"}});
}

TEST(IrVerify, BytesAreOnlyLoaded) {
  const char* only = "'x' holds u8, which is only loaded without a mask";
  expect_refused(kBytesText, {{"x[i, 3]", "x[i, 4]", {"dimension 1 of 'x': cannot prove 4 + 7 < 11"}},
                              {"a = load x[i, 3]", "a = broadcast x[i, 3]", {only}},
                              {"a = load x[i, 3]", "store x[i, 3] = a", {only}},
                              {"a = load x[i, 3]", "prefetch t0 x[i, 3]", {only}},
                              {"a = load x[i, 3]", "let v = load x[i, 3] below 4", {"a table of indices"}},
                              {"in x: u8", "out x: u8", {"buffer 'x': u8 is for `in` buffers"}},
                              {"in x: u8", "inout x: u8", {"u8 is for `in` buffers"}},
                              {"in x: u8[n, 11] stride [ld", "workspace x: u8[3, 11] stride [11", {"u8 is for"}},
                              {"reg a: s32x8", "reg a: f32x8", {"register 'a' is f32x8, expected s32x8"}},
                              {"reg a: s32x8", "reg a: u8x8", {"register 'a'", "element type"}}});
  const std::string masked = edited(kBytesText, "reg a: s32x8", "reg a: s32x8\nreg m: mask8");
  EXPECT_THAT(verify(parsed(edited(masked, "a = load x[i, 3]", "m = lanes(8) a = load x[i, 3] if m"))).message(),
              HasSubstr(only));
}

TEST(IrVerify, SixteenBitFloatsAreLoadedOrBroadcast) {
  std::string text =
      edited(kBytesText, "in x: u8[n, 11] stride [ld, 1] align 1", "in x: bf16[n, 11] stride [ld, 1] align 2");
  text = edited(edited(edited(text, "reg a: s32x8", "reg a: f32x8"), "reg sum: s32x8", "reg sum: f32x8"), "out y: s32",
                "out y: f32");
  const char* only = "'x' holds bf16, which is only loaded or broadcast without a mask";
  expect_refused(text,
                 {{"x[i, 3]", "x[i, 4]", {"dimension 1 of 'x': cannot prove 4 + 7 < 11"}},
                  {"a = load x[i, 3]", "store x[i, 3] = a", {only}},
                  {"in x: bf16", "out x: bf16", {"buffer 'x': bf16 is for `in` buffers"}},
                  {"in x: bf16[n, 11] stride [ld", "workspace x: f16[3, 11] stride [11", {"f16 is for `in` buffers"}},
                  {"reg a: f32x8", "reg a: s32x8", {"register 'a' is s32x8, expected f32x8"}},
                  {"reg a: f32x8", "reg a: bf16x8", {"register 'a'", "element type"}}});
  expect_accepted(text, {{"in x: bf16", "in x: f16"},
                         {"a = load x[i, 3]", "a = broadcast x[i, 10]"},
                         {"a = load x[i, 3]", "prefetch t0 x[i + 1, 900] a = load x[i, 3]"}});
  const std::string masked = edited(text, "reg a: f32x8", "reg a: f32x8\nreg m: mask8");
  EXPECT_THAT(verify(parsed(edited(masked, "a = load x[i, 3]", "m = lanes(8) a = load x[i, 3] if m"))).message(),
              HasSubstr(only));
}

TEST(IrVerify, PairsAreIntegersAndAllHaveOneLength) {
  for (const char* lanes : {"4", "8", "16"}) {
    std::string good = R"(kernel dots {
  in x: f32[64] stride [1] align 4
  in w: s32[64] stride [1] align 4
  out y: f32[64] stride [1] align 4
  reg f: f32xL
  reg sum: f32xL
  reg p: s32xL
  reg q: s32xL
  reg other: f32x1
  reg narrow: s32x1
  f = load x[0]
  sum = load x[16]
  q = broadcast w[3]
  p = pairs(f, sum)
  sum = dot_pairs(p, q, sum)
  store y[0] = sum
}
)";
    good = edited(good, "xL", std::string("x") + lanes, true);
    const std::string f32 = std::string("f32x") + lanes, s32 = std::string("s32x") + lanes;
    expect_refused(good, {
                             {"p = pairs(f, sum)", "f = pairs(f, sum)", {"'f' is " + f32, "expected " + s32}},
                             {"p = pairs(f, sum)", "p = pairs(q, sum)", {"'q' is " + s32, "expected " + f32}},
                             {"p = pairs(f, sum)", "p = pairs(f, q)", {"'q' is " + s32, "expected " + f32}},
                             {"p = pairs(f, sum)", "p = pairs(f, other)", {"'other' is f32x1"}},
                             {"dot_pairs(p, q", "dot_pairs(f, q", {"'f' is " + f32, "expected " + s32}},
                             {"dot_pairs(p, q", "dot_pairs(p, sum", {"'sum' is " + f32, "expected " + s32}},
                             {"q, sum)", "q, p)", {"'p' is " + s32, "expected " + f32}},
                             {"q, sum)", "narrow, sum)", {"'narrow' is s32x1"}},
                             {"p = pairs(f, sum)", "", {"register p is read before it is written"}},
                             {"sum = load x[16]", "", {"register sum is read before it is written"}},
                         });
  }
  const Status scalar = verify(parsed(R"(kernel one {
  reg f: f32x1
  reg p: s32x1
  f = const 0
  p = pairs(f, f)
})"));
  EXPECT_THAT(scalar.message(), HasSubstr("pairs of bf16 have 4, 8 or 16 lanes, not 1"));
}

// Causal attention over pages in small: clamped positions, blocks, strips of groups of keys of which as many are loaded
// as a condition says are there.
TEST(IrVerify, ProvesStripsOfPagedKeys) {
  const std::string text = R"(kernel strips {
    param q
    param kv
    param entries
    param pages
    in T: s32[entries] stride [1] align 4
    in K: f32[pages, 3, 16] stride [48, 16, 1] align 4
    reg a: f32x16
    parallel i in 0..q step 4 {
      let keys = min(kv, 48*entries)
      let rows = min(4, q - i)
      let reach = min(keys, keys - q + i + rows + 19)
      let end = max(0, reach)
      let begin = max(0, keys - q + i - 19)
      let groups = (end + 15) / 16
      let fb = (begin) / 256
      for kb in 16*fb..groups step 16 {
        let kn = min(256, end - 16*kb)
        let skip = max(0, begin - 16*kb)
        let zero = (0) / 8
        let kf = max(skip, keys - q + i + zero - 16*kb - 19)
        let last = (8*rows - 1) / 8
        let kl = min(kn, keys - q + i + last + 20 - 16*kb)
        let ke = max(0, kl)
        if ke - kf - 1 >= 0 {
        let sf = (kf) / 48
        let sl = (ke + 47) / 48
        for st in sf..sl {
          for r in 0..8*rows step 8 {
            let left = min(8, 8*rows - r)
            let pos = (r) / 8
            let kf_1 = max(skip, keys - q + i + pos - 16*kb - 19)
            let pos_1 = (r + left - 1) / 8
            let kr = min(kn, keys - q + i + pos_1 + 20 - 16*kb)
            let ke_1 = max(0, kr)
            let sn = min(48, ke_1 - 48*st)
            if 48*st - kf_1 + 47 >= 0 {
            if sn - 1 >= 0 {
              let sg = (sn + 15) / 16
              if sg - 3 >= 0 {
                let d = (kb + 3*st) / 3
                let u = load T[d] below pages
                let e = (kb + 3*st + 2) / 3
                let v = load T[e] below pages
                a = load K[v, kb + 3*st + 2 - 3*e, 0]
              } else {
                if sg - 2 >= 0 {
                  let f = (kb + 3*st + 1) / 3
                  let w = load T[f] below pages
                  a = load K[w, kb + 3*st + 1 - 3*f, 0]
                }
              }
            }
            }
          }
        }
        }
      }
    }
  })";
  expect_refused(text,
                 {{"if sg - 3 >= 0", "if sg - 2 >= 0", {"`let v = load T[e] below pages`", "cannot prove e < entries"}},
                  {"(kb + 3*st + 1) / 3", "(kb + 3*st + 2) / 3", {"cannot prove"}},
                  {"min(kv, 48*entries)", "min(kv, 49*entries)", {"dimension 0 of 'T'"}},
                  {"let ke_1 = max(0, kr)", "let ke_1 = max(1, kr + 1)", {"cannot prove e < entries"}},
                  {"min(48, ke_1 - 48*st)", "min(48, ke_1 - 47*st)", {"cannot prove e < entries"}}});
}

TEST(IrVerify, DeadCodeMayBeAnything) {
  EXPECT_TRUE(
      verify(parsed("kernel k {\n in x: f32[0] stride [1] align 4\n reg a: f32x1\n for i in 0..0 { a = load x[5] } }"))
          .ok());
  EXPECT_TRUE(verify(parsed("kernel k {\n param n\n in x: f32[n] stride [1] align 4\n reg a: f32x1\n if -1 - n >= 0 { "
                            "a = load x[5] } }"))
                  .ok());
}

}  // namespace
}  // namespace hone::ir
