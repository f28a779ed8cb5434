// Attention through the C API: the bits of the C++ API, errors as codes with a message, and nothing that a NULL can
// break.
#include <gmock/gmock.h>

#include <cstddef>
#include <cstring>

#include "hone/attention.h"
#include "tests/engine/attention_util.h"

extern "C" hone_status c_header_attention_spec(hone_attention_spec* spec);

namespace hone {
namespace {

using ::testing::HasSubstr;
using testing_api::AttentionOperands;

class EngineCAttention : public ::testing::Test {
 protected:
  void SetUp() override {
    hone_engine_options options = {};
    options.no_database = 1;
    options.threads = 1;
    ASSERT_EQ(hone_engine_create(&options, &engine_), HONE_OK) << hone_last_error();
    ASSERT_EQ(c_header_attention_spec(&spec_), HONE_OK) << hone_last_error();
    spec_.max_q = 0;
  }
  void TearDown() override {
    hone_kv_cache_destroy(cache_);
    hone_attention_destroy(attention_);
    hone_engine_destroy(engine_);
  }
  static AttentionSpec same() {
    return {.heads = 6, .kv_heads = 2, .head_dim = 16, .value_dim = 8, .causal = true, .lse = true};
  }
  static hone_attention_sequence sequence_of(const AttentionOperands& o) {
    hone_attention_sequence s;
    EXPECT_EQ(hone_attention_sequence_init(&s, o.sequence.q, o.sequence.kv), HONE_OK);
    s.query = o.sequence.query, s.key = o.sequence.key, s.value = o.sequence.value;
    s.out = o.sequence.out, s.lse = o.sequence.lse;
    return s;
  }

  hone_attention_spec spec_;
  hone_engine* engine_ = nullptr;
  hone_attention* attention_ = nullptr;
  hone_kv_cache* cache_ = nullptr;
};

TEST_F(EngineCAttention, AHeaderCompiledAsCDescribesTheSameSpec) {
  EXPECT_EQ(spec_.heads, 6);
  EXPECT_EQ(spec_.kv_heads, 2);
  EXPECT_EQ(spec_.head_dim, 16);
  EXPECT_EQ(spec_.value_dim, 8);
  EXPECT_EQ(spec_.causal, 1);
  EXPECT_EQ(spec_.lse, 1);
  EXPECT_EQ(spec_.batch, 2);
  ASSERT_EQ(spec_.expected_length, 2u);
  EXPECT_EQ(spec_.expected[1].q, 9);
  EXPECT_EQ(spec_.expected[1].kv, 50);
}

// Whoever has to change these numbers appends to the struct and raises SOVERSION in engine/CMakeLists.txt.
TEST_F(EngineCAttention, LayoutsAreThoseOfTheSoversion) {
  if (sizeof(void*) != 8) GTEST_SKIP() << "the numbers are of 64-bit pointers";
  EXPECT_EQ(offsetof(hone_attention_spec, max_kv), 1200u);
  EXPECT_EQ(sizeof(hone_attention_spec), 1208u);
  EXPECT_EQ(offsetof(hone_attention_sequence, cached), 152u);
  EXPECT_EQ(sizeof(hone_attention_sequence), 160u);
}

TEST_F(EngineCAttention, RunsWithTheBitsOfTheReference) {
  ASSERT_EQ(hone_attention_prepare(engine_, &spec_, &attention_), HONE_OK) << hone_last_error();
  AttentionOperands a(same(), 9, 50, 1), b(same(), 1, 33, 2);
  const hone_attention_sequence call[] = {sequence_of(a), sequence_of(b)};
  ASSERT_EQ(hone_attention_run(attention_, call, 2, nullptr), HONE_OK) << hone_last_error();
  testing_api::expect_result(a, "online(256)");
  testing_api::expect_result(b, "online(256)");
  hone_plan* plan = nullptr;
  ASSERT_EQ(hone_attention_plan(attention_, 9, 50, &plan), HONE_OK) << hone_last_error();
  EXPECT_STREQ(hone_plan_get(plan)->numerics, "online(256)");
  EXPECT_STREQ(hone_plan_get(plan)->reason, "default");
  hone_plan_destroy(plan);
}

TEST_F(EngineCAttention, ACacheGivesTheSameBits) {
  spec_.cache = 1;
  spec_.page = 16;
  ASSERT_EQ(hone_attention_prepare(engine_, &spec_, &attention_), HONE_OK) << hone_last_error();
  ASSERT_EQ(hone_kv_cache_create(attention_, 2, 64, 0, &cache_), HONE_OK) << hone_last_error();
  EXPECT_EQ(hone_kv_cache_free_pages(cache_), 8);
  EXPECT_EQ(hone_kv_cache_bytes(cache_), 8 * 16 * 2 * (16 + 8) * 4);
  AttentionOperands o(same(), 9, 50);
  ASSERT_EQ(hone_kv_cache_append(cache_, 1, 50, o.sequence.key, -1, o.sequence.value, -1), HONE_OK)
      << hone_last_error();
  EXPECT_EQ(hone_kv_cache_length(cache_, 1), 50);
  hone_attention_sequence s = sequence_of(o);
  s.kv = 0, s.key = nullptr, s.value = nullptr, s.cached = 1;
  ASSERT_EQ(hone_attention_run(attention_, &s, 1, cache_), HONE_OK) << hone_last_error();
  testing_api::expect_result(o, "online(256)");
  EXPECT_EQ(hone_kv_cache_truncate(cache_, 1, 60), HONE_INVALID_ARGUMENT);
  EXPECT_EQ(hone_kv_cache_truncate(cache_, 1, 0), HONE_OK);
  EXPECT_EQ(hone_kv_cache_free_pages(cache_), 8);
}

TEST_F(EngineCAttention, NullIsAnErrorWithAName) {
  ASSERT_EQ(hone_attention_prepare(engine_, &spec_, &attention_), HONE_OK) << hone_last_error();
  hone_attention* none = nullptr;
  hone_kv_cache* cache = nullptr;
  hone_plan* plan = nullptr;
  const std::pair<hone_status, const char*> calls[] = {
      {hone_attention_spec_init(nullptr, 1, 1, 1), "spec"},
      {hone_attention_prepare(nullptr, &spec_, &none), "engine"},
  };
  for (const auto& [status, name] : calls) EXPECT_EQ(status, HONE_INVALID_ARGUMENT) << name;
  EXPECT_EQ(hone_attention_spec_parse(&spec_, nullptr), HONE_INVALID_ARGUMENT);
  EXPECT_THAT(hone_last_error(), HasSubstr("problem is NULL"));
  EXPECT_EQ(hone_attention_prepare(engine_, nullptr, &none), HONE_INVALID_ARGUMENT);
  EXPECT_THAT(hone_last_error(), HasSubstr("spec is NULL"));
  EXPECT_EQ(hone_attention_prepare(engine_, &spec_, nullptr), HONE_INVALID_ARGUMENT);
  EXPECT_EQ(hone_attention_sequence_init(nullptr, 1, 1), HONE_INVALID_ARGUMENT);
  EXPECT_EQ(hone_attention_run(nullptr, nullptr, 0, nullptr), HONE_INVALID_ARGUMENT);
  EXPECT_EQ(hone_attention_run(attention_, nullptr, 1, nullptr), HONE_INVALID_ARGUMENT);
  EXPECT_THAT(hone_last_error(), HasSubstr("sequences is NULL"));
  EXPECT_EQ(hone_attention_run(attention_, nullptr, 0, nullptr), HONE_OK);
  EXPECT_EQ(hone_attention_plan(nullptr, 1, 1, &plan), HONE_INVALID_ARGUMENT);
  EXPECT_EQ(hone_attention_plan(attention_, 1, 1, nullptr), HONE_INVALID_ARGUMENT);
  EXPECT_EQ(hone_kv_cache_create(nullptr, 1, 1, 0, &cache), HONE_INVALID_ARGUMENT);
  EXPECT_EQ(hone_kv_cache_create(attention_, 1, 1, 0, &cache), HONE_FAILED_PRECONDITION);
  EXPECT_EQ(cache, nullptr);
  EXPECT_EQ(hone_kv_cache_append(nullptr, 0, 1, nullptr, -1, nullptr, -1), HONE_INVALID_ARGUMENT);
  EXPECT_EQ(hone_kv_cache_truncate(nullptr, 0, 0), HONE_INVALID_ARGUMENT);
  EXPECT_EQ(hone_kv_cache_length(nullptr, 0) + hone_kv_cache_bytes(nullptr) + hone_kv_cache_free_pages(nullptr), 0);
  hone_kv_cache_destroy(nullptr);
  hone_attention_destroy(nullptr);
  hone_attention_spec bad = spec_;
  bad.expected_length = HONE_MAX_EXPECTED_SHAPES + 1;
  EXPECT_EQ(hone_attention_prepare(engine_, &bad, &none), HONE_INVALID_ARGUMENT);
  EXPECT_THAT(hone_last_error(), HasSubstr("HONE_MAX_EXPECTED_SHAPES"));
  bad = spec_;
  std::memset(bad.numerics, 'x', sizeof bad.numerics);
  EXPECT_EQ(hone_attention_prepare(engine_, &bad, &none), HONE_INVALID_ARGUMENT);
  EXPECT_THAT(hone_last_error(), HasSubstr("HONE_MAX_NUMERICS"));
}

// A byte holds 256 as 0.
TEST_F(EngineCAttention, EnumeratorsOfNoByteAreRefused) {
  hone_attention_spec layout = spec_, mask = spec_, keys = spec_;
  const auto write = [](auto& field, int number) { std::memcpy(&field, &number, sizeof(field)); };
  write(layout.layout, 257);
  write(mask.mask, 258);
  write(keys.key_layout, 256);
  for (const auto& [spec, message] : {std::pair(&layout, "layout=257 must be"), std::pair(&mask, "mask=258 must be"),
                                      std::pair(&keys, "key_layout=256 must be")}) {
    hone_attention* none = nullptr;
    EXPECT_EQ(hone_attention_prepare(engine_, spec, &none), HONE_INVALID_ARGUMENT);
    EXPECT_EQ(none, nullptr);
    EXPECT_THAT(hone_last_error(), HasSubstr(message));
  }
}

}  // namespace
}  // namespace hone
