// The passes of a pipeline, apart from what else an object needs.
#pragma once

#include "jit/llvm/object.h"

namespace llvm {
class Pass;
class TargetLibraryInfoImpl;
class Triple;
}  // namespace llvm

namespace hone::jit {

// Of a process whose functions a kernel cannot reach: none.
llvm::TargetLibraryInfoImpl no_library(const llvm::Triple& triple);

// Of code generation, behind instruction selection; the pass manager that it is added to owns it.
llvm::Pass* fold_broadcasts_of_pairs();

// default<On> of the pipeline; nothing for kOwn.
void optimise(llvm::Module& module, llvm::LLVMTargetMachine& machine, LlvmPipeline pipeline);

}  // namespace hone::jit
