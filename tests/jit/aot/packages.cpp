#include "tests/jit/aot/packages.h"

#include <unistd.h>

#include <fstream>
#include <iterator>

#include "engine/base/machine.h"

namespace hone::jit {

namespace fs = std::filesystem;

PackageTest::PackageTest() {
  const testing::TestInfo& test = *testing::UnitTest::GetInstance()->current_test_info();
  std::string name = "hone_" + std::to_string(getpid()) + "_" + test.test_suite_name() + "_" + test.name();
  for (char& c : name)
    if (c == '/') c = '_';
  folder_ = fs::path(testing::TempDir()) / name;
  fs::remove_all(folder_);
  fs::create_directories(folder_);
}

PackageTest::~PackageTest() { fs::remove_all(folder_); }

std::string read_text(const fs::path& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
}

void write_text(const fs::path& path, const std::string& text) { std::ofstream(path, std::ios::binary) << text; }

PackageHost this_host() {
  const Result<Machine> machine = detect_machine();
  return {.arch = std::string(process_arch()), .features = machine.ok() ? machine->features : FeatureSet()};
}

std::string cannot_package(Isa isa) {
  const Result<AotTarget> target = aot_target("native", this_host().features, &isa);
  if (target.ok()) return "";
  return target.status().message();
}

AotOp op_of(const std::string& problem, std::vector<ir::Kernel> kernels, Isa isa) {
  AotVariant variant{.target = {.isa = isa, .mcpu = "", .tune = ""},
                     .program = "a program",
                     .numerics = "ordered",
                     .kernels = std::move(kernels)};
  return {.problem = problem, .variants = {std::move(variant)}};
}

Result<std::unique_ptr<CompiledKernel>> PackagingGenerator::compile(const ir::Kernel& kernel, Isa isa,
                                                                    const CompileOptions&) {
  HONE_RETURN_IF_ERROR(write_package({op_of("a problem", {kernel}, isa)}, folder_, Replace::kPackage).status());
  HONE_ASSIGN_OR_RETURN(const std::shared_ptr<const Package> package, Package::open(folder_));
  HONE_ASSIGN_OR_RETURN(std::vector<Executable> loaded,
                        package->load(package->manifest().ops.front().variants.front(), this_host()));
  return std::move(loaded.front().kernel);
}

}  // namespace hone::jit
