// From relocatable objects to the shared object of a package, by whatever linker this machine has.
#pragma once

#include <string>
#include <vector>

#include "engine/base/status.h"

namespace hone::jit {

// Links `objects` (paths) for `arch` ("x86_64", "aarch64") to the shared object `output`, which needs nothing: no
// start files, no library. The first of these that is installed does it: $HONE_LINKER (a path or a name; a compiler
// driver works as well), ld.lld of this LLVM, ld.lld, then the system's ld or gcc, of the target where that is another.
// No shell sees any of it. Errors: unsupported naming what to install; internal with what the linker said.
Status link_shared(const std::vector<std::string>& objects, const std::string& output, const std::string& arch);

}  // namespace hone::jit
