#include "jit/symbol.h"

#include <gtest/gtest.h>

namespace hone::jit {
namespace {

TEST(JitSymbol, IsAnIdentifierThatNamesTheGenerator) {
  EXPECT_EQ(kernel_symbol("tile_f32_14x32_avx512", "asmjit"), "tile_f32_14x32_avx512_asmjit");
  EXPECT_EQ(kernel_symbol("tile", "llvm-O2"), "tile_llvm_O2");
  EXPECT_EQ(kernel_symbol("../a b\n", "llvm"), "___a_b__llvm");
  EXPECT_EQ(kernel_symbol("3x4", "llvm"), "_3x4_llvm");
  EXPECT_EQ(kernel_symbol("", "llvm"), "_llvm");
  const std::string longest = kernel_symbol(std::string(100'000, 'x'), "asmjit");
  EXPECT_EQ(longest.size(), 200u);
  EXPECT_TRUE(longest.ends_with("x_asmjit")) << "who made it is never cut off";
}

}  // namespace
}  // namespace hone::jit
