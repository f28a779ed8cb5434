// Inputs that broke other engines, through the public API: every layout of B, every way to execute. The id of the row
// is in the name of the test.
#include <fenv.h>

#include <fstream>

#include "tests/engine/api_util.h"

namespace hone {
namespace {

using testing_api::all_layouts;
using testing_api::check;
using testing_api::EngineWith;
using testing_api::kNaN;
using testing_api::Matrix;
using testing_api::Operands;
using testing_api::same_bits;

class EngineTraps : public ::testing::TestWithParam<std::string> {
 protected:
  EngineTraps() : engine_(GetParam()) {}
  // The interpreter runs a hundred times slower, LLVM compiles thirty times slower: fewer shapes, not other ones.
  bool slow() const { return GetParam() == "interp" || GetParam() == "llvm"; }
  EngineWith engine_;
};

INSTANTIATE_TEST_SUITE_P(, EngineTraps, ::testing::ValuesIn(testing_api::all_codegens()),
                         [](const auto& param) { return param.param; });

TEST_P(EngineTraps, m1_nan_row_stays_in_its_row) {
  for (int64_t k : {33, 40, 63}) {
    all_layouts({.n = 35, .k = k}, [&](const MatmulSpec& spec, bool constant) {
      Operands clean(spec, 5), dirty(spec, 5);
      for (int64_t p = 0; p < k; ++p) dirty.a.at(2, p) = kNaN;
      const std::vector<float> a = check(*engine_, spec, clean, constant);
      std::vector<float> b = check(*engine_, spec, dirty, constant);
      for (int64_t j = 0; j < 35; ++j) {
        EXPECT_TRUE(std::isnan(b[static_cast<size_t>(2 * 35 + j)]));
        b[static_cast<size_t>(2 * 35 + j)] = a[static_cast<size_t>(2 * 35 + j)];
      }
      EXPECT_TRUE(same_bits(b, a));
    });
  }
}

TEST_P(EngineTraps, m2_padding_between_rows_is_not_read) {
  all_layouts({.n = 108, .k = 36, .lda = 64, .ldc = 120}, [&](MatmulSpec spec, bool constant) {
    spec.ldb = spec.b == Layout::kNn ? 112 : 64;
    const std::vector<float> c = check(*engine_, spec, Operands(spec, 20), constant);
    for (int64_t i = 0; i < 20; ++i)
      for (int64_t j = 0; j < 108; ++j) ASSERT_FALSE(std::isnan(c[static_cast<size_t>(i * 120 + j)]));
  });
}

TEST_P(EngineTraps, m3_k1_with_wide_rows_of_b) {
  all_layouts({.n = 513, .k = 1}, [&](MatmulSpec spec, bool constant) {
    spec.ldb = spec.b == Layout::kNn ? 16896 : 33;
    check(*engine_, spec, Operands(spec, 16), constant);
  });
}

TEST_P(EngineTraps, m4_beta_is_a_factor_on_every_tail) {
  for (int64_t m : {1, 3, 15}) {
    all_layouts({.n = 37, .k = 19, .alpha = 0.5f, .beta = 0.3f},
                [&](const MatmulSpec& spec, bool constant) { check(*engine_, spec, Operands(spec, m), constant); });
  }
}

TEST_P(EngineTraps, m5_k0_is_beta_c_then_epilogue) {
  for (float beta : {0.0f, 0.3f}) {
    for (int64_t m : {1, 2, 7, 13, 17}) {
      for (int64_t n : {1, 15, 16, 17, 33}) {
        all_layouts({.n = n, .k = 0, .beta = beta, .epilogue = {Epilogue::kBias, Epilogue::kRelu}},
                    [&](const MatmulSpec& spec, bool constant) { check(*engine_, spec, Operands(spec, m), constant); });
      }
    }
  }
}

TEST_P(EngineTraps, m6_beta0_never_reads_c_on_any_tail) {
  const std::vector<int64_t> columns =
      slow() ? std::vector<int64_t>{7, 17, 49} : std::vector<int64_t>{1, 7, 8, 9, 16, 17, 31, 33, 49, 130};
  const std::vector<int64_t> rows =
      slow() ? std::vector<int64_t>{1, 9, 15} : std::vector<int64_t>{1, 2, 3, 4, 5, 6, 7, 8, 9, 13, 14, 15, 29};
  for (int64_t m : rows) {
    for (int64_t n : columns) {
      all_layouts({.n = n, .k = 21}, [&](const MatmulSpec& spec, bool constant) {
        const std::vector<float> c = check(*engine_, spec, Operands(spec, m), constant);  // C starts as NaN
        for (float v : c) ASSERT_FALSE(std::isnan(v));
      });
    }
  }
}

TEST_P(EngineTraps, m7_workspaces_carry_nothing_over) {
  // One prepared matmul, first on NaN, then on numbers: what the first call left in its workspaces must not show.
  all_layouts({.n = 50, .k = 59, .expected_m = {59}}, [&](const MatmulSpec& spec, bool constant) {
    Operands clean(spec, 59), poison(spec, 59);
    poison.a.fill(kNaN);
    Result<Matmul> matmul = constant ? engine_->prepare(spec, clean.b.data()) : engine_->prepare(spec);
    ASSERT_TRUE(matmul.ok()) << matmul.status().to_string();
    const std::vector<float> want = clean.expected();
    ASSERT_TRUE(matmul->run(poison.call(constant)).ok());
    ASSERT_TRUE(matmul->run(clean.call(constant)).ok());
    EXPECT_TRUE(same_bits(clean.c.snapshot(), want));
  });
}

TEST_P(EngineTraps, m8_no_rows_no_columns) {
  for (const auto& epilogue : {std::vector<Epilogue>{}, std::vector<Epilogue>{Epilogue::kBias}}) {
    all_layouts({.n = 16, .k = 0, .epilogue = epilogue}, [&](const MatmulSpec& spec, bool constant) {
      check(*engine_, spec, Operands(spec, 16), constant);  // {16,0} by {0,16}: zeros, or the bias
      check(*engine_, spec, Operands(spec, 0), constant);
    });
    all_layouts({.n = 2, .k = 2, .epilogue = epilogue}, [&](const MatmulSpec& spec, bool constant) {
      check(*engine_, spec, Operands(spec, 0), constant);  // [0,2] by [2,2]
    });
    all_layouts({.n = 0, .k = 4, .epilogue = epilogue},
                [&](const MatmulSpec& spec, bool constant) { check(*engine_, spec, Operands(spec, 3), constant); });
  }
}

TEST_P(EngineTraps, m9_more_than_2_31_elements_are_planned_or_refused_by_size) {
  const MatmulSpec spec{.n = 46341, .k = 64, .expected_m = {46341}};
  Result<Matmul> matmul = engine_->prepare(spec);
  ASSERT_TRUE(matmul.ok()) << matmul.status().to_string();
  EXPECT_TRUE(matmul->plan(46341).ok());
  Result<Matmul> huge = engine_->prepare({.n = int64_t{1} << 40, .k = 1});
  ASSERT_TRUE(huge.ok()) << huge.status().to_string();
  float x = 0, y = 1;
  const Status status = huge->run({.m = int64_t{1} << 40, .a = &x, .b = &x, .c = &y});
  EXPECT_EQ(status.code(), Code::kInvalidArgument);
  EXPECT_NE(status.message().find("too large"), std::string::npos) << status.message();
}

TEST_P(EngineTraps, m9_offsets_beyond_2_31_elements_are_64_bit) {
  // Rows of C so far apart that the second one begins beyond 2^31 elements: only the touched pages exist.
  const int64_t ldc = (int64_t{1} << 31) + 5;
  const MatmulSpec spec{.n = 3, .k = 4, .b = Layout::kNn, .ldc = ldc};
  Matrix a(2, 4, 4, 1, 0, 1), b(4, 3, 3, 1, 0, 2);
  std::unique_ptr<float, void (*)(float*)> memory(
      static_cast<float*>(std::calloc(static_cast<size_t>(ldc) + 3, sizeof(float))), [](float* p) { std::free(p); });
  if (memory == nullptr) GTEST_SKIP() << "no 8 GiB of address space";
  Result<Matmul> matmul = engine_->prepare(spec);
  ASSERT_TRUE(matmul.ok()) << matmul.status().to_string();
  ASSERT_TRUE(matmul->run({.m = 2, .a = a.data(), .b = b.data(), .c = memory.get()}).ok());
  for (int64_t i = 0; i < 2; ++i) {
    for (int64_t j = 0; j < 3; ++j) {
      float sum = 0;
      for (int64_t p = 0; p < 4; ++p) sum = std::fma(a.at(i, p), b.at(p, j), sum);
      EXPECT_EQ(memory.get()[i * ldc + j], sum);
    }
  }
}

TEST_P(EngineTraps, m10_overlap_is_refused_by_name) {
  const MatmulSpec spec{
      .n = 8, .k = 8, .b = Layout::kNn, .epilogue = {Epilogue::kBias, Epilogue::kGate, Epilogue::kResidual}};
  Result<Matmul> matmul = engine_->prepare(spec);
  ASSERT_TRUE(matmul.ok()) << matmul.status().to_string();
  std::vector<float> memory(8 * 64);
  float* const p = memory.data();
  const MatmulCall good{
      .m = 8, .a = p, .b = p + 64, .c = p + 128, .bias = p + 192, .gate = p + 256, .residual = p + 320};
  EXPECT_TRUE(matmul->run(good).ok());
  const struct {
    const char* name;
    const float* MatmulCall::*operand;
  } cases[] = {{"A", &MatmulCall::a},
               {"B", &MatmulCall::b},
               {"bias", &MatmulCall::bias},
               {"gate", &MatmulCall::gate},
               {"residual", &MatmulCall::residual}};
  for (const auto& c : cases) {
    MatmulCall call = good;
    call.*c.operand = good.c + 63;  // only the last element of C
    const Status status = matmul->run(call);
    EXPECT_EQ(status.code(), Code::kInvalidArgument);
    EXPECT_NE(status.message().find(std::string("overlaps ") + c.name), std::string::npos) << status.message();
    call.*c.operand = nullptr;
    const Status null = matmul->run(call);
    EXPECT_EQ(null.code(), Code::kInvalidArgument);
    EXPECT_NE(null.message().find(std::string(c.name) + " is null"), std::string::npos) << null.message();
  }
  MatmulCall no_c = good;
  no_c.c = nullptr;
  EXPECT_NE(matmul->run(no_c).message().find("C is null"), std::string::npos);
}

TEST_P(EngineTraps, m11_stride_0_batch_of_a) {
  all_layouts({.n = 32, .k = 32, .batch = slow() ? 4 : 32, .stride_a = 0},
              [&](const MatmulSpec& spec, bool constant) { check(*engine_, spec, Operands(spec, 32), constant); });
  all_layouts({.n = 19, .k = 7, .batch = 3, .stride_b = 0},
              [&](const MatmulSpec& spec, bool constant) { check(*engine_, spec, Operands(spec, 5), constant); });
}

TEST_P(EngineTraps, m12_guard_page_behind_every_operand) {
  // Every Operands lies at the end of its pages; sizes around the vector and tile widths.
  const std::vector<int64_t> sizes = slow() ? std::vector<int64_t>{1, 17} : std::vector<int64_t>{1, 9, 17, 33};
  for (int64_t m : {1, 9, 15}) {
    for (int64_t n : sizes) {
      for (int64_t k : sizes) {
        all_layouts(
            {.n = n, .k = k, .epilogue = {Epilogue::kBias, Epilogue::kGeluTanh, Epilogue::kGate, Epilogue::kResidual}},
            [&](const MatmulSpec& spec, bool constant) { check(*engine_, spec, Operands(spec, m), constant); });
      }
    }
  }
}

// C has half the columns of B; its padding and the page behind it stay as they are.
TEST_P(EngineTraps, swiglu_writes_half_the_columns) {
  for (int64_t m : {1, 15}) {
    for (int64_t n : {32, 96}) {
      all_layouts({.n = n, .k = 33, .ldc = 50, .epilogue = {Epilogue::kBias, Epilogue::kSwiglu, Epilogue::kResidual}},
                  [&](const MatmulSpec& spec, bool constant) { check(*engine_, spec, Operands(spec, m), constant); });
    }
  }
}

// As many factors as rows, however many rows a call has.
TEST_P(EngineTraps, row_scale_ends_with_the_rows) {
  for (int64_t m : {1, 15}) {
    for (int64_t n : {32, 39}) {
      MatmulSpec of{.n = n, .k = 33, .epilogue = {Epilogue::kRowScale, Epilogue::kBias}};
      if (n == 32) of.epilogue.push_back(Epilogue::kSwiglu);
      all_layouts(of,
                  [&](const MatmulSpec& spec, bool constant) { check(*engine_, spec, Operands(spec, m), constant); });
    }
  }
}

TEST_P(EngineTraps, m17_alpha0_reads_neither_a_nor_b) {
  all_layouts({.n = 18, .k = 9, .alpha = 0, .beta = 0.5f}, [&](const MatmulSpec& spec, bool constant) {
    Operands operands(spec, 5);
    operands.a.fill(kNaN);
    operands.b.fill(kNaN);
    check(*engine_, spec, operands, constant);
    for (float v : operands.c.snapshot()) ASSERT_FALSE(std::isnan(v));
    // Not even their addresses matter.
    Result<Matmul> matmul = constant ? engine_->prepare(spec, nullptr) : engine_->prepare(spec);
    ASSERT_TRUE(matmul.ok()) << matmul.status().to_string();
    EXPECT_TRUE(matmul->run({.m = 5, .c = operands.c.data()}).ok());
  });
}

TEST_P(EngineTraps, m17_beta0_ignores_infinity_in_c) {
  all_layouts({.n = 18, .k = 9}, [&](const MatmulSpec& spec, bool constant) {
    Operands operands(spec, 5);
    operands.c.fill(std::numeric_limits<float>::infinity());
    for (float v : check(*engine_, spec, operands, constant)) ASSERT_TRUE(std::isfinite(v));
  });
}

TEST_P(EngineTraps, m18_uneven_strides_have_a_kernel) {
  all_layouts({.n = 48, .k = 16, .lda = 16, .ldc = 624}, [&](MatmulSpec spec, bool constant) {
    if (spec.b == Layout::kNn) spec.ldb = 624;
    check(*engine_, spec, Operands(spec, 9), constant);
  });
}

TEST_P(EngineTraps, m16_float_control_of_the_caller_is_kept) {
  const MatmulSpec spec{.n = 70, .k = 33, .expected_m = {64}};
  Operands operands(spec, 64);
  operands.a.each([](float& v) { v *= 1e-30f; });
  operands.b.each([](float& v) { v *= 1e-10f; });
  fenv_t before, after;
  fegetenv(&before);
  check(*engine_, spec, operands, false);
  fegetenv(&after);
#if defined(__x86_64__)
  EXPECT_EQ(before.__mxcsr & ~0x3fu, after.__mxcsr & ~0x3fu);
#endif
  EXPECT_EQ(fegetround(), FE_TONEAREST);
}

// ---- where execution itself fails ----

TEST(EngineExecution, r6_refused_executable_memory_is_named_and_the_precompiled_kernel_runs) {
  EngineWith engine("precompiled");
  const MatmulSpec spec{.n = 100, .k = 40};
  Result<Matmul> matmul = engine->prepare(spec);
  ASSERT_TRUE(matmul.ok()) << matmul.status().to_string();
  Result<PlanInfo> plan = matmul->plan(1);
  ASSERT_TRUE(plan.ok());
  EXPECT_EQ(plan->codegen, "precompiled");
  EXPECT_EQ(plan->reason, "default");
  if (engine->info().codegens.empty()) GTEST_SKIP() << "no code generator can run here";
  ASSERT_FALSE(plan->rejected.empty());
  bool named = false;
  for (const PlanInfo::Rejected& r : plan->rejected)
    named |= r.why.find("executable memory refused") != std::string::npos;
  EXPECT_TRUE(named) << plan->rejected.front().why;
}

TEST(EngineExecution, r4_masked_avx512_gives_avx2_kernels) {
  // HONE_CPU takes features away, as an operating system does that does not save the registers.
  const std::string path = ::testing::TempDir() + "hone_avx2.json";
  std::ofstream(path) << R"({"isa": ["avx", "avx2", "fma", "f16c", "bmi2"]})";
  ASSERT_EQ(setenv("HONE_CPU", path.c_str(), 1), 0);
  Result<Engine> engine = Engine::create({.use_database = false});
  unsetenv("HONE_CPU");
  ASSERT_TRUE(engine.ok()) << engine.status().to_string();
  if (engine->info().codegens.empty()) GTEST_SKIP() << "no AVX2 here";
  const MatmulSpec spec{.n = 64, .k = 64, .expected_m = {1, 64}};
  Result<Matmul> matmul = engine->prepare(spec);
  ASSERT_TRUE(matmul.ok()) << matmul.status().to_string();
  for (int64_t m : {1, 64}) {
    Result<PlanInfo> plan = matmul->plan(m);
    ASSERT_TRUE(plan.ok());
    EXPECT_NE(plan->program.find("vectorize(avx2,8)"), std::string::npos) << plan->program;
  }
  check(*engine, spec, Operands(spec, 64), false);
}

}  // namespace
}  // namespace hone
