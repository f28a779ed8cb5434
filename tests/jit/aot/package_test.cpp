// Opening and loading: what comes out computes what the interpreter does, and whatever was changed in a package is
// refused with the name of what was changed.
#include "jit/aot/package.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <sys/stat.h>
#include <unistd.h>

#include <fstream>

#include "engine/base/sha256.h"
#include "jit/aot/elf_object.h"
#include "kernels/ir/text.h"
#include "tests/jit/aot/packages.h"
#include "tests/jit/sample_kernels.h"

namespace hone::jit {
namespace {

namespace fs = std::filesystem;
using testing::AllOf;
using testing::HasSubstr;

class AotDifferential : public PackageTest, public testing::WithParamInterface<Isa> {};

TEST_P(AotDifferential, KernelsFromAPackageAreLikeTheInterpreter) {
  if (const std::string why = cannot_package(GetParam()); !why.empty()) GTEST_SKIP() << why;
  PackagingGenerator generator(path("k.hone"));
  const Target target{&generator, GetParam()};
  for (int lanes : {1, 4, 8, 16}) {
    if (lanes > isa_info(GetParam()).lanes_f32()) continue;
    for (const KernelCase& test : sample_kernels(lanes)) expect_like_interpreter(test, target, 20);
  }
}

INSTANTIATE_TEST_SUITE_P(Isas, AotDifferential, testing::ValuesIn(all_isas().begin(), all_isas().end()),
                         [](const auto& isa) { return std::string(isa_info(isa.param).name); });

constexpr char kProblem[] = "a problem";

// A package of one op with code for the weakest instruction set.
class AotPackage : public PackageTest {
 protected:
  void SetUp() override {
    if (const std::string why = cannot_package(kIsa); !why.empty()) GTEST_SKIP() << why;
    const TileShape shape{.mr = 2, .nr = 8, .k = 16, .lanes = 8};
    const Result<Manifest> written =
        write_package({op_of(kProblem, {tile_kernel(shape)}, kIsa)}, path("k.hone"), Replace::kNothing);
    ASSERT_TRUE(written.ok()) << written.status().message();
    manifest_ = *written;
  }

  const PackageVariant& variant() const { return manifest_.ops[0].variants[0]; }
  fs::path file(const std::string& name) const { return folder_ / "k.hone" / name; }
  fs::path object() const { return file(variant().object); }
  fs::path loop_ir() const { return file(variant().kernels[0].loop_ir); }

  // Writes the manifest anew, with true sizes and checksums of the files that are there.
  void write_manifest();

  // Opens and loads.
  Status use(const PackageHost& host = this_host()) const {
    HONE_ASSIGN_OR_RETURN(const std::shared_ptr<const Package> package, Package::open(path("k.hone")));
    HONE_ASSIGN_OR_RETURN(const size_t chosen, choose_variant(package->manifest().ops[0], host));
    return package->load(package->manifest().ops[0].variants[chosen], host).status();
  }
  void refused(Code code, const std::string& what, const PackageHost& host = this_host()) const {
    const Status status = use(host);
    EXPECT_EQ(code_name(status.code()), code_name(code)) << status.message();
    EXPECT_THAT(status.message(), HasSubstr(what));
  }

  static constexpr Isa kIsa = Isa::kAvx2;
  Manifest manifest_;
};

void AotPackage::write_manifest() {
  for (PackageFile& f : manifest_.files) {
    const std::string content = read_text(file(f.name));
    f.bytes = static_cast<int64_t>(content.size());
    f.sha256 = sha256_hex(std::string_view(content));
  }
  write_text(file("manifest.json"), print(manifest_));
}

TEST_F(AotPackage, Loads) {
  EXPECT_TRUE(use().ok()) << use().message();
  const Result<std::shared_ptr<const Package>> package = Package::open(path("k.hone"));
  ASSERT_TRUE(package.ok());
  EXPECT_EQ((*package)->manifest(), manifest_);
  const Result<std::vector<Executable>> loaded = (*package)->load(variant(), this_host());
  ASSERT_TRUE(loaded.ok()) << loaded.status().message();
  ASSERT_EQ(loaded->size(), 1u);
  EXPECT_GT(loaded->front().kernel->code().size(), 16u);
  EXPECT_EQ(print(*ir::parse((*package)->loop_ir(variant().kernels[0]))), (*package)->loop_ir(variant().kernels[0]));
}

int mapped_packages() {
  const std::string maps = read_text("/proc/self/maps");
  int count = 0;
  for (size_t at = 0; (at = maps.find("memfd:hone-package", at)) != std::string::npos; ++at) ++count;
  return count;
}

TEST_F(AotPackage, CodeGoesWithItsLastKernel) {
  ASSERT_EQ(mapped_packages(), 0);
  std::vector<Executable> kept;
  {
    const Result<std::shared_ptr<const Package>> package = Package::open(path("k.hone"));
    ASSERT_TRUE(package.ok());
    EXPECT_EQ(mapped_packages(), 0) << "opening loads nothing";
    Result<std::vector<Executable>> one = (*package)->load(variant(), this_host());
    ASSERT_TRUE(one.ok());
    const int mapped = mapped_packages();
    EXPECT_GT(mapped, 0);
    const Result<std::vector<Executable>> two = (*package)->load(variant(), this_host());
    ASSERT_TRUE(two.ok());
    EXPECT_EQ(mapped_packages(), mapped) << "loaded once";
    EXPECT_EQ(one->front().kernel->entry(), two->front().kernel->entry());
    kept = std::move(*one);
  }
  EXPECT_GT(mapped_packages(), 0) << "a kernel outlives its package";
  kept.clear();
  EXPECT_EQ(mapped_packages(), 0);
}

// Each package gets the number of a descriptor that the one before it had.
TEST_F(AotPackage, OneAfterTheOtherAndTogether) {
  std::vector<std::vector<Executable>> together;
  for (int i = 1; i <= 4; ++i) {
    const std::string at = path("n.hone");
    const TileShape shape{.mr = i, .nr = 8, .k = 16, .lanes = 8};
    ASSERT_TRUE(write_package({op_of(kProblem, {tile_kernel(shape)}, kIsa)}, at, Replace::kPackage).ok());
    const Result<std::shared_ptr<const Package>> package = Package::open(at);
    ASSERT_TRUE(package.ok()) << package.status().message();
    Result<std::vector<Executable>> alone = (*package)->load((*package)->manifest().ops[0].variants[0], this_host());
    ASSERT_TRUE(alone.ok()) << alone.status().message();
    if (i > 2) together.push_back(std::move(*alone));
  }
  EXPECT_NE(together[0].front().kernel->code().size(), together[1].front().kernel->code().size());
}

// Wherever a byte changes, in whatever file, nothing is loaded.
TEST_F(AotPackage, EveryChangedByteIsRefused) {
  for (const PackageFile& f : manifest_.files) {
    const std::string good = read_text(file(f.name));
    for (size_t at = 0; at < good.size(); at += 1 + good.size() / 50) {
      std::string bad = good;
      bad[at] = static_cast<char>(bad[at] ^ 1);
      write_text(file(f.name), bad);
      refused(Code::kDataLoss, f.name + " is not the file that was packed");
    }
    write_text(file(f.name), good.substr(0, good.size() - 1));
    refused(Code::kDataLoss, f.name + " has " + std::to_string(good.size() - 1) + " bytes, the manifest says");
    write_text(file(f.name), good + "x");
    refused(Code::kDataLoss, f.name);
    write_text(file(f.name), "");
    refused(Code::kDataLoss, f.name);
    fs::remove(file(f.name));
    refused(Code::kDataLoss, "cannot open " + f.name);
    write_text(file(f.name), good);
  }
  EXPECT_TRUE(use().ok());
}

TEST_F(AotPackage, FilesThatAreNoFiles) {
  const std::string good = read_text(object());
  fs::rename(object(), folder_ / "elsewhere");
  fs::create_symlink(folder_ / "elsewhere", object());
  refused(Code::kDataLoss, variant().object + " is a symbolic link");
  fs::remove(object());
  fs::create_directory(object());
  refused(Code::kDataLoss, variant().object + " is not a regular file");
  fs::remove(object());
  ASSERT_EQ(mkfifo(object().c_str(), 0600), 0);
  refused(Code::kDataLoss, variant().object + " is not a regular file");
  fs::remove(object());
  write_text(object(), good);
  fs::rename(file("manifest.json"), folder_ / "m");
  refused(Code::kDataLoss, "cannot open manifest.json");
  fs::create_symlink(folder_ / "m", file("manifest.json"));
  refused(Code::kDataLoss, "manifest.json is a symbolic link");
}

TEST_F(AotPackage, PlacesThatAreNoPackages) {
  EXPECT_EQ(Package::open(path("nowhere")).status().code(), Code::kNotFound);
  write_text(path("file"), "x");
  EXPECT_THAT(Package::open(path("file")).status().message(), HasSubstr("cannot open package"));
  fs::create_directory(path("empty"));
  EXPECT_THAT(Package::open(path("empty")).status().message(), HasSubstr("cannot open manifest.json"));
  fs::create_symlink(path("k.hone"), path("link"));
  EXPECT_TRUE(Package::open(path("link")).ok()) << "the package itself may be anywhere";
  EXPECT_TRUE(Package::open(path("k.hone") + "///").ok());
}

TEST_F(AotPackage, OtherMachines) {
  PackageHost host = this_host();
  host.features = FeatureSet{Feature::kAvx, Feature::kAvx2};
  refused(Code::kUnsupported, "this CPU lacks fma, f16c, bmi2", host);
  host = this_host();
  host.arch = "vax";
  refused(Code::kUnsupported, "code for " + std::string(process_arch()) + ", this is vax", host);

  PackageVariant& changed = manifest_.ops[0].variants[0];
  changed.features.push_back("feature-of-2030");
  write_manifest();
  refused(Code::kUnsupported, "this CPU lacks feature-of-2030");
  changed.features.pop_back();
  changed.isa = "isa-of-2030";
  write_manifest();
  refused(Code::kUnsupported, "instruction set 'isa-of-2030' is not one of this build");
  // What an instruction set needs is known here, whatever the manifest leaves out.
  changed.isa = "avx512", changed.features.clear();
  write_manifest();
  host = this_host();
  host.features = isa_info(Isa::kAvx2).required;
  refused(Code::kUnsupported, "avx512f", host);
}

TEST_F(AotPackage, VariantsAreChosenByCpu) {
  PackageOp op = manifest_.ops[0];
  op.variants.push_back(op.variants[0]);
  op.variants[1].isa = "avx512", op.variants[1].features = isa_info(Isa::kAvx512).required.names();
  op.variants.push_back(op.variants[1]);
  PackageHost host{.arch = op.variants[0].arch, .features = isa_info(Isa::kAvx512).required};
  EXPECT_EQ(*choose_variant(op, host), 1u) << "the strongest, of equal ones the first";
  host.features = isa_info(Isa::kAvx2).required;
  EXPECT_EQ(*choose_variant(op, host), 0u);
  host.features = {};
  EXPECT_THAT(choose_variant(op, host).status().message(),
              AllOf(HasSubstr("avx2 code, and this CPU lacks"), HasSubstr("avx512 code, and this CPU lacks")));
}

TEST_F(AotPackage, ObjectsThatAreNotOurs) {
  manifest_.ops[0].variants[0].kernels[0].symbol = "hone_another";
  write_manifest();
  refused(Code::kDataLoss, "has no function 'hone_another'");
  manifest_.ops[0].variants[0].kernels[0].symbol = "memcpy";
  write_manifest();
  refused(Code::kDataLoss, "has no function 'memcpy'");

  const std::string good = read_text(object());
  for (const std::string& bad : {std::string(),
                                 std::string("\x7f"
                                             "ELF"),
                                 std::string(4096, '\0'), good.substr(0, 64), good.substr(0, good.size() / 2)}) {
    write_text(object(), bad);
    write_manifest();
    refused(Code::kDataLoss, variant().object + ": is no object of a package");
  }
}

TEST_F(AotPackage, LoopIrThatIsNotProven) {
  const std::string good = read_text(loop_ir());
  write_text(loop_ir(), "kernel k {");
  write_manifest();
  refused(Code::kDataLoss, variant().kernels[0].loop_ir + " is no LoopIR that can be run");
  // It would read beyond its buffer.
  std::string beyond = good;
  const size_t at = beyond.find("f32[16, 8]");
  ASSERT_NE(at, std::string::npos) << good;
  write_text(loop_ir(), beyond.replace(at, 10, "f32[15, 8]"));
  write_manifest();
  refused(Code::kDataLoss, variant().kernels[0].loop_ir + " is no LoopIR that can be run");
}

// ---- objects that would do something when they are loaded ----

// Whatever byte of an object changes, the check says what is wrong or the object is one; it never reads beyond.
TEST_F(AotPackage, ElfCheckReadsNothingBeyond) {
  const std::string good = read_text(object());
  const auto check = [](const std::string& text) {
    const std::vector<char> exact(text.begin(), text.end());  // so that a sanitizer sees the end
    return check_elf_object(std::as_bytes(std::span(exact)), std::string(process_arch())).status();
  };
  EXPECT_TRUE(check(good).ok()) << check(good).message();
  for (size_t length = 0; length < good.size(); length += 1 + good.size() / 300)
    EXPECT_FALSE(check(good.substr(0, length)).ok()) << length;
  for (size_t at = 0; at < good.size(); at += at < 1024 ? 1 : 13) {
    for (const int value : {0x00, 0x7f, 0xff}) {
      std::string bad = good;
      bad[at] = static_cast<char>(value);
      (void)check(bad);  // any answer will do
    }
  }
}

class ElfObjects : public PackageTest {
 protected:
  // What check_elf_object says of a shared object that the system's compiler makes of some C.
  std::string verdict(const std::string& c, const std::string& flags) {
    write_text(path("x.c"), c);
    const std::string command =
        "cc -shared -fPIC -O1 -o " + path("x.so") + " " + path("x.c") + " " + flags + " 2>/dev/null";
    if (std::system(command.c_str()) != 0) return "no compiler";
    const std::string bytes = read_text(path("x.so"));
    const Status status = check_elf_object(std::as_bytes(std::span(bytes)), std::string(process_arch())).status();
    return status.ok() ? "ok" : status.message();
  }
};

TEST_F(ElfObjects, WhatAnObjectMayNotAskFor) {
  const std::string plain = "-nostdlib -Wl,-z,noexecstack";
  const std::string function = "int f(int x) { return x + 1; }";
  if (verdict(function, plain) == "no compiler") GTEST_SKIP() << "there is no cc to make objects with";
  EXPECT_EQ(verdict(function, plain), "ok");
  EXPECT_THAT(verdict(function, ""), HasSubstr("it "));
  EXPECT_THAT(verdict("__attribute__((constructor)) void c(void) {}" + function, plain), HasSubstr("has "));
  EXPECT_THAT(verdict("int g(void); int f(void) { return g(); }", plain),
              testing::AnyOf(HasSubstr("has relocations"), HasSubstr("needs the symbol")));
  EXPECT_THAT(verdict("static int x; int* p = &x;" + function, plain), HasSubstr("has relocations"));
  EXPECT_THAT(verdict("__thread int t;" + function, plain), HasSubstr("thread-local"));
  EXPECT_THAT(verdict(function, "-nostdlib -Wl,-z,execstack"), HasSubstr("executable stack"));
  EXPECT_THAT(verdict(function, plain + " -Wl,-rpath,/x"), HasSubstr("search path"));
  EXPECT_THAT(verdict(function, "-nostdlib -Wl,-z,noexecstack -Wl,--omagic"),
              testing::AnyOf(HasSubstr("writable and executable"), testing::Eq("ok")));
}

}  // namespace
}  // namespace hone::jit
