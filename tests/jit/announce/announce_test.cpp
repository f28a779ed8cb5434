// What perf and GDB are told, read back: names, addresses, sizes and bytes are those of the kernels, for every code
// generator; who is not asked for is not told; and nothing of it keeps a kernel from running.
#include "jit/announce/announce.h"

#include <elf.h>
#include <fcntl.h>
#include <gmock/gmock.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <thread>

#include "jit/announce/gdb_interface.h"
#include "jit/symbol.h"
#include "tests/jit/differential.h"
#include "tests/jit/sample_kernels.h"

namespace hone::jit {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;
using testing::IsEmpty;

std::string read_file(const fs::path& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

std::string perf_map(pid_t pid = getpid()) { return "/tmp/perf-" + std::to_string(pid) + ".map"; }

// The list as a debugger reads it.
int registered() {
  int count = 0;
  for (const jit_code_entry* e = __jit_debug_descriptor.first_entry; e != nullptr; e = e->next_entry) ++count;
  return count;
}

// A folder for jitdump, the environment, and kernels of every generator; each test runs in a process of its own under
// ctest, and cleans up for when it does not.
class JitAnnounce : public testing::Test {
 protected:
  JitAnnounce() : folder_(fs::path(testing::TempDir()) / ("hone_jitdump_" + std::to_string(getpid()))) {
    fs::remove_all(folder_);
    fs::remove(perf_map());
    setenv("JITDUMPDIR", folder_.c_str(), 1);
  }
  ~JitAnnounce() override {
    unsetenv("HONE_JIT_SYMBOLS");
    unsetenv("JITDUMPDIR");
    fs::remove_all(folder_);
    fs::remove(perf_map());
  }

  static void tell(const char* whom) { setenv("HONE_JIT_SYMBOLS", whom, 1); }
  static std::unique_ptr<CompiledKernel> compile(const Target& t, int mr = 2) {
    auto compiled = t.generator->compile(tile_kernel({.mr = mr, .nr = 8, .k = 4, .lanes = 4}), t.isa);
    EXPECT_TRUE(compiled.ok()) << compiled.status().to_string();
    return compiled.ok() ? std::move(compiled).value() : nullptr;
  }
  static std::string symbol(const Target& t, int mr = 2) {
    return kernel_symbol(tile_kernel({.mr = mr, .nr = 8, .k = 4, .lanes = 4}).name, t.generator->name());
  }

  fs::path folder_;
};

TEST(JitAnnouncees, AreNamed) {
  EXPECT_TRUE(parse_announcees("map, jitdump ,gdb").map);
  EXPECT_TRUE(parse_announcees("map, jitdump ,gdb").jitdump);
  EXPECT_TRUE(parse_announcees("map, jitdump ,gdb").gdb);
  EXPECT_EQ(parse_announcees("map,,gdb").warning, "");
  EXPECT_FALSE(parse_announcees("map").gdb);
  const Announcees some = parse_announcees("perf,gdb");
  EXPECT_TRUE(some.gdb);
  EXPECT_EQ(some.warning, "unknown name 'perf'; known: map, jitdump, gdb");
}

TEST_F(JitAnnounce, NobodyUnlessAsked) {
  for (const char* whom : {"", "  ", ","}) {
    tell(whom);
    for (const Target& t : all_targets()) {
      const auto kernel = compile(t);
      EXPECT_EQ(registered(), 0);
    }
  }
  EXPECT_FALSE(fs::exists(perf_map()));
  EXPECT_FALSE(fs::exists(folder_));
}

TEST_F(JitAnnounce, PerfMapHasALineForEachKernel) {
  tell("map");
  std::string expected;
  std::vector<std::unique_ptr<CompiledKernel>> kernels;
  for (const Target& t : all_targets()) {
    kernels.push_back(compile(t));
    std::ostringstream line;
    line << std::hex << reinterpret_cast<uintptr_t>(kernels.back()->code().data()) << " "
         << kernels.back()->code().size() << " " << symbol(t) << "\n";
    expected += line.str();
  }
  EXPECT_EQ(read_file(perf_map()), expected);
  struct stat facts = {};
  if (!expected.empty()) {
    ASSERT_EQ(stat(perf_map().c_str(), &facts), 0);
    EXPECT_EQ(facts.st_mode & 022, 0u);
  }
}

// A map that a process of the same number left has its names and other addresses; one of this process's life is another
// JIT's, and stays.
TEST_F(JitAnnounce, PerfMapOfAnEarlierProcessIsNotAddedTo) {
  if (all_targets().empty()) GTEST_SKIP() << "this build has no code generator";
  for (const bool stale : {true, false}) {
    const pid_t child = fork();
    if (child == 0) {
      std::ofstream(perf_map()) << "1000 10 another\n";
      const timespec times[2] = {{1'700'000'000, 0}, {1'700'000'000, 0}};
      if (stale && utimensat(AT_FDCWD, perf_map().c_str(), times, 0) != 0) _exit(2);
      tell("map");
      const auto first = compile(all_targets().front()), second = compile(all_targets().front(), 3);
      _exit(first != nullptr && second != nullptr ? 0 : 1);
    }
    int status = 0;
    waitpid(child, &status, 0);
    EXPECT_EQ(status, 0);
    const std::string map = read_file(perf_map(child));
    fs::remove(perf_map(child));
    EXPECT_EQ(map.starts_with("1000 10 another\n"), !stale) << map;
    EXPECT_EQ(std::count(map.begin(), map.end(), '\n'), stale ? 2 : 3) << map;
    EXPECT_THAT(map, HasSubstr(symbol(all_targets().front(), 3)));
  }
}

// The file as perf's specification has it, read without the writer's structures.
struct Record {
  uint32_t id, bytes;
  uint64_t timestamp;
  std::string body;
};
template <typename T>
T take(std::string_view& in) {
  T value{};
  EXPECT_GE(in.size(), sizeof value);
  std::memcpy(&value, in.data(), std::min(sizeof value, in.size()));
  in.remove_prefix(std::min(sizeof value, in.size()));
  return value;
}

void check_header(std::string_view& in) {
  EXPECT_EQ(take<uint32_t>(in), 0x4A695444u);
  EXPECT_EQ(take<uint32_t>(in), 1u) << "version";
  EXPECT_EQ(take<uint32_t>(in), 40u) << "size of the header";
#if defined(__x86_64__)
  EXPECT_EQ(take<uint32_t>(in), 62u) << "EM_X86_64";
#else
  take<uint32_t>(in);
#endif
  EXPECT_EQ(take<uint32_t>(in), 0u) << "padding";
  EXPECT_EQ(take<uint32_t>(in), static_cast<uint32_t>(getpid()));
  EXPECT_GT(take<uint64_t>(in), 0u) << "time";
  EXPECT_EQ(take<uint64_t>(in), 0u) << "flags";
}

TEST_F(JitAnnounce, JitdumpHasARecordForEachKernelWithItsBytes) {
  tell("jitdump");
  std::vector<std::unique_ptr<CompiledKernel>> kernels;
  for (const Target& t : all_targets()) kernels.push_back(compile(t));
  if (kernels.empty()) GTEST_SKIP() << "this build has no code generator";
  const std::string file = read_file(folder_ / ("jit-" + std::to_string(getpid()) + ".dump"));
  std::string_view in = file;
  check_header(in);
  uint64_t last = 0;
  for (size_t i = 0; i < kernels.size(); ++i) {
    const size_t before = in.size();
    const std::span<const std::byte> code = kernels[i]->code();
    const auto address = reinterpret_cast<uint64_t>(code.data());
    EXPECT_EQ(take<uint32_t>(in), 0u) << "JIT_CODE_LOAD";
    const auto bytes = take<uint32_t>(in);
    const auto time = take<uint64_t>(in);
    EXPECT_GE(time, last);
    last = time;
    EXPECT_EQ(take<uint32_t>(in), static_cast<uint32_t>(getpid()));
    EXPECT_GT(take<uint32_t>(in), 0u) << "thread";
    EXPECT_EQ(take<uint64_t>(in), address);
    EXPECT_EQ(take<uint64_t>(in), address);
    EXPECT_EQ(take<uint64_t>(in), code.size());
    EXPECT_EQ(take<uint64_t>(in), i) << "each has its own index";
    const std::string name(in.substr(0, in.find('\0')));
    EXPECT_EQ(name, symbol(all_targets()[i]));
    in.remove_prefix(name.size() + 1);
    EXPECT_EQ(in.substr(0, code.size()), std::string_view(reinterpret_cast<const char*>(code.data()), code.size()));
    in.remove_prefix(code.size());
    EXPECT_EQ(before - in.size(), bytes);
  }
  EXPECT_TRUE(in.empty());
}

// perf finds the file because a page of it is mapped executable; it is not writable there.
TEST_F(JitAnnounce, JitdumpIsMappedForPerfToSee) {
  if (all_targets().empty()) GTEST_SKIP() << "this build has no code generator";
  tell("jitdump");
  const auto kernel = compile(all_targets().front());
  std::ifstream maps("/proc/self/maps");
  std::string found;
  for (std::string line; std::getline(maps, line);)
    if (line.ends_with("/jit-" + std::to_string(getpid()) + ".dump")) found = line;
  EXPECT_THAT(found, HasSubstr(" r-xp "));
}

TEST_F(JitAnnounce, JitdumpWithoutAFolderGoesToHome) {
  if (all_targets().empty()) GTEST_SKIP() << "this build has no code generator";
  // A process of its own: the file of this one may be open already.
  const pid_t child = fork();
  if (child == 0) {
    unsetenv("JITDUMPDIR");
    setenv("HOME", folder_.c_str(), 1);
    tell("jitdump");
    _exit(compile(all_targets().front()) != nullptr ? 0 : 1);
  }
  int status = 0;
  waitpid(child, &status, 0);
  ASSERT_EQ(status, 0);
  std::vector<fs::path> dumps;
  for (const fs::directory_entry& e : fs::recursive_directory_iterator(folder_ / ".debug/jit"))
    if (e.is_regular_file()) dumps.push_back(e.path());
  ASSERT_EQ(dumps.size(), 1u);
  EXPECT_EQ(dumps[0].filename(), "jit-" + std::to_string(child) + ".dump");
  EXPECT_THAT(dumps[0].parent_path().filename().string(), testing::StartsWith("hone-"));
}

// r1: a child has a map and a dump of its own, and the parent's are as they were.
TEST_F(JitAnnounce, AfterAForkTheChildWritesItsOwnFiles) {
  if (all_targets().empty()) GTEST_SKIP() << "this build has no code generator";
  const Target t = all_targets().front();
  tell("map,jitdump,gdb");
  const auto ours = compile(t);
  const fs::path dump = folder_ / ("jit-" + std::to_string(getpid()) + ".dump");
  const std::string map_before = read_file(perf_map()), dump_before = read_file(dump);
  const pid_t child = fork();
  if (child == 0) {
    const auto kernel = compile(t, 3);
    _exit(kernel != nullptr ? 0 : 1);
  }
  int status = 0;
  waitpid(child, &status, 0);
  ASSERT_EQ(status, 0);
  EXPECT_THAT(read_file(perf_map(child)), HasSubstr(symbol(t, 3)));
  EXPECT_THAT(read_file(folder_ / ("jit-" + std::to_string(child) + ".dump")), HasSubstr(symbol(t, 3)));
  EXPECT_EQ(read_file(perf_map()), map_before);
  EXPECT_EQ(read_file(dump), dump_before);
  fs::remove(perf_map(child));
}

// The symbol file of an entry: the only function in it, at the address of the only section with code.
void check_elf(const jit_code_entry& entry, const std::string& name, std::span<const std::byte> code) {
  const std::string_view elf(entry.symfile_addr, entry.symfile_size);
  Elf64_Ehdr header;
  ASSERT_GE(elf.size(), sizeof header);
  std::memcpy(&header, elf.data(), sizeof header);
  ASSERT_EQ(std::memcmp(header.e_ident, ELFMAG, SELFMAG), 0);
  std::vector<Elf64_Shdr> sections(header.e_shnum);
  ASSERT_LE(header.e_shoff + sections.size() * sizeof(Elf64_Shdr), elf.size());
  std::memcpy(sections.data(), elf.data() + header.e_shoff, sections.size() * sizeof(Elf64_Shdr));
  const Elf64_Shdr& names = sections.at(header.e_shstrndx);
  bool found = false;
  for (const Elf64_Shdr& s : sections) {
    const std::string section = elf.data() + names.sh_offset + s.sh_name;
    if (section == ".text") {
      EXPECT_EQ(s.sh_addr, reinterpret_cast<uint64_t>(code.data()));
      EXPECT_EQ(s.sh_size, code.size());
      EXPECT_NE(s.sh_flags & SHF_EXECINSTR, 0u);
    }
    if (s.sh_type != SHT_SYMTAB) continue;
    ASSERT_EQ(s.sh_size, 2 * sizeof(Elf64_Sym));
    Elf64_Sym symbol;
    std::memcpy(&symbol, elf.data() + s.sh_offset + sizeof symbol, sizeof symbol);
    EXPECT_EQ(elf.data() + sections.at(s.sh_link).sh_offset + symbol.st_name, name);
    EXPECT_EQ(ELF64_ST_TYPE(symbol.st_info), STT_FUNC);
    EXPECT_EQ(symbol.st_value, 0u);
    EXPECT_EQ(symbol.st_size, code.size());
    found = true;
  }
  EXPECT_TRUE(found);
}

TEST_F(JitAnnounce, GdbKnowsAKernelAsLongAsItLives) {
  tell("gdb");
  for (const Target& t : all_targets()) {
    auto first = compile(t), second = compile(t, 3), third = compile(t, 4);
    ASSERT_EQ(registered(), 3);
    check_elf(*__jit_debug_descriptor.first_entry, symbol(t, 4), third->code());
    second.reset();
    ASSERT_EQ(registered(), 2);
    check_elf(*__jit_debug_descriptor.first_entry->next_entry, symbol(t), first->code());
    third.reset();
    ASSERT_EQ(registered(), 1);
    check_elf(*__jit_debug_descriptor.first_entry, symbol(t), first->code());
    first.reset();
    EXPECT_EQ(registered(), 0);
    EXPECT_EQ(__jit_debug_descriptor.relevant_entry, nullptr);
  }
}

TEST_F(JitAnnounce, ThreadsComeAndGoAtOnce) {
  tell("map,jitdump,gdb");
  std::vector<std::thread> threads;
  for (int thread = 0; thread < 4; ++thread) {
    threads.emplace_back([&] {
      for (const Target& t : all_targets()) {
        std::vector<std::unique_ptr<CompiledKernel>> kernels;
        for (int i = 0; i < 20; ++i) {
          kernels.push_back(compile(t));
          if (i % 3 == 0) kernels.erase(kernels.begin());
        }
      }
    });
  }
  for (std::thread& t : threads) t.join();
  EXPECT_EQ(registered(), 0);
  std::istringstream lines(read_file(perf_map()));
  size_t whole = 0;
  for (std::string line; std::getline(lines, line);) {
    std::istringstream words(line);
    uint64_t address = 0, bytes = 0;
    std::string name;
    words >> std::hex >> address >> bytes >> name;
    whole += bytes > 0 && name.starts_with("tile_");
  }
  EXPECT_EQ(whole, 4 * 20 * all_targets().size());
}

// Files that cannot be written: one line each, for all kernels together, and the kernels are there.
TEST_F(JitAnnounce, AFailureIsOneLine) {
  if (all_targets().empty()) GTEST_SKIP() << "this build has no code generator";
  const fs::path victim = folder_.string() + ".victim";
  std::ofstream(victim) << "precious";
  const auto complaints = [&](const char* whom, const auto& prepare) {
    testing::internal::CaptureStderr();
    const pid_t child = fork();  // what has failed once is not tried again by its process
    if (child == 0) {
      prepare();
      tell(whom);
      const auto first = compile(all_targets().front()), second = compile(all_targets().front(), 3);
      _exit(first != nullptr && second != nullptr ? 0 : 1);
    }
    int status = 0;
    waitpid(child, &status, 0);
    EXPECT_EQ(status, 0);
    fs::remove(perf_map(child));
    return testing::internal::GetCapturedStderr();
  };
  const auto lines = [](const std::string& text) { return std::count(text.begin(), text.end(), '\n'); };
  // Somebody put a link where perf's file belongs.
  const std::string link = complaints("map", [&] { fs::create_symlink(victim, perf_map()); });
  EXPECT_THAT(link, HasSubstr("HONE_JIT_SYMBOLS=map: /tmp/perf-"));
  EXPECT_EQ(lines(link), 1);
  EXPECT_EQ(read_file(victim), "precious");
  // Or a second name of a file of ours.
  const std::string hard_link = complaints("map", [&] {
    fs::create_hard_link(victim, perf_map());
    std::ofstream(victim) << "precious";  // now, so that it is not one that an earlier process left
  });
  EXPECT_THAT(hard_link, HasSubstr("HONE_JIT_SYMBOLS=map: /tmp/perf-"));
  EXPECT_EQ(lines(hard_link), 1);
  EXPECT_EQ(read_file(victim), "precious");
  const std::string nowhere = complaints("jitdump", [] { setenv("JITDUMPDIR", "/proc/no/such", 1); });
  EXPECT_THAT(nowhere, HasSubstr("HONE_JIT_SYMBOLS=jitdump: /proc/no/such"));
  EXPECT_EQ(lines(nowhere), 1);
  const std::string homeless = complaints("jitdump", [] {
    unsetenv("JITDUMPDIR");
    unsetenv("HOME");
  });
  EXPECT_THAT(homeless, HasSubstr("neither JITDUMPDIR nor HOME is set"));
  const std::string unknown = complaints("perf", [] {});
  EXPECT_EQ(unknown, "hone: HONE_JIT_SYMBOLS: unknown name 'perf'; known: map, jitdump, gdb\n");
  fs::remove(victim);
}

}  // namespace
}  // namespace hone::jit
