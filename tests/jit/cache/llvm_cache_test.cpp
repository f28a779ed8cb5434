// LLVM behind the cache: what comes from the disk is what would have been compiled, and nothing else ever runs.
#include <elf.h>
#include <gmock/gmock.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <set>
#include <sstream>

#include "engine/base/log.h"
#include "jit/cache/disk_cache.h"
#include "jit/exec_memory.h"
#include "jit/llvm/cached_object.h"
#include "kernels/ir/text.h"
#include "tests/jit/differential.h"
#include "tests/jit/sample_kernels.h"

// In front of the library's: the version that the headers have would pass here only if it were this one.
extern "C" void LLVMGetVersion(unsigned* major, unsigned* minor, unsigned* patch);
extern "C" void LLVMGetVersion(unsigned* major, unsigned* minor, unsigned* patch) {
  *major = 98;
  *minor = 76;
  *patch = 54;
}

namespace hone::jit {
namespace {

namespace fs = std::filesystem;
using testing::Each;
using testing::ElementsAre;
using testing::HasSubstr;

class JitLlvmCache : public testing::Test {
 protected:
  JitLlvmCache() {
    folder_ = fs::path(testing::TempDir()) / ("hone_llvm_cache_" + std::to_string(getpid()));
    fs::remove_all(folder_);
    setenv("HONE_CACHE", folder_.c_str(), 1);
    set_log_topics(1u << static_cast<int>(LogTopic::kJit));
    set_log_sink([this](std::string_view line) {
      const size_t at = line.find("event=compile") == std::string_view::npos ? line.npos : line.find(" cache=");
      if (at != line.npos) answers_.emplace_back(line.substr(at + 7, line.find(' ', at + 7) - at - 7));
    });
  }
  ~JitLlvmCache() override {
    set_log_sink({});
    set_log_topics(0);
    setenv("HONE_CACHE", "off", 1);
    fs::remove_all(folder_);
  }

  static CodeGenerator& llvm() { return *find_code_generator("llvm").value(); }
  static ir::Kernel kernel() { return tile_kernel({.mr = 2, .nr = 8, .k = 9, .lanes = 8}); }
  static std::vector<std::byte> code(const ir::Kernel& kernel, CodeGenerator& generator = llvm(), Isa isa = Isa::kAvx2,
                                     const CompileOptions& options = {}) {
    auto compiled = generator.compile(kernel, isa, options);
    EXPECT_TRUE(compiled.ok()) << compiled.status().to_string();
    if (!compiled.ok()) return {};
    const std::span<const std::byte> bytes = (*compiled)->code();
    return {bytes.begin(), bytes.end()};
  }
  std::vector<fs::path> entries() const {
    std::vector<fs::path> all;
    if (fs::exists(folder_))
      for (const fs::directory_entry& e : fs::directory_iterator(folder_)) all.push_back(e.path());
    return all;
  }

  fs::path folder_;
  std::vector<std::string> answers_;  // of the cache, one a compile
};

TEST_F(JitLlvmCache, TheSecondCompileIsTheFirstOnesCode) {
  const std::vector<std::byte> first = code(kernel()), second = code(kernel());
  EXPECT_THAT(answers_, ElementsAre("miss", "hit"));
  EXPECT_EQ(first, second);
  EXPECT_FALSE(first.empty());
}

constexpr char kChildFolder[] = "HONE_TEST_CHILD_CACHE";

// Of the test below, in a process of its own.
TEST(JitLlvmCacheChild, DISABLED_LoadsAndCompilesNothing) {
  const char* folder = std::getenv(kChildFolder);
  ASSERT_NE(folder, nullptr);
  setenv("HONE_CACHE", folder, 1);
  const auto compiled =
      find_code_generator("llvm").value()->compile(tile_kernel({.mr = 2, .nr = 8, .k = 9, .lanes = 8}), Isa::kAvx2);
  EXPECT_TRUE(compiled.ok()) << compiled.status().to_string();
}

// Found by a benchmark that ran twice: the linker asked for targets that only compiling had entered.
TEST_F(JitLlvmCache, AProcessThatOnlyLoadsLinksToo) {
  code(kernel());
  setenv(kChildFolder, folder_.c_str(), 1);
  const std::string self = fs::read_symlink("/proc/self/exe").string();
  const std::string command = "'" + self + "' --gtest_also_run_disabled_tests --gtest_filter=JitLlvmCacheChild.* > '" +
                              (folder_ / "output").string() + "' 2>&1";
  const int code = std::system(command.c_str());
  unsetenv(kChildFolder);
  std::ifstream output(folder_ / "output");
  EXPECT_EQ(code, 0) << std::string(std::istreambuf_iterator<char>(output), {});
}

// Tests compile anew; this compiles as programs do.
class FromDisk final : public CodeGenerator {
 public:
  explicit FromDisk(CodeGenerator& real) : real_(real) {}
  std::string_view name() const override { return real_.name(); }
  std::string version() const override { return real_.version(); }
  bool targets(Isa isa) const override { return real_.targets(isa); }
  Result<std::unique_ptr<CompiledKernel>> compile(const ir::Kernel& kernel, Isa isa, const CompileOptions&) override {
    return real_.compile(kernel, isa, {.cached = true});
  }

 private:
  CodeGenerator& real_;
};

// Each sample kernel, from the disk, against the interpreter.
TEST_F(JitLlvmCache, WhatIsLoadedComputesTheSameBits) {
  FromDisk cached(llvm());
  for (const Isa isa : all_isas()) {
    if (!llvm().targets(isa)) continue;
    for (const KernelCase& test : sample_kernels(isa_info(isa).lanes_f32())) {
      code(test.kernel, llvm(), isa);
      answers_.clear();
      expect_like_interpreter(test, {&cached, isa}, 5);
      EXPECT_THAT(answers_, Each("hit")) << test.name;
    }
  }
}

TEST_F(JitLlvmCache, WhoeverMeasuresCompilesNow) {
  code(kernel());
  code(kernel(), llvm(), Isa::kAvx2, {.cached = false});
  EXPECT_THAT(answers_, ElementsAre("miss", "bypass"));
  fs::remove_all(folder_);
  code(kernel(), llvm(), Isa::kAvx2, {.cached = false});
  EXPECT_TRUE(entries().empty()) << "and leaves nothing";
}

TEST_F(JitLlvmCache, OtherCodeIsAnotherEntry) {
  ir::Kernel renamed = kernel(), longer = tile_kernel({.mr = 2, .nr = 8, .k = 10, .lanes = 8});
  renamed.name += "_again";
  longer.name = kernel().name;
  code(kernel());
  code(renamed);
  code(longer);
  code(kernel(), llvm(), Isa::kAvx512);
  code(kernel(), *find_code_generator("llvm-O2").value());
  EXPECT_THAT(answers_, Each("miss"));
  EXPECT_EQ(entries().size(), 5u);
}

TEST_F(JitLlvmCache, DamagedEntriesAreCompiledAgain) {
  const std::vector<std::byte> right = code(kernel());
  ASSERT_EQ(entries().size(), 1u);
  const fs::path file = entries().front();
  const auto size = static_cast<int64_t>(fs::file_size(file));
  for (const int64_t at : {int64_t{0}, size / 3, size - 1}) {
    ASSERT_EQ(truncate(file.c_str(), at), 0);
    EXPECT_EQ(code(kernel()), right) << at;
    std::fstream bytes(file, std::ios::in | std::ios::out | std::ios::binary);
    bytes.seekp(at);
    bytes.put('\x55');
    bytes.close();
    EXPECT_EQ(code(kernel()), right) << at;
  }
  EXPECT_THAT(answers_, Each("miss"));
  EXPECT_EQ(code(kernel()), right);
  EXPECT_EQ(answers_.back(), "hit");
}

// A checksum that holds around an object that does not link.
TEST_F(JitLlvmCache, AnObjectThatDoesNotLinkIsCompiledAgain) {
  const std::vector<std::byte> right = code(kernel());
  const std::string id = entries().front().filename().string().substr(0, 64);
  std::optional<CachedCode> entry = disk_cache()->load(id);
  ASSERT_TRUE(entry.has_value());
  for (const bool another_symbol : {true, false}) {
    CachedCode wrong = *entry;
    if (another_symbol) {
      wrong.symbol = "nothing_of_this_name";
    } else {
      wrong.object = "not an object";
    }
    disk_cache()->store(id, wrong);
    answers_.clear();
    EXPECT_EQ(code(kernel()), right);
    EXPECT_EQ(code(kernel()), right);
    EXPECT_THAT(answers_, ElementsAre("miss", "hit"));
  }
}

// Whoever reads code() goes as far as the size: what an entry says of it is compared with the object.
TEST_F(JitLlvmCache, ASizeThatIsNotTheFunctionsIsCompiledAgain) {
  const std::vector<std::byte> right = code(kernel());
  const std::string id = entries().front().filename().string().substr(0, 64);
  const std::optional<CachedCode> entry = disk_cache()->load(id);
  ASSERT_TRUE(entry.has_value());
  EXPECT_EQ(entry->size, right.size());
  for (const uint64_t size : {uint64_t{0}, uint64_t{1}, entry->size - 1, entry->size + 1, entry->object.size()}) {
    CachedCode wrong = *entry;
    wrong.size = size;
    disk_cache()->store(id, wrong);
    answers_.clear();
    EXPECT_EQ(code(kernel()), right) << size;
    EXPECT_EQ(code(kernel()), right) << size;
    EXPECT_THAT(answers_, ElementsAre("miss", "hit")) << size;
  }
}

// Gives all relocations of an object a kind that there is not; their number.
size_t break_relocations(std::string& object) {
  Elf64_Ehdr header;
  std::memcpy(&header, object.data(), sizeof header);
  size_t broken = 0;
  for (size_t i = 0; i < header.e_shnum; ++i) {
    Elf64_Shdr section;
    std::memcpy(&section, object.data() + header.e_shoff + i * sizeof section, sizeof section);
    if (section.sh_type != SHT_RELA) continue;
    for (size_t at = section.sh_offset; at < section.sh_offset + section.sh_size; at += sizeof(Elf64_Rela), ++broken) {
      Elf64_Rela relocation;
      std::memcpy(&relocation, object.data() + at, sizeof relocation);
      relocation.r_info = ELF64_R_INFO(ELF64_R_SYM(relocation.r_info), 0xfff);
      std::memcpy(object.data() + at, &relocation, sizeof relocation);
    }
  }
  return broken;
}

// An object with the right function that the linker refuses all the same: what is compiled then takes its place.
TEST_F(JitLlvmCache, WhatIsCompiledAfterALinkErrorIsKept) {
  size_t tried = 0;
  for (const KernelCase& test : sample_kernels(isa_info(Isa::kAvx2).lanes_f32())) {
    fs::remove_all(folder_);
    const std::vector<std::byte> right = code(test.kernel);
    ASSERT_EQ(entries().size(), 1u);
    const std::string id = entries().front().filename().string().substr(0, 64);
    CachedCode wrong = disk_cache()->load(id).value();
    if (break_relocations(wrong.object) == 0) continue;
    ++tried;
    disk_cache()->store(id, wrong);
    answers_.clear();
    const size_t live = live_code_bytes();
    EXPECT_EQ(code(test.kernel).size(), right.size()) << test.name;
    EXPECT_EQ(code(test.kernel).size(), right.size()) << test.name;
    EXPECT_THAT(answers_, ElementsAre("miss", "hit")) << test.name;
    EXPECT_EQ(live_code_bytes(), live);
  }
  EXPECT_GT(tried, 0u) << "no kernel has a relocation";
}

// No room for more code is no fault of the entry.
TEST_F(JitLlvmCache, AnEntryOutlivesALackOfRoom) {
  code(kernel());
  limit_code_for_testing(1);
  EXPECT_EQ(llvm().compile(kernel(), Isa::kAvx2, {}).status().code(), Code::kResourceExhausted);
  limit_code_for_testing(0);
  code(kernel());
  EXPECT_THAT(answers_, ElementsAre("miss", "hit"));
}

TEST_F(JitLlvmCache, AnEntryNamesTheLoweringThatMadeIt) {
  for (const char* generator : {"llvm", "llvm-O2"}) {
    fs::remove_all(folder_);
    code(kernel(), *find_code_generator(generator).value());
    ASSERT_EQ(entries().size(), 1u);
    const std::optional<CachedCode> entry = disk_cache()->load(entries().front().filename().string().substr(0, 64));
    ASSERT_TRUE(entry.has_value());
    EXPECT_EQ(entry->label.lowering, current_lowering(generator, "avx2"));
    EXPECT_NE(entry->label.lowering, current_lowering(generator, "avx512"));
  }
  EXPECT_EQ(current_lowering("asmjit", "avx2"), "");
  EXPECT_EQ(current_lowering("llvm", "mmx"), "");
}

// Every file of ours that the lowering includes, and its .cpp, decides code and so is in the digest.
TEST_F(JitLlvmCache, TheDigestHasAllSourcesOfTheLowering) {
  std::set<std::string> digest;
  std::stringstream list(HONE_LOWERING_SOURCES);
  for (std::string file; std::getline(list, file, ':');)
    digest.insert(fs::path(file).lexically_normal().lexically_relative(HONE_SOURCES).string());
  // What carries errors, logs and dumps, and the interface of generators, decides nothing.
  const std::set<std::string> harmless = {"engine/base/status.h", "engine/base/log.h", "engine/base/random.h",
                                          "jit/dump.h",           "jit/exec_memory.h", "jit/codegen.h"};
  std::vector<std::string> rest;
  for (const std::string& file : digest)
    if (file.starts_with("jit/llvm/") && file.find("orc_") == file.npos && file.find("cached_") == file.npos)
      rest.push_back(file);
  ASSERT_GE(rest.size(), 10u);
  for (std::set<std::string> seen; !rest.empty();) {
    const std::string file = rest.back();
    rest.pop_back();
    if (!seen.insert(file).second || harmless.contains(file)) continue;
    EXPECT_TRUE(digest.contains(file)) << file << " is not in the digest of jit/llvm/CMakeLists.txt";
    std::ifstream in(fs::path(HONE_SOURCES) / file);
    for (std::string line; std::getline(in, line);) {
      if (!line.starts_with("#include \"")) continue;
      const std::string header = line.substr(10, line.find('"', 10) - 10);
      if (fs::exists(fs::path(HONE_SOURCES) / header)) rest.push_back(header);
      const std::string source = fs::path(header).replace_extension(".cpp").string();
      if (fs::exists(fs::path(HONE_SOURCES) / source) && !harmless.contains(header)) rest.push_back(source);
    }
  }
}

TEST_F(JitLlvmCache, TheVersionIsThatOfTheLoadedLibrary) {
  EXPECT_THAT(llvm().version(), testing::StartsWith("llvm-98.76.54/"));
}

TEST_F(JitLlvmCache, ADumpShowsWhatIsInTheCacheToo) {
  const std::vector<std::byte> first = code(kernel());
  const fs::path dump = folder_ / "dump";
  setenv("HONE_JIT_DUMP", dump.c_str(), 1);
  const std::vector<std::byte> dumped = code(kernel());
  unsetenv("HONE_JIT_DUMP");
  EXPECT_EQ(dumped, first);
  size_t bytes = 0, listings = 0;
  for (const fs::directory_entry& e : fs::directory_iterator(dump)) {
    if (e.path().extension() == ".bin") bytes = e.file_size();
    listings += e.path().extension() == ".s" || e.path().extension() == ".ll" || e.path().extension() == ".ir";
  }
  EXPECT_EQ(bytes, first.size());
  EXPECT_EQ(listings, 3u);
}

TEST_F(JitLlvmCache, OffIsOff) {
  setenv("HONE_CACHE", "off", 1);
  EXPECT_EQ(code(kernel()), code(kernel()));
  EXPECT_THAT(answers_, ElementsAre("bypass", "bypass"));
}

}  // namespace
}  // namespace hone::jit
