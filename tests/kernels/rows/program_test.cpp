// The rules of programs and arguments, and their text.
#include "kernels/rows/program.h"

#include <gmock/gmock.h>

#include "engine/base/random.h"
#include "kernels/ir/verify.h"
#include "kernels/rows/arguments.h"
#include "kernels/rows/decoder.h"
#include "kernels/rows/lower.h"

namespace hone::rows {
namespace {

using testing::HasSubstr;

std::vector<RowProgram> samples() {
  const RowShape runtime{.outer = 2}, constant{.outer = 1, .n = 40};
  return {rms_norm(constant, 1e-5F),
          add_rms_norm(constant, 1e-5F),
          layer_norm(constant, 1e-5F, true),
          softmax(runtime, 0.5F),
          silu_mul(runtime),
          unary_map(runtime, StepOp::kLogistic),
          rope_half(2, 64, true),
          rope_interleaved(3, 64),
          copy(constant, DType::kS32, Columns::kStrided),
          gather_rows(runtime),
          reduce_columns(constant, StepOp::kReduceMax)};
}

TEST(RowsProgram, TextReadsBack) {
  for (const RowProgram& program : samples()) {
    ASSERT_TRUE(validate(program).ok()) << validate(program).message();
    const std::string text = to_string(program);
    const Result<RowProgram> parsed = parse(text);
    ASSERT_TRUE(parsed.ok()) << parsed.status().message();
    EXPECT_EQ(*parsed, program) << text;
    EXPECT_EQ(to_string(*parsed), text);
  }
}

TEST(RowsProgram, NamesTellProgramsApart) {
  EXPECT_NE(kernel_name(softmax({.n = 8}, 1), Isa::kAvx2), kernel_name(softmax({.n = 8}, 2), Isa::kAvx2));
  EXPECT_THAT(kernel_name(rms_norm({.n = 2048}, 0), Isa::kAvx2),
              testing::MatchesRegex("rows_rms_norm_2048_[0-9a-f]+_avx2"));
}

// ---- what is refused ----

std::string why(const std::string& text) {
  const Result<RowProgram> parsed = parse(text);
  return parsed.ok() ? "" : parsed.status().message();
}
std::string why_steps(const std::string& steps) {
  return why("rows t outer=1 n=8; in f32 dense; out f32 dense; out f32 one; " + steps);
}

TEST(RowsProgram, RefusesTextWithTheStatement) {
  EXPECT_THAT(why(""), HasSubstr("statement 1 ''"));
  EXPECT_THAT(why("rows t outer=1 n=0"), HasSubstr("COLUMNS"));
  EXPECT_THAT(why("rows t outer=1 n=8; in f32"), HasSubstr("statement 2 ' in f32'"));
  EXPECT_THAT(why("rows t outer=1 n=8; in f32 dense gather x"), HasSubstr("statement 2"));
  EXPECT_THAT(why_steps("%1 = load 0"), HasSubstr("'%0 = STEP"));
  EXPECT_THAT(why_steps("%0 = nothing 0"), HasSubstr("steps.inc"));
  EXPECT_THAT(why_steps("%0 = load 9"), HasSubstr("number of an operand"));
  EXPECT_THAT(why_steps("%0 = const 1.5"), HasSubstr("bits"));
  EXPECT_THAT(why_steps("%0 = load 0; in f32 dense"), HasSubstr("operands come before"));
  EXPECT_THAT(why_steps("%0 = load 0; store 1 %0 %0 %0 %0"), HasSubstr("at most three"));
}

TEST(RowsProgram, RefusesProgramsWithTheRule) {
  EXPECT_THAT(why("rows T outer=1 n=8; in f32 dense; %0 = load 0"), HasSubstr("a name is"));
  EXPECT_THAT(why("rows t outer=5 n=8; in f32 dense; %0 = load 0"), HasSubstr("outer dimensions"));
  EXPECT_THAT(why("rows t outer=1 n=8; in f64 dense; %0 = load 0"), HasSubstr("statement 2"));
  EXPECT_THAT(why("rows t outer=1 n=n; in f32 pairs; %0 = load 0 0"), HasSubstr("constant n"));
  EXPECT_THAT(why("rows t outer=1 n=8; out u8 dense; %0 = const 0x0; store 0 %0"),
              HasSubstr("u8, bf16 and f16 are for"));
  EXPECT_THAT(why("rows t outer=1 n=n; scratch f32 dense; %0 = const 0x0; store 0 %0"), HasSubstr("scratch"));
  EXPECT_THAT(why("rows t outer=1 n=8; in f32 dense gather 1; %0 = load 0"), HasSubstr("gather"));
  EXPECT_THAT(why_steps("%0 = load 0; %1 = add %0 %1"), HasSubstr("step 1: '%1' is not a value"));
  EXPECT_THAT(why_steps("%0 = load 0; store 1 %0; %2 = neg %1"), HasSubstr("'%1' is not a value"));
  EXPECT_THAT(why_steps("%0 = load 0; %1 = add %0"), HasSubstr("'%-1'"));
  EXPECT_THAT(why_steps("%0 = load 0; %1 = neg %0 %0"), HasSubstr("neg takes 1"));
  EXPECT_THAT(why_steps("%0 = load 0; %1 = select %0 %0 %0"), HasSubstr("a mask and two"));
  EXPECT_THAT(why_steps("%0 = load 0; %1 = to_float %0"), HasSubstr("s32 or a mask"));
  EXPECT_THAT(why_steps("%0 = load 0; store 0 %0"), HasSubstr("is an input"));
  EXPECT_THAT(why_steps("%0 = load 0; store 2 %0"), HasSubstr("one element a row"));
  EXPECT_THAT(why_steps("%0 = load 1"), HasSubstr("before it is stored"));
  EXPECT_THAT(why_steps("%0 = load 0; store 1 %0"), HasSubstr("operand 2 is an output that no step stores"));
  EXPECT_THAT(why_steps("%0 = load 0; %1 = lt %0 %0; store 1 %1"), HasSubstr("holds f32"));
  EXPECT_THAT(why_steps("%0 = const 0x0; store 2 %0; %2 = load 2; store 1 %2"), HasSubstr("use the value"));
}

TEST(RowsProgram, RefusesToLookForWhatWasOverwritten) {
  const std::string head = "%0 = load 0; store 1 %0; %2 = load 1; %3 = reduce_sum %2; ";
  EXPECT_EQ(why_steps(head + "%4 = mul %2 %3; store 1 %4; store 2 %3"), "");
  EXPECT_THAT(why_steps(head + "store 1 %0; %5 = mul %2 %3; store 1 %5; store 2 %3"),
              HasSubstr("step 2: pass 1 needs what step 4 has overwritten"));
}

// Whatever a mutation makes of a text: an error of one line, or a program that can be lowered to a legal kernel.
TEST(RowsProgram, MutatedTexts) {
  Random random(3);
  int accepted = 0;
  for (int i = 0; i < 3000; ++i) {
    std::string text = to_string(random.element(samples()));
    for (int64_t edits = random.between(1, 3); edits > 0; --edits) {
      const auto at = static_cast<size_t>(random.below(static_cast<int64_t>(text.size())));
      if (random.chance(30)) {
        text.erase(at, static_cast<size_t>(random.between(1, 9)));
      } else {
        text[at] = random.element(std::string("0123456789 %;=abdefnsx-\n"));
      }
      if (text.empty()) break;
    }
    const Result<RowProgram> parsed = parse(text);
    if (!parsed.ok()) {
      EXPECT_EQ(parsed.status().message().find('\n'), std::string::npos);
      continue;
    }
    ++accepted;
    EXPECT_EQ(to_string(*parse(to_string(*parsed))), to_string(*parsed));
    if (accepted % 10 != 0) continue;
    const Result<ir::Kernel> kernel = lower(*parsed, Isa::kAvx2);
    ASSERT_TRUE(kernel.ok()) << text;
    EXPECT_TRUE(ir::verify(*kernel).ok()) << text << "\n" << ir::verify(*kernel).message();
  }
  EXPECT_GT(accepted, 50);
}

TEST(RowsArguments, AreChecked) {
  const RowProgram program = gather_rows({.outer = 2});
  float x[64], y[64];
  int32_t table[] = {0, 3};
  RowArgs good{.extents = {2, 2}, .n = 4};
  good.operands[0] = {.data = x, .strides = {16, 4}, .table = table, .rows = 4};
  good.operands[1] = {.data = y, .strides = {8, 4}};
  ASSERT_TRUE(check(program, good).ok()) << check(program, good).message();
  auto expect = [&](auto change, const char* what) {
    RowArgs args = good;
    change(args);
    EXPECT_THAT(check(program, args).message(), HasSubstr(what));
  };
  expect([](RowArgs& a) { a.n = -1; }, "n is -1");
  expect([](RowArgs& a) { a.extents[1] = -2; }, "extent 1 is -2");
  expect([](RowArgs& a) { a.extents = {int64_t{1} << 40, int64_t{1} << 40}; }, "2^63");
  expect([](RowArgs& a) { a.operands[1].data = nullptr; }, "operand 1: its data is null");
  expect([](RowArgs& a) { a.operands[0].strides[0] = -1; }, "operand 0: stride 0 is -1");
  expect([](RowArgs& a) { a.operands[1].strides[1] = 0; }, "rows of an output lie apart");
  expect([](RowArgs& a) { a.operands[0].rows = 3; }, "index 1 of the table is 3, expected 0..2");
  expect([](RowArgs& a) { a.operands[0].table = nullptr; }, "its table is null");
}

}  // namespace
}  // namespace hone::rows
