// Workspaces find their way back to the pool, whatever the kernel does.
#include "jit/launch.h"

#include <gtest/gtest.h>

#include <new>

namespace hone::jit {
namespace {

class ThrowingKernel final : public CompiledKernel {
 public:
  ir::TaskFn entry() const override { return nullptr; }
  void run(void* const*, const int64_t*, const int64_t*, void*) const override { throw std::bad_alloc(); }
  std::span<const std::byte> code() const override { return {}; }
};

TEST(JitLaunch, AWorkspaceComesBackFromAKernelThatThrows) {
  Executable executable{std::make_unique<ThrowingKernel>(), {}, std::make_unique<WorkspacePool>(128)};
  ASSERT_TRUE(executable.workspaces->reserve(1).ok());
  void* const only = executable.workspaces->acquire();
  executable.workspaces->release(only);
  Launch launch{.executable = &executable, .space = {}, .buffers = nullptr, .params = nullptr};
  EXPECT_THROW(run_range(&launch, 0, 1), std::bad_alloc);
  EXPECT_EQ(executable.workspaces->acquire(), only);
  executable.workspaces->release(only);
}

TEST(JitLaunch, ThePoolGrowsWhenAllAreLent) {
  WorkspacePool pool(64);
  void *a = pool.acquire(), *b = pool.acquire();
  ASSERT_NE(a, nullptr);
  EXPECT_NE(a, b);
  pool.release(a);
  EXPECT_EQ(pool.acquire(), a);
  pool.release(a);
  pool.release(b);
}

}  // namespace
}  // namespace hone::jit
