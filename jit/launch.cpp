// See launch.h.
#include "jit/launch.h"

#include <algorithm>
#include <utility>

#include "kernels/ir/verify.h"

namespace hone::jit {

void WorkspacePool::drop(AlignedBuffer* workspace) {
  std::erase_if(all_, [&](const std::unique_ptr<AlignedBuffer>& w) { return w.get() == workspace; });
}

void WorkspacePool::drop_smaller(int64_t bytes) {
  for (size_t slot = 0; slot < free_.size(); ++slot) {
    if (free_[slot].load(std::memory_order_relaxed) == nullptr) continue;
    AlignedBuffer* const w = take(slot);
    if (w != nullptr && (w->size() < bytes || !put_back(w))) drop(w);
  }
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

int WorkspacePool::free() const {
  return static_cast<int>(std::count_if(free_.begin(), free_.end(), [](const std::atomic<AlignedBuffer*>& slot) {
    return slot.load(std::memory_order_relaxed) != nullptr;
  }));
}

// The new ones are made before any small one goes: those still serve when there is no memory for larger ones. They are
// put back after the small ones have gone, which hold slots until then.
Status WorkspacePool::reserve(int64_t bytes, int count) {
  if (bytes == 0) return {};
  const std::lock_guard lock(mutex_);
  const int64_t wanted = std::max(bytes, bytes_.load(std::memory_order_relaxed));
  const auto have = std::count_if(all_.begin(), all_.end(), [&](const auto& w) { return w->size() >= wanted; });
  std::vector<std::unique_ptr<AlignedBuffer>> made;
  for (int64_t i = have; i < std::min(count, kKept); ++i) {
    Result<AlignedBuffer> one = AlignedBuffer::allocate(wanted, Touch::kNow);
    if (!one.ok()) return resource_exhausted("no memory for a workspace: " + one.status().message());
    made.push_back(std::make_unique<AlignedBuffer>(std::move(*one)));
  }
  all_.reserve(all_.size() + made.size());
  bytes_.store(wanted, std::memory_order_relaxed);
  drop_smaller(wanted);
  for (std::unique_ptr<AlignedBuffer>& w : made)
    if (put_back(w.get())) all_.push_back(std::move(w));
  return {};
}

AlignedBuffer* WorkspacePool::acquire(int64_t bytes) {
  for (size_t slot = 0; slot < free_.size(); ++slot) {
    if (free_[slot].load(std::memory_order_relaxed) == nullptr) continue;
    AlignedBuffer* const w = take(slot);
    if (w == nullptr) continue;
    if (w->size() >= bytes) return w;
    const std::lock_guard lock(mutex_);
    drop(w);
  }
  const std::lock_guard lock(mutex_);
  const int64_t size = std::max(bytes, bytes_.load(std::memory_order_relaxed));
  Result<AlignedBuffer> made = AlignedBuffer::allocate(size, Touch::kNow);
  if (!made.ok()) return nullptr;
  all_.push_back(std::make_unique<AlignedBuffer>(std::move(*made)));
  bytes_.store(size, std::memory_order_relaxed);
  return all_.back().get();
}

void WorkspacePool::release(AlignedBuffer* workspace) {
  if (workspace->size() >= bytes_.load(std::memory_order_relaxed) && put_back(workspace)) return;
  const std::lock_guard lock(mutex_);
  drop(workspace);
}

Result<Executable> make_executable(const ir::Kernel& kernel, CodeGenerator& generator, Isa isa,
                                   const CompileOptions& options) {
  HONE_RETURN_IF_ERROR(ir::verify(kernel));
  HONE_ASSIGN_OR_RETURN(std::unique_ptr<CompiledKernel> compiled, generator.compile(kernel, isa, options));
  Executable executable;
  executable.kernel = std::move(compiled);
  executable.bounds = ir::task_bounds(kernel);
  executable.workspace_bytes = ir::workspace_size(kernel);
  return executable;
}

namespace {

void run_task(const Executable& executable, const LaunchItem& item, int64_t task, void* workspace) {
  int64_t tasks[ir::kMaxParallelLoops];
  item.space.values(task - (item.end - item.space.count), tasks);
  const CompiledKernel& kernel = *executable.kernel;
  if (const ir::TaskFn entry = kernel.entry()) {
    entry(item.buffers, item.params, tasks, workspace);
  } else {
    kernel.run(item.buffers, item.params, tasks, workspace);
  }
}

}  // namespace

Launch::Launch(const Executable& executable, std::span<LaunchItem> items, WorkspacePool* workspaces, Walk walk)
    : executable_(executable), items_(items), workspaces_(workspaces), walk_(walk) {
  for (LaunchItem& item : items) item.end = tasks_ += item.space.count;
}

Launch::Launch(const Executable& executable, std::span<LaunchItem> items, WorkspacePool* workspaces,
               const LaunchItem& only)
    : executable_(executable), items_(items), workspaces_(workspaces), walk_(Walk::kRange), only_(only) {
  only_.end = tasks_ = only_.space.count;
}

// Items without tasks end where they begin, so the first that ends beyond the task is the one that has it.
const LaunchItem* Launch::item_of(int64_t task) const {
  return &*std::upper_bound(items_.begin(), items_.end(), task,
                            [](int64_t t, const LaunchItem& item) { return t < item.end; });
}

void Launch::run_range(void* launch, int64_t begin, int64_t end) {
  if (begin >= end) return;
  auto& call = *static_cast<Launch*>(launch);
  const int64_t bytes = call.executable_.workspace_bytes;
  // Given back also when the interpreter throws for lack of memory.
  const WorkspaceLease lease(call.workspaces_, bytes);
  if (lease.data() == nullptr && bytes > 0) {
    call.out_of_memory_.store(true, std::memory_order_relaxed);
    return;
  }
  if (call.walk_ == Walk::kRange) {
    call.run_ascending(begin, end, lease.data());
  } else {
    call.run_claimed(lease.data());
  }
}

void Launch::run_ascending(int64_t begin, int64_t end, void* workspace) const {
  for (const LaunchItem* item = item_of(begin); begin < end; ++item) {
    for (const int64_t last = std::min(end, item->end); begin < last; ++begin)
      run_task(executable_, *item, begin, workspace);
  }
}

// Whatever the range was: a region returns when every range has, so nothing that was claimed is still running then.
void Launch::run_claimed(void* workspace) {
  for (;;) {
    const int64_t task = tasks_ - 1 - claimed_.fetch_add(1, std::memory_order_relaxed);
    if (task < 0) return;
    run_task(executable_, *item_of(task), task, workspace);
  }
}

}  // namespace hone::jit
