// The part of writing a package that needs LLVM.
#pragma once

#include <string>

#include "jit/aot/write.h"

namespace hone::jit {

struct AotObject {
  std::string bytes;   // relocatable ELF
  std::string symbol;  // of the kernel's function
};
// All three: unsupported in a build without LLVM.
Result<AotObject> compile_object(const ir::Kernel& kernel, const AotTarget& target);
Result<std::string> aot_arch(Isa isa);  // "x86_64"
Result<std::string> aot_codegen();      // "llvm-19.1.7/5", as the code generator calls itself

}  // namespace hone::jit
