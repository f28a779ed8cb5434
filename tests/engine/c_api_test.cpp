// The C API: the same results, errors as codes with a message, and nothing that a NULL can break.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstddef>
#include <cstring>
#include <thread>
#include <vector>

#include "hone/hone.h"
#include "tests/engine/api_util.h"

extern "C" hone_status c_header_round_trip(hone_matmul_spec* spec);

namespace hone {
namespace {

using ::testing::HasSubstr;

class EngineCApi : public ::testing::Test {
 protected:
  void SetUp() override {
    hone_engine_options options = {};
    options.no_database = 1;
    options.threads = 1;
    ASSERT_EQ(hone_engine_create(&options, &engine_), HONE_OK) << hone_last_error();
  }
  void TearDown() override { hone_engine_destroy(engine_); }
  hone_engine* engine_ = nullptr;
};

TEST_F(EngineCApi, AHeaderCompiledAsCDescribesTheSameSpec) {
  hone_matmul_spec spec;
  ASSERT_EQ(c_header_round_trip(&spec), HONE_OK) << hone_last_error();
  EXPECT_EQ(spec.n, 48);
  EXPECT_EQ(spec.k, 20);
  EXPECT_EQ(spec.b, HONE_LAYOUT_NN);
  EXPECT_EQ(spec.alpha, 0.5f);
  EXPECT_EQ(spec.beta, 2.0f);
  ASSERT_EQ(spec.epilogue_length, 3u);
  EXPECT_EQ(spec.epilogue[1], HONE_EPILOGUE_GELU_TANH);
  ASSERT_EQ(spec.expected_m_length, 2u);
  EXPECT_EQ(spec.expected_m[1], 16);
}

// Whoever has to change these numbers appends to the struct and raises SOVERSION in engine/CMakeLists.txt.
TEST_F(EngineCApi, LayoutsAreThoseOfTheSoversion) {
  if (sizeof(void*) != 8) GTEST_SKIP() << "the numbers are of 64-bit pointers";
  EXPECT_EQ(offsetof(hone_engine_options, schedule), 40u);
  EXPECT_EQ(sizeof(hone_engine_options), 48u);
  EXPECT_EQ(offsetof(hone_matmul_spec, max_m), 680u);
  EXPECT_EQ(offsetof(hone_matmul_spec, weight_type), 688u);
  EXPECT_EQ(offsetof(hone_matmul_spec, numerics), 692u);
  EXPECT_EQ(sizeof(hone_matmul_spec), 728u);
  EXPECT_EQ(offsetof(hone_matmul_call, residual), 48u);
  EXPECT_EQ(offsetof(hone_matmul_call, row_scale), 56u);
  EXPECT_EQ(sizeof(hone_matmul_call), 64u);
  EXPECT_EQ(offsetof(hone_plan_info, rejected_length), 64u);
  EXPECT_EQ(offsetof(hone_plan_info, schedule), 72u);
  EXPECT_EQ(offsetof(hone_plan_info, package), 80u);
  EXPECT_EQ(sizeof(hone_plan_info), 88u);
}

TEST_F(EngineCApi, RunsWithTheBitsOfTheReference) {
  hone_matmul_spec spec;
  ASSERT_EQ(c_header_round_trip(&spec), HONE_OK);
  const MatmulSpec same = MatmulSpec::parse("matmul:f32:m=16,n=48,k=20,b=nn,alpha=0.5,beta=2:+bias+gelu*gate").value();
  for (bool constant : {false, true}) {
    testing_api::Operands o(same, 16);
    hone_matmul* matmul = nullptr;
    ASSERT_EQ(constant ? hone_matmul_prepare_weights(engine_, &spec, o.b.data(), &matmul)
                       : hone_matmul_prepare(engine_, &spec, &matmul),
              HONE_OK)
        << hone_last_error();
    const std::vector<float> want = o.expected();
    hone_matmul_call call = {};
    call.m = 16, call.a = o.a.data(), call.b = o.b.data(), call.c = o.c.data();
    call.bias = o.bias.data(), call.gate = o.gate.data();
    EXPECT_EQ(hone_matmul_run(matmul, &call), HONE_OK) << hone_last_error();
    EXPECT_TRUE(testing_api::same_bits(o.c.snapshot(), want));
    hone_plan* plan = nullptr;
    ASSERT_EQ(hone_matmul_plan(matmul, 16, &plan), HONE_OK);
    EXPECT_STREQ(hone_plan_get(plan)->reason, "default");
    EXPECT_STREQ(hone_plan_get(plan)->numerics, "ordered");
    EXPECT_EQ(hone_plan_get(plan)->from, nullptr);
    EXPECT_EQ(hone_plan_rejected_why(plan, hone_plan_get(plan)->rejected_length), nullptr);
    hone_plan_destroy(plan);
    hone_matmul_destroy(matmul);
  }
}

TEST_F(EngineCApi, SwigluIsAnEpilogueLikeTheOthers) {
  const char* text = "matmul:f32:m=3,n=64,k=20,b=nt:+bias+swiglu";
  hone_matmul_spec spec;
  ASSERT_EQ(hone_matmul_spec_parse(&spec, text), HONE_OK) << hone_last_error();
  ASSERT_EQ(spec.epilogue_length, 2u);
  EXPECT_EQ(spec.epilogue[1], HONE_EPILOGUE_SWIGLU);
  testing_api::Operands o(MatmulSpec::parse(text).value(), 3);
  hone_matmul* matmul = nullptr;
  ASSERT_EQ(hone_matmul_prepare_weights(engine_, &spec, o.b.data(), &matmul), HONE_OK) << hone_last_error();
  const std::vector<float> want = o.expected();
  hone_matmul_call call = {};
  call.m = 3, call.a = o.a.data(), call.c = o.c.data(), call.bias = o.bias.data();
  EXPECT_EQ(hone_matmul_run(matmul, &call), HONE_OK) << hone_last_error();
  EXPECT_TRUE(testing_api::same_bits(o.c.snapshot(), want));
  hone_matmul_destroy(matmul);
  spec.n = 48;
  EXPECT_EQ(hone_matmul_prepare(engine_, &spec, &matmul), HONE_INVALID_ARGUMENT);
  EXPECT_THAT(hone_last_error(), HasSubstr("n=48 is not a multiple of 32"));
}

TEST_F(EngineCApi, RowScaleIsAnEpilogueWithAnOperand) {
  const char* text = "matmul:f32:m=5,n=20,k=20,b=nt:*row_scale+bias";
  hone_matmul_spec spec;
  ASSERT_EQ(hone_matmul_spec_parse(&spec, text), HONE_OK) << hone_last_error();
  ASSERT_EQ(spec.epilogue_length, 2u);
  EXPECT_EQ(spec.epilogue[0], HONE_EPILOGUE_ROW_SCALE);
  testing_api::Operands o(MatmulSpec::parse(text).value(), 5);
  hone_matmul* matmul = nullptr;
  ASSERT_EQ(hone_matmul_prepare_weights(engine_, &spec, o.b.data(), &matmul), HONE_OK) << hone_last_error();
  const std::vector<float> want = o.expected();
  hone_matmul_call call = {};
  call.m = 5, call.a = o.a.data(), call.c = o.c.data(), call.bias = o.bias.data();
  EXPECT_EQ(hone_matmul_run(matmul, &call), HONE_INVALID_ARGUMENT);
  EXPECT_THAT(hone_last_error(), HasSubstr("row_scale is null but the problem reads it"));
  call.row_scale = o.row_scale.data();
  EXPECT_EQ(hone_matmul_run(matmul, &call), HONE_OK) << hone_last_error();
  EXPECT_TRUE(testing_api::same_bits(o.c.snapshot(), want));
  hone_matmul_destroy(matmul);
}

TEST_F(EngineCApi, ErrorsAreCodesWithAMessage) {
  hone_matmul_spec spec;
  EXPECT_EQ(hone_matmul_spec_parse(&spec, "matmul:f32:m=1,n=x,k=2"), HONE_INVALID_ARGUMENT);
  EXPECT_THAT(hone_last_error(), HasSubstr("n"));
  ASSERT_EQ(hone_matmul_spec_init(&spec, 8, 8), HONE_OK);
  hone_matmul* matmul = nullptr;
  spec.lda = 3;
  EXPECT_EQ(hone_matmul_prepare(engine_, &spec, &matmul), HONE_INVALID_ARGUMENT);
  EXPECT_THAT(hone_last_error(), HasSubstr("lda=3"));
  EXPECT_EQ(matmul, nullptr);
  spec.lda = 0;
  EXPECT_EQ(hone_matmul_prepare_weights(engine_, &spec, nullptr, &matmul), HONE_INVALID_ARGUMENT);
  EXPECT_THAT(hone_last_error(), HasSubstr("weights are null"));
  spec.epilogue_length = 99;
  EXPECT_EQ(hone_matmul_prepare(engine_, &spec, &matmul), HONE_INVALID_ARGUMENT);
  EXPECT_THAT(hone_last_error(), HasSubstr("epilogue_length=99"));
  EXPECT_STREQ(hone_status_name(HONE_RESOURCE_EXHAUSTED), "resource_exhausted");
  EXPECT_STREQ(hone_status_name(static_cast<hone_status>(77)), "unknown");
  EXPECT_STREQ(hone_version(), HONE_VERSION);
}

// C lets an enumerator hold any int; C++ may not even load such a one (under UBSan this test would say so).
TEST_F(EngineCApi, NumbersThatAreNoEnumeratorAreRefused) {
  const auto write = [](auto& field, int number) { std::memcpy(&field, &number, sizeof(field)); };
  hone_matmul* matmul = nullptr;
  hone_matmul_spec spec;
  ASSERT_EQ(hone_matmul_spec_init(&spec, 8, 8), HONE_OK);
  write(spec.b, 257);
  EXPECT_EQ(hone_matmul_prepare(engine_, &spec, &matmul), HONE_INVALID_ARGUMENT);
  EXPECT_THAT(hone_last_error(), HasSubstr("b is not a hone_layout"));
  ASSERT_EQ(hone_matmul_spec_init(&spec, 8, 8), HONE_OK);
  write(spec.weight_type, 3);
  EXPECT_EQ(hone_matmul_prepare(engine_, &spec, &matmul), HONE_INVALID_ARGUMENT);
  EXPECT_THAT(hone_last_error(), HasSubstr("weight_type is not a hone_weight_type"));
  ASSERT_EQ(hone_matmul_spec_init(&spec, 8, 8), HONE_OK);
  spec.epilogue_length = 1;
  write(spec.epilogue[0], 300);
  EXPECT_EQ(hone_matmul_prepare(engine_, &spec, &matmul), HONE_INVALID_ARGUMENT);
  EXPECT_THAT(hone_last_error(), HasSubstr("epilogue[0] is not a hone_epilogue"));
  EXPECT_EQ(matmul, nullptr);
}

TEST_F(EngineCApi, NullHandlesAreNamed) {
  hone_matmul_spec spec;
  hone_matmul* matmul = nullptr;
  ASSERT_EQ(hone_matmul_spec_init(&spec, 8, 8), HONE_OK);
  EXPECT_EQ(hone_engine_create(nullptr, nullptr), HONE_INVALID_ARGUMENT);
  EXPECT_THAT(hone_last_error(), HasSubstr("engine is NULL"));
  EXPECT_EQ(hone_matmul_prepare(nullptr, &spec, &matmul), HONE_INVALID_ARGUMENT);
  EXPECT_THAT(hone_last_error(), HasSubstr("engine is NULL"));
  EXPECT_EQ(hone_matmul_prepare(engine_, nullptr, &matmul), HONE_INVALID_ARGUMENT);
  EXPECT_EQ(hone_matmul_prepare(engine_, &spec, nullptr), HONE_INVALID_ARGUMENT);
  EXPECT_EQ(hone_matmul_spec_parse(&spec, nullptr), HONE_INVALID_ARGUMENT);
  EXPECT_EQ(hone_matmul_spec_init(nullptr, 1, 1), HONE_INVALID_ARGUMENT);
  EXPECT_EQ(hone_matmul_run(nullptr, nullptr), HONE_INVALID_ARGUMENT);
  EXPECT_THAT(hone_last_error(), HasSubstr("matmul is NULL"));
  ASSERT_EQ(hone_matmul_prepare(engine_, &spec, &matmul), HONE_OK);
  EXPECT_EQ(hone_matmul_run(matmul, nullptr), HONE_INVALID_ARGUMENT);
  EXPECT_THAT(hone_last_error(), HasSubstr("call is NULL"));
  hone_plan* plan = nullptr;
  EXPECT_EQ(hone_matmul_plan(matmul, 0, &plan), HONE_INVALID_ARGUMENT);
  hone_matmul_destroy(matmul);
  hone_matmul_destroy(nullptr);
  hone_engine_destroy(nullptr);
  hone_plan_destroy(nullptr);
  EXPECT_EQ(hone_plan_get(nullptr), nullptr);
  EXPECT_EQ(hone_engine_threads(nullptr), 0);
  EXPECT_STREQ(hone_engine_schedule(nullptr), "");
}

TEST_F(EngineCApi, TheScheduleIsToldAndCanBeChosen) {
  hone_engine_options options = {};
  options.no_database = 1;
  options.threads = 2;
  options.schedule = "tbb";
  hone_engine* engine = nullptr;
  ASSERT_EQ(hone_engine_create(&options, &engine), HONE_OK) << hone_last_error();
  EXPECT_STREQ(hone_engine_schedule(engine), "tbb(2)");
  EXPECT_STREQ(hone_engine_schedule_requested(engine), "tbb(2)");
  hone_engine_destroy(engine);
  options.schedule = "fibers";
  EXPECT_EQ(hone_engine_create(&options, &engine), HONE_INVALID_ARGUMENT);
  EXPECT_THAT(hone_last_error(), HasSubstr("unknown schedule 'fibers'"));
}

TEST_F(EngineCApi, TheLastErrorBelongsToItsThread) {
  EXPECT_EQ(hone_matmul_run(nullptr, nullptr), HONE_INVALID_ARGUMENT);
  std::thread([] { EXPECT_STREQ(hone_last_error(), ""); }).join();
  EXPECT_STRNE(hone_last_error(), "");
}

}  // namespace
}  // namespace hone
