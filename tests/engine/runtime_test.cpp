// libhone_runtime.so as a program has it: a package runs, and neither LLVM nor asmjit is in the process, by what the
// dynamic loader mapped and by what is in the files that it mapped. This binary links the library and its public
// headers, and has the package compiled by another process.
#include <gmock/gmock.h>
#include <unistd.h>

#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <set>
#include <sstream>

#include "hone/attention.hpp"
#include "hone/engine.hpp"

namespace hone {
namespace {

using testing::HasSubstr;
using testing::Not;

std::string text_of(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
}

// Files that are mapped into this process.
std::set<std::string> mapped_files() {
  std::set<std::string> files;
  std::istringstream maps(text_of("/proc/self/maps"));
  for (std::string line; std::getline(maps, line);)
    if (const size_t at = line.find('/'); at != std::string::npos) files.insert(line.substr(at));
  return files;
}

// Of C++ code that has a symbol table, which this build leaves in.
bool has_asmjit(const std::string& file) { return text_of(file).find("_ZN6asmjit") != std::string::npos; }

TEST(EngineRuntime, RunsAPackageWithoutACodeGenerator) {
  const std::filesystem::path folder =
      std::filesystem::path(testing::TempDir()) / ("hone_runtime_" + std::to_string(getpid()));
  const std::string package = (folder / "k.hone").string(), log = (folder / "log").string();
  std::filesystem::create_directories(folder);
  const std::string problem = "matmul:f32:m=4,n=40,k=24,b=packed:+bias";
  const std::string command = std::string("HONE_DB=") + (folder / "x.db").string() + " " HONE_BINARY " compile " +
                              problem + " -o " + package + " 2>" + log;
  if (const char* given = std::getenv("HONE_TEST_PACKAGES")) {
    std::filesystem::copy(std::filesystem::path(given) / "runtime.hone", package,
                          std::filesystem::copy_options::recursive);
  } else if (std::system(command.c_str()) != 0) {
    const std::string why = text_of(log);
    std::filesystem::remove_all(folder);
    if (why.find("HONE_WITH_LLVM") != std::string::npos || why.find("instruction set") != std::string::npos)
      GTEST_SKIP() << why;
    FAIL() << why;
  }

  Engine engine = Engine::create({.use_database = false, .threads = 2}).value();
  EXPECT_TRUE(engine.info().codegens.empty());
  const Status loaded = engine.load_package(package);
  std::filesystem::remove_all(folder);
  ASSERT_TRUE(loaded.ok()) << loaded.message();
  MatmulSpec spec = MatmulSpec::parse(problem).value();
  std::vector<float> a(4 * 24), b(40 * 24), bias(40), c(4 * 40);
  for (size_t i = 0; i < a.size(); ++i) a[i] = static_cast<float>(i % 13) / 8 - 0.75f;
  for (size_t i = 0; i < b.size(); ++i) b[i] = static_cast<float>(i % 17) / 16 - 0.5f;
  for (size_t i = 0; i < bias.size(); ++i) bias[i] = static_cast<float>(i) / 4;
  const Matmul matmul = engine.prepare(spec, b.data()).value();
  EXPECT_EQ(matmul.plan(4)->reason, "package");
  ASSERT_TRUE(matmul.run({.m = 4, .a = a.data(), .c = c.data(), .bias = bias.data()}).ok());
  for (size_t i = 0; i < 4; ++i) {
    for (size_t j = 0; j < 40; ++j) {
      float sum = 0;
      for (size_t p = 0; p < 24; ++p) sum = std::fma(a[i * 24 + p], b[j * 24 + p], sum);
      EXPECT_EQ(c[i * 40 + j], sum + bias[j]);
    }
  }

  const std::set<std::string> files = mapped_files();
  bool library = false, code = false;
  for (const std::string& file : files) {
    EXPECT_THAT(file, Not(HasSubstr("LLVM")));
    EXPECT_THAT(file, Not(HasSubstr("asmjit")));
    library = library || file.find("libhone_runtime.so") != std::string::npos;
    code = code || file.find("memfd:hone-package") != std::string::npos;
    if (file.find("hone") != std::string::npos) EXPECT_FALSE(has_asmjit(file)) << file;
  }
  EXPECT_TRUE(library) << "the program runs on the shared library";
  EXPECT_TRUE(code) << "the package's code is what is mapped";
#ifdef HONE_ENGINE_WITH_ASMJIT
  EXPECT_TRUE(has_asmjit(HONE_ENGINE_LIBRARY)) << "the other library has what was looked for";
#endif
}

// The rest of the engine is there: what no package has is precompiled.
TEST(EngineRuntime, AttentionIsPrecompiled) {
  const Engine engine = Engine::create({.use_database = false, .threads = 1}).value();
  AttentionSpec spec{.heads = 1, .head_dim = 4};
  spec.expected = {{1, 2}};
  spec.max_q = 0;
  const Attention attention = engine.prepare(spec).value();
  const float q[4] = {1, 0, 0, 0}, k[8] = {0, 0, 0, 0, 0, 0, 0, 0}, v[8] = {1, 2, 3, 4, 3, 4, 5, 6};
  float out[4] = {};
  ASSERT_TRUE(attention.run({.q = 1, .kv = 2, .query = q, .key = k, .value = v, .out = out}).ok());
  EXPECT_THAT(out, testing::ElementsAre(2, 3, 4, 5));
  EXPECT_EQ(attention.plan(1, 2)->codegen, "precompiled");
}

}  // namespace
}  // namespace hone
