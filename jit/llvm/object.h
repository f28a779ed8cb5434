// LoopIR -> relocatable object, in memory.
#pragma once

#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "engine/base/isa.h"
#include "engine/base/status.h"
#include "kernels/ir/ir.h"

namespace llvm {
class LLVMTargetMachine;
class MemoryBuffer;
class Module;
}  // namespace llvm

namespace hone::jit {

// Who optimises.
enum class LlvmPipeline : uint8_t {
  kOwn,  // our lowering, whose loops are in their final form; LLVM only generates code, without its IR preparation
  kO0,   // LLVM's standard passes and code generation of that level on the same IR (pipelines.h)
  kO1,
  kO2,
  kO3,
};

// CodeGenerator::name() of a pipeline.
constexpr std::string_view generator_name(LlvmPipeline pipeline) {
  constexpr std::string_view kNames[] = {"llvm", "llvm-O0", "llvm-O1", "llvm-O2", "llvm-O3"};
  return kNames[static_cast<size_t>(pipeline)];
}

// What code is made for. Values that compare equal give equal objects from equal kernels.
struct LlvmTarget {
  Isa isa = Isa::kAvx2;  // the instructions that may be used, and nothing else may
  // LLVM's name of the CPU whose machine model schedules the code; "": ours for the ISA (object_llvm.cpp).
  std::string tune;
  LlvmPipeline pipeline = LlvmPipeline::kOwn;
  bool operator==(const LlvmTarget&) const = default;
};

// All that decides the object besides the kernel, as text: triple, features, tuning, pipeline. A part of the key of the
// cache on disk.
std::string target_text(const LlvmTarget& target);

// A compiled object and the function in it.
struct LlvmObject {
  std::unique_ptr<llvm::MemoryBuffer> buffer;
  std::string symbol;
  size_t size = 0;  // bytes of the function
  // Only while HONE_JIT_DUMP is set: LLVM IR and assembly.
  std::string ir, listing;
};

// Bytes of a function in an object; 0 when that is no object, or has no such function.
size_t symbol_size(const llvm::MemoryBuffer& object, std::string_view symbol);
// Bytes that the linker maps for an object: what is protected alike lies in pages of its own. That of the buffer when
// it is no object.
size_t mapped_size(const llvm::MemoryBuffer& object);

// Compiles kernels; thread safe. A target machine costs a millisecond to make and serves one compile at a time, so idle
// ones are kept.
class LlvmCompiler {
 public:
  LlvmCompiler();
  ~LlvmCompiler();

  Result<LlvmObject> compile(const ir::Kernel& kernel, const LlvmTarget& target);

 private:
  struct Idle {
    LlvmTarget target;
    std::unique_ptr<llvm::LLVMTargetMachine> machine;
  };
  Result<LlvmObject> compile(const ir::Kernel& kernel, const LlvmTarget& target, llvm::LLVMTargetMachine& machine);
  std::unique_ptr<llvm::LLVMTargetMachine> take(const LlvmTarget& target);  // null: none is idle

  std::mutex mutex_;
  std::vector<Idle> idle_;
};

// LLVM's names of the features that an ISA requires.
std::vector<std::string> llvm_features(Isa isa);
// The triple that objects for an ISA are made for.
std::string llvm_triple(Isa isa);
// False: this LLVM was built without the target. From now on LLVM's registry has it otherwise.
bool llvm_emits(Isa isa);

}  // namespace hone::jit
