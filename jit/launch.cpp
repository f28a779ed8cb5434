// See launch.h.
#include "jit/launch.h"

#include <algorithm>
#include <utility>

#include "kernels/ir/verify.h"

namespace hone::jit {

Result<AlignedBuffer*> WorkspacePool::make(int64_t bytes) {
  bytes = std::max(bytes, bytes_.load(std::memory_order_relaxed));
  HONE_ASSIGN_OR_RETURN(AlignedBuffer memory, AlignedBuffer::allocate(bytes, Touch::kNow));
  all_.push_back(std::make_unique<AlignedBuffer>(std::move(memory)));
  bytes_.store(bytes, std::memory_order_relaxed);
  return all_.back().get();
}

void WorkspacePool::drop(AlignedBuffer* workspace) {
  std::erase_if(all_, [&](const std::unique_ptr<AlignedBuffer>& w) { return w.get() == workspace; });
}

bool WorkspacePool::put_back(AlignedBuffer* workspace) {
  for (std::atomic<AlignedBuffer*>& slot : free_) {
    AlignedBuffer* none = nullptr;
    if (slot.load(std::memory_order_relaxed) == nullptr &&
        slot.compare_exchange_strong(none, workspace, std::memory_order_release, std::memory_order_relaxed))
      return true;
  }
  return false;
}

Status WorkspacePool::reserve(int64_t bytes, int count) {
  if (bytes == 0) return {};
  const std::lock_guard lock(mutex_);
  const int64_t wanted = std::max(bytes, bytes_.load(std::memory_order_relaxed));
  const auto large = [&](const std::unique_ptr<AlignedBuffer>& w) { return w->size() >= wanted; };
  for (auto have = std::count_if(all_.begin(), all_.end(), large); have < count; ++have) {
    Result<AlignedBuffer*> made = make(wanted);
    if (!made.ok()) return resource_exhausted("no memory for a workspace: " + made.status().message());
    if (!put_back(*made)) drop(*made);
  }
  for (size_t slot = 0; slot < kKept; ++slot) {
    if (free_[slot].load(std::memory_order_relaxed) == nullptr) continue;
    AlignedBuffer* const w = take(slot);
    if (w != nullptr && (w->size() < wanted || !put_back(w))) drop(w);
  }
  return {};
}

AlignedBuffer* WorkspacePool::acquire(int64_t bytes) {
  for (size_t slot = 0; slot < kKept; ++slot) {
    if (free_[slot].load(std::memory_order_relaxed) == nullptr) continue;
    AlignedBuffer* const w = take(slot);
    if (w == nullptr) continue;
    if (w->size() >= bytes) return w;
    const std::lock_guard lock(mutex_);
    drop(w);
  }
  const std::lock_guard lock(mutex_);
  const Result<AlignedBuffer*> made = make(bytes);
  return made.ok() ? *made : nullptr;
}

void WorkspacePool::release(AlignedBuffer* workspace) {
  if (workspace->size() >= bytes_.load(std::memory_order_relaxed) && put_back(workspace)) return;
  const std::lock_guard lock(mutex_);
  drop(workspace);
}

Result<Executable> make_executable(const ir::Kernel& kernel, CodeGenerator& generator, Isa isa) {
  HONE_RETURN_IF_ERROR(ir::verify(kernel));
  HONE_ASSIGN_OR_RETURN(std::unique_ptr<CompiledKernel> compiled, generator.compile(kernel, isa));
  Executable executable;
  executable.kernel = std::move(compiled);
  executable.bounds = ir::task_bounds(kernel);
  executable.workspace_bytes = ir::workspace_size(kernel);
  return executable;
}

namespace {

// Gives the workspace back also when the interpreter throws for lack of memory.
struct Lease {
  Lease(WorkspacePool* from, int64_t bytes) : pool(from), workspace(bytes == 0 ? nullptr : from->acquire(bytes)) {}
  ~Lease() {
    if (workspace != nullptr) pool->release(workspace);
  }
  Lease(const Lease&) = delete;
  Lease& operator=(const Lease&) = delete;
  void* data() const { return workspace == nullptr ? nullptr : workspace->data(); }

  WorkspacePool* const pool;
  AlignedBuffer* const workspace;
};

}  // namespace

void run_range(void* launch, int64_t begin, int64_t end) {
  auto& call = *static_cast<Launch*>(launch);
  const int64_t bytes = call.executable->workspace_bytes;
  const Lease lease(call.workspaces, bytes);
  if (lease.workspace == nullptr && bytes > 0) {
    call.out_of_memory.store(true, std::memory_order_relaxed);
    return;
  }
  int64_t tasks[ir::kMaxParallelLoops];
  const CompiledKernel& kernel = *call.executable->kernel;
  const ir::TaskFn entry = kernel.entry();
  for (int64_t t = begin; t < end; ++t) {
    call.space.values(t, tasks);
    if (entry != nullptr) {
      entry(call.buffers, call.params, tasks, lease.data());
    } else {
      kernel.run(call.buffers, call.params, tasks, lease.data());
    }
  }
}

}  // namespace hone::jit
