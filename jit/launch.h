// Running a compiled kernel: one executable, many callers. Whoever owns a Schedule (engine, tuner) hands it `run_range`
// and a Launch; nothing here spawns, and a launch allocates nothing once its pool has as many workspaces as callers.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

#include "jit/codegen.h"
#include "kernels/ir/task.h"

namespace hone::jit {

// Workspaces of one size, lent to tasks. Grows when all are lent; shrinks never. Thread safe.
class WorkspacePool {
 public:
  explicit WorkspacePool(int64_t bytes) : bytes_(bytes) {}
  ~WorkspacePool();
  WorkspacePool(const WorkspacePool&) = delete;
  WorkspacePool& operator=(const WorkspacePool&) = delete;

  // Makes sure that `count` workspaces exist and their pages are touched. Error: resource_exhausted with the size.
  Status reserve(int count);

  // A workspace of `bytes` (null when bytes is 0), or null with bytes > 0 when memory is exhausted.
  void* acquire();
  void release(void* workspace);
  int64_t bytes() const { return bytes_; }

 private:
  void* make();

  int64_t bytes_;
  std::mutex mutex_;
  std::vector<void*> free_;
  std::vector<void*> all_;
};

// A kernel with what a launch needs to know of its LoopIR.
struct Executable {
  std::unique_ptr<CompiledKernel> kernel;
  ir::TaskBounds bounds;
  std::unique_ptr<WorkspacePool> workspaces;
};
// Verifies and compiles.
Result<Executable> make_executable(const ir::Kernel& kernel, CodeGenerator& generator, Isa isa);

// One call of a kernel. Lives on the caller's stack while the Schedule runs it.
struct Launch {
  const Executable* executable;
  ir::TaskSpace space;
  void* const* buffers;
  const int64_t* params;
  std::atomic<bool> out_of_memory{false};  // some task found no workspace and did not run
};

// The body for a Schedule: runs tasks [begin, end) of the Launch that `launch` points to.
void run_range(void* launch, int64_t begin, int64_t end);

}  // namespace hone::jit
