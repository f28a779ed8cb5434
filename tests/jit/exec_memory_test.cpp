// W^X, refusal, and no leak. The code under test here is a hand-assembled function, so that it runs without any
// generator.
#include "jit/exec_memory.h"

#include <gmock/gmock.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <thread>

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

// What kernels are compiled with while the test runs: LLVM's come from disk, so that ten thousand take a second.
class Environment {
 public:
  Environment() : folder_(testing::TempDir() + "hone_exec_memory_" + std::to_string(getpid())) {
    setenv("HONE_CACHE", folder_.c_str(), 1);
    setenv("HONE_JIT_SYMBOLS", "gdb", 1);
  }
  ~Environment() {
    setenv("HONE_CACHE", "off", 1);
    unsetenv("HONE_JIT_SYMBOLS");
    std::filesystem::remove_all(folder_);
  }

 private:
  std::string folder_;
};

// r7: memory is flat however many kernels come and go, also when a debugger is told of each.
TEST(JitExecMemory, KernelsLeaveNothingBehind) {
  const Environment environment;
  for (const Target& t : all_targets()) {
    if (!t.generator->targets(t.isa)) continue;
    const ir::Kernel kernel = tile_kernel({.mr = 2, .nr = 8, .k = 4, .lanes = 4});
    auto compile = [&](int n) {
      for (int i = 0; i < n; ++i) ASSERT_TRUE(t.generator->compile(kernel, t.isa).ok());
    };
    compile(1000);
    const int mappings = mapping_count();
    const int64_t pages = resident_pages();
    const size_t live = live_code_bytes();
    compile(10'000);
    EXPECT_LE(mapping_count(), mappings + 4) << target_name({t, 0});
    EXPECT_LE(resident_pages(), pages + kSlackPages) << target_name({t, 0});
    EXPECT_EQ(live_code_bytes(), live) << target_name({t, 0});
  }
}

// All live kernels together are bounded, whoever made them; what is let go makes room.
TEST(JitExecMemory, LiveCodeIsBounded) {
  for (const Target& t : all_targets()) {
    const size_t before = live_code_bytes();
    limit_code_for_testing(before + whole_pages(1) * 10);
    std::vector<std::unique_ptr<CompiledKernel>> kernels;
    Status full;
    for (int i = 0; i < 20 && full.ok(); ++i) {
      auto compiled = t.generator->compile(tile_kernel({.mr = 2, .nr = 8, .k = 4, .lanes = 4}), t.isa);
      full = compiled.status();
      if (compiled.ok()) kernels.push_back(std::move(compiled).value());
    }
    EXPECT_GE(kernels.size(), 3u) << target_name({t, 0});
    EXPECT_LE(kernels.size(), 10u) << target_name({t, 0});
    EXPECT_EQ(full.code(), Code::kResourceExhausted) << full.to_string();
    EXPECT_THAT(full.message(), HasSubstr("may take " + std::to_string(before + whole_pages(1) * 10)));
    EXPECT_GT(live_code_bytes(), before);
    kernels.pop_back();
    EXPECT_TRUE(t.generator->compile(tile_kernel({.mr = 2, .nr = 8, .k = 4, .lanes = 4}), t.isa).ok());
    kernels.clear();
    EXPECT_EQ(live_code_bytes(), before) << target_name({t, 0});
    limit_code_for_testing(0);
  }
}

// Bytes of anonymous memory that may be read and not written: code and its constants.
size_t sealed_bytes() {
  std::ifstream maps("/proc/self/maps");
  size_t bytes = 0;
  for (std::string line; std::getline(maps, line);) {
    std::istringstream words(line);
    std::string range, access, offset, device;
    uint64_t inode = 0;
    words >> range >> access >> offset >> device >> inode;
    if (inode != 0 || line.back() == ']' || (access != "r-xp" && access != "r--p")) continue;
    const size_t dash = range.find('-');
    bytes += std::stoull(range.substr(dash + 1), nullptr, 16) - std::stoull(range.substr(0, dash), nullptr, 16);
  }
  return bytes;
}

// The bound holds what is mapped, and not much less: constants lie in pages of their own.
TEST(JitExecMemory, ASharesSizeIsWhatIsMapped) {
  for (const Target& t : all_targets()) {
    if (!t.generator->targets(t.isa)) continue;
    for (const KernelCase& test : sample_kernels(isa_info(t.isa).lanes_f32())) {
      const size_t mapped = sealed_bytes(), live = live_code_bytes();
      std::vector<std::unique_ptr<CompiledKernel>> kernels;
      for (int i = 0; i < 3; ++i) {
        auto compiled = t.generator->compile(test.kernel, t.isa);
        if (compiled.ok()) kernels.push_back(std::move(compiled).value());
      }
      EXPECT_EQ(live_code_bytes() - live, sealed_bytes() - mapped) << target_name({t, 0}) << " " << test.name;
    }
  }
}

TEST(JitExecMemory, SharesAreCountedOnceWhereverTheyMove) {
  const size_t before = live_code_bytes();
  {
    CodeShare a = CodeShare::take(100).value();
    CodeShare b = std::move(a);
    CodeShare c = CodeShare::take(11).value();
    c = std::move(b);
    EXPECT_EQ(live_code_bytes(), before + 111);
  }
  EXPECT_EQ(live_code_bytes(), before);
  EXPECT_EQ(CodeShare::take(kMaxCodeBytes + 1).status().code(), Code::kResourceExhausted);
  EXPECT_EQ(CodeShare::take(SIZE_MAX).status().code(), Code::kResourceExhausted);
  EXPECT_EQ(live_code_bytes(), before);
}

// Lines of /proc/self/maps that are writable and executable at once.
std::string writable_code() {
  std::ifstream maps("/proc/self/maps");
  std::string found;
  for (std::string line; std::getline(maps, line);) {
    const size_t blank = line.find(' ');
    const std::string access = blank == std::string::npos ? "" : line.substr(blank + 1, 4);
    if (access.size() == 4 && access[1] == 'w' && access[2] == 'x') found += line + "\n";
  }
  return found;
}

// W^X for every generator, watched by another thread while kernels are made, live and go.
TEST(JitExecMemory, NoPageIsEverWritableAndExecutable) {
  if (!writable_code().empty()) GTEST_SKIP() << "this process has such pages already: " << writable_code();
  for (const Target& t : all_targets()) {
    std::atomic<bool> done{false};
    std::string seen;
    int looks = 0;
    std::thread watcher([&] {
      for (; !done.load() || looks == 0; ++looks)
        if (seen.empty()) seen = writable_code();
    });
    std::vector<std::unique_ptr<CompiledKernel>> kernels;
    for (int i = 0; i < 40; ++i) {
      auto compiled = t.generator->compile(tile_kernel({.mr = 1 + i % 4, .nr = 8, .k = 4, .lanes = 4}), t.isa);
      ASSERT_TRUE(compiled.ok());
      EXPECT_EQ(permissions((*compiled)->code().data()), "r-xp") << target_name({t, 0});
      kernels.push_back(std::move(compiled).value());
      if (i % 3 == 0) kernels.erase(kernels.begin());
    }
    done = true;
    watcher.join();
    EXPECT_EQ(seen, "") << target_name({t, 0});
    EXPECT_GT(looks, 0);
  }
}

}  // namespace
}  // namespace hone::jit
