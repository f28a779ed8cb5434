// The asmjit ("native") code generator. Machine code comes out of asmjit's register allocating compiler in under a
// millisecond, so it is what the tuner and a cold start use first. A CodeHolder and a Compiler are kept per thread:
// their arenas are warm for the next kernel, which is most of the difference between a first and a later compile.
#include <asmjit/x86.h>

#include <chrono>
#include <new>
#include <utility>

#include "engine/base/log.h"
#include "jit/announce/announce.h"
#include "jit/asmjit/lower_internal.h"
#include "jit/codegen.h"
#include "jit/dump.h"
#include "jit/exec_memory.h"
#include "jit/symbol.h"

namespace hone::jit {

namespace {

// Raise whenever emitted code may change.
constexpr int kLoweringVersion = 3;

// Arenas beyond this are given back after a kernel; smaller ones stay for the next.
constexpr size_t kKeepCodeBytes = 256 << 10;

class FirstError final : public asmjit::ErrorHandler {
 public:
  void handleError(asmjit::Error error, const char* message, asmjit::BaseEmitter*) override {
    if (status_.ok())
      status_ = internal_error(std::string("asmjit: ") + asmjit::DebugUtils::errorAsString(error) + ": " + message);
  }
  // asmjit calls the handler for errors while emitting; those of CodeHolder are only returned.
  void check(asmjit::Error error, const char* what) {
    if (error != asmjit::kErrorOk && status_.ok())
      status_ = internal_error(std::string("asmjit: ") + what + ": " + asmjit::DebugUtils::errorAsString(error));
  }
  const Status& status() const { return status_; }

 private:
  Status status_;
};

// What one compilation leaves in the thread's CodeHolder: `bytes` of code and constants, the first `instructions` of
// them instructions. The code is position independent (constants are addressed relative to rip).
struct Assembled {
  std::span<const std::byte> bytes;
  size_t instructions;
};

class Workbench {
 public:
  ~Workbench() { finish(); }

  Result<Assembled> assemble(const ir::Kernel& kernel, Isa isa, asmjit::Logger* logger) {
    errors_.check(code_.init(asmjit::Environment::host()), "init");
    code_.setErrorHandler(&errors_);
    if (logger != nullptr) code_.setLogger(logger);
    errors_.check(code_.attach(&compiler_), "attach");
    HONE_RETURN_IF_ERROR(errors_.status());
    // Padding in front of loops is executed, once a row of a softmax: a few long nops, not up to 63 of one byte.
    compiler_.addEncodingOptions(asmjit::EncodingOptions::kOptimizedAlign);
    HONE_RETURN_IF_ERROR(lower_kernel(kernel, isa, compiler_));
    const asmjit::Label end = compiler_.newLabel();
    compiler_.bind(end);  // constants follow
    HONE_RETURN_IF_ERROR(errors_.status());
    errors_.check(compiler_.finalize(), "finalize");
    HONE_RETURN_IF_ERROR(errors_.status());
    errors_.check(code_.flatten(), "flatten");
    errors_.check(code_.resolveUnresolvedLinks(), "link");
    HONE_RETURN_IF_ERROR(errors_.status());
    if (code_.hasRelocEntries() || code_.sectionCount() != 1)
      return internal_error("asmjit: code of kernel '" + kernel.name + "' is not position independent");
    const asmjit::CodeBuffer& buffer = code_.textSection()->buffer();
    return Assembled{{reinterpret_cast<const std::byte*>(buffer.data()), buffer.size()},
                     static_cast<size_t>(code_.labelOffset(end))};
  }

  void finish() {
    if (!code_.isInitialized()) return;
    const bool keep = code_.codeSize() <= kKeepCodeBytes;
    code_.reset(keep ? asmjit::ResetPolicy::kSoft : asmjit::ResetPolicy::kHard);
    errors_ = FirstError();
  }

 private:
  FirstError errors_;
  asmjit::CodeHolder code_;
  asmjit::x86::Compiler compiler_;
};

// The calling thread's workbench, cleared when the user is done with what was assembled.
class WorkbenchUse {
 public:
  ~WorkbenchUse() { bench_.finish(); }
  Workbench* operator->() { return &bench_; }

 private:
  static Workbench& of_thread() {
    thread_local Workbench bench;
    return bench;
  }
  Workbench& bench_ = of_thread();
};

class NativeKernel final : public CompiledKernel {
 public:
  NativeKernel(const std::string& symbol, ExecMemory memory, size_t instructions)
      : memory_(std::move(memory)),
        instructions_(instructions),
        announcement_(symbol, memory_.code().first(instructions)) {}
  ir::TaskFn entry() const override {
    return reinterpret_cast<ir::TaskFn>(const_cast<std::byte*>(memory_.code().data()));
  }
  std::span<const std::byte> code() const override { return memory_.code().first(instructions_); }

 private:
  ExecMemory memory_;
  size_t instructions_;
  CodeAnnouncement announcement_;  // goes before the memory
};

Result<std::unique_ptr<CompiledKernel>> compile_kernel(const ir::Kernel& kernel, Isa isa) {
  const auto start = std::chrono::steady_clock::now();
  WorkbenchUse bench;
  const bool dump = dump_enabled();
  asmjit::StringLogger listing;
  HONE_ASSIGN_OR_RETURN(const Assembled code, bench->assemble(kernel, isa, dump ? &listing : nullptr));
  if (dump) {
    const std::string_view instructions(reinterpret_cast<const char*>(code.bytes.data()), code.instructions);
    dump_kernel(kernel, "asmjit", {{"s", {listing.data(), listing.dataSize()}}, {"bin", instructions}});
  }
  HONE_ASSIGN_OR_RETURN(ExecMemory memory, ExecMemory::create(code.bytes));
  HONE_LOG_EVENT(LogTopic::kJit, "compile",
                 {{"codegen", "asmjit"},
                  {"kernel", kernel.name},
                  {"isa", isa_info(isa).name},
                  {"bytes", code.instructions},
                  {"ns", std::chrono::nanoseconds(std::chrono::steady_clock::now() - start).count()}});
  return std::unique_ptr<CompiledKernel>(
      std::make_unique<NativeKernel>(kernel_symbol(kernel.name, "asmjit"), std::move(memory), code.instructions));
}

Status out_of_memory(const ir::Kernel& kernel) {
  return resource_exhausted("out of memory while compiling kernel '" + kernel.name + "' with asmjit");
}

class AsmjitGenerator final : public CodeGenerator {
 public:
  AsmjitGenerator() {
    const asmjit::CpuFeatures::X86& cpu = asmjit::CpuInfo::host().features().x86();
    avx2_ = cpu.hasAVX2() && cpu.hasFMA() && cpu.hasBMI2();
    avx512_ = avx2_ && cpu.hasAVX512_F() && cpu.hasAVX512_DQ() && cpu.hasAVX512_BW() && cpu.hasAVX512_VL();
  }
  std::string_view name() const override { return "asmjit"; }
  std::string version() const override {
    return "asmjit-" + std::to_string(ASMJIT_LIBRARY_VERSION >> 16) + "." +
           std::to_string((ASMJIT_LIBRARY_VERSION >> 8) & 0xff) + "." + std::to_string(ASMJIT_LIBRARY_VERSION & 0xff) +
           "-" + std::to_string(kLoweringVersion);
  }
  bool targets(Isa isa) const override { return emits(isa) && (isa == Isa::kAvx512 ? avx512_ : avx2_); }
  bool emits(Isa isa) const override { return isa_info(isa).arch == Arch::kX86_64; }
  Result<std::unique_ptr<CompiledKernel>> compile(const ir::Kernel& kernel, Isa isa,
                                                  const CompileOptions& options) override {
    if (!emits(isa)) return unsupported("asmjit emits no code for " + std::string(isa_info(isa).name));
    HONE_RETURN_IF_ERROR(check_features(kernel, isa, options));
    try {
      return compile_kernel(kernel, isa);
    } catch (const std::bad_alloc&) {
      return out_of_memory(kernel);
    }
  }

 private:
  bool avx2_ = false, avx512_ = false;
};

}  // namespace

std::unique_ptr<CodeGenerator> make_asmjit_generator() { return std::make_unique<AsmjitGenerator>(); }

}  // namespace hone::jit
