// See kernel_cache.h.
#include "engine/plan/kernel_cache.h"

#include <algorithm>
#include <chrono>

#include "engine/base/log.h"
#include "kernels/ir/text.h"

namespace hone::plan {

std::shared_ptr<KernelCache::Entry> KernelCache::entry_for(Key key) {
  const std::lock_guard lock(mutex_);
  if (entries_.size() >= purge_at_) {
    // An entry that only this map holds is not being compiled; without its executable it is a leftover.
    // Its lock is free then; taking it makes the last compiling thread's write visible here.
    std::erase_if(entries_, [](const auto& e) {
      if (e.second.use_count() != 1) return false;
      const std::lock_guard idle(e.second->compiling);
      return e.second->executable.expired();
    });
    purge_at_ = std::max<size_t>(64, 2 * entries_.size());
  }
  std::shared_ptr<Entry>& entry = entries_[std::move(key)];
  if (entry == nullptr) entry = std::make_shared<Entry>();
  return entry;
}

Result<KernelCache::Handle> KernelCache::get(const ir::Kernel& kernel, Isa isa, jit::CodeGenerator& generator) {
  const std::shared_ptr<Entry> entry =
      entry_for({ir::hash(kernel), isa, std::string(generator.name()), ir::print(kernel)});
  const std::lock_guard lock(entry->compiling);
  if (Handle alive = entry->executable.lock()) return alive;
  const auto start = std::chrono::steady_clock::now();
  Result<jit::Executable> compiled = jit::make_executable(kernel, generator, isa);
  HONE_LOG_EVENT(LogTopic::kJit, "compile",
                 {{"kernel", kernel.name},
                  {"codegen", generator.name()},
                  {"ns", std::chrono::nanoseconds(std::chrono::steady_clock::now() - start).count()},
                  {"status", compiled.status().ok() ? "ok" : compiled.status().message()}});
  if (!compiled.ok()) return compiled.status();
  auto handle = std::make_shared<const jit::Executable>(std::move(compiled).value());
  entry->executable = handle;
  return Handle(std::move(handle));
}

size_t KernelCache::live() const {
  std::vector<std::shared_ptr<Entry>> all;
  {
    const std::lock_guard lock(mutex_);
    for (const auto& [key, entry] : entries_) all.push_back(entry);
  }
  return static_cast<size_t>(std::count_if(all.begin(), all.end(), [](const std::shared_ptr<Entry>& e) {
    const std::lock_guard lock(e->compiling);
    return !e->executable.expired();
  }));
}

Compiled compile_first(KernelCache& cache, std::span<const ir::Kernel> kernels, Isa isa,
                       std::span<jit::CodeGenerator* const> generators) {
  Compiled result;
  for (jit::CodeGenerator* generator : generators) {
    for (const ir::Kernel& kernel : kernels) {
      Result<KernelCache::Handle> handle = cache.get(kernel, isa, *generator);
      if (!handle.ok()) {
        result.failures.push_back({std::string(generator->name()), handle.status().message()});
        break;
      }
      result.executables.push_back(*std::move(handle));
    }
    if (result.executables.size() == kernels.size()) {
      result.codegen = generator->name();
      break;
    }
    result.executables.clear();
  }
  return result;
}

}  // namespace hone::plan
