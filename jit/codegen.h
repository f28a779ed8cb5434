// The seam between LoopIR and machine code. A code generator sees loops, buffers, vectors and masks; it does not know
// which op they compute (tools/check greps this folder for names of ops).
#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "engine/base/isa.h"
#include "engine/base/status.h"
#include "kernels/ir/task.h"

namespace hone::jit {

// Executable form of one LoopIR kernel. Owns its code; immutable, so any number of threads may run it at once.
class CompiledKernel {
 public:
  virtual ~CompiledKernel() = default;

  // Machine code entry, or null for the interpreter. Valid as long as this object lives.
  virtual ir::TaskFn entry() const = 0;
  // Runs one task; same contract as ir::TaskFn.
  virtual void run(void* const* buffers, const int64_t* params, const int64_t* tasks, void* workspace) const {
    entry()(buffers, params, tasks, workspace);
  }
  // The emitted bytes (empty for the interpreter), for disassembly and size accounting.
  virtual std::span<const std::byte> code() const = 0;
};

struct CompileOptions {
  // Whether the code may come from the cache on disk (jit/cache), and is left there. false: it is made now, for those
  // who measure or study the making.
  bool cached = true;
  // Features of the CPU that code is for; those that neither `isa` nor the kernel needs do not matter. Without: those
  // of this CPU, as far as HONE_CPU leaves them.
  std::optional<FeatureSet> cpu = std::nullopt;
};

// Of a CPU that runs machine code of the kernels for `isa`: what the ISA requires, and what their ops need besides.
FeatureSet needed_features(std::span<const ir::Kernel> kernels, Isa isa);
// May machine code of the kernel be made for such a CPU? Error: unsupported, naming what the CPU or the ISA lacks
// (ir::required_features). For code generators; the interpreter needs nothing.
Status check_features(const ir::Kernel& kernel, Isa isa, const CompileOptions& options);

class CodeGenerator {
 public:
  virtual ~CodeGenerator() = default;

  virtual std::string_view name() const = 0;  // "asmjit", "llvm", "interp": a row of backends.inc
  // Changes whenever emitted code may change: library version plus our lowering's own number. Stored with every sample.
  virtual std::string version() const = 0;
  // True when this generator can emit code that runs here for `isa`; the interpreter runs everywhere.
  virtual bool targets(Isa isa) const = 0;
  // True when this generator can emit code for `isa`, be it here or for a machine that is asked about. targets()
  // implies it.
  virtual bool emits(Isa) const { return true; }
  // Compiles a verified kernel; for an ISA that this CPU lacks the result may be looked at, not run. Thread safe.
  // Errors: unsupported (an ISA that it does not emit, a lane count or op that the ISA or the CPU lacks),
  // resource_exhausted (executable memory refused; names the system call and errno), internal.
  virtual Result<std::unique_ptr<CompiledKernel>> compile(const ir::Kernel& kernel, Isa isa,
                                                          const CompileOptions& options) = 0;
  Result<std::unique_ptr<CompiledKernel>> compile(const ir::Kernel& kernel, Isa isa) {
    return compile(kernel, isa, {});
  }
};

// All code generators of this build, in the order of backends.inc (preferred first, interpreter last).
std::span<CodeGenerator* const> code_generators();
// Those that emit machine code. The interpreter is an oracle: it is only used when asked for.
std::vector<CodeGenerator*> compiling_generators();
// Also those of fault.h and llvm/pipelines.h, which no list has. Error: not_found listing the names this build has.
Result<CodeGenerator*> find_code_generator(std::string_view name);

}  // namespace hone::jit
