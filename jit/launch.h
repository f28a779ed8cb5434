// Running a compiled kernel: one executable, many callers. Whoever owns a Schedule (engine, tuner) hands it a Launch
// and its `run_range`; nothing here spawns, and a launch allocates nothing once its pool has as many workspaces as
// tasks run at once.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <vector>

#include "engine/base/aligned_buffer.h"
#include "jit/codegen.h"
#include "kernels/ir/task.h"

namespace hone::jit {

// Workspaces lent to tasks, shared by all kernels of an owner: a task that runs holds one, so there need only be as
// many as tasks run at once, each large enough for the largest kernel, and the one last given back is still in cache.
// What one holds when it is lent is unspecified: a kernel reads nothing there that it did not write. Thread safe;
// lending and giving back take no lock unless a workspace has to be made or to go.
class WorkspacePool {
 public:
  WorkspacePool() = default;
  WorkspacePool(const WorkspacePool&) = delete;
  WorkspacePool& operator=(const WorkspacePool&) = delete;

  // Free ones that are kept: as many as there are CPUs on what we know of. A task that runs while so many others do
  // makes its own, which goes with it.
  static constexpr int kKept = 256;

  // From now on there are `count` (at most kKept) workspaces of at least `bytes`, their pages present; smaller ones go
  // as soon as they are not lent. Error: resource_exhausted with the size, and all is as before.
  Status reserve(int64_t bytes, int count);

  // At least `bytes`, aligned to ir::kWorkspaceAlign. Made only when all are lent or too small; null when there is no
  // memory for it.
  AlignedBuffer* acquire(int64_t bytes);
  void release(AlignedBuffer* workspace);

  // How many are not lent.
  int free() const;

 private:
  AlignedBuffer* take(size_t slot) { return free_[slot].exchange(nullptr, std::memory_order_acquire); }
  bool put_back(AlignedBuffer* workspace);
  // Both under mutex_.
  void drop(AlignedBuffer* workspace);
  void drop_smaller(int64_t bytes);  // of those that are free

  std::array<std::atomic<AlignedBuffer*>, kKept> free_{};
  std::atomic<int64_t> bytes_ = 0;  // of the largest kernel so far
  std::mutex mutex_;                // of making and dropping
  std::vector<std::unique_ptr<AlignedBuffer>> all_;
};

// A workspace of a pool for as long as this lives; null when there is no memory, or `bytes` is 0.
class WorkspaceLease {
 public:
  WorkspaceLease(WorkspacePool* pool, int64_t bytes)
      : pool_(pool), workspace_(bytes == 0 ? nullptr : pool->acquire(bytes)) {}
  ~WorkspaceLease() {
    if (workspace_ != nullptr) pool_->release(workspace_);
  }
  WorkspaceLease(const WorkspaceLease&) = delete;
  WorkspaceLease& operator=(const WorkspaceLease&) = delete;
  void* data() const { return workspace_ == nullptr ? nullptr : workspace_->data(); }

 private:
  WorkspacePool* const pool_;
  AlignedBuffer* const workspace_;
};

// A kernel with what a launch needs to know of its LoopIR.
struct Executable {
  std::unique_ptr<CompiledKernel> kernel;
  ir::TaskBounds bounds;
  int64_t workspace_bytes = 0;  // that each task needs
};

// Verifies and compiles.
Result<Executable> make_executable(const ir::Kernel& kernel, CodeGenerator& generator, Isa isa,
                                   const CompileOptions& options = {});

// One set of arguments that a kernel is called on; its tasks.
struct LaunchItem {
  LaunchItem() = default;
  LaunchItem(const Executable& executable, void* const* its_buffers, const int64_t* its_params)
      : space(ir::task_space(executable.bounds, its_params)), buffers(its_buffers), params(its_params) {}

  ir::TaskSpace space;
  void* const* buffers = nullptr;
  const int64_t* params = nullptr;
  int64_t end = 0;  // tasks of this item and of those before it; counted by Launch
};

// Which tasks a thread runs, and when.
enum class Walk : uint8_t {
  kRange,      // those of its range, ascending: at each call the same, whose operands are in its core's cache
  kLastFirst,  // from the last of all tasks to the first, each taken by whoever is free: for tasks that grow with their
               // index, where ranges of equal length would be unequal work
};

// One call of a kernel on any number of items, whose tasks form one range [0, tasks()). Lives on the caller's stack
// while the Schedule runs it, as do the items, which it numbers.
class Launch {
 public:
  Launch(const Executable& executable, std::span<LaunchItem> items, WorkspacePool* workspaces,
         Walk walk = Walk::kRange);
  Launch(const Executable& executable, void* const* buffers, const int64_t* params, WorkspacePool* workspaces)
      : Launch(executable, {&only_, 1}, workspaces, LaunchItem(executable, buffers, params)) {}
  Launch(const Launch&) = delete;
  Launch& operator=(const Launch&) = delete;

  int64_t tasks() const { return tasks_; }
  // Some task found no workspace and did not run.
  bool out_of_memory() const { return out_of_memory_.load(std::memory_order_relaxed); }

  // The body for a Schedule: `launch` points to a Launch. A Schedule has to be given all of [0, tasks()).
  static void run_range(void* launch, int64_t begin, int64_t end);

 private:
  Launch(const Executable& executable, std::span<LaunchItem> items, WorkspacePool* workspaces, const LaunchItem& only);
  const LaunchItem* item_of(int64_t task) const;
  void run_ascending(int64_t begin, int64_t end, void* workspace) const;
  void run_claimed(void* workspace);

  const Executable& executable_;
  const std::span<LaunchItem> items_;
  WorkspacePool* const workspaces_;  // may be null for a kernel that needs none
  const Walk walk_;
  int64_t tasks_ = 0;
  LaunchItem only_;
  std::atomic<int64_t> claimed_{0};  // kLastFirst: from the end
  std::atomic<bool> out_of_memory_{false};
};

}  // namespace hone::jit
