// After the first call of its size a session allocates nothing, but for the room of caches that are full, which
// doubles; and no call copies a weight.
#include <gtest/gtest.h>

#include "engine/executable/plan.h"
#include "engine/passes/pass.h"
#include "tests/engine/counted_malloc.h"
#include "tests/engine/executable/decoder_graphs.h"

namespace hone::executable {
namespace {

using testing_api::allocations;
using testing_api::counting;

class ExecutableAllocation : public testing::TestWithParam<int> {};
INSTANTIATE_TEST_SUITE_P(Threads, ExecutableAllocation, testing::Values(1, 2));

TEST_P(ExecutableAllocation, NoneInAHundredCalls) {
#if HONE_COUNTS_MALLOC
  const DecoderSizes sizes{
      .width = 256, .heads = 8, .kv_heads = 2, .head_dim = 32, .hidden = 512, .max_tokens = 64, .capacity = 256};
  for (const bool moe : {false, true}) {
    passes::Compilation c;
    c.graph = moe ? moe_layer(sizes, 4, 2) : decoder_layer(sizes);
    ASSERT_TRUE(passes::run_passes(c).ok());
    const Engine engine = Engine::create({.use_database = false, .threads = GetParam()}).value();
    Result<ExecutablePlan> plan = ExecutablePlan::create(engine, std::move(c));
    ASSERT_TRUE(plan.ok()) << plan.status().message();
    Session session = plan->session().value();
    const std::vector<float> x = random_floats(64 * 256, 3, 1);
    std::vector<float> y(64 * 256);
    const auto run = [&](int64_t tokens) {
      const int64_t shape[2] = {tokens, 256};
      const InputTensor in{x.data(), shape};
      const OutputTensor out{y.data(), tokens * 256 * 4};
      return session.run({&in, 1}, {&out, 1});
    };
    for (int i = 0; i < 100; ++i) {  // threads start, their pools fill
      ASSERT_TRUE(session.truncate(0).ok());
      ASSERT_TRUE(run(64).ok());
      ASSERT_TRUE(run(1).ok());
    }
    bool ok = true;
    allocations = 0;
    counting = true;
    for (int i = 0; i < 50; ++i) ok &= session.truncate(0).ok() && run(64).ok() && run(1).ok();
    counting = false;
    EXPECT_TRUE(ok);
    EXPECT_EQ(allocations.load(), 0) << (moe ? "moe" : "decoder") << " threads=" << GetParam();
  }
#else
  GTEST_SKIP() << "malloc cannot be counted under this sanitizer";
#endif
}

// Room for 256 tokens, then 512, 1024: of K and of V, twice in 900 calls of one token.
TEST(ExecutableGrowth, CachesGrowByDoubling) {
#if HONE_COUNTS_MALLOC
  const DecoderSizes sizes{
      .width = 64, .heads = 2, .kv_heads = 1, .head_dim = 32, .hidden = 64, .max_tokens = 8, .capacity = 1000};
  passes::Compilation c;
  c.graph = decoder_layer(sizes);
  ASSERT_TRUE(passes::run_passes(c).ok());
  const Engine engine = Engine::create({.use_database = false, .threads = 1}).value();
  Result<ExecutablePlan> plan = ExecutablePlan::create(engine, std::move(c));
  ASSERT_TRUE(plan.ok()) << plan.status().message();
  const std::vector<float> x = random_floats(64, 3, 1);
  std::vector<float> y(64);
  const int64_t shape[2] = {1, 64};
  const InputTensor in{x.data(), shape};
  const OutputTensor out{y.data(), 64 * 4};
  const auto steps = [&](Session& session) {
    bool ok = true;
    for (int i = 0; i < 900; ++i) ok &= session.run({&in, 1}, {&out, 1}).ok();
    return ok;
  };
  Session first = plan->session().value(), second = plan->session().value();
  ASSERT_TRUE(steps(first));  // every bucket has its plan
  allocations = 0;
  counting = true;
  const bool ok = steps(second);
  counting = false;
  EXPECT_TRUE(ok);
  EXPECT_EQ(allocations.load(), 2 * 2);
#else
  GTEST_SKIP() << "malloc cannot be counted under this sanitizer";
#endif
}

}  // namespace
}  // namespace hone::executable
