// Workspaces find their way back to the pool, whatever the kernel does.
#include "jit/launch.h"

#include <gtest/gtest.h>

#include <new>
#include <utility>
#include <vector>

namespace hone::jit {
namespace {

class ThrowingKernel final : public CompiledKernel {
 public:
  ir::TaskFn entry() const override { return nullptr; }
  void run(void* const*, const int64_t*, const int64_t*, void*) const override { throw std::bad_alloc(); }
  std::span<const std::byte> code() const override { return {}; }
};

TEST(JitLaunch, AWorkspaceComesBackFromAKernelThatThrows) {
  WorkspacePool pool;
  const Executable executable{std::make_unique<ThrowingKernel>(), {}, 128};
  ASSERT_TRUE(pool.reserve(128, 1).ok());
  AlignedBuffer* const only = pool.acquire(128);
  pool.release(only);
  LaunchItem item;
  Launch launch(executable, {&item, 1}, &pool);
  EXPECT_THROW(Launch::run_range(&launch, 0, 1), std::bad_alloc);
  EXPECT_EQ(pool.acquire(128), only);
  pool.release(only);
}

// Notes (item, task) of every task it runs.
class NotingKernel final : public CompiledKernel {
 public:
  using Task = std::pair<int64_t, int64_t>;
  ir::TaskFn entry() const override { return nullptr; }
  void run(void* const* buffers, const int64_t* params, const int64_t* tasks, void*) const override {
    static_cast<std::vector<Task>*>(buffers[0])->push_back({params[0], tasks[0]});
  }
  std::span<const std::byte> code() const override { return {}; }
};

class JitLaunchItems : public ::testing::Test {
 protected:
  // Item i has counts[i] tasks.
  explicit JitLaunchItems(std::vector<int64_t> counts = {0, 2, 0, 0, 3, 1, 0}) : params_(counts.size()) {
    for (size_t i = 0; i < counts.size(); ++i) {
      params_[i] = static_cast<int64_t>(i);
      LaunchItem item;
      item.space.rank = 1;
      item.space.count = item.space.axes[0].count = counts[i];
      item.buffers = buffers_;
      item.params = &params_[i];
      items_.push_back(item);
    }
  }

  using Tasks = std::vector<NotingKernel::Task>;
  const Tasks all_ = {{1, 0}, {1, 1}, {4, 0}, {4, 1}, {4, 2}, {5, 0}};
  const Executable executable_{std::make_unique<NotingKernel>(), {}, 0};
  Tasks ran_;
  void* buffers_[1] = {&ran_};
  std::vector<int64_t> params_;
  std::vector<LaunchItem> items_;
};

TEST_F(JitLaunchItems, AnyRangeRunsItsTasksInOrder) {
  for (int64_t begin = 0; begin <= 6; ++begin) {
    for (int64_t end = begin; end <= 6; ++end) {
      ran_.clear();
      Launch launch(executable_, items_, nullptr);
      ASSERT_EQ(launch.tasks(), 6);
      Launch::run_range(&launch, begin, end);
      EXPECT_EQ(ran_, Tasks(all_.begin() + begin, all_.begin() + end)) << begin << " to " << end;
    }
  }
}

TEST_F(JitLaunchItems, LastFirstRunsEachTaskOnceWhateverTheRanges) {
  Launch launch(executable_, items_, nullptr, Walk::kLastFirst);
  for (int64_t begin : {3, 0}) Launch::run_range(&launch, begin, begin + 3);
  EXPECT_EQ(ran_, Tasks(all_.rbegin(), all_.rend()));
}

TEST_F(JitLaunchItems, NoItemsHaveNoTasks) {
  Launch launch(executable_, {}, nullptr);
  EXPECT_EQ(launch.tasks(), 0);
  Launch::run_range(&launch, 0, 0);
  EXPECT_TRUE(ran_.empty());
}

TEST(JitLaunch, ThePoolGrowsWhenAllAreLent) {
  WorkspacePool pool;
  AlignedBuffer *a = pool.acquire(64), *b = pool.acquire(64);
  ASSERT_NE(a, nullptr);
  EXPECT_NE(a, b);
  pool.release(a);
  EXPECT_EQ(pool.acquire(64), a);
  pool.release(a);
  pool.release(b);
}

TEST(JitLaunch, TheLargestKernelDecidesTheSize) {
  WorkspacePool pool;
  ASSERT_TRUE(pool.reserve(100, 2).ok());
  AlignedBuffer* const lent = pool.acquire(100);
  ASSERT_TRUE(pool.reserve(5000, 2).ok());  // while one is lent
  EXPECT_GE(lent->size(), 100);
  pool.release(lent);  // too small from now on
  AlignedBuffer *a = pool.acquire(100), *b = pool.acquire(5000);
  EXPECT_GE(a->size(), 5000);
  EXPECT_GE(b->size(), 5000);
  EXPECT_EQ(reinterpret_cast<uintptr_t>(a->data()) % ir::kWorkspaceAlign, 0u);
  pool.release(b);
  ASSERT_TRUE(pool.reserve(64, 2).ok());  // there are two
  EXPECT_EQ(pool.acquire(64), b);
  pool.release(a);
  pool.release(b);
}

// Lends all that are free: each must be large enough, as one that is not would go and leave fewer.
void expect_free(WorkspacePool& pool, int count, int64_t bytes) {
  ASSERT_EQ(pool.free(), count);
  std::vector<AlignedBuffer*> lent;
  for (int left = count; left > 0; --left) {
    ASSERT_EQ(pool.free(), left);
    lent.push_back(pool.acquire(bytes));
    ASSERT_NE(lent.back(), nullptr);
    EXPECT_GE(lent.back()->size(), bytes);
  }
  for (AlignedBuffer* w : lent) pool.release(w);
  EXPECT_EQ(pool.free(), count);
}

TEST(JitLaunch, LargerOnesReplaceAsManySmallOnes) {
  WorkspacePool pool;
  ASSERT_TRUE(pool.reserve(64, 200).ok());
  expect_free(pool, 200, 64);
  ASSERT_TRUE(pool.reserve(4096, 200).ok());
  expect_free(pool, 200, 4096);
  ASSERT_TRUE(pool.reserve(64, 150).ok());
  expect_free(pool, 200, 4096);
}

TEST(JitLaunch, NoMoreAreMadeThanAreKept) {
  WorkspacePool pool;
  for (int64_t bytes : {64, 128, 64}) {
    ASSERT_TRUE(pool.reserve(bytes, 2'000'000'000).ok()) << "making each would take minutes";
    expect_free(pool, WorkspacePool::kKept, bytes);
  }
  std::vector<AlignedBuffer*> lent;
  for (int i = 0; i < WorkspacePool::kKept + 10; ++i) lent.push_back(pool.acquire(64));
  for (AlignedBuffer* w : lent) pool.release(w);
  expect_free(pool, WorkspacePool::kKept, 128);
}

TEST(JitLaunch, WhatThereIsStaysWhenThereIsNoMemoryForMore) {
  WorkspacePool pool;
  ASSERT_TRUE(pool.reserve(4096, 3).ok());
  EXPECT_EQ(pool.reserve(int64_t{1} << 46, 3).code(), Code::kResourceExhausted);
  expect_free(pool, 3, 4096);
}

TEST(JitLaunch, NoMemoryIsAnError) {
  WorkspacePool pool;
  EXPECT_EQ(pool.reserve(int64_t{1} << 46, 1).code(), Code::kResourceExhausted);
  const Executable executable{std::make_unique<ThrowingKernel>(), {}, int64_t{1} << 46};
  LaunchItem item;
  Launch launch(executable, {&item, 1}, &pool);
  Launch::run_range(&launch, 0, 1);  // does not get to the kernel
  EXPECT_TRUE(launch.out_of_memory());
  EXPECT_TRUE(pool.reserve(64, 1).ok()) << "what did not fit must not be asked for again";
}

}  // namespace
}  // namespace hone::jit
