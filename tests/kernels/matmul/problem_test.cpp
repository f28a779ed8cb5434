// Problem strings: round trips, the grammar's corners, and errors that show where they are.
#include "kernels/matmul/problem.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>

#include "kernels/text/problem_text.h"
#include "tests/kernels/text/problem_properties.h"

namespace hone::matmul {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

MatmulProblem parsed(std::string_view text) {
  Result<MatmulProblem> p = parse_problem(text);
  EXPECT_TRUE(p.ok()) << p.status().to_string();
  return p.ok() ? *p : MatmulProblem{};
}

TEST(MatmulProblemText, MinimalProblemIsDense) {
  const MatmulProblem p = parsed("matmul:f32:m=2,n=3,k=4");
  EXPECT_EQ(p, (MatmulProblem{.m = 2, .n = 3, .k = 4}));
  EXPECT_EQ(p.row_stride_a(), 4);
  EXPECT_EQ(p.row_stride_b(), 3);
  EXPECT_EQ(p.row_stride_c(), 3);
  EXPECT_EQ(p.batch_stride_a(), 8);
  EXPECT_EQ(p.batch_stride_b(), 12);
  EXPECT_EQ(p.batch_stride_c(), 6);
}

TEST(MatmulProblemText, EveryKeyAndEveryEpilogue) {
  const std::string text =
      "matmul:f32:m=2,n=3,k=4,b=nt,lda=5,ldb=6,ldc=7,batch=2,sa=0,sb=100,sc=99,alpha=0.5,beta=-0.3"
      ":+bias+gelu_tanh*gate+residual+relu+silu+gelu_erf";
  const MatmulProblem p = parsed(text);
  EXPECT_EQ(p.b, BLayout::kNt);
  EXPECT_EQ(p.lda, 5);
  EXPECT_EQ(p.ldb, 6);
  EXPECT_EQ(p.ldc, 7);
  EXPECT_EQ(p.batch, 2);
  EXPECT_EQ(p.batch_stride_a(), 0);
  EXPECT_EQ(p.batch_stride_b(), 100);
  EXPECT_EQ(p.batch_stride_c(), 99);
  EXPECT_EQ(p.alpha, 0.5f);
  EXPECT_EQ(p.beta, -0.3f);
  EXPECT_THAT(p.epilogue,
              ElementsAre(EpilogueOp::kBias, EpilogueOp::kGeluTanh, EpilogueOp::kGate, EpilogueOp::kResidual,
                          EpilogueOp::kRelu, EpilogueOp::kSilu, EpilogueOp::kGeluErf));
  EXPECT_EQ(to_string(p), text);
  EXPECT_EQ(family(p), "matmul:f32:" + text.substr(text.find("n=3")));
}

TEST(MatmulProblemText, GeluIsTheTanhForm) {
  EXPECT_EQ(to_string(parsed("matmul:f32:m=1,n=4096,k=4096,b=nt:+bias+gelu")),
            "matmul:f32:m=1,n=4096,k=4096,b=nt:+bias+gelu_tanh");
}

// n counts the columns of B; those of C are half as many, and so is the dense ldc.
TEST(MatmulProblemText, SwigluHalvesC) {
  const MatmulProblem p = parsed("matmul:f32:m=5,n=96,k=4,ldc=48,batch=2,sc=240:+bias+swiglu*gate+relu+residual");
  EXPECT_EQ(p.columns(), 48);
  EXPECT_EQ(p.row_stride_c(), 48);
  EXPECT_EQ(p.row_stride_b(), 96);
  EXPECT_EQ(p.batch_stride_c(), 240);
  EXPECT_EQ(to_string(p), "matmul:f32:m=5,n=96,k=4,batch=2:+bias+swiglu*gate+relu+residual");
  EXPECT_EQ(parsed(to_string(p)), p);
  EXPECT_EQ(gate_column(0), 0);
  EXPECT_EQ(up_column(0), 16);
  EXPECT_EQ(gate_column(47), 79);
  EXPECT_EQ(up_column(47), 95);
  EXPECT_TRUE(parse_problem("matmul:f32:m=5,n=0,k=4:+swiglu").ok());
  EXPECT_TRUE(parse_problem("matmul:f32:m=4,n=64,k=4,ldc=64,batch=2,sc=32:+swiglu").ok()) << "woven";
}

TEST(MatmulProblemText, RowScaleComesFirst) {
  const MatmulProblem p = parsed("matmul:f32:m=5,n=96,k=4:*row_scale+bias+swiglu*gate");
  EXPECT_THAT(p.epilogue,
              ElementsAre(EpilogueOp::kRowScale, EpilogueOp::kBias, EpilogueOp::kSwiglu, EpilogueOp::kGate));
  EXPECT_EQ(to_string(p), "matmul:f32:m=5,n=96,k=4:*row_scale+bias+swiglu*gate");
}

TEST(MatmulProblemText, DefaultsAndDenseStridesAreLeftOut) {
  EXPECT_EQ(to_string(parsed("matmul:f32:k=4,m=2,n=3,b=nn,lda=4,ldb=0,ldc=3,batch=1,sa=7,alpha=1,beta=-0")),
            "matmul:f32:m=2,n=3,k=4");
  EXPECT_EQ(to_string(parsed("matmul:f32:m=2,n=3,k=4,batch=3,sa=8,sb=12,sc=6")), "matmul:f32:m=2,n=3,k=4,batch=3");
}

TEST(MatmulProblemText, ZeroSizesAreLegal) {
  EXPECT_EQ(to_string(parsed("matmul:f32:m=0,n=0,k=0")), "matmul:f32:m=0,n=0,k=0");
}

MatmulProblem random_problem(std::mt19937& random) {
  auto pick = [&](int64_t lo, int64_t hi) { return std::uniform_int_distribution<int64_t>(lo, hi)(random); };
  MatmulProblem p{.m = pick(0, 40), .n = pick(0, 40), .k = pick(0, 40)};
  p.b = static_cast<BLayout>(pick(0, 2));
  if (pick(0, 1)) p.lda = p.k + pick(1, 9);
  if (pick(0, 1) && p.b != BLayout::kPacked) p.ldb = (p.b == BLayout::kNt ? p.k : p.n) + pick(1, 9);
  if (pick(0, 1)) p.ldc = p.n + pick(1, 9);
  p.batch = pick(1, 3);
  if (pick(0, 1)) p.sa = pick(0, 1000);
  if (pick(0, 1)) p.sb = p.b == BLayout::kPacked ? 0 : pick(0, 1000);
  if (pick(0, 1)) p.sc = p.m * p.row_stride_c() + pick(0, 50);
  if (pick(0, 1)) p.alpha = std::uniform_real_distribution<float>(-3, 3)(random);
  if (pick(0, 1)) p.beta = std::uniform_real_distribution<float>(-1e-20f, 1e20f)(random);
  for (int64_t i = pick(0, 5); i > 0; --i) {
    const auto op = static_cast<EpilogueOp>(pick(0, 6));
    if (!reads_operand(op) || !p.has(op)) p.epilogue.push_back(op);
  }
  if (p.batch == 1 && pick(0, 1)) p.epilogue.insert(p.epilogue.begin(), EpilogueOp::kRowScale);
  return p;
}

TEST(MatmulProblemProperty, RoundTrip) { text::expect_round_trips(random_problem, parse_problem); }

TEST(MatmulProblemFuzz, NeverCrashesAndAnswersInOneLine) {
  text::expect_answers_in_one_line(20000, "matul:f32=,knbtpcdslarhe0189-+*{}.;\xc3\xa4 \n\t", random_problem,
                                   parse_problem, parse_problems);
}

TEST(MatmulProblemErrors, SayWhatAndWhere) {
  const text::Bad cases[] = {
      {"", "is empty", 1},
      {"matmul", "expected ':' and a dtype", 7},
      {"matmul:f32", "expected ':' and the sizes", 11},
      {"matmul:f32:", "expected a key, found the end", 12},
      {"matmul:f32:m=4,q=3", "unknown key 'q'", 16},
      {"matmul:f32:m=4,m=4,n=1,k=1", "'m' appears twice", 16},
      {"matmul:f32:m=4,n=4", "'k' is missing", 19},
      {"matmul:f32:m=4,n=4:+relu", "'k' is missing", 19},
      {"matmul:f32:m=4,n=4,k=4,", "expected a key", 24},
      {"matmul:f32:m,n=4,k=4", "expected '=' after 'm', found ','", 13},
      {"matmul:f32:m=,n=4,k=4", "expected a number, found ','", 14},
      {"matmul:f32:m=-4,n=4,k=4", "negative numbers", 14},
      {"matmul:f32:m=99999999999999999999,n=4,k=4", "99999999999999999999 is too large", 14},
      {"matmul:f32:m=4,n=4,k=4x", "expected ',' or ':', found 'x'", 23},
      {"matmul:f32:m=4,n=4,k=4 ", "expected ',' or ':', found ' '", 23},
      {"matmul:f32:m=4,n=4,k=4,b=nx", "unknown layout 'nx'", 26},
      {"matmul:f32:m=4,n=4,k=4,b=", "unknown layout", 26},
      {"matmul:f32:m=4,n=4,k=4,alpha=nan", "'nan' is not a decimal number", 30},
      {"matmul:f32:m=4,n=4,k=4,alpha=1e99", "'1e99' is not a decimal number", 30},
      {"matmul:f32:m=4,n=4,k=4,beta=", "'' is not a decimal number", 29},
      {"matmul:f32:m=4,n=4,k=4:", "expected an epilogue", 24},
      {"matmul:f32:m=4,n=4,k=4:bias", "expected '+' or '*', found 'b'", 24},
      {"matmul:f32:m=4,n=4,k=4:+bios", "unknown epilogue op 'bios'", 24},
      {"matmul:f32:m=4,n=4,k=4:+gate", "'+gate' should be '*gate'", 24},
      {"matmul:f32:m=4,n=4,k=4:*bias", "'*bias' should be '+bias'", 24},
      {"matmul:f32:m=4,n=4,k=4:+bias+relu+bias", "+bias appears twice", 34},
      {"matmul:f32:m=4,n=4,k=4:+", "expected the name of an epilogue op", 25},
      {"matmul:f32:m=4,n=48,k=4:+swiglu", "n=48 is not a multiple of 32: +swiglu takes 16 columns", 0},
      {"matmul:f32:m=4,n=64,k=4,beta=1:+swiglu", "beta=1 adds C to T, but +swiglu", 0},
      {"matmul:f32:m=4,n=64,k=4:+swiglu+swiglu", "+swiglu appears twice", 0},
      {"matmul:f32:m=4,n=64,k=4:*gate+swiglu", "*gate cannot come before +swiglu, only +bias and *row_scale can", 0},
      {"matmul:f32:m=4,n=64,k=4:+silu+swiglu", "+silu cannot come before +swiglu", 0},
      {"matmul:f32:m=4,n=64,k=4:+swiglu+bias", "+bias has an element for each of the n columns", 0},
      {"matmul:f32:m=4,n=4,k=4:+bias*row_scale", "*row_scale comes after +bias and has to be the first", 0},
      {"matmul:f32:m=4,n=4,k=4:*row_scale*row_scale", "*row_scale appears twice", 34},
      {"matmul:f32:m=4,n=4,k=4:+row_scale", "'+row_scale' should be '*row_scale'", 24},
      {"matmul:f32:m=4,n=4,k=4,batch=2:*row_scale", "batch=2 with *row_scale", 0},
      {"matmul:f32:m=4,n=64,k=4,ldc=31:+swiglu", "ldc=31 is less than a row of C (n/2=32)", 0},
      {"matmul:f32:m=4,n=64,k=4,batch=2,sc=127:+swiglu", "m=4 rows of ldc=32 need sc >= 128", 0},
      {"matmul:f32:m=1-8,n=4,k=4", "a range where one problem is wanted", 14},
      {"matmul:f32:m={1},n=4,k=4", "a list where one problem is wanted", 14},
      {"matmul:f32:m=\xc3\xa4,n=4,k=4", "found '\\xc3'", 14},
      {"matmul:f32:m=4,n=4,k=4,lda=3", "lda=3 is less than a row of A (k=4)", 0},
      {"matmul:f32:m=4,n=5,k=4,ldb=4", "ldb=4 is less than a row of B (n=5)", 0},
      {"matmul:f32:m=4,n=5,k=4,b=nt,ldb=3", "ldb=3 is less than a row of B (k=4)", 0},
      {"matmul:f32:m=4,n=5,k=4,b=packed,ldb=8", "no meaning with b=packed", 0},
      {"matmul:f32:m=4,n=5,k=4,ldc=4", "ldc=4 is less than a row of C (n=5)", 0},
      {"matmul:f32:m=4,n=5,k=4,batch=0", "batch=0 must be at least 1", 0},
      {"matmul:f32:m=4,n=0,k=4,batch=4611686018427387904,sa=0,sb=0", "is too large: at most", 0},
      {"matmul:f32:m=4,n=5,k=4,batch=2,sc=19", "sc=19 makes the C of two batch items overlap", 0},
      {"matmul:f32:m=4,n=5,k=4,batch=2,sc=0", "sc=0 makes the C of two batch items overlap", 0},
      {"matmul:f32:m=4,n=5,k=4,b=packed,batch=2,sb=20", "sb=20 with b=packed", 0},
      {"matmul:f32:m=3037000500,n=1,k=3037000500", "too large: the bytes of A", 0},
      {"matmul:f32:m=1,n=3037000500,k=3037000500", "too large: the bytes of B", 0},
      {"matmul:f32:m=3037000500,n=3037000500,k=1", "too large: the bytes of C", 0},
      {"matmul:f32:m=0,n=9223372036854775807,k=9223372036854775807", "too large", 0},
      {"matmul:f32:m=2,n=2,k=2,lda=9223372036854775807", "too large: the bytes of A", 0},
      {"matmul:f32:m=2,n=2,k=2,batch=9223372036854775807", "is too large: at most", 0},
      {"matmul:s32:m=4,n=4,k=4", "dtype 's32' is not supported by matmul; dtypes: f32", 8, Code::kUnsupported},
      {"attention:f32:b=1", "op 'attention' is not supported; ops: matmul", 1, Code::kUnsupported},
  };
  text::expect_refused(cases, problem_grammar(), parse_problem);
}

TEST(MatmulProblemErrors, CaretStandsUnderTheColumn) {
  const std::string text = "matmul:f32:m=4,q=3";
  EXPECT_EQ(text::caret_display(text, parse_problem(text).status()), text + "\n" + std::string(15, ' ') + "^");
  EXPECT_EQ(text::caret_display(text, invalid_argument("no place")), "");
}

TEST(MatmulProblemErrors, LongTextIsCut) {
  const Result<MatmulProblem> p = parse_problem(std::string(1 << 20, 'x'));
  ASSERT_FALSE(p.ok());
  EXPECT_LT(p.status().message().size(), 1000u);
}

// C of batch items may lie side by side within the rows, as attention heads do.
TEST(MatmulProblemText, WovenBatchIsLegal) {
  EXPECT_TRUE(parse_problem("matmul:f32:m=4,n=5,k=4,ldc=10,batch=2,sc=5").ok());
  EXPECT_FALSE(parse_problem("matmul:f32:m=4,n=5,k=4,ldc=9,batch=2,sc=5").ok());
}

// Case m9: more than 2^31 elements.
TEST(MatmulProblemText, SizesAre64Bit) {
  const MatmulProblem p = parsed("matmul:f32:m=46341,n=46341,k=64,batch=3");
  EXPECT_EQ(p.batch_stride_c(), int64_t{46341} * 46341);
  EXPECT_GT(p.batch_stride_c(), int64_t{1} << 31);
  EXPECT_DOUBLE_EQ(p.flops(), 2.0 * 3 * 46341 * 46341 * 64);
}

std::vector<int64_t> rows(std::string_view text) {
  const Result<std::vector<MatmulProblem>> all = parse_problems(text);
  EXPECT_TRUE(all.ok()) << all.status().to_string();
  std::vector<int64_t> m;
  for (size_t i = 0; all.ok() && i < all->size(); ++i) m.push_back((*all)[i].m);
  return m;
}

TEST(MatmulProblemRanges, StepsFactorsAndLists) {
  EXPECT_THAT(rows("matmul:f32:m=1-8+1,n=1,k=1"), ElementsAre(1, 2, 3, 4, 5, 6, 7, 8));
  EXPECT_THAT(rows("matmul:f32:m=1-8+3,n=1,k=1"), ElementsAre(1, 4, 7));
  EXPECT_THAT(rows("matmul:f32:m=2-4,n=1,k=1"), ElementsAre(2, 3, 4));
  EXPECT_THAT(rows("matmul:f32:m=1-20*2,n=1,k=1"), ElementsAre(1, 2, 4, 8, 16));
  EXPECT_THAT(rows("matmul:f32:m={1,4,16},n=1,k=1"), ElementsAre(1, 4, 16));
  EXPECT_THAT(rows("matmul:f32:m=5,n=1,k=1"), ElementsAre(5));
  EXPECT_THAT(rows("matmul:f32:m=9223372036854775806-9223372036854775807,n=0,k=0"),
              ElementsAre(INT64_MAX - 1, INT64_MAX));
}

TEST(MatmulProblemRanges, FirstKeyIsSlowest) {
  const auto all = *parse_problems("matmul:f32:n={1,2},m=3-4,k=5");
  ASSERT_EQ(all.size(), 4u);
  EXPECT_EQ(to_string(all[0]), "matmul:f32:m=3,n=1,k=5");
  EXPECT_EQ(to_string(all[1]), "matmul:f32:m=4,n=1,k=5");
  EXPECT_EQ(to_string(all[2]), "matmul:f32:m=3,n=2,k=5");
}

TEST(MatmulProblemRanges, Errors) {
  const std::pair<std::string, std::string> cases[] = {
      {"matmul:f32:m=8-1,n=1,k=1", "ends before it begins at column 14"},
      {"matmul:f32:m=1-8+0,n=1,k=1", "step must be at least 1 at column 18"},
      {"matmul:f32:m=1-8*1,n=1,k=1", "factor must be at least 2 at column 18"},
      {"matmul:f32:m=0-8*2,n=1,k=1", "must begin at 1 or more at column 14"},
      {"matmul:f32:m={},n=1,k=1", "expected a number, found '}' at column 15"},
      {"matmul:f32:m={1,n=1,k=1", "expected a number, found 'n' at column 17"},
      {"matmul:f32:m={1 },n=1,k=1", "expected ',' or '}', found ' ' at column 16"},
      {"matmul:f32:m=1-100001,n=1,k=1", "more than 100000 problems at column 14"},
      {"matmul:f32:m=1-9223372036854775807,n=1,k=1", "more than 100000 problems at column 14"},
      {"matmul:f32:m=1-400,n=1-400,k=1", "more than 100000 problems"},
      {"matmul:f32:m=1-8,n=1,k=1,lda=1-2", "expected ',' or ':', found '-' at column 31"},
  };
  for (const auto& [text, what] : cases) {
    const auto all = parse_problems(text);
    ASSERT_FALSE(all.ok()) << text;
    EXPECT_THAT(all.status().message(), HasSubstr(what));
  }
  EXPECT_EQ(parse_problems("matmul:f32:m=1-100000,n=1,k=1")->size(), 100000u);
}

}  // namespace
}  // namespace hone::matmul
