// See launch.h.
#include "jit/launch.h"

#include <fmt/format.h>

#include <cstdlib>
#include <cstring>

#include "kernels/ir/verify.h"

namespace hone::jit {

WorkspacePool::~WorkspacePool() {
  for (void* w : all_) std::free(w);
}

void* WorkspacePool::make() {
  const auto size = static_cast<size_t>((bytes_ + ir::kWorkspaceAlign - 1) / ir::kWorkspaceAlign * ir::kWorkspaceAlign);
  void* w = std::aligned_alloc(ir::kWorkspaceAlign, size);
  // First touch happens here, not inside the first timed call: it runs at 0.3 GB/s on some virtual machines.
  if (w != nullptr) std::memset(w, 0, size);
  return w;
}

Status WorkspacePool::reserve(int count) {
  if (bytes_ == 0) return {};
  const std::lock_guard lock(mutex_);
  while (static_cast<int>(all_.size()) < count) {
    void* w = make();
    if (w == nullptr) return resource_exhausted(fmt::format("no memory for a workspace of {} bytes", bytes_));
    all_.push_back(w);
    free_.push_back(w);
  }
  free_.reserve(all_.size());
  return {};
}

void* WorkspacePool::acquire() {
  if (bytes_ == 0) return nullptr;
  const std::lock_guard lock(mutex_);
  if (free_.empty()) {
    // Room first: giving it back must not allocate.
    all_.reserve(all_.size() + 1);
    free_.reserve(all_.size() + 1);
    void* w = make();
    if (w != nullptr) all_.push_back(w);
    return w;
  }
  void* w = free_.back();
  free_.pop_back();
  return w;
}

void WorkspacePool::release(void* workspace) {
  if (workspace == nullptr) return;
  const std::lock_guard lock(mutex_);
  free_.push_back(workspace);
}

Result<Executable> make_executable(const ir::Kernel& kernel, CodeGenerator& generator, Isa isa) {
  HONE_RETURN_IF_ERROR(ir::verify(kernel));
  HONE_ASSIGN_OR_RETURN(std::unique_ptr<CompiledKernel> compiled, generator.compile(kernel, isa));
  Executable executable;
  executable.kernel = std::move(compiled);
  executable.bounds = ir::task_bounds(kernel);
  executable.workspaces = std::make_unique<WorkspacePool>(ir::workspace_size(kernel));
  return executable;
}

namespace {

// Gives the workspace back also when the interpreter throws for lack of memory.
struct Lease {
  explicit Lease(WorkspacePool& from) : pool(from), workspace(from.acquire()) {}
  ~Lease() { pool.release(workspace); }
  Lease(const Lease&) = delete;
  Lease& operator=(const Lease&) = delete;

  WorkspacePool& pool;
  void* const workspace;
};

}  // namespace

void run_range(void* launch, int64_t begin, int64_t end) {
  auto& call = *static_cast<Launch*>(launch);
  const Lease lease(*call.executable->workspaces);
  if (lease.workspace == nullptr && lease.pool.bytes() > 0) {
    call.out_of_memory.store(true, std::memory_order_relaxed);
    return;
  }
  int64_t tasks[ir::kMaxParallelLoops];
  const CompiledKernel& kernel = *call.executable->kernel;
  const ir::TaskFn entry = kernel.entry();
  for (int64_t t = begin; t < end; ++t) {
    call.space.values(t, tasks);
    if (entry != nullptr) {
      entry(call.buffers, call.params, tasks, lease.workspace);
    } else {
      kernel.run(call.buffers, call.params, tasks, lease.workspace);
    }
  }
}

}  // namespace hone::jit
