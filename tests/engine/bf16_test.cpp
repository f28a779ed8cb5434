// MatmulSpec::numerics: what is allowed, what comes of it on this CPU, and the bits of class `bf16`, whoever computes
// them, at every number of rows and threads.
#include <gmock/gmock.h>

#include <cstdlib>

#include "engine/base/half.h"
#include "engine/base/machine.h"
#include "hone/hone.h"
#include "tests/engine/api_util.h"
#include "tests/engine/database_util.h"

namespace hone {
namespace {

using ::testing::HasSubstr;
using testing_api::EngineWith;
using testing_api::Operands;
using testing_api::same_bits;

bool has_dots() {
  const Result<Machine> machine = detect_machine();
  return machine.ok() && machine->supports(Isa::kAvx512) && machine->features.has(Feature::kAvx512Bf16);
}
#define NEEDS_DOTS() \
  if (!has_dots()) GTEST_SKIP() << "this CPU has no AVX512_BF16"

// B of the operands as bf16; what that is as f32 is put back.
std::vector<uint16_t> narrowed(Operands& operands) {
  std::vector<uint16_t> halves;
  for (int64_t i = 0; i < operands.b.elements(); ++i) {
    float& wide = operands.b.data()[i];
    halves.push_back(f32_to_bf16(wide));
    wide = bf16_to_f32(halves.back());
  }
  return halves;
}

std::vector<float> expected(const Operands& o, matmul::Dot dot) {
  std::vector<float> out = o.c.snapshot();
  matmul::MatmulProblem wide = o.problem;
  wide.dtype = DType::kF32;  // what narrowed() has left
  matmul::class_f32(wide,
                    {.a = o.a.data(),
                     .b = o.b.data(),
                     .c = out.data(),
                     .bias = o.bias.data(),
                     .gate = o.gate.data(),
                     .residual = o.residual.data(),
                     .row_scale = o.row_scale.data()},
                    {}, dot);
  return out;
}

// Generators that emit the instructions: not the precompiled kernel, and the interpreter runs them anywhere.
std::vector<std::string> dot_codegens() {
  std::vector<std::string> names = testing_api::all_codegens();
  std::erase(names, "precompiled");
  return names;
}

TEST(EngineBf16, GivesTheBitsOfTheClass) {
  NEEDS_DOTS();
  for (const std::string& codegen : dot_codegens()) {
    for (const int threads : {1, 3}) {
      SCOPED_TRACE(codegen);
      const EngineWith engine(codegen, threads);
      auto check = [&](MatmulSpec spec, std::vector<int64_t> rows) {
        spec.max_m = 0, spec.weight_type = WeightType::kBf16, spec.numerics = "bf16", spec.expected_m = {1};
        Operands first(spec, 1);
        const std::vector<uint16_t> weights = narrowed(first);
        const Result<Matmul> matmul = engine->prepare(spec, weights.data());
        ASSERT_TRUE(matmul.ok()) << matmul.status().to_string();
        for (const int64_t m : rows) {
          Operands operands(spec, m);
          (void)narrowed(operands);
          const std::vector<float> want = expected(operands, matmul::Dot::kBf16);
          ASSERT_TRUE(matmul->run(operands.call(true)).ok());
          EXPECT_TRUE(same_bits(operands.c.snapshot(), want)) << matmul::to_string(operands.problem);
          EXPECT_EQ(matmul->plan(m)->numerics, "bf16");
        }
      };
      check({.n = 67, .k = 45, .b = Layout::kNn}, {1, 2, 3, 4, 5, 7, 8, 9, 13, 16, 17, 64});
      check({.n = 67, .k = 45}, {1, 17});
      check({.n = 64, .k = 33, .epilogue = {Epilogue::kRowScale, Epilogue::kBias, Epilogue::kSwiglu}}, {1, 5, 20});
      check({.n = 33, .k = 20, .batch = 2, .epilogue = {Epilogue::kGate, Epilogue::kGeluErf, Epilogue::kResidual}},
            {3});
      check({.n = 33, .k = 31, .alpha = 0.5F, .beta = 2, .epilogue = {Epilogue::kRelu}}, {2, 11});
      check({.n = 33, .k = 0, .beta = 2}, {2});
      if (HasFailure() || codegen == "interp") break;
    }
  }
}

// Every CPU and build: `any` is computed in the best class there is, and it is the same for all calls.
TEST(EngineBf16, AnyTakesWhatThereIs) {
  for (const std::string& codegen : testing_api::all_codegens()) {
    SCOPED_TRACE(codegen);
    const EngineWith engine(codegen);
    MatmulSpec spec{.n = 40, .k = 37, .weight_type = WeightType::kBf16, .max_m = 0, .numerics = "any"};
    Operands first(spec, 1);
    const std::vector<uint16_t> weights = narrowed(first);
    const Result<Matmul> matmul = engine->prepare(spec, weights.data());
    ASSERT_TRUE(matmul.ok()) << matmul.status().to_string();
    const bool dots = has_dots() && codegen != "precompiled";
    for (const int64_t m : {1, 6, 40}) {
      Operands operands(spec, m);
      (void)narrowed(operands);
      const std::vector<float> want = expected(operands, dots ? matmul::Dot::kBf16 : matmul::Dot::kNone);
      ASSERT_TRUE(matmul->run(operands.call(true)).ok());
      EXPECT_TRUE(same_bits(operands.c.snapshot(), want)) << m;
      EXPECT_EQ(matmul->plan(m)->numerics, dots ? "bf16" : "ordered");
    }
  }
}

// Once the weights lie in pairs, calls whose code cannot be had are refused: the precompiled kernel has other bits.
TEST(EngineBf16, WithoutCodeForSomeRowsAnyKeepsItsClass) {
  NEEDS_DOTS();
  const EngineWith engine("");
  const MatmulSpec spec{.n = 40, .k = 37, .weight_type = WeightType::kBf16, .max_m = 0, .numerics = "any"};
  Operands few(spec, 1), many(spec, 40);
  const std::vector<uint16_t> weights = narrowed(few);
  const Result<Matmul> matmul = engine->prepare(spec, weights.data());
  ASSERT_TRUE(matmul.ok()) << matmul.status().to_string();
  jit::refuse_exec_memory_for_testing(true);
  const Status with_code = matmul->run(few.call(true)), without = matmul->run(many.call(true));
  jit::refuse_exec_memory_for_testing(false);
  EXPECT_TRUE(with_code.ok());
  EXPECT_EQ(without.code(), Code::kUnsupported);
  EXPECT_THAT(without.message(), HasSubstr("numerics 'bf16' needs generated code"));
  EXPECT_TRUE(matmul->run(many.call(true)).ok());
  EXPECT_EQ(matmul->plan(40)->numerics, "bf16");
}

TEST(EngineBf16, OnlyWhoAsksGetsIt) {
  const EngineWith engine("");
  MatmulSpec spec{.n = 40, .k = 37, .weight_type = WeightType::kBf16, .max_m = 0};
  const std::vector<uint16_t> weights(40 * 37, 0x3f80);
  for (const char* numerics : {"", "default", "ordered"}) {
    spec.numerics = numerics;
    EXPECT_EQ(engine->prepare(spec, weights.data())->plan(1)->numerics, "ordered") << numerics;
  }
  spec.numerics = "bf17";
  EXPECT_THAT(engine->prepare(spec, weights.data()).status().message(), HasSubstr("no numerics class 'bf17'"));
  spec.numerics = "bf16", spec.weight_type = WeightType::kF16;
  EXPECT_THAT(engine->prepare(spec, weights.data()).status().message(),
              HasSubstr("numerics 'bf16' is for weights of bf16, not of f16"));
  spec.numerics = "any";
  EXPECT_EQ(engine->prepare(spec, weights.data())->plan(1)->numerics, "ordered");
}

TEST(EngineBf16, WithoutTheInstructionsItIsUnsupported) {
  const MatmulSpec spec{.n = 40, .k = 37, .weight_type = WeightType::kBf16, .max_m = 0, .numerics = "bf16"};
  const std::vector<uint16_t> weights(40 * 37, 0x3f80);
  const auto refused = [&](const Engine& engine) {
    const Status status = engine.prepare(spec, weights.data()).status();
    EXPECT_EQ(status.code(), Code::kUnsupported);
    EXPECT_THAT(status.message(), HasSubstr("numerics 'bf16' needs generated code"));
    return status.message();
  };
  refused(*EngineWith("precompiled"));
  ASSERT_EQ(setenv("HONE_CPU", "zen3", 1), 0);
  const Result<Engine> zen3 = Engine::create({.use_database = false, .threads = 1});
  unsetenv("HONE_CPU");
  if (!zen3.ok() || zen3->info().codegens.empty()) GTEST_SKIP() << "nothing generates code for a Zen 3 here";
  EXPECT_THAT(refused(*zen3), HasSubstr("AVX512_BF16"));
}

// Trap m1: rows of NaN and infinities stay in their rows, whatever is beside them in a pair.
TEST(EngineBf16, m1_nan_row_stays_in_its_row) {
  NEEDS_DOTS();
  const EngineWith engine("");
  for (int64_t k : {31, 33, 64}) {
    const MatmulSpec spec{.n = 35, .k = k, .weight_type = WeightType::kBf16, .max_m = 0, .numerics = "bf16"};
    Operands operands(spec, 5);
    const std::vector<uint16_t> weights = narrowed(operands);
    const Result<Matmul> matmul = engine->prepare(spec, weights.data());
    ASSERT_TRUE(matmul.ok()) << matmul.status().to_string();
    ASSERT_TRUE(matmul->run(operands.call(true)).ok());
    const std::vector<float> clean = operands.c.snapshot();
    for (int64_t p = 0; p < k; ++p) operands.a.at(2, p) = p % 3 ? testing_api::kNaN : INFINITY;
    ASSERT_TRUE(matmul->run(operands.call(true)).ok());
    for (int64_t i = 0; i < 5; ++i)
      for (int64_t j = 0; j < 35; ++j)
        ASSERT_TRUE(i == 2 ? std::isnan(operands.c.at(i, j))
                           : operands.c.at(i, j) == clean[static_cast<size_t>(i * 35 + j)]);
  }
}

TEST(EngineBf16, InC) {
  NEEDS_DOTS();
  hone_engine* engine = nullptr;
  hone_engine_options options = {};
  options.no_database = 1;
  ASSERT_EQ(hone_engine_create(&options, &engine), HONE_OK);
  hone_matmul_spec spec;
  ASSERT_EQ(hone_matmul_spec_parse(&spec, "matmul:bf16:m=1,n=1,k=2,b=nt"), HONE_OK);
  EXPECT_STREQ(spec.numerics, "");
  std::strcpy(spec.numerics, "bf16");
  const uint16_t weights[] = {0x3f80, 0x3f80};
  hone_matmul* matmul = nullptr;
  ASSERT_EQ(hone_matmul_prepare_weights(engine, &spec, weights, &matmul), HONE_OK) << hone_last_error();
  const float a[] = {1, 0x1.01p0F};  // the second is 1 as a bf16
  float c = 0;
  hone_matmul_call call = {};
  call.m = 1, call.a = a, call.c = &c;
  ASSERT_EQ(hone_matmul_run(matmul, &call), HONE_OK);
  EXPECT_EQ(c, 2);
  hone_plan* plan = nullptr;
  ASSERT_EQ(hone_matmul_plan(matmul, 1, &plan), HONE_OK);
  EXPECT_STREQ(hone_plan_get(plan)->numerics, "bf16");
  hone_plan_destroy(plan);
  hone_matmul_destroy(matmul);
  std::memset(spec.numerics, 'x', sizeof spec.numerics);
  EXPECT_EQ(hone_matmul_prepare_weights(engine, &spec, weights, &matmul), HONE_INVALID_ARGUMENT);
  EXPECT_THAT(hone_last_error(), HasSubstr("HONE_MAX_NUMERICS"));
  hone_engine_destroy(engine);
}

// ---- with a database ----

class EngineBf16Tuned : public testing_api::DatabaseTest {};

// A plan that was found for one class never runs for a caller of another, and none moves the weights of a spec to
// another class than its first plan has.
TEST_F(EngineBf16Tuned, PlansOfAnotherClassArePassedOver) {
  NEEDS_DOTS();
  const auto tuned = [&](const char* text, matmul::Dot dot, int64_t panel) {
    const matmul::MatmulProblem p = matmul::parse_problem(text).value();
    const matmul::TransformProgram t =
        matmul::default_program(p, {.isa = Isa::kAvx512, .caches = {}, .threads = 1, .dot = dot}, panel);
    store(text, matmul::to_string(t), 1, std::string(matmul::numerics(t)));
  };
  tuned("matmul:bf16:m=1,n=96,k=64,b=packed", matmul::Dot::kNone, 48);
  tuned("matmul:bf16:m=8,n=96,k=64,b=packed", matmul::Dot::kBf16, 32);
  const Engine tuned_engine = engine();
  MatmulSpec spec{.n = 96, .k = 64, .weight_type = WeightType::kBf16, .expected_m = {1, 8}, .max_m = 0};
  Operands first(spec, 1);
  const std::vector<uint16_t> weights = narrowed(first);
  const auto plan = [&](const char* numerics, int64_t m) {
    spec.numerics = numerics;
    return tuned_engine.prepare(spec, weights.data())->plan(m).value();
  };
  EXPECT_EQ(plan("", 1).reason, "exact");
  EXPECT_EQ(plan("", 1).numerics, "ordered");
  EXPECT_EQ(plan("", 8).numerics, "ordered");
  for (const char* numerics : {"bf16", "any"}) {
    EXPECT_EQ(plan(numerics, 1).numerics, "bf16");
    EXPECT_EQ(plan(numerics, 1).reason, "near_shape") << "the plan of 8 rows; that of one is of another class";
    EXPECT_EQ(plan(numerics, 8).reason, "exact");
    EXPECT_EQ(plan(numerics, 8).numerics, "bf16");
    for (const int64_t m : {1, 8}) {
      Operands operands(spec, m);
      (void)narrowed(operands);
      const std::vector<float> want = expected(operands, matmul::Dot::kBf16);
      const Result<Matmul> matmul = tuned_engine.prepare(spec, weights.data());
      ASSERT_TRUE(matmul->run(operands.call(true)).ok());
      EXPECT_TRUE(same_bits(operands.c.snapshot(), want));
    }
  }
}

}  // namespace
}  // namespace hone
