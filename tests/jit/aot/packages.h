// Packages for tests: written to a folder of the test's own, read, changed on purpose.
#pragma once

#include <gtest/gtest.h>

#include <filesystem>
#include <memory>
#include <string>

#include "jit/aot/package.h"
#include "jit/aot/write.h"
#include "jit/codegen.h"

namespace hone::jit {

// A folder of its own for each test, gone when the test is over.
class PackageTest : public testing::Test {
 protected:
  PackageTest();
  ~PackageTest() override;

  std::string path(const std::string& name) const { return (folder_ / name).string(); }

  std::filesystem::path folder_;
};

std::string read_text(const std::filesystem::path& path);
void write_text(const std::filesystem::path& path, const std::string& text);

// This machine, as packages see it.
PackageHost this_host();
// A skip with the reason where this build cannot write packages or this CPU cannot run `isa`; "" elsewhere.
std::string cannot_package(Isa isa);

// One op of one variant.
AotOp op_of(const std::string& problem, std::vector<ir::Kernel> kernels, Isa isa);

// Code generation by way of a package: the kernel is compiled to one, which is then opened and loaded.
class PackagingGenerator final : public CodeGenerator {
 public:
  explicit PackagingGenerator(std::string folder) : folder_(std::move(folder)) {}
  std::string_view name() const override { return "packaging"; }
  std::string version() const override { return "packaging-1"; }
  bool targets(Isa isa) const override { return cannot_package(isa).empty(); }
  Result<std::unique_ptr<CompiledKernel>> compile(const ir::Kernel& kernel, Isa isa,
                                                  const CompileOptions& options) override;

 private:
  std::string folder_;
};

}  // namespace hone::jit
