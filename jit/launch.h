// Running a compiled kernel: one executable, many callers. Whoever owns a Schedule (engine, tuner) hands it `run_range`
// and a Launch; nothing here spawns, and a launch allocates nothing once its pool has as many workspaces as tasks run
// at once.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
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

// A kernel with what a launch needs to know of its LoopIR.
struct Executable {
  std::unique_ptr<CompiledKernel> kernel;
  ir::TaskBounds bounds;
  int64_t workspace_bytes = 0;  // that each task needs
};

// Verifies and compiles.
Result<Executable> make_executable(const ir::Kernel& kernel, CodeGenerator& generator, Isa isa);

// One call of a kernel. Lives on the caller's stack while the Schedule runs it.
struct Launch {
  const Executable* executable;
  ir::TaskSpace space;
  void* const* buffers;
  const int64_t* params;
  WorkspacePool* workspaces = nullptr;     // may be null for a kernel that needs none
  std::atomic<bool> out_of_memory{false};  // some task found no workspace and did not run
};

// The body for a Schedule: runs tasks [begin, end) of the Launch that `launch` points to.
void run_range(void* launch, int64_t begin, int64_t end);

}  // namespace hone::jit
