// What a shared object would do if it were loaded, read from its bytes.
//
// dlopen() runs constructors, follows DT_NEEDED to other libraries, makes the stack executable for an object that does
// not say that it need not, and trusts every offset. The objects of a package are kernels and nothing else: they need
// none of that, so an object that asks for any of it is refused before the dynamic loader sees it.
//
// (This keeps a package from doing anything when it is loaded, and a damaged one from crashing the loader. It makes no
// kernel trustworthy: whoever may write a package may write its machine code.)
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "engine/base/status.h"

namespace hone::jit {

struct ElfFunction {
  std::string name;
  uint64_t size = 0;
};

// The functions that the object exports. Error: data_loss saying what is not as a package's object must be:
//   a 64-bit little-endian ELF shared object, whole, for the machine `arch` ("x86_64", "aarch64")
//   needs no other library and no symbol of one, has no constructors, destructors or search paths
//   no relocations: loading it writes nothing
//   no segment is writable and executable, nor the stack executable
Result<std::vector<ElfFunction>> check_elf_object(std::span<const std::byte> bytes, const std::string& arch);

}  // namespace hone::jit
