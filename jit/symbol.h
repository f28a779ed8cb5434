// The one name of a kernel's code: in the object and the debugger, in a profile, and of the files of HONE_JIT_DUMP.
#pragma once

#include <string>
#include <string_view>

namespace hone::jit {

// "tile_f32_14x32_avx512" made by "asmjit" -> "tile_f32_14x32_avx512_asmjit". Letters, digits and
// '_' only, at most 200 characters, never empty, and not beginning with a digit: a C identifier. Kernels of one name
// and different code share it; who needs them apart has their addresses, or a number behind it.
std::string kernel_symbol(std::string_view kernel_name, std::string_view generator);

}  // namespace hone::jit
