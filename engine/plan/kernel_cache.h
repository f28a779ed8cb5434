// Compiled kernels, shared by all who need the same code: one compilation per (LoopIR, ISA, code generator), whatever
// problem or M bucket asked. Thread safe. Entries are weak: code lives as long as a plan uses it, so memory stays flat
// however many plans come and go.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <tuple>
#include <vector>

#include "jit/codegen.h"
#include "jit/launch.h"

namespace hone::plan {

class KernelCache {
 public:
  using Handle = std::shared_ptr<const jit::Executable>;

  // The executable, compiled if nobody holds it. Two callers who want the same get the same; callers who want different
  // kernels do not wait for each other. Error: that of jit::make_executable; failures are not remembered.
  Result<Handle> get(const ir::Kernel& kernel, Isa isa, jit::CodeGenerator& generator);

  size_t live() const;  // kernels in use now

 private:
  // The text is part of the key, as two programs with one hash must not become one kernel.
  using Key = std::tuple<uint64_t, Isa, std::string, std::string>;
  struct Entry {
    std::mutex compiling;
    std::weak_ptr<const jit::Executable> executable;
  };
  std::shared_ptr<Entry> entry_for(Key key);

  mutable std::mutex mutex_;
  std::map<Key, std::shared_ptr<Entry>> entries_;
  size_t purge_at_ = 64;
};

struct CompileFailure {
  std::string codegen, why;
};

struct Compiled {
  std::vector<KernelCache::Handle> executables;  // one for each kernel; empty when every generator failed
  std::string codegen;                           // of all of them
  std::vector<CompileFailure> failures;          // of the generators that were tried before
};

// Tries the generators in order until one compiles all the kernels of a program.
Compiled compile_first(KernelCache& cache, std::span<const ir::Kernel> kernels, Isa isa,
                       std::span<jit::CodeGenerator* const> generators);

}  // namespace hone::plan
