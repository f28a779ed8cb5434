// Sums and a decoder's ops, against loops in double that are written here, and against the definitions of the numerics
// classes bit for bit.
#include <fmt/format.h>

#include <limits>

#include "kernels/math/array_math.h"
#include "kernels/matmul/reference.h"
#include "tests/engine/graph/evaluate_testing.h"

namespace hone::graph {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr double kInf = std::numeric_limits<double>::infinity();

std::vector<double> doubles(const Tensor& t) { return {t.as<float>().begin(), t.as<float>().end()}; }
double silu(double v) { return v / (1 + std::exp(-v)); }

// ---- sums ----

TEST(ReferenceSums, ReduceOverSomeAxes) {
  Random random(1);
  const Tensor x = random_tensor(random, {3, 5, 70});
  std::vector<double> sums(5, 0), largest(5, -kInf), rows(15, 0);
  for (size_t i = 0; i < 3; ++i)
    for (size_t j = 0; j < 5; ++j)
      for (size_t k = 0; k < 70; ++k) {
        const double v = x.as<float>()[(i * 5 + j) * 70 + k];
        sums[j] += v;
        largest[j] = std::max(largest[j], v);
        rows[i * 5 + j] += v;
      }
  const std::string in = "input %x : f32[3, 5, 70]\n";
  expect_near(run(in + "%y = reduce(%x) {axes = [2, 0], kind = \"sum\"} : f32[5]", "%y", {x}), sums, 1e-4);
  expect_near(run(in + "%y = reduce(%x) {axes = [0, 2], kind = \"max\"} : f32[5]", "%y", {x}), largest, 0);
  expect_near(run(in + "%y = reduce(%x) {axes = [2], kind = \"sum\"} : f32[3, 5]", "%y", {x}), rows, 1e-4);
}

// Sixteen chains, then c + 8, c + 4, c + 2, c + 1: what the class lanes16 says.
TEST(ReferenceSums, TheOrderOfASumIsThatOfTheClass) {
  Random random(2);
  const Tensor x = random_tensor(random, {100}, 1000);
  float chain[16] = {};
  for (size_t j = 0; j < 100; ++j) chain[j % 16] += x.as<float>()[j];
  for (size_t half = 8; half > 0; half /= 2)
    for (size_t c = 0; c < half; ++c) chain[c] += chain[c + half];
  EXPECT_THAT(floats(run("input %x : f32[100]\n%y = reduce(%x) {axes = [0], kind = \"sum\"} : f32[]", "%y", {x})),
              ElementsAre(chain[0]));
}

TEST(ReferenceSums, ReduceOfIntegersOfNothingAndOfNan) {
  const std::string tail = "%y = reduce(%x) {axes = [0], kind = ";
  EXPECT_THAT(ints(run("input %x : s32[3]\n" + tail + "\"sum\"} : s32[]", "%y", {s32({3}, {INT32_MAX, 1, 5})})),
              ElementsAre(INT32_MIN + 5));
  EXPECT_THAT(ints(run("input %x : s32[3]\n" + tail + "\"min\"} : s32[]", "%y", {s32({3}, {4, -1, 5})})),
              ElementsAre(-1));
  EXPECT_THAT(floats(run("input %x : f32[s]\n" + tail + "\"sum\"} : f32[]", "%y", {f32({0}, {})})), ElementsAre(0));
  EXPECT_THAT(floats(run("input %x : f32[s]\n" + tail + "\"max\"} : f32[]", "%y", {f32({0}, {})})),
              ElementsAre(-std::numeric_limits<float>::infinity()));
  EXPECT_TRUE(std::isnan(
      floats(run("input %x : f32[2]\n" + tail + "\"max\"} : f32[]", "%y", {f32({2}, {1, std::nanf("")})}))[0]));
}

TEST(ReferenceSums, DotGeneralWithBatchesAndTwoContractions) {
  Random random(3);
  // y[b, i, j] = sum over p, q of lhs[p, b, i, q] * rhs[q, j, p, b]
  const Tensor lhs = random_tensor(random, {3, 2, 4, 5}), rhs = random_tensor(random, {5, 6, 3, 2});
  std::vector<double> expected;
  for (size_t b = 0; b < 2; ++b)
    for (size_t i = 0; i < 4; ++i)
      for (size_t j = 0; j < 6; ++j) {
        double sum = 0;
        for (size_t p = 0; p < 3; ++p)
          for (size_t q = 0; q < 5; ++q)
            sum +=
                double{lhs.as<float>()[((p * 2 + b) * 4 + i) * 5 + q]} * rhs.as<float>()[((q * 6 + j) * 3 + p) * 2 + b];
        expected.push_back(sum);
      }
  const Tensor y =
      run("input %l : f32[3, 2, 4, 5]\ninput %r : f32[5, 6, 3, 2]\n"
          "%y = dot_general(%l, %r) {lhs_batch = [1], rhs_batch = [3], lhs_contract = [0, 3], "
          "rhs_contract = [2, 0]} : f32[2, 4, 6]",
          "%y", {lhs, rhs});
  EXPECT_THAT(y.shape, ElementsAre(2, 4, 6));
  expect_near(y, expected, 1e-5);
}

TEST(ReferenceSums, TopK) {
  const float nan = std::nanf("");
  const std::string body = "input %x : f32[2, 4]\n%v, %i = top_k(%x) {k = 3} : f32[2, 3], s32[2, 3]";
  const Result<Graph> graph = graph_of(body, "%v, %i");
  ASSERT_TRUE(graph.ok());
  const std::vector<Tensor> y = outputs_of(*graph, {f32({2, 4}, {1, 5, 5, 7, -2, nan, -1, nan})});
  EXPECT_THAT(ints(y[1]), ElementsAre(3, 1, 2, 1, 3, 2));
  EXPECT_EQ(y[0].as<float>()[0], 7);
  EXPECT_TRUE(std::isnan(y[0].as<float>()[4]));
  EXPECT_EQ(y[0].as<float>()[5], -1);
}

// ---- matmul: the bits of class ordered ----

struct Product {
  std::string layout, epilogue;
  int64_t m, n, k;
};
class ReferenceMatmul : public ::testing::TestWithParam<Product> {};
TEST_P(ReferenceMatmul, HasTheBitsOfTheOrderedClass) {
  const Product& t = GetParam();
  Random random(4);
  const bool nt = t.layout == "nt";
  const bool halves = t.epilogue.find("swiglu") != std::string::npos;
  const int64_t out = halves ? t.n / 2 : t.n;
  std::vector<Tensor> inputs = {random_tensor(random, {t.m, t.k}),
                                random_tensor(random, nt ? std::vector{t.n, t.k} : std::vector{t.k, t.n})};
  std::string body = fmt::format("input %a : f32[{}, {}]\ninput %b : {}\n", t.m, t.k,
                                 nt ? fmt::format("f32[{}, {}]", t.n, t.k) : fmt::format("f32[{}, {}]", t.k, t.n));
  std::string operands = "%a, %b";
  auto problem = matmul::parse_problem(fmt::format("matmul:f32:m={},n={},k={},b={}{}{}", t.m, t.n, t.k, t.layout,
                                                   t.epilogue.empty() ? "" : ":", t.epilogue));
  ASSERT_TRUE(problem.ok()) << problem.status().message();
  Tensor expected = Tensor::make(DType::kF32, {t.m, out});
  matmul::MatmulOperands o{
      .a = inputs[0].as<float>().data(), .b = inputs[1].as<float>().data(), .c = expected.as<float>().data()};
  inputs.reserve(inputs.size() + 4);
  struct Extra {
    const char* name;
    const float*& operand;
    std::vector<int64_t> shape;
  };
  for (const Extra& extra : {Extra{"row_scale", o.row_scale, {t.m}}, Extra{"bias", o.bias, {t.n}},
                             Extra{"gate", o.gate, {t.m, out}}, Extra{"residual", o.residual, {t.m, out}}}) {
    if (t.epilogue.find(extra.name) == std::string::npos) continue;
    inputs.push_back(random_tensor(random, extra.shape));
    extra.operand = inputs.back().as<float>().data();
    body += fmt::format("input %{} : f32[{}]\n", extra.name, fmt::join(extra.shape, ", "));
    operands += fmt::format(", %{}", extra.name);
  }
  matmul::ordered_f32(*problem, o);
  body += fmt::format("%y = matmul({}) {{layout = \"{}\", epilogue = \"{}\"}} : f32[{}, {}]", operands, t.layout,
                      t.epilogue, t.m, out);
  EXPECT_EQ(floats(run(body, "%y", inputs)), floats(expected));
}
INSTANTIATE_TEST_SUITE_P(
    All, ReferenceMatmul,
    ::testing::Values(Product{"nt", "", 3, 33, 70}, Product{"nn", "", 5, 31, 7}, Product{"nt", "", 1, 1, 0},
                      Product{"nn", "+bias+gelu*gate+residual", 4, 40, 9}, Product{"nt", "+silu", 2, 3, 4},
                      Product{"nt", "+relu", 2, 3, 4}, Product{"nt", "+gelu_erf", 2, 3, 4},
                      Product{"nt", "+swiglu", 3, 64, 17}, Product{"nt", "+bias+swiglu+residual", 3, 96, 5},
                      Product{"nn", "*row_scale+bias*gate", 4, 9, 5}, Product{"nt", "*row_scale+swiglu", 3, 96, 5}));

TEST(ReferenceMatmul, APortableBuildHasTheSameBits) {
  Random random(16);
  const std::vector<Tensor> inputs = {random_tensor(random, {3, 70}), random_tensor(random, {40, 70})};
  const std::string body =
      "input %a : f32[3, 70]\ninput %b : f32[40, 70]\n%y = matmul(%a, %b) {layout = \"nt\"} : f32[3, 40]";
  const Tensor here = run(body, "%y", inputs);
  math::pretend_no_avx2_for_testing(true);
  const Tensor portable = run(body, "%y", inputs);
  math::pretend_no_avx2_for_testing(false);
  EXPECT_EQ(here, portable);
}

TEST(ReferenceMatmul, EachElementIsWhatDoubleGives) {
  Random random(5);
  const Tensor a = random_tensor(random, {2, 3, 50}), b = random_tensor(random, {7, 50});
  std::vector<double> expected;
  for (size_t i = 0; i < 6; ++i)
    for (size_t j = 0; j < 7; ++j) {
      double sum = 0;
      for (size_t q = 0; q < 50; ++q) sum += double{a.as<float>()[i * 50 + q]} * b.as<float>()[j * 50 + q];
      expected.push_back(sum);
    }
  expect_near(
      run("input %a : f32[2, 3, 50]\ninput %b : f32[7, 50]\n%y = matmul(%a, %b) {layout = \"nt\"} : f32[2, 3, 7]", "%y",
          {a, b}),
      expected, 1e-5);
}

// ---- attention ----

struct Attention {
  std::string attributes;
  int64_t b, s, t, heads, kv_heads, d, dv;
  std::string mask;  // "", "f32", "u8"
};
class ReferenceAttention : public ::testing::TestWithParam<Attention> {};
TEST_P(ReferenceAttention, IsWhatDoubleGives) {
  const Attention& p = GetParam();
  Random random(6);
  const Tensor q = random_tensor(random, {p.b, p.s, p.heads, p.d}),
               k = random_tensor(random, {p.b, p.t, p.kv_heads, p.d});
  const Tensor v = random_tensor(random, {p.b, p.t, p.kv_heads, p.dv});
  Tensor mask = random_tensor(random, {p.b, p.s, p.t});
  if (p.mask == "u8") {
    mask = Tensor::make(DType::kU8, {p.b, p.s, p.t});
    for (uint8_t& m : mask.as<uint8_t>()) m = random.chance(60);
  }
  const auto has = [&](const char* word) { return p.attributes.find(word) != std::string::npos; };
  const double scale = has("scale") ? 0.25 : 1 / std::sqrt(double(p.d));
  const int64_t window = has("window") ? 3 : 1 << 20;
  std::vector<double> expected;
  for (int64_t b = 0; b < p.b; ++b)
    for (int64_t i = 0; i < p.s; ++i)
      for (int64_t h = 0; h < p.heads; ++h) {
        std::vector<double> score(static_cast<size_t>(p.t), -kInf);
        const int64_t g = h / (p.heads / p.kv_heads), position = i + p.t - p.s;
        for (int64_t j = 0; j < p.t; ++j) {
          if ((has("causal = true") && j > position) || j <= position - window) continue;
          if (!has("causal = true") && j >= position + window) continue;
          double sum = 0;
          for (int64_t c = 0; c < p.d; ++c)
            sum += double{q.as<float>()[size_t(((b * p.s + i) * p.heads + h) * p.d + c)]} *
                   k.as<float>()[size_t(((b * p.t + j) * p.kv_heads + g) * p.d + c)];
          sum *= scale;
          if (has("softcap")) sum = 2 * std::tanh(sum / 2);
          const auto at = size_t((b * p.s + i) * p.t + j);
          if (p.mask == "f32") sum += mask.as<float>()[at];
          if (p.mask == "u8" && mask.as<uint8_t>()[at] == 0) continue;
          score[size_t(j)] = sum;
        }
        double total = 0;
        for (const double s : score) total += std::exp(s);
        for (int64_t c = 0; c < p.dv; ++c) {
          double sum = 0;
          for (int64_t j = 0; j < p.t; ++j)
            sum += std::exp(score[size_t(j)]) * v.as<float>()[size_t(((b * p.t + j) * p.kv_heads + g) * p.dv + c)];
          expected.push_back(total == 0 ? 0 : sum / total);
        }
      }
  std::string body = fmt::format(
      "input %q : f32[{0}, {1}, {2}, {3}]\ninput %k : f32[{0}, {4}, {5}, {3}]\n"
      "input %v : f32[{0}, {4}, {5}, {6}]\n",
      p.b, p.s, p.heads, p.d, p.t, p.kv_heads, p.dv);
  std::vector<Tensor> inputs = {q, k, v};
  if (!p.mask.empty()) {
    body += fmt::format("input %m : {}[{}, {}, {}]\n", p.mask, p.b, p.s, p.t);
    inputs.push_back(mask);
  }
  body += fmt::format("%y = attention(%q, %k, %v{}) {{{}}} : f32[{}, {}, {}, {}]", p.mask.empty() ? "" : ", %m",
                      p.attributes, p.b, p.s, p.heads, p.dv);
  expect_near(run(body, "%y", inputs), expected, 2e-6);
}
INSTANTIATE_TEST_SUITE_P(
    All, ReferenceAttention,
    ::testing::Values(Attention{"causal = true", 1, 5, 5, 2, 2, 8, 8, ""},
                      Attention{"causal = true", 2, 3, 7, 6, 2, 4, 5, ""},  // GQA, keys of earlier calls
                      Attention{"causal = true", 1, 7, 3, 2, 1, 4, 4, ""},  // rows that see nothing
                      Attention{"causal = false", 1, 4, 6, 2, 2, 4, 4, ""},
                      Attention{"causal = true, window = 3", 1, 6, 9, 2, 1, 4, 4, ""},
                      Attention{"causal = false, window = 3", 1, 6, 6, 2, 1, 4, 4, ""},
                      Attention{"causal = true, scale = 0.25, softcap = 2", 1, 4, 4, 2, 2, 4, 4, ""},
                      Attention{"causal = false", 2, 4, 6, 2, 2, 4, 4, "f32"},
                      Attention{"causal = true", 2, 4, 6, 2, 2, 4, 4, "u8"},
                      Attention{"causal = true", 1, 2, 600, 2, 1, 4, 4, ""}));  // several blocks of keys

// ---- norms, softmax ----

TEST(ReferenceRows, NormsAndSoftmax) {
  Random random(8);
  const Tensor x = random_tensor(random, {3, 37}, 2), w = random_tensor(random, {37}), b = random_tensor(random, {37});
  std::vector<double> rms, layer, soft;
  const std::vector<double> all = doubles(x);
  for (size_t i = 0; i < 3; ++i) {
    const double* r = all.data() + i * 37;
    double squares = 0, mean = 0, variance = 0, total = 0;
    for (size_t j = 0; j < 37; ++j) squares += r[j] * r[j], mean += r[j] / 37, total += std::exp(0.5 * r[j]);
    for (size_t j = 0; j < 37; ++j) variance += (r[j] - mean) * (r[j] - mean) / 37;
    for (size_t j = 0; j < 37; ++j) {
      rms.push_back(r[j] / std::sqrt(squares / 37 + 0.01) * w.as<float>()[j]);
      layer.push_back((r[j] - mean) / std::sqrt(variance + 0.01) * w.as<float>()[j] + b.as<float>()[j]);
      soft.push_back(std::exp(0.5 * r[j]) / total);
    }
  }
  const std::string in = "input %x : f32[3, 37]\ninput %w : f32[37]\ninput %b : f32[37]\n";
  expect_near(run(in + "%y = rms_norm(%x, %w) {eps = 0.01} : f32[3, 37]", "%y", {x, w, b}), rms, 1e-6);
  // x * rms_scale(x) * w has the bits of rms_norm(x, w).
  EXPECT_EQ(run(in + "%r = rms_scale(%x) {eps = 0.01} : f32[3]\n%rows = broadcast(%r) {dims = [0]} : f32[3, 37]\n"
                     "%columns = broadcast(%w) {dims = [1]} : f32[3, 37]\n%z = mul(%x, %rows) : f32[3, 37]\n"
                     "%y = mul(%z, %columns) : f32[3, 37]",
                "%y", {x, w, b}),
            run(in + "%y = rms_norm(%x, %w) {eps = 0.01} : f32[3, 37]", "%y", {x, w, b}));
  expect_near(run(in + "%y = layer_norm(%x, %w, %b) {eps = 0.01} : f32[3, 37]", "%y", {x, w, b}), layer, 1e-6);
  for (size_t i = 0; i < layer.size(); ++i) layer[i] -= b.as<float>()[i % 37];
  expect_near(run(in + "%y = layer_norm(%x, %w) {eps = 0.01} : f32[3, 37]", "%y", {x, w, b}), layer, 1e-6);
  expect_near(run(in + "%y = softmax(%x) {scale = 0.5} : f32[3, 37]", "%y", {x, w, b}), soft, 1e-6);
}

// ---- rope ----

struct Rope {
  std::string style, extra;
  int64_t first;
};
class ReferenceRope : public ::testing::TestWithParam<Rope> {};
TEST_P(ReferenceRope, TurnsPairs) {
  Random random(9);
  const Tensor x = random_tensor(random, {2, 3, 8}), f = f32({4}, {1, 0.1F, 0.01F, 0.001F});
  const bool half = GetParam().style == "half";
  std::vector<double> expected(48);
  for (size_t r = 0; r < 2; ++r)
    for (size_t h = 0; h < 3; ++h)
      for (size_t j = 0; j < 4; ++j) {
        const size_t base = (r * 3 + h) * 8, one = base + (half ? j : 2 * j), two = base + (half ? j + 4 : 2 * j + 1);
        const double position =
            GetParam().extra == "%x, %f, %pos" ? (r == 0 ? 7 : 3) : double(GetParam().first) + double(r);
        const double angle = position * double{f.as<float>()[j]};
        expected[one] = x.as<float>()[one] * std::cos(angle) - x.as<float>()[two] * std::sin(angle);
        expected[two] = x.as<float>()[two] * std::cos(angle) + x.as<float>()[one] * std::sin(angle);
      }
  const bool positions = GetParam().extra == "%x, %f, %pos";
  const std::string body = fmt::format(
      "input %x : f32[2, 3, 8]\ninput %f : f32[4]\ninput %pos : s32[2]\n%y = rope({}) {{style = \"{}\"{}}} : f32[2, 3, "
      "8]",
      positions ? "%x, %f, %pos" : "%x, %f", GetParam().style, positions ? "" : GetParam().extra);
  expect_near(run(body, "%y", {x, f, s32({2}, {7, 3})}), expected, 1e-5);
}
INSTANTIATE_TEST_SUITE_P(All, ReferenceRope,
                         ::testing::Values(Rope{"half", "", 0}, Rope{"interleaved", "", 0},
                                           Rope{"half", ", offset = 100", 100}, Rope{"interleaved", ", offset = 5", 5},
                                           Rope{"half", "%x, %f, %pos", 0}, Rope{"interleaved", "%x, %f, %pos", 0}));

// ---- experts ----

std::string experts_body() {
  return "input %x : f32[s, 6]\ninput %i : s32[s, 2]\ninput %w : f32[s, 2]\ninput %g : f32[4, 10, 6]\n"
         "input %u : f32[4, 10, 6]\ninput %d : f32[4, 6, 10]\n%y = experts(%x, %i, %w, %g, %u, %d) : f32[s, 6]";
}

TEST(ReferenceExperts, SiluIsOnTheGateAndWeightsCombine) {
  Random random(10);
  const Tensor x = random_tensor(random, {3, 6}), w = random_tensor(random, {3, 2});
  const Tensor g = random_tensor(random, {4, 10, 6}), u = random_tensor(random, {4, 10, 6});
  const Tensor d = random_tensor(random, {4, 6, 10});
  const std::vector<int32_t> indices = {3, 0, 1, 1, 0, 3};  // 2 has no token, one token has the same expert twice
  std::vector<double> expected(18, 0);
  for (size_t r = 0; r < 3; ++r)
    for (size_t i = 0; i < 2; ++i) {
      const size_t e = static_cast<size_t>(indices[r * 2 + i]);
      double hidden[10];
      for (size_t f = 0; f < 10; ++f) {
        double gate = 0, up = 0;
        for (size_t c = 0; c < 6; ++c) {
          gate += double{g.as<float>()[(e * 10 + f) * 6 + c]} * x.as<float>()[r * 6 + c];
          up += double{u.as<float>()[(e * 10 + f) * 6 + c]} * x.as<float>()[r * 6 + c];
        }
        hidden[f] = silu(gate) * up;
      }
      for (size_t c = 0; c < 6; ++c)
        for (size_t f = 0; f < 10; ++f)
          expected[r * 6 + c] += w.as<float>()[r * 2 + i] * hidden[f] * d.as<float>()[(e * 6 + c) * 10 + f];
    }
  expect_near(run(experts_body(), "%y", {x, s32({3, 2}, indices), w, g, u, d}), expected, 1e-5);
  EXPECT_EQ(error_of(experts_body(), "%y", {x, s32({3, 2}, {0, 1, 2, 4, 0, 0}), w, g, u, d}),
            "experts y: index 4 at row 1 is not in 0..3, the experts");
  EXPECT_EQ(run(experts_body(), "%y", {f32({0, 6}, {}), s32({0, 2}, {}), f32({0, 2}, {}), g, u, d}).elements(), 0);
}

}  // namespace
}  // namespace hone::graph
