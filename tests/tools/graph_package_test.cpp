// Packages of whole graphs: hone compile writes one, hone exec and hone-exec run it with the bits of a plan that is
// compiled at once, and what is not as it was packed is refused.
//
// A build without LLVM cannot write packages; HONE_TEST_PACKAGES names a folder with one of another build then:
// layer.hone, of the layer below, for AVX2.
#include <gmock/gmock.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <functional>
#include <map>
#include <nlohmann/json.hpp>

#include "jit/aot/manifest.h"
#include "tests/engine/executable/decoder_graphs.h"
#include "tests/tools/run_hone.h"
#include "tests/tools/scratch.h"
#include "tools/hone/graph_file.h"

namespace hone::cli_test {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;
using testing::AllOf;
using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;

class GraphPackage : public Scratch {
 protected:
  // One package for all tests, each of which has a copy.
  static void SetUpTestSuite() {
    made_ = fs::path(testing::TempDir()) / ("hone_graph_package_" + std::to_string(getpid()));
    fs::create_directories(made_);
    const std::string layer = (made_ / "layer.graph").string(), package = (made_ / "layer.hone").string();
    ASSERT_TRUE(cli::write_graph(layer, executable::decoder_layer({.max_tokens = 8, .capacity = 24})).ok());
    if (const char* const given = std::getenv("HONE_TEST_PACKAGES")) {
      if (fs::exists(fs::path(given) / "layer.hone"))
        fs::copy(fs::path(given) / "layer.hone", package, fs::copy_options::recursive);
      return;
    }
    compiled_ = run(compile_command(layer, package));
  }
  static void TearDownTestSuite() { fs::remove_all(made_); }
  static std::vector<std::string> compile_command(const std::string& layer, const std::string& package) {
    return {"compile", layer, "-o", package, "--mcpu", "x86-64-v3", "--tokens", "1,7"};
  }

  void SetUp() override {
    layer_ = (made_ / "layer.graph").string(), package_ = file("layer.hone");
    if (!fs::exists(made_ / "layer.hone")) {
      if (compiled_.code == -1 || compiled_.err.find("HONE_WITH_LLVM") != std::string::npos)
        GTEST_SKIP() << "this build compiles no packages; HONE_TEST_PACKAGES may name a folder with those of another";
      FAIL() << compiled_.err;
    }
    fs::copy(made_ / "layer.hone", package_, fs::copy_options::recursive);
    const Outcome o = hone({"exec", package_, "--random", "1"});
    for (const char* other : {"and this CPU lacks", "code for x86_64, this is"})
      if (o.err.find(other) != std::string::npos) GTEST_SKIP() << "this CPU does not have AVX2 and FMA";
    ASSERT_EQ(o.code, 0) << o.err;
  }

  static Outcome run(const std::vector<std::string>& args) {
    return run_hone(args, {.env = {{"HONE_DB", (made_ / "plans.db").string()}}});
  }
  Outcome hone(const std::vector<std::string>& args) const { return run(args); }
  Outcome hone_exec(const std::string& args) const {
    const std::string out = file("stdout");
    const int status =
        std::system(("HONE_LOG=dispatch,jit " HONE_EXEC_BINARY " exec " + args + " >" + out + " 2>&1").c_str());
    return {.code = WEXITSTATUS(status), .out = bytes_of(out), .err = {}};
  }
  static std::string bytes_of(const fs::path& path) {
    std::ifstream in(path, std::ios::binary);
    return std::string(std::istreambuf_iterator<char>(in), {});
  }
  // One line that names the package, and exit 1.
  void refused(const std::string& what) const {
    const Outcome o = hone({"exec", package_, "--random", "1"});
    EXPECT_EQ(o.code, 1) << o.err;
    const std::vector<std::string> lines = lines_of(o.err);
    ASSERT_EQ(lines.size(), 2u) << o.err;
    EXPECT_THAT(lines[0], AllOf(StartsWith("hone: error: "), HasSubstr(what)));
  }

  static inline fs::path made_;
  static inline Outcome compiled_;
  std::string layer_, package_;
};

// Prefill and decode, without a code generator in the process; nothing runs on a precompiled kernel.
TEST_F(GraphPackage, BitsOfAPlanThatIsCompiledAtOnce) {
  for (const std::string calls : {"8", "7,1,8,1,2", "1,1,1,1"}) {
    const std::string same = " --random 5 --calls " + calls;
    const Outcome packed = hone_exec(package_ + same + " --check --output " + file("packed.npy"));
    ASSERT_EQ(packed.code, 0) << packed.out;
    EXPECT_THAT(packed.out, HasSubstr("every bit is that of the reference"));
    EXPECT_THAT(packed.out, Not(HasSubstr("precompiled")));
    EXPECT_THAT(packed.out, Not(HasSubstr("no_code")));
    const Outcome now = hone({"exec", layer_, "--random", "5", "--calls", calls, "--output", file("now.npy")});
    if (now.err.find("no code generator") == std::string::npos) {
      ASSERT_EQ(now.code, 0) << now.err;
      EXPECT_EQ(bytes_of(file("packed.npy")), bytes_of(file("now.npy")));
    }
    // Beside code generators the same.
    ASSERT_EQ(hone({"exec", package_, "--random", "5", "--calls", calls, "--output", file("both.npy")}).code, 0);
    EXPECT_EQ(bytes_of(file("packed.npy")), bytes_of(file("both.npy")));
  }
}

TEST_F(GraphPackage, ExecSaysWhatItWants) {
  const Outcome o = hone({"exec", package_, "--json"});
  ASSERT_EQ(o.code, 0) << o.err;
  EXPECT_EQ(Json::parse(o.out)["inputs"][0]["shape"], Json({"s", 64}));
}

TEST_F(GraphPackage, EveryFileIsVouchedFor) {
  std::map<std::string, int> kinds;
  for (const fs::directory_entry& e : fs::directory_iterator(package_)) {
    if (++kinds[e.path().extension().string()] > 2) continue;  // two of a kind: texts of kernels are many
    const std::string name = e.path().filename().string(), good = bytes_of(e.path());
    std::string bad = good;
    bad[bad.size() / 2] = static_cast<char>(bad[bad.size() / 2] ^ 1);
    std::ofstream(e.path(), std::ios::binary) << bad;
    SCOPED_TRACE(name);
    refused(name == "manifest.json" ? "manifest.json" : name);
    std::ofstream(e.path(), std::ios::binary) << good.substr(0, good.size() - 2);
    refused(name == "manifest.json" ? "manifest.json" : name);
    fs::remove(e.path());
    refused(name == "manifest.json" ? "manifest.json" : name);
    fs::create_symlink("/dev/null", e.path());
    refused(name == "manifest.json" ? "manifest.json" : name);
    fs::remove(e.path());
    std::ofstream(e.path(), std::ios::binary) << good;
  }
  EXPECT_EQ(hone({"exec", package_, "--random", "1"}).code, 0);
}

// The manifest says of itself what it was: these are whole, and still wrong.
TEST_F(GraphPackage, ManifestsThatLeadElsewhere) {
  const std::string path = package_ + "/manifest.json";
  const jit::Manifest good = jit::parse_manifest(bytes_of(path)).value();
  const auto with = [&](const std::function<void(jit::Manifest&)>& change, const std::string& what) {
    jit::Manifest bad = good;
    change(bad);
    std::ofstream(path, std::ios::binary) << jit::print(bad);
    refused(what);
  };
  with([](jit::Manifest& m) { m.graph->text = "../layer.graph"; }, "graph.text");
  with([](jit::Manifest& m) { m.graph->constants[0].file = "../x"; }, "graph.constants[0].file");
  with([](jit::Manifest& m) { m.kernels[0].object = "a/../../b.so"; }, "kernels[0].object");
  with([](jit::Manifest& m) { m.kernels[0].arch = "sparc"; }, "code for sparc, this is");
  with([](jit::Manifest& m) { m.kernels[0].features = {"tomorrow"}; }, "this CPU lacks tomorrow");
  with([](jit::Manifest& m) { m.ops[0].variants[0].arch = "sparc"; }, "code for sparc, this is");
  with([](jit::Manifest& m) { m.ops[0].problem = "conv:f32"; }, "conv");
  with([](jit::Manifest& m) { m.kernels[0].kernels[0].symbol = "nobody"; }, "has no function 'nobody'");
  with([](jit::Manifest& m) { m.kernels[0].kernels[0].loop_ir = m.graph->text; }, "is no LoopIR that can be run");
  with([](jit::Manifest& m) { m.graph->policy = "qkv=mixed"; }, "graph.policy");
  with([](jit::Manifest& m) { m.graph->guards[0].left = "p ++ s"; }, "graph.guards[0]");
  with([](jit::Manifest& m) { m.graph->constants[0].name = "another"; }, "graph.constants does not have");
  with([](jit::Manifest& m) { std::swap(m.graph->constants[0].file, m.graph->constants[1].file); }, "constant.");
  with([](jit::Manifest& m) { m.graph->text = m.kernels[0].kernels[0].loop_ir; }, "loopir: line 1");
}

TEST_F(GraphPackage, SameCommandSameBytes) {
  if (compiled_.code == -1) GTEST_SKIP() << "the package is another build's";
  EXPECT_THAT(compiled_.out, AllOf(HasSubstr("| attention "), HasSubstr("layer.hone: ")));
  const Outcome again = hone(compile_command(layer_, file("again.hone")));
  ASSERT_EQ(again.code, 0) << again.err;
  for (const fs::directory_entry& e : fs::directory_iterator(package_))
    EXPECT_EQ(bytes_of(e.path()), bytes_of(fs::path(file("again.hone")) / e.path().filename())) << e.path();
}

}  // namespace
}  // namespace hone::cli_test
