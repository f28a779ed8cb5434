#include "kernels/ir/text.h"
#include "kernels/ir/task.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>

#include "kernels/ir/builder.h"
#include "kernels/ir/verify.h"
#include "tests/kernels/ir/sample_kernels.h"

namespace hone::ir {
namespace {

using testing::HasSubstr;
using testing::StartsWith;

constexpr const char* kEveryOp = R"(kernel every_op {
  param n
  param stride
  in x: f32[n, 64] stride [stride, 1] align 4
  out y: s32[64] stride [1] align 64
  inout z: f32[64] stride [1] align 4
  workspace w: f32[3, 64] stride [64, 1] align 64
  reg a: f32x8
  reg t: f32x8[2, 3]
  reg i: s32x8
  reg m: mask8
  reg s: f32x1
  a = const 0x3f800000  # 1
  i = const 0xffffffff  # -1
  m = lanes(n - 5)
  a = load z[8] if m
  s = broadcast w[2, 63]
  t[1, 2] = add(a, t[0, 0])
  a = sub(a, a)
  a = mul(a, a)
  a = div(a, a)
  a = min(a, a)
  a = max(a, a)
  a = fma(a, a, a)
  i = pairs(a, t[0, 2])
  a = dot_pairs(i, i, a)
  a = move(a)
  a = neg(a)
  a = abs(a)
  a = round(a)
  i = to_int(a)
  a = to_float(i)
  i = bitcast(a)
  i = shl(i, 31)
  m = lt(a, a)
  m = le(a, a)
  m = eq(a, a)
  a = select(m, a, t[0, 1])
  a = unpack_lo32(a, a)
  a = unpack_hi32(a, a)
  a = unpack_lo64(a, a)
  a = unpack_hi64(a, a)
  a = groups(a, a, 0x31)
  prefetch t0 z[1000]
  prefetch t1 z[0]
  prefetch t2 z[0]
  let e = min(4, n - 2)
  let f = max(e, 1 - n + 3*e, -7)
  let g = (e - f) / 16
  for j in 0..8*g step 8 {
    store z[j] = a if m
    store y[j] = i
  }
  unroll u in 0..2 step 1 {
    unroll v in u..3 step 2 {
      t[u, v] = move(a)
    }
  }
  specialise r in -1..14 = e - 1 {
    if 4 - n - 2*r == 0 {
      a = move(a)
    } else {
      a = neg(a)
    }
  }
  if n - 16 >= 0 {
  }
}
)";

// The first number that is free, not the next one: texts of kernels name what was measured.
TEST(IrBuilder, NamesThatAreTakenGetTheFirstNumberThatIsFree) {
  Builder b("names");
  for (const char* name : {"x", "x", "x_2", "x", "x", "x_1", "x_01", "x_", "y", "x"}) b.param(name);
  const Kernel kernel = b.finish();
  std::vector<std::string> names;
  for (const Var& v : kernel.vars) names.push_back(v.name);
  EXPECT_THAT(names, testing::ElementsAre("x", "x_1", "x_2", "x_3", "x_4", "x_1_1", "x_01", "x_", "y", "x_5"));
}

TEST(IrText, EveryOpRoundTrips) { EXPECT_EQ(print(parsed(kEveryOp)), kEveryOp); }

TEST(IrText, SamplesRoundTrip) {
  EXPECT_EQ(print(parsed(kAxpyText)), kAxpyText);
  EXPECT_EQ(print(parsed(kGatherText)), kGatherText);
  EXPECT_EQ(print(parsed(kBytesText)), kBytesText);
  for (bool batch : {false, true}) {
    const Kernel kernel = sample_matmul({.batch = batch, .split_tail = batch});
    const Kernel again = parsed(print(kernel));
    EXPECT_EQ(print(again), print(kernel));
    EXPECT_EQ(hash(again), hash(kernel));
    ASSERT_EQ(again.vars.size(), kernel.vars.size());
    EXPECT_EQ(again.params().size(), kernel.params().size());
    EXPECT_EQ(again.arguments(), kernel.arguments());
    EXPECT_EQ(workspace_offsets(again), workspace_offsets(kernel));
    EXPECT_TRUE(verify(again).ok());
  }
}

TEST(IrText, OrderOfTermsDoesNotDependOnIds) {
  Builder b("late");
  const BufferId y = b.buffer({.name = "y", .scope = Scope::kOut, .extents = {64}, .strides = {1}});
  const RegId a = b.reg("a", {});
  b.constant(Builder::at(a), 0);
  b.serial("i", 0, 4, 1, [&](Affine i) {
    const Affine n = Affine::var(b.param("n"));  // declared after i, printed before it
    b.store({y, {i + 2 * n}}, Builder::at(a));
  });
  const Kernel kernel = b.finish();
  EXPECT_THAT(print(kernel), HasSubstr("store y[2*n + i] = a"));
  EXPECT_EQ(print(parsed(print(kernel))), print(kernel));
}

TEST(IrText, FreeFormIsAccepted) {
  const std::string tidy = print(parsed(kAxpyText));
  std::string wild = edited(tidy, "x[i + j]", "x[ j*(1)+ -(-i) ]");
  wild = edited(wild, "16*q", "q*4*(3 + 1)", true);
  wild = edited(wild, "\n", "  # remark } {\r\n", true);
  EXPECT_EQ(print(parsed(wild)), tidy);
}

// The `if` of a mask and that of a statement are the same word.
TEST(IrText, IfBehindAnAccess) {
  const std::string text =
      "kernel k {\n  param n\n  in x: f32[16] stride [1] align 4\n  out y: f32[16] stride [1] align 4\n  reg v: f32x8\n"
      "  reg m: mask8\n  m = lanes(n)\n  v = load x[0]\n  if n - 1 >= 0 {\n    v = load x[8] if m\n    store y[0] = v\n"
      "    if n - 2 == 0 {\n      store y[8] = v if m\n    }\n  }\n}\n";
  EXPECT_EQ(print(parsed(text)), text);
}

TEST(IrText, HashIgnoresTheNameOnly) {
  const Kernel kernel = parsed(kAxpyText);
  EXPECT_EQ(hash(parsed(edited(kAxpyText, "kernel axpy", "kernel other"))), hash(kernel));
  EXPECT_NE(hash(parsed(edited(kAxpyText, "0x40000000", "0x40000001"))), hash(kernel));
  EXPECT_NE(hash(parsed(edited(kAxpyText, "step 64", "step 128"))), hash(kernel));
}

TEST(IrText, HeadsForMessages) {
  const Kernel kernel = parsed(kAxpyText);
  EXPECT_EQ(print_head(kernel, kernel.body.front()), "parallel i in 0..n step 64");
  const For& loop = std::get<For>(kernel.body.front().node);
  EXPECT_EQ(print_head(kernel, loop.body.front()), "c = const 0x40000000");
  // Ids that do not exist are shown, not followed.
  EXPECT_EQ(print_head(kernel, {Store{{99, {Affine::var(77)}}, {-5, {}}, {}}}), "store ?buffer99[?var77] = ?reg-5");
}

// ---- edited text is what runs ----

std::vector<float> run_axpy(const std::string& text, int64_t n) {
  std::vector<float> x(static_cast<size_t>(n)), y(static_cast<size_t>(n), 1);
  for (size_t i = 0; i < x.size(); ++i) x[i] = static_cast<float>(i);
  const Kernel kernel = parsed(text);
  EXPECT_TRUE(verify(kernel).ok()) << verify(kernel).message();
  run_all_tasks(kernel, {x.data(), y.data()}, {n});
  return y;
}

TEST(IrText, EditedConstantRuns) {
  EXPECT_EQ(run_axpy(kAxpyText, 100)[30], 61);
  EXPECT_EQ(run_axpy(edited(kAxpyText, "0x40000000", "0x40400000"), 100)[30], 91);
}

TEST(IrText, EditedLoopBoundRuns) {
  const std::vector<float> y = run_axpy(edited(kAxpyText, "for j in 0..16*q", "for j in 16..16*q"), 100);
  EXPECT_EQ(y[15], 1);  // the first vector of each task is left out
  EXPECT_EQ(y[16], 33);
}

TEST(IrText, EditedIndexRuns) {
  const std::vector<float> y = run_axpy(edited(kAxpyText, "a = load x[i + j]", "a = load x[i]"), 100);
  EXPECT_EQ(y[17], 3);
}

TEST(IrText, EditedOpAndMaskRun) {
  EXPECT_EQ(run_axpy(edited(kAxpyText, "b = fma(c, a, b)", "b = sub(a, c)", true), 100)[30], 28);
  EXPECT_EQ(run_axpy(edited(kAxpyText, "lanes(e - 16*q)", "lanes(e - 16*q - 1)"), 100)[99], 1);
}

TEST(IrText, EditedIndexLoadRuns) {
  const auto first = [](const std::string& text) {
    std::vector<int32_t> table = {2, 0, 1, 2};
    std::vector<float> x(30), y(32);
    for (size_t i = 0; i < x.size(); ++i) x[i] = static_cast<float>(i);
    run_all_tasks(parsed(text), {table.data(), x.data(), y.data()}, {4, 3, 11});
    return std::vector{y[0], y[8], y[16], y[24]};
  };
  EXPECT_EQ(first(kGatherText), (std::vector<float>{22, 0, 11, 22}));
  EXPECT_EQ(first(edited(kGatherText, "load T[i]", "load T[3 - i]")), (std::vector<float>{22, 11, 0, 22}));
  EXPECT_EQ(first(edited(kGatherText, "x[v, 0]", "x[2 - v, 0]")), (std::vector<float>{0, 22, 11, 0}));
  EXPECT_NE(hash(parsed(kGatherText)), hash(parsed(edited(kGatherText, "below rows", "below 3"))));
}

TEST(IrText, EditedBytesRun) {
  const auto sum = [](const std::string& text) {
    std::vector<uint8_t> x(13 * 2 - 2);  // the last row has no padding
    for (size_t i = 0; i < x.size(); ++i) x[i] = static_cast<uint8_t>(200 + i);
    std::vector<int32_t> y(8);
    run_all_tasks(parsed(text), {x.data(), y.data()}, {2, 13});
    return y;
  };
  EXPECT_EQ(sum(kBytesText), (std::vector<int32_t>{419, 421, 423, 425, 427, 429, 431, 433}));
  EXPECT_EQ(sum(edited(kBytesText, "x[i, 3]", "x[i, 2]"))[0], 417);
  EXPECT_EQ(sum(edited(kBytesText, "x[i, 3]", "x[1 - i, 3]"))[0], 419);
  EXPECT_EQ(sum(edited(kBytesText, "0..n", "1..n"))[0], 216);
}

// ---- errors ----

struct Wrong {
  const char* from;
  const char* to;
  const char* message;
};

TEST(IrText, ErrorsNamePlaceAndExpectation) {
  const Wrong cases[] = {
      {"kernel axpy", "kernal axpy", "line 1, column 1: expected 'kernel', found 'kernal'"},
      {"param n", "param in", "line 2, column 9: expected a name for the variable, found 'in'"},
      {"in x: f32", "in x: f99", "line 3, column 9: expected an element type such as f32, found 'f99'"},
      {"stride [1]", "strides [1]", "line 3, column 16: expected 'stride', found 'strides'"},
      {"reg b: f32x16", "reg b: f32x5", "line 6, column 10: expected a register type such as f32x16 or mask16"},
      {"reg b: f32x16", "reg a: f32x16", "line 6, column 7: register 'a' is declared twice"},
      {"in 0..n", "in 0.n", "expected '..', found '.'"},
      {"step 64", "step -64", "line 9, column 27: expected a step"},
      {"a = load x[i + j]", "a = load w[i + j]", "line 14, column 16: no buffer is named 'w' here"},
      {"a = load x[i + j]", "a = load x[i + z]", "line 14, column 22: no variable is named 'z' here"},
      {"a = load x[i + j]", "a = load x[i * j]", "line 14, column 20: a variable can be multiplied by numbers only"},
      {"b = fma(c, a, b)", "b = fmadd(c, a, b)", "no operation is named 'fmadd'; there are const load"},
      {"b = fma(c, a, b)", "b = fma(c, a)", "expected ',', found ')'"},
      {"b = fma(c, a, b)", "b = fma(c, a, g)", "no register is named 'g' here"},
      {"let e = min(64, n - i)", "let e = n - i", "expected min(...), max(...), (...) / number or load, found 'n'"},
      {"0x40000000", "0x140000000", "expected the bits of a constant (a number up to 4294967295)"},
      {"16*q", "99999999999999999999*q", "expected a number or a variable, found '99999999999999999999'"},
      {"16*q", "2305843009213693951*4*q", "a number in this product is too large"},
      {"  }\n}\n", "  }\n", "expected a statement or '}', found the end of the text"},
      {"  }\n}\n", "  }\n}\n}", "expected the end of the text after the kernel, found '}'"},
      {"m = lanes", "m @ lanes", "expected '=', found '@'"},
      {"m = lanes", "m \xc3\xa9 lanes", "found '\\xc3'"},
  };
  for (const Wrong& w : cases) {
    const Result<Kernel> kernel = parse(edited(kAxpyText, w.from, w.to));
    ASSERT_FALSE(kernel.ok()) << w.to;
    EXPECT_EQ(kernel.status().code(), Code::kInvalidArgument);
    EXPECT_THAT(kernel.status().message(), StartsWith("line "));
    EXPECT_THAT(kernel.status().message(), HasSubstr(w.message)) << w.to;
  }
}

TEST(IrText, IndexLoadErrors) {
  const Wrong cases[] = {
      {"below rows", "", "expected 'below', found 'a'"},
      {"below rows", "above rows", "expected 'below', found 'above'"},
      {"load T[i]", "load t[i]", "no buffer is named 't' here"},
  };
  for (const Wrong& w : cases) {
    EXPECT_THAT(parse(edited(kGatherText, w.from, w.to)).status().message(), HasSubstr(w.message)) << w.to;
  }
}

TEST(IrText, DepthAndLengthAreBounded) {
  auto in_body = [](const std::string& s) { return parse("kernel k {\n" + s); };
  std::string deep, signs(200000, '-');
  for (int i = 0; i < 100000; ++i) deep += "if 0 == 0 {\n";
  EXPECT_THAT(in_body(deep).status().message(), HasSubstr("too many nested blocks"));
  EXPECT_THAT(in_body("let a = (" + std::string(100000, '(')).status().message(),
              HasSubstr("too many nested parentheses"));
  EXPECT_THAT(in_body("let a = (" + signs).status().message(), HasSubstr("too many nested parentheses or signs"));
  std::string sum = "let a0 = min(1)\n";
  for (int i = 1; i < 100; ++i) sum += "let a" + std::to_string(i) + " = min(1)\n";
  sum += "let s = min(0";
  for (int i = 0; i < 100; ++i) sum += " + a" + std::to_string(i);
  EXPECT_THAT(in_body(sum).status().message(), HasSubstr("too many terms"));
  EXPECT_FALSE(in_body(std::string(1 << 20, '\0')).ok());
  EXPECT_FALSE(parse("").ok());
  EXPECT_FALSE(parse("kernel").ok());
}

// Whatever a mutation makes of the text: an error with a place, or a kernel that round-trips and can be verified.
TEST(IrText, MutatedTextNeverCrashes) {
  const std::string sources[] = {kEveryOp, kAxpyText, kGatherText, kBytesText,
                                 print(sample_matmul({.batch = true, .split_tail = true}))};
  const std::string pieces[] = {"{",
                                "}",
                                "(",
                                ")",
                                "[",
                                "]",
                                "..",
                                "==",
                                ">=",
                                "-",
                                "*",
                                "/",
                                ",",
                                "0",
                                "1",
                                "9",
                                "\n",
                                "#",
                                "x",
                                "\xff",
                                "0x",
                                "if",
                                "for",
                                "let",
                                "min",
                                "reg",
                                "step",
                                "specialise",
                                "4611686018427387904",
                                "unroll"};
  std::mt19937 random(20261129);
  auto below = [&](size_t n) { return static_cast<size_t>(random() % n); };
  int accepted = 0;
  for (int round = 0; round < 4000; ++round) {
    std::string text = sources[below(3)];
    for (size_t edits = 1 + below(3); edits-- > 0;) {
      const size_t at = below(text.size()), length = std::min(below(6), text.size() - at);
      switch (below(4)) {
        case 0:
          text.erase(at, length);
          break;
        case 1:
          text.replace(at, length, pieces[below(std::size(pieces))]);
          break;
        case 2:
          text.insert(at, text.substr(below(text.size()), below(60)));
          break;
        case 3:
          text[at] = static_cast<char>(random());
          break;
      }
    }
    const Result<Kernel> kernel = parse(text);
    if (!kernel.ok()) {
      ASSERT_THAT(kernel.status().message(), StartsWith("line ")) << text;
      continue;
    }
    ++accepted;
    const std::string printed = print(*kernel);
    const Result<Kernel> again = parse(printed);
    ASSERT_TRUE(again.ok()) << again.status().message() << "\n" << printed;
    ASSERT_EQ(print(*again), printed);
    (void)verify(*kernel);  // any answer will do, a crash or a hang will not
  }
  EXPECT_GT(accepted, 50);
}

}  // namespace
}  // namespace hone::ir
