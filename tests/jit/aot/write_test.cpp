// Writing packages: where they go, what they replace, which linker makes them, and that the same input gives the same
// bytes.
#include "jit/aot/write.h"

#include <gmock/gmock.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <span>

#include "jit/aot/elf_object.h"
#include "jit/aot/link.h"
#include "kernels/ir/text.h"
#include "tests/jit/aot/packages.h"
#include "tests/jit/sample_kernels.h"

namespace hone::jit {
namespace {

namespace fs = std::filesystem;
using testing::AnyOf;
using testing::HasSubstr;
using testing::Not;

ir::Kernel kernel(int rows) { return tile_kernel({.mr = rows, .nr = 8, .k = 16, .lanes = 8}); }

class AotWrite : public PackageTest {
 protected:
  void SetUp() override {
    if (const std::string why = cannot_package(Isa::kAvx2); !why.empty()) GTEST_SKIP() << why;
  }
  void TearDown() override { unsetenv("HONE_LINKER"); }

  Status write(const std::string& at, Replace replace = Replace::kNothing, int rows = 2) const {
    return write_package({op_of("a problem", {kernel(rows)}, Isa::kAvx2)}, at, replace).status();
  }
  // Names in the folder of the test: no hidden folder may be left.
  std::vector<std::string> names() const {
    std::vector<std::string> all;
    for (const fs::directory_entry& e : fs::directory_iterator(folder_)) all.push_back(e.path().filename());
    std::sort(all.begin(), all.end());
    return all;
  }
};

TEST_F(AotWrite, SameInputSameBytes) {
  std::vector<AotOp> ops = {op_of("one", {kernel(1)}, Isa::kAvx2), op_of("two", {kernel(2)}, Isa::kAvx512)};
  ops[1].variants.push_back(op_of("", {kernel(3)}, Isa::kAvx2).variants[0]);
  const Result<Manifest> one = write_package(ops, path("one.hone"), Replace::kNothing);
  const Result<Manifest> two = write_package(ops, path("another name.hone"), Replace::kNothing);
  ASSERT_TRUE(one.ok()) << one.status().message();
  ASSERT_TRUE(two.ok());
  EXPECT_EQ(*one, *two);
  EXPECT_EQ(read_text(path("one.hone/manifest.json")), read_text(path("another name.hone/manifest.json")));
  EXPECT_EQ(one->files.size(), 6u);
  for (const PackageFile& f : one->files)
    EXPECT_EQ(read_text(path("one.hone/" + f.name)), read_text(path("another name.hone/" + f.name)));
  EXPECT_EQ(one->ops[1].variants[0].object, "1.avx512.so");
  EXPECT_EQ(one->ops[1].variants[1].kernels[0].loop_ir, "1.avx2.0.loopir");
  EXPECT_TRUE(Package::open(path("one.hone")).ok());
}

// Code for a CPU that is not here can be written, and is refused when it is to run.
// One object for all kernels, in which each is once, also where two of different code have one name.
TEST_F(AotWrite, GraphsShareTheirCode) {
  ir::Kernel same_name = kernel(3);
  same_name.name = kernel(2).name;
  const std::vector<float> weights = {1, 2, 3};
  AotGraphPackage package{.graph = {.text = "the graph",
                                    .policy = "default",
                                    .tokens = {1},
                                    .guards = {},
                                    .constants = {{"w", std::as_bytes(std::span(weights))}}},
                          .ops = {op_of("one", {kernel(2)}, Isa::kAvx2), op_of("two", {kernel(2)}, Isa::kAvx2)},
                          .kernels = {}};
  package.kernels.push_back({package.ops[0].variants[0].target, {same_name, kernel(1)}});
  const Result<Manifest> m = write_graph_package(package, path("g.hone"), Replace::kNothing);
  ASSERT_TRUE(m.ok()) << m.status().message();
  EXPECT_EQ(m->files.size(), 6u) << "text, constant, three kernels, object";
  EXPECT_EQ(m->ops[0].variants[0].kernels, m->ops[1].variants[0].kernels);
  EXPECT_EQ(m->kernels[0].object, m->ops[0].variants[0].object);
  EXPECT_NE(m->kernels[0].kernels[0].symbol, m->ops[0].variants[0].kernels[0].symbol);
  const Result<std::shared_ptr<const Package>> opened = Package::open(path("g.hone"));
  ASSERT_TRUE(opened.ok()) << opened.status().message();
  EXPECT_EQ((*opened)->graph_text(), "the graph");
  EXPECT_EQ((*opened)->loop_ir(m->kernels[0].kernels[0]), ir::print(same_name));
  const std::span<const std::byte> constant = (*opened)->constant(m->graph->constants[0])->bytes();
  EXPECT_TRUE(std::ranges::equal(constant, std::as_bytes(std::span(weights))));
  if (runs_on(m->kernels[0], this_host()).ok()) {
    const auto code = (*opened)->load(m->kernels[0], this_host());
    ASSERT_TRUE(code.ok()) << code.status().message();
    EXPECT_NE((*code)[0].kernel->entry(), (*code)[1].kernel->entry());
  }
  package.graph.constants[0].name = "two\nlines";
  EXPECT_THAT(write_graph_package(package, path("h.hone"), Replace::kNothing).status().message(),
              HasSubstr("graph.constants[0].name must be"));
  EXPECT_EQ(names(), std::vector<std::string>{"g.hone"});
}

TEST_F(AotWrite, CodeForOtherCpus) {
  AotOp op = op_of("a problem", {kernel(2)}, Isa::kAvx512);
  op.variants[0].target = {.isa = Isa::kAvx512, .mcpu = "znver4", .tune = "znver4"};
  op.variants.push_back(op.variants[0]);
  op.variants[1].target = {.isa = Isa::kAvx512, .mcpu = "sapphirerapids", .tune = "sapphirerapids"};
  const Result<Manifest> written = write_package({op}, path("k.hone"), Replace::kNothing);
  ASSERT_TRUE(written.ok()) << written.status().message();
  EXPECT_EQ(written->ops[0].variants[0].object, "0.avx512-znver4.so");
  EXPECT_EQ(written->ops[0].variants[1].mcpu, "sapphirerapids");
  EXPECT_EQ(written->ops[0].variants[0].features, isa_info(Isa::kAvx512).required.names());
}

// Only variants of kernels that use it ask for a feature beyond their instruction set.
TEST_F(AotWrite, PairsOfBf16AskForTheirFeature) {
  const std::vector<ir::Kernel> kernels = {kernel(2), pair_kernels(16).back().kernel};
  AotOp op = op_of("a problem", kernels, Isa::kAvx512);
  op.variants[0].target = *aot_target("znver4", {});
  op.variants.push_back(op_of("", {kernel(2)}, Isa::kAvx2).variants[0]);
  const Result<Manifest> written = write_package({op}, path("k.hone"), Replace::kNothing);
  ASSERT_TRUE(written.ok()) << written.status().message();
  EXPECT_EQ(written->ops[0].variants[0].features.back(), "avx512bf16");
  EXPECT_EQ(written->ops[0].variants[1].features, isa_info(Isa::kAvx2).required.names());
  PackageHost host{.arch = "x86_64", .features = isa_info(Isa::kAvx512).required};
  EXPECT_EQ(choose_variant(written->ops[0], host).value(), 1u);
  host.features.add(Feature::kAvx512Bf16);
  EXPECT_EQ(choose_variant(written->ops[0], host).value(), 0u);

  op.variants[0].target = *aot_target("x86-64-v4", host.features);
  const Status refused = write_package({op}, path("v4.hone"), Replace::kNothing).status();
  EXPECT_EQ(refused.code(), Code::kUnsupported);
  EXPECT_THAT(refused.message(), HasSubstr("AVX512_BF16: the CPU that the code is for lacks it"));
}

// One package for two architectures: each takes its own, and where there is only the other's the reason is said.
TEST_F(AotWrite, CodeForOtherArchitectures) {
  if (const Status emits = aot_target("cortex-a72", {}).status(); !emits.ok()) GTEST_SKIP() << emits.message();
  const AotVariant avx2 = op_of("", {kernel(2)}, Isa::kAvx2).variants[0];
  const AotVariant neon =
      op_of("", {tile_kernel({.mr = 12, .nr = 8, .k = 16, .lanes = 4, .versions = true})}, Isa::kNeon).variants[0];
  const Result<Manifest> written =
      write_package({{.problem = "both", .variants = {avx2, neon}}, {.problem = "neon", .variants = {neon}}},
                    path("k.hone"), Replace::kNothing);
  ASSERT_TRUE(written.ok()) << written.status().message();
  EXPECT_EQ(written->ops[0].variants[1].arch, "aarch64");
  EXPECT_EQ(written->ops[0].variants[1].features, std::vector<std::string>{"asimd"});
  // Constants and jump tables are reached without relocations there too.
  const std::string object = read_text(path("k.hone/1.neon.so"));
  const auto functions = check_elf_object(std::as_bytes(std::span(object)), "aarch64");
  ASSERT_TRUE(functions.ok()) << functions.status().message();
  EXPECT_EQ(functions->size(), 1u);
  EXPECT_FALSE(check_elf_object(std::as_bytes(std::span(object)), "x86_64").ok());
  const Result<std::shared_ptr<const Package>> package = Package::open(path("k.hone"));
  ASSERT_TRUE(package.ok()) << package.status().message();
  const PackageHost x86{.arch = "x86_64", .features = isa_info(Isa::kAvx512).required};
  const PackageHost arm{.arch = "aarch64", .features = isa_info(Isa::kNeon).required};
  EXPECT_EQ(choose_variant(written->ops[0], x86).value(), 0u);
  EXPECT_EQ(choose_variant(written->ops[0], arm).value(), 1u);
  EXPECT_EQ(choose_variant(written->ops[1], x86).status().message(),
            "neon: no variant runs here: neon code for aarch64, this is x86_64");
  const Status refused = (*package)->load(written->ops[1].variants[0], x86).status();
  EXPECT_EQ(refused.code(), Code::kUnsupported);
  EXPECT_THAT(refused.message(), HasSubstr("k.hone: neon code for aarch64, this is x86_64"));
}

TEST_F(AotWrite, Places) {
  const auto refused = [&](const std::string& at, const std::string& why, Replace replace = Replace::kPackage) {
    const Status status = write(at, replace);
    EXPECT_EQ(status.code(), Code::kInvalidArgument) << at << ": " << status.message();
    EXPECT_THAT(status.message(), HasSubstr(why));
  };
  refused("", "is no name for a package");
  refused("/", "is no name");
  refused(path("."), "is no name");
  refused(path("x/.."), "is no name");
  refused(path("no/where"), "there is no folder");
  write_text(path("file"), "mine");
  refused(path("file"), "is no package: it is left as it is");
  refused(path("file/k.hone"), "there is no folder");
  fs::create_directory(path("full"));
  write_text(path("full/mine"), "mine");
  refused(path("full/"), "is no package");
  write_text(path("full/manifest.json"), "{\"format\": \"another\"}");
  refused(path("full"), "is no package");
  fs::create_symlink(path("full"), path("link"));
  refused(path("link"), "is no package");
  EXPECT_EQ(read_text(path("file")) + read_text(path("full/mine")), "minemine");

  fs::create_directory(path("empty"));
  EXPECT_TRUE(write(path("empty")).ok());
  EXPECT_TRUE(write(path("slashes.hone//")).ok());
  EXPECT_TRUE(Package::open(path("slashes.hone")).ok());
  refused(path("slashes.hone"), "exists; --force replaces it", Replace::kNothing);
  EXPECT_THAT(names(), testing::ElementsAre("empty", "file", "full", "link", "slashes.hone"));
}

TEST_F(AotWrite, APackageIsReplacedAsAWhole) {
  ASSERT_TRUE(write(path("k.hone"), Replace::kNothing, 1).ok());
  const std::string before = read_text(path("k.hone/manifest.json"));
  write_text(path("k.hone/left over"), "x");
  ASSERT_TRUE(write(path("k.hone"), Replace::kPackage, 2).ok());
  EXPECT_NE(read_text(path("k.hone/manifest.json")), before);
  EXPECT_FALSE(fs::exists(path("k.hone/left over")));
  EXPECT_TRUE(Package::open(path("k.hone")).ok());
  EXPECT_THAT(names(), testing::ElementsAre("k.hone"));

  // One that is damaged is still a package, and what fails leaves it as it is.
  write_text(path("k.hone/manifest.json"), before.substr(0, 40));
  setenv("HONE_LINKER", "/bin/false", 1);
  EXPECT_THAT(write(path("k.hone"), Replace::kPackage).message(), HasSubstr("/bin/false failed with exit code 1"));
  EXPECT_EQ(read_text(path("k.hone/manifest.json")), before.substr(0, 40));
  EXPECT_THAT(names(), testing::ElementsAre("k.hone"));
  unsetenv("HONE_LINKER");
  EXPECT_TRUE(write(path("k.hone"), Replace::kPackage).ok());
  EXPECT_TRUE(Package::open(path("k.hone")).ok());
}

TEST_F(AotWrite, EveryLinkerThatIsHere) {
  int linkers = 0;
  for (const char* linker : {"ld.lld-19", "ld.lld", "ld", "gcc", "cc", "/usr/bin/ld"}) {
    setenv("HONE_LINKER", linker, 1);
    const Status status = write(path("k.hone"), Replace::kPackage);
    if (status.code() == Code::kUnsupported) continue;
    ASSERT_TRUE(status.ok()) << linker << ": " << status.message();
    ++linkers;
    const Result<std::shared_ptr<const Package>> package = Package::open(path("k.hone"));
    ASSERT_TRUE(package.ok()) << package.status().message();
    const Result<std::vector<Executable>> loaded =
        (*package)->load((*package)->manifest().ops[0].variants[0], this_host());
    EXPECT_TRUE(loaded.ok()) << linker << ": " << loaded.status().message();
  }
  EXPECT_GT(linkers, 0) << "lld-19 or binutils is what the build installs";
  setenv("HONE_LINKER", "no-such-linker; touch ", 1);
  EXPECT_THAT(write(path("k.hone"), Replace::kPackage).message(), HasSubstr("HONE_LINKER names no program"));
}

TEST_F(AotWrite, ErrorsOfTheLinkerAreOneLine) {
  const Status status = link_shared({path("missing.o")}, path("out.so"), std::string(process_arch()));
  EXPECT_EQ(status.code(), Code::kInternal);
  EXPECT_THAT(status.message(), HasSubstr("missing.o"));
  EXPECT_THAT(status.message(), Not(HasSubstr("\n")));
}

TEST(AotTargets, CpusByName) {
  const FeatureSet avx2 = isa_info(Isa::kAvx2).required, avx512 = isa_info(Isa::kAvx512).required;
  const Result<AotTarget> zen4 = aot_target("znver4", avx2);
  if (zen4.status().code() == Code::kUnsupported) GTEST_SKIP() << zen4.status().message();
  const FeatureSet pairs{Feature::kAvx512Bf16};
  EXPECT_EQ(*zen4, (AotTarget{.isa = Isa::kAvx512, .mcpu = "znver4", .tune = "znver4", .optional = pairs}));
  EXPECT_EQ(aot_target("cooperlake", {})->optional, pairs);
  EXPECT_EQ(aot_target("icelake-server", {})->optional, FeatureSet{});
  FeatureSet with_pairs = avx512;
  with_pairs.add(Feature::kAvx512Bf16);
  EXPECT_EQ(aot_target("native", with_pairs)->optional, pairs);
  EXPECT_EQ(aot_target("native", avx512)->optional, FeatureSet{});
  EXPECT_EQ(aot_target("x86-64-v4", with_pairs)->optional, FeatureSet{}) << "this machine is not asked";
  EXPECT_EQ(*aot_target("x86-64-v4", avx2), (AotTarget{.isa = Isa::kAvx512, .mcpu = "x86-64-v4", .tune = ""}));
  EXPECT_EQ(*aot_target("x86-64-v3", avx512), (AotTarget{.isa = Isa::kAvx2, .mcpu = "x86-64-v3", .tune = ""}));
  EXPECT_EQ(aot_target("haswell", {})->isa, Isa::kAvx2);
  EXPECT_EQ(aot_target("sapphirerapids", {})->isa, Isa::kAvx512);
  EXPECT_EQ(*aot_target("neoverse-n1", avx2),
            (AotTarget{.isa = Isa::kNeon, .mcpu = "neoverse-n1", .tune = "neoverse-n1"}));
  EXPECT_EQ(aot_target("native", avx2)->isa, Isa::kAvx2);
  EXPECT_EQ(aot_target("native", avx512)->isa, Isa::kAvx512);

  const Isa weak = Isa::kAvx2, strong = Isa::kAvx512, foreign = Isa::kNeon;
  EXPECT_EQ(*aot_target("generic", avx2, &foreign), (AotTarget{.isa = Isa::kNeon, .mcpu = "generic", .tune = ""}));
  EXPECT_THAT(aot_target("neoverse-n1", avx512, &strong).status().message(), HasSubstr("does not have avx512"));
  if (host_arch() == Arch::kX86_64) {
    EXPECT_THAT(aot_target("generic", avx2).status().message(), HasSubstr("no instruction set that hone emits"));
  }
  EXPECT_EQ(aot_target("znver4", {}, &weak)->isa, Isa::kAvx2);
  EXPECT_THAT(aot_target("haswell", avx512, &strong).status().message(), HasSubstr("does not have avx512"));
  EXPECT_THAT(aot_target("native", avx2, &strong).status().message(), HasSubstr("does not have avx512"));
  EXPECT_THAT(aot_target("nonesuch", avx512).status().message(), HasSubstr("knows no CPU 'nonesuch'"));
  EXPECT_THAT(aot_target("", avx512).status().message(), HasSubstr("knows no CPU ''"));
  EXPECT_THAT(aot_target("pentium4", avx512).status().message(), HasSubstr("has no instruction set that hone emits"));
  EXPECT_EQ(aot_target("nonesuch", avx512).status().code(), Code::kInvalidArgument);
}

}  // namespace
}  // namespace hone::jit
