#include "engine/plan/kernel_cache.h"

#include <gtest/gtest.h>

#include <atomic>
#include <thread>

#include "kernels/ir/text.h"
#include "kernels/matmul/blocking.h"

namespace hone::plan {
namespace {

// Stands for a code generator: counts, and fails when told to.
class CountingGenerator final : public jit::CodeGenerator {
 public:
  explicit CountingGenerator(std::string name, bool fails = false) : name_(std::move(name)), fails_(fails) {}
  std::string_view name() const override { return name_; }
  std::string version() const override { return "1"; }
  bool targets(Isa) const override { return true; }
  Result<std::unique_ptr<jit::CompiledKernel>> compile(const ir::Kernel& kernel, Isa isa,
                                                       const jit::CompileOptions& options) override {
    ++compiled;
    if (fails_) return resource_exhausted(name_ + " refuses");
    return jit::find_code_generator("interp").value()->compile(kernel, isa, options);
  }
  std::atomic<int> compiled{0};

 private:
  std::string name_;
  bool fails_;
};

ir::Kernel kernel(int64_t n) {
  const matmul::MatmulProblem p{.m = 3, .n = n, .k = 5, .epilogue = {}};
  return matmul::lower(p, matmul::default_program(p, {.isa = Isa::kAvx2})).value();
}

TEST(PlanKernelCache, TheSameCodeIsCompiledOnce) {
  KernelCache cache;
  CountingGenerator g("one");
  const auto a = cache.get(kernel(16), Isa::kAvx2, g).value();
  const auto b = cache.get(kernel(16), Isa::kAvx2, g).value();
  EXPECT_EQ(a, b);
  EXPECT_EQ(g.compiled, 1);
  EXPECT_NE(cache.get(kernel(17), Isa::kAvx2, g).value(), a);
  CountingGenerator other("two");
  EXPECT_NE(cache.get(kernel(16), Isa::kAvx2, other).value(), a);
}

TEST(PlanKernelCache, ManyThreadsCompileOnce) {
  KernelCache cache;
  CountingGenerator g("one");
  std::vector<KernelCache::Handle> handles(8);
  std::vector<std::thread> threads;
  for (auto& handle : handles) threads.emplace_back([&] { handle = cache.get(kernel(16), Isa::kAvx2, g).value(); });
  for (std::thread& t : threads) t.join();
  EXPECT_EQ(g.compiled, 1);
  for (const auto& handle : handles) EXPECT_EQ(handle, handles[0]);
}

TEST(PlanKernelCache, r7_released_kernels_leave_nothing) {
  KernelCache cache;
  CountingGenerator g("one");
  for (int64_t n = 1; n <= 300; ++n) ASSERT_TRUE(cache.get(kernel(n), Isa::kAvx2, g).ok());
  EXPECT_EQ(cache.live(), 0u);
  const auto held = cache.get(kernel(16), Isa::kAvx2, g).value();
  EXPECT_EQ(cache.live(), 1u);
}

// For ThreadSanitizer: counting and purging beside compiling threads.
TEST(PlanKernelCache, CountsWhileOthersCompile) {
  KernelCache cache;
  CountingGenerator g("one");
  std::vector<std::thread> threads;
  for (int t = 0; t < 3; ++t)
    threads.emplace_back([&, t] {
      for (int64_t n = 1; n <= 100; ++n) EXPECT_TRUE(cache.get(kernel(100 * t + n), Isa::kAvx2, g).ok());
    });
  for (int i = 0; i < 50; ++i) EXPECT_LE(cache.live(), 3u);
  for (std::thread& t : threads) t.join();
  EXPECT_EQ(cache.live(), 0u);
}

TEST(PlanKernelCache, AFailingGeneratorIsFollowedByTheNext) {
  KernelCache cache;
  CountingGenerator bad("bad", true), good("good");
  const std::vector<jit::CodeGenerator*> order = {&bad, &good};
  const std::vector<ir::Kernel> kernels = {kernel(16), kernel(32)};
  const Compiled compiled = compile_first(cache, kernels, Isa::kAvx2, order);
  ASSERT_EQ(compiled.executables.size(), 2u);
  EXPECT_NE(compiled.executables[0], compiled.executables[1]);
  EXPECT_EQ(compiled.codegen, "good");
  ASSERT_EQ(compiled.failures.size(), 1u);
  EXPECT_EQ(compiled.failures[0].codegen, "bad");
  EXPECT_EQ(compiled.failures[0].why, "bad refuses");
  const Compiled none = compile_first(cache, kernels, Isa::kAvx2, std::span(order).first(1));
  EXPECT_TRUE(none.executables.empty());
  EXPECT_EQ(bad.compiled, 2);  // failures are not remembered: what was refused may be allowed later
}

}  // namespace
}  // namespace hone::plan
