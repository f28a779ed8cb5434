// The debugger itself: it runs a process of ours, stops in a kernel by its name, and says whose code that is.
#include <gmock/gmock.h>

#include <array>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <string>

#include "jit/symbol.h"
#include "tests/jit/differential.h"
#include "tests/jit/sample_kernels.h"

namespace hone::jit {
namespace {

using testing::HasSubstr;

KernelCase stop_here(const Target& t) {
  ir::Kernel kernel = tile_kernel({.mr = 2, .nr = 8, .k = 4, .lanes = 4});
  kernel.name = "stop_here_" + std::string(isa_info(t.isa).name);
  return {kernel.name, kernel, {{}}};
}

std::string output_of(const std::string& command) {
  FILE* pipe = popen((command + " 2>&1").c_str(), "r");
  std::string text;
  std::array<char, 4096> buffer = {};
  while (pipe != nullptr && fgets(buffer.data(), buffer.size(), pipe) != nullptr) text += buffer.data();
  if (pipe != nullptr) pclose(pipe);
  return text;
}

// What the debugger runs; by itself it only shows that kernels run while they are announced.
TEST(JitGdb, TheProcessUnderTheDebugger) {
  setenv("HONE_JIT_SYMBOLS", "gdb", 1);
  for (const Target& t : all_targets())
    if (t.generator->targets(t.isa)) expect_like_interpreter(stop_here(t), t, 1);
  unsetenv("HONE_JIT_SYMBOLS");
}

TEST(JitGdb, StopsInAKernelByName) {
  // The leak sanitizer cannot work in a process that is traced.
  const std::string gdb =
      "gdb --batch -nx -iex 'set debuginfod enabled off' -ex 'set environment ASAN_OPTIONS detect_leaks=0' ";
  if (output_of(gdb + "-ex run /bin/true").find("exited normally") == std::string::npos)
    GTEST_SKIP() << "there is no gdb here, or it may not run a process";
  const std::string self = std::filesystem::read_symlink("/proc/self/exe").string();
  for (const Target& t : all_targets()) {
    if (!t.generator->targets(t.isa)) continue;
    const std::string symbol = kernel_symbol(stop_here(t).name, t.generator->name());
    const std::string said = output_of(gdb + "-ex 'set breakpoint pending on' -ex 'break " + symbol +
                                       "' -ex run -ex 'info symbol $pc' -ex 'delete' -ex continue --args '" + self +
                                       "' --gtest_filter=JitGdb.TheProcessUnderTheDebugger");
    EXPECT_THAT(said, HasSubstr("in " + symbol + " ()"));
    EXPECT_THAT(said, testing::ContainsRegex(symbol + "( \\+ [0-9]+)? in section .text of"));
    EXPECT_THAT(said, HasSubstr("exited normally")) << "and goes on from there";
  }
}

}  // namespace
}  // namespace hone::jit
