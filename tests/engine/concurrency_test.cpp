// Many callers, one matmul: the bits never depend on who else is running.
#include <algorithm>
#include <atomic>
#include <thread>

#include "tests/engine/api_util.h"

namespace hone {
namespace {

using testing_api::Operands;
using testing_api::same_bits;

// TBB's own library is not built with ThreadSanitizer, which then takes every region for a race. What is ours and
// shared by callers (slots, kernel cache, workspaces) is raced without it.
#ifdef __SANITIZE_THREAD__
const std::vector<int> kThreads = {1};
#else
const std::vector<int> kThreads = {1, 2, 3, 5};
#endif

Engine make_engine(int threads) { return Engine::create({.use_database = false, .threads = threads}).value(); }

// Every thread runs `runs` times into its own C, and each time gets the bits of a first, single run.
void race(const Matmul& matmul, const Operands& operands, bool constant, int threads, int runs) {
  ASSERT_TRUE(matmul.run(operands.call(constant)).ok());
  const std::vector<float> want = operands.c.snapshot();
  std::atomic<int> wrong{0};
  std::vector<std::thread> callers;
  for (int t = 0; t < threads; ++t) {
    callers.emplace_back([&] {
      std::vector<float> c(want.size());
      for (int i = 0; i < runs; ++i) {
        std::fill(c.begin(), c.end(), testing_api::kNaN);
        MatmulCall call = operands.call(constant);
        call.c = c.data();
        if (!matmul.run(call).ok() || !same_bits(c, want)) ++wrong;
      }
    });
  }
  for (std::thread& t : callers) t.join();
  EXPECT_EQ(wrong, 0);
}

TEST(EngineConcurrency, m14_five_callers_get_the_same_bits) {
  // M=128 N=16384 K=1152 in full where there is time for it: not under sanitizers, not on few CPUs.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  const bool full = false;
#else
  const bool full = std::thread::hardware_concurrency() > 3;
#endif
  const MatmulSpec spec{.n = full ? 16384 : 2048, .k = 1152, .b = Layout::kNn, .expected_m = {128}};
  const Operands operands(spec, 128);
  const Engine engine = make_engine(std::min(2, kThreads.back()));
  for (bool constant : {true, false}) {
    Result<Matmul> matmul = constant ? engine.prepare(spec, operands.b.data()) : engine.prepare(spec);
    ASSERT_TRUE(matmul.ok()) << matmul.status().to_string();
    race(*matmul, operands, constant, 5, 2);
  }
}

TEST(EngineConcurrency, m15_twenty_callers_get_the_same_bits) {
  const MatmulSpec spec{.n = 200, .k = 120, .epilogue = {Epilogue::kBias, Epilogue::kGeluTanh}, .expected_m = {33}};
  const Operands operands(spec, 33);
  for (int threads : kThreads) {
    const Engine engine = make_engine(threads);
    for (bool constant : {true, false}) {
      Result<Matmul> matmul = constant ? engine.prepare(spec, operands.b.data()) : engine.prepare(spec);
      ASSERT_TRUE(matmul.ok()) << matmul.status().to_string();
      race(*matmul, operands, constant, 20, 50);
    }
  }
}

TEST(EngineConcurrency, FirstUseOfABucketFromManyThreads) {
  const MatmulSpec spec{.n = 70, .k = 50, .expected_m = {}};
  const Engine engine = make_engine(std::min(2, kThreads.back()));
  Result<Matmul> matmul = engine.prepare(spec);
  ASSERT_TRUE(matmul.ok());
  std::atomic<int> wrong{0};
  std::vector<std::thread> callers;
  for (int t = 0; t < 8; ++t) {
    callers.emplace_back([&, t] {
      for (int64_t m : {1, 5, 12, 40, 100}) {
        const Operands operands(spec, m, static_cast<uint32_t>(t));
        const std::vector<float> want = operands.expected();
        if (!matmul->run(operands.call(false)).ok() || !same_bits(operands.c.snapshot(), want)) ++wrong;
      }
    });
  }
  for (std::thread& t : callers) t.join();
  EXPECT_EQ(wrong, 0);
}

TEST(EngineConcurrency, AnyThreadCountGivesTheSameBits) {
  const MatmulSpec spec{.n = 2000, .k = 300, .epilogue = {Epilogue::kBias, Epilogue::kSilu}, .expected_m = {64}};
  const Operands operands(spec, 64);
  const std::vector<float> want = operands.expected();
  for (int threads : kThreads) {
    Result<Matmul> matmul = make_engine(threads).prepare(spec, operands.b.data());
    ASSERT_TRUE(matmul.ok());
    ASSERT_TRUE(matmul->run(operands.call(true)).ok());
    EXPECT_TRUE(same_bits(operands.c.snapshot(), want)) << threads << " threads";
  }
}

}  // namespace
}  // namespace hone
