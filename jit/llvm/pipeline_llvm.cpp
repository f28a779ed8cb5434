// LLVM's standard IR passes. In a file of its own, as the header of the pass builder takes longest of all to compile.
//
// Exactness needs nothing from us here: without fast-math flags no pass may fuse, reassociate or assume the absence of
// NaN. What has to be prevented is a call: passes that recognise a loop as memset or memcpy would emit one, and a
// kernel can reach no function of the process. So they are told that there are no library functions.
#include <llvm/Analysis/CGSCCPassManager.h>
#include <llvm/Analysis/LoopAnalysisManager.h>
#include <llvm/Analysis/TargetLibraryInfo.h>
#include <llvm/IR/Module.h>
#include <llvm/IR/PassManager.h>
#include <llvm/Passes/PassBuilder.h>
#include <llvm/Target/TargetMachine.h>

#include "jit/llvm/pipeline_internal.h"

namespace hone::jit {
namespace {

llvm::OptimizationLevel level_of(LlvmPipeline pipeline) {
  switch (pipeline) {
    case LlvmPipeline::kO1:
      return llvm::OptimizationLevel::O1;
    case LlvmPipeline::kO2:
      return llvm::OptimizationLevel::O2;
    case LlvmPipeline::kO3:
      return llvm::OptimizationLevel::O3;
    case LlvmPipeline::kOwn:
    case LlvmPipeline::kO0:
      break;
  }
  return llvm::OptimizationLevel::O0;
}

}  // namespace

llvm::TargetLibraryInfoImpl no_library(const llvm::Triple& triple) {
  llvm::TargetLibraryInfoImpl none(triple);
  none.disableAllFunctions();
  return none;
}

void optimise(llvm::Module& module, llvm::LLVMTargetMachine& machine, LlvmPipeline pipeline) {
  if (pipeline == LlvmPipeline::kOwn) return;
  llvm::PassBuilder builder(&machine);
  llvm::LoopAnalysisManager loops;
  llvm::FunctionAnalysisManager functions;
  llvm::CGSCCAnalysisManager components;
  llvm::ModuleAnalysisManager modules;
  // The first registration of an analysis counts.
  functions.registerPass([&] { return llvm::TargetLibraryAnalysis(no_library(machine.getTargetTriple())); });
  builder.registerModuleAnalyses(modules);
  builder.registerCGSCCAnalyses(components);
  builder.registerFunctionAnalyses(functions);
  builder.registerLoopAnalyses(loops);
  builder.crossRegisterProxies(loops, functions, components, modules);
  const llvm::OptimizationLevel level = level_of(pipeline);
  llvm::ModulePassManager passes = level == llvm::OptimizationLevel::O0 ? builder.buildO0DefaultPipeline(level)
                                                                        : builder.buildPerModuleDefaultPipeline(level);
  passes.run(module, modules);
}

}  // namespace hone::jit
