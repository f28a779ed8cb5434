// LLVM as most users meet it: the same IR of our lowering, but optimised by LLVM's standard passes (default<On>) and
// its standard code generation at that level. What hone's own choice of passes gains or loses is measured against
// these.
#pragma once

#include <string_view>
#include <vector>

#include "jit/codegen.h"

namespace hone::jit {

// "llvm-O0" .. "llvm-O3": found by name, in no list, so that they are measured only where somebody asks. nullptr for
// another name, and for every name in a build without LLVM. Thread safe; they live as long as the process.
CodeGenerator* find_llvm_pipeline(std::string_view name);

// Their names; none in a build without LLVM.
std::vector<std::string_view> llvm_pipeline_names();

}  // namespace hone::jit
