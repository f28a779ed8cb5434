// A call with a plan in place allocates nothing.
#include <cstdlib>

#include "engine/runtime/schedule.h"
#include "tests/engine/attention_util.h"
#include "tests/engine/counted_malloc.h"
#include "tests/engine/experts_util.h"

namespace hone {
namespace {

using testing_api::allocations;
using testing_api::AttentionOperands;
using testing_api::counting;
using testing_api::Operands;

#if HONE_COUNTS_MALLOC
class EngineAllocation : public ::testing::TestWithParam<int> {};
INSTANTIATE_TEST_SUITE_P(Threads, EngineAllocation, ::testing::Values(1, 2));

TEST_P(EngineAllocation, NoneInAHundredCalls) {
  const Engine engine = Engine::create({.use_database = false, .threads = GetParam()}).value();
  // Large enough that the default plan uses both threads; packed workspaces, every kind of operand.
  const MatmulSpec spec{.n = 1024,
                        .k = 512,
                        .lda = 1024,
                        .epilogue = {Epilogue::kBias, Epilogue::kSilu, Epilogue::kGate, Epilogue::kResidual},
                        .expected_m = {1, 64}};
  for (bool constant : {true, false}) {
    for (int64_t m : {1, 64, 50}) {
      const Operands operands(spec, m);
      Result<Matmul> matmul = constant ? engine.prepare(spec, operands.b.data()) : engine.prepare(spec);
      ASSERT_TRUE(matmul.ok()) << matmul.status().to_string();
      const MatmulCall call = operands.call(constant);
      for (int i = 0; i < 200; ++i) ASSERT_TRUE(matmul->run(call).ok());  // threads start, their pools fill
      allocations = 0;
      counting = true;
      bool ok = true;
      for (int i = 0; i < 100; ++i) ok &= matmul->run(call).ok();
      counting = false;
      EXPECT_TRUE(ok);
      EXPECT_EQ(allocations.load(), 0) << "m=" << m << " constant=" << constant << " threads=" << GetParam();
    }
  }
}

// Varied lengths, split keys, pages, and a cache that grows by a token at each call: nothing is copied, nothing is
// made.
TEST_P(EngineAllocation, NoneInAHundredCallsOfAttention) {
  const Engine engine = Engine::create({.use_database = false, .threads = GetParam()}).value();
  for (const char* numerics : {"", "split(256,4)"}) {
    for (bool cached : {false, true}) {
      const AttentionSpec spec{.heads = 8,
                               .kv_heads = 2,
                               .head_dim = 64,
                               .causal = true,
                               .lse = true,
                               .page = 32,
                               .cache = cached,
                               .numerics = numerics,
                               .max_q = 64,
                               .max_kv = 1024};
      Result<Attention> attention = engine.prepare(spec);
      ASSERT_TRUE(attention.ok()) << attention.status().to_string();
      std::vector<AttentionOperands> batch;
      std::vector<AttentionSequence> call;
      for (int64_t q : {1, 64, 7}) batch.emplace_back(spec, q, 600);
      std::optional<KvCache> cache;
      if (cached) cache = attention->cache({.sequences = 3, .capacity = 1024}).value();
      for (int64_t s = 0; s < 3; ++s) {
        AttentionOperands& o = batch[static_cast<size_t>(s)];
        if (cached) testing_api::append_all(*cache, s, o, 600);
        call.push_back(cached ? testing_api::from_cache(o, s) : o.sequence);
      }
      const KvCache* const from = cached ? &*cache : nullptr;
      const KvRows token{
          .tokens = 1, .key = batch[0].key_row(0, 0), .value = batch[0].value_row(0, 0), .k_head = 64, .v_head = 64};
      for (int i = 0; i < 100; ++i) ASSERT_TRUE(attention->run(call, from).ok());  // threads start, their pools fill
      allocations = 0;
      counting = true;
      bool ok = true;
      for (int i = 0; i < 100; ++i) {
        if (cached) ok &= cache->append(0, token).ok();
        ok &= attention->run(call, from).ok();
      }
      counting = false;
      EXPECT_TRUE(ok);
      EXPECT_EQ(allocations.load(), 0) << numerics << " cached=" << cached << " threads=" << GetParam();
    }
  }
}

// Whatever the strategy, and however the tokens spread: up to max_tokens, more after fewer.
TEST_P(EngineAllocation, NoneInAHundredCallsOfExperts) {
  const Engine engine = Engine::create({.use_database = false, .threads = GetParam()}).value();
  for (const int64_t ff : {512, 200}) {
    const testing_api::MoeModel model(8, 2, 256, ff);
    ExpertsSpec spec = model.spec(64);
    spec.strategy = ExpertsStrategy::kDense;
    const Experts moe = Experts::prepare(engine, spec, model.weights()).value();
    for (const ExpertsStrategy strategy : testing_api::kStrategies) {
      testing_api::MoeTokens few(model, 3), many(model, 64), skewed(model, 64, testing_api::Spread::kAllOnTheLast);
      for (int i = 0; i < 20; ++i) ASSERT_TRUE(moe.run(few.call(strategy)).ok());  // threads start, their pools fill
      for (int i = 0; i < 20; ++i) ASSERT_TRUE(moe.run(many.call(strategy)).ok());
      allocations = 0;
      counting = true;
      bool ok = true;
      for (int i = 0; i < 34; ++i)
        for (testing_api::MoeTokens* tokens : {&skewed, &few, &many}) ok &= moe.run(tokens->call(strategy)).ok();
      counting = false;
      EXPECT_TRUE(ok);
      EXPECT_EQ(allocations.load(), 0) << plan::strategy_name(strategy) << " ff=" << ff << " threads=" << GetParam();
    }
  }
}

// dedicated(2) is tbb(2) where it cannot be had.
TEST(EngineAllocationRegion, NoneInAThousandRegions) {
  for (runtime::ScheduleKind kind : {runtime::ScheduleKind::kTbb, runtime::ScheduleKind::kDedicated}) {
    const std::unique_ptr<runtime::Schedule> schedule = runtime::make_schedule({kind, 2}).value();
    std::atomic<int64_t> sum{0};
    auto body = [&](int64_t begin, int64_t end) { sum += end - begin; };
    for (int i = 0; i < 1000; ++i) schedule->for_range({"test", "warm"}, 8, 1, body);
    allocations = 0;
    counting = true;
    for (int i = 0; i < 1000; ++i) schedule->for_range({"test", "counted"}, 8, 1, body);
    counting = false;
    EXPECT_EQ(allocations.load(), 0) << schedule->name();
    EXPECT_EQ(sum, 2000 * 8);
  }
}

TEST(EngineAllocationCounter, TheCounts) {
  allocations = 0;
  counting = true;
  void* volatile kept = std::malloc(10);  // a pair that nobody looks at may be left out
  std::free(kept);
  delete new std::string(100, 'x');
  counting = false;
  EXPECT_GE(allocations.load(), 3);
}
#else
TEST(EngineAllocation, NoneInAHundredCalls) { GTEST_SKIP() << "malloc cannot be counted under this sanitizer"; }
#endif

}  // namespace
}  // namespace hone
