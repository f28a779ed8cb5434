// LoopIR -> relocatable object, in memory.
#pragma once

#include <memory>
#include <mutex>
#include <string>
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

// A compiled object and the function in it.
struct LlvmObject {
  std::unique_ptr<llvm::MemoryBuffer> buffer;
  std::string symbol;
  size_t size = 0;  // bytes of the function
  // Only while HONE_JIT_DUMP is set: LLVM IR and assembly.
  std::string ir, listing;
};

// Compiles kernels; thread safe. A target machine costs a millisecond to make and serves one compile at a time, so idle
// ones are kept.
class LlvmCompiler {
 public:
  LlvmCompiler();
  ~LlvmCompiler();

  Result<LlvmObject> compile(const ir::Kernel& kernel, Isa isa);

 private:
  Result<LlvmObject> compile(const ir::Kernel& kernel, Isa isa, llvm::LLVMTargetMachine& machine);
  std::unique_ptr<llvm::LLVMTargetMachine> take(Isa isa);  // null: none is idle
  void give_back(Isa isa, std::unique_ptr<llvm::LLVMTargetMachine> machine);

  std::mutex mutex_;
  std::vector<std::vector<std::unique_ptr<llvm::LLVMTargetMachine>>> idle_;  // by Isa
};

// The triple that objects are made for: this process's.
std::string llvm_triple();

}  // namespace hone::jit
