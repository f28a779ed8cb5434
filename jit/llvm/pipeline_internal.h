// The IR passes of a pipeline, apart from what else an object needs.
#pragma once

#include "jit/llvm/object.h"

namespace llvm {
class TargetLibraryInfoImpl;
class Triple;
}  // namespace llvm

namespace hone::jit {

// Of a process whose functions a kernel cannot reach: none.
llvm::TargetLibraryInfoImpl no_library(const llvm::Triple& triple);

// default<On> of the pipeline; nothing for kOwn.
void optimise(llvm::Module& module, llvm::LLVMTargetMachine& machine, LlvmPipeline pipeline);

}  // namespace hone::jit
