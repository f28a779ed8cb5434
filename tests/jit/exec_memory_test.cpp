// W^X, refusal, and no leak. The code under test here is a hand-assembled function, so that it runs without any
// generator.
#include "jit/exec_memory.h"

#include <gmock/gmock.h>

#include <array>
#include <fstream>
#include <string>

#include "jit/codegen.h"
#include "tests/jit/sample_kernels.h"

namespace hone::jit {
namespace {

using testing::HasSubstr;

constexpr std::array<std::byte, 6> kReturn42{std::byte{0xb8}, std::byte{42}, std::byte{0},
                                             std::byte{0},    std::byte{0},  std::byte{0xc3}};  // mov eax, 42; ret

// The permissions of the mapping that holds `address`, as in /proc/self/maps ("r-xp"), or "" where there is no such
// file.
std::string permissions(const void* address) {
  std::ifstream maps("/proc/self/maps");
  const auto wanted = reinterpret_cast<uintptr_t>(address);
  for (std::string line; std::getline(maps, line);) {
    size_t dash = 0;
    const uintptr_t lo = std::stoull(line, &dash, 16);
    size_t blank = 0;
    const uintptr_t hi = std::stoull(line.substr(dash + 1), &blank, 16);
    if (wanted >= lo && wanted < hi) return line.substr(dash + 1 + blank + 1, 4);
  }
  return "";
}

TEST(JitExecMemory, RunsAndIsNeverWritable) {
  auto memory = ExecMemory::create(kReturn42);
  ASSERT_TRUE(memory.ok()) << memory.status().to_string();
  EXPECT_EQ(memory->code().size(), kReturn42.size());
  EXPECT_EQ(permissions(memory->code().data()), "r-xp");
#if defined(__x86_64__)
  EXPECT_EQ(reinterpret_cast<int (*)()>(reinterpret_cast<uintptr_t>(memory->code().data()))(), 42);
#endif
}

TEST(JitExecMemory, MovesWithoutUnmapping) {
  ExecMemory a = ExecMemory::create(kReturn42).value();
  const std::byte* at = a.code().data();
  ExecMemory b = std::move(a);
  EXPECT_EQ(b.code().data(), at);
  ExecMemory c = ExecMemory::create({}).value();
  c = std::move(b);
  EXPECT_EQ(c.code().data(), at);
  EXPECT_EQ(c.code()[1], std::byte{42});
}

struct Refused {
  Refused() { refuse_exec_memory_for_testing(true); }
  ~Refused() { refuse_exec_memory_for_testing(false); }
};

// r6: the error names the call, the errno and what to do; nothing is remembered once the refusal ends.
TEST(JitExecMemory, RefusalNamesTheCause) {
  {
    const Refused refused;
    const Status status = exec_memory_available();
    EXPECT_EQ(status.code(), Code::kResourceExhausted);
    EXPECT_THAT(status.message(), HasSubstr("mprotect"));
    EXPECT_THAT(status.message(), HasSubstr("errno 13"));
    EXPECT_THAT(status.message(), HasSubstr("SELinux"));
    for (const Target& t : all_targets()) {
      const auto kernel = t.generator->compile(tile_kernel({.mr = 1, .nr = 4, .k = 3, .lanes = 4}), t.isa);
      ASSERT_FALSE(kernel.ok()) << t.generator->name();
      EXPECT_EQ(kernel.status().code(), Code::kResourceExhausted) << kernel.status().to_string();
    }
  }
  EXPECT_TRUE(exec_memory_available().ok());
}

int mapping_count() {
  std::ifstream maps("/proc/self/maps");
  int lines = 0;
  for (std::string line; std::getline(maps, line);) ++lines;
  return lines;
}

int64_t resident_pages() {
  std::ifstream statm("/proc/self/statm");
  int64_t total = 0, resident = 0;
  statm >> total >> resident;
  return resident;
}

// Sanitizers keep freed memory back and grow their shadow.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr int64_t kSlackPages = int64_t{1} << 30;
#else
constexpr int64_t kSlackPages = 512;
#endif

// r7: memory is flat however many kernels come and go. LLVM compiles a hundred times slower, so it gets fewer.
TEST(JitExecMemory, KernelsLeaveNothingBehind) {
  for (const Target& t : all_targets()) {
    if (!t.generator->targets(t.isa)) continue;
    const int rounds = t.generator->name() == "llvm" ? 100 : 10'000;
    const ir::Kernel kernel = tile_kernel({.mr = 2, .nr = 8, .k = 4, .lanes = 4});
    auto compile = [&](int n) {
      for (int i = 0; i < n; ++i) ASSERT_TRUE(t.generator->compile(kernel, t.isa).ok());
    };
    compile(rounds / 10);
    const int mappings = mapping_count();
    const int64_t pages = resident_pages();
    compile(rounds);
    EXPECT_LE(mapping_count(), mappings + 4) << target_name({t, 0});
    EXPECT_LE(resident_pages(), pages + kSlackPages) << target_name({t, 0});
  }
}

}  // namespace
}  // namespace hone::jit
