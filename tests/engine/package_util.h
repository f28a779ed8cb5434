// Packages of problems, as `hone compile` would write them, in a folder of the test's own.
#pragma once

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "engine/base/machine.h"
#include "engine/base/sha256.h"
#include "engine/plan/packages.h"
#include "jit/aot/write.h"
#include "kernels/op/op.h"

namespace hone::testing_api {

// What goes into a package for one problem; one variant for each instruction set.
struct Packed {
  std::string problem;
  std::vector<Isa> isas;
  std::string numerics = "";
  int threads = 0;
};

class PackageFixture : public ::testing::Test {
 protected:
  PackageFixture() {
    const testing::TestInfo& test = *testing::UnitTest::GetInstance()->current_test_info();
    folder_ = std::filesystem::path(testing::TempDir()) /
              ("hone_" + std::to_string(getpid()) + "_" + test.test_suite_name() + "_" + test.name());
    std::filesystem::remove_all(folder_);
    std::filesystem::create_directories(folder_);
  }
  ~PackageFixture() override { std::filesystem::remove_all(folder_); }

  void SetUp() override {
    machine_ = detect_machine().value();
    const Result<jit::AotTarget> native = jit::aot_target("native", machine_.features);
    if (!native.ok()) GTEST_SKIP() << native.status().message();
    isa_ = native->isa;
  }

  static op::Program program_of(const op::Problem& problem, Isa isa, const std::string& numerics = "") {
    return op::canonical(problem,
                         op::default_program(problem, {.isa = isa, .caches = {}, .threads = 1, .numerics = numerics}));
  }

  // Its path.
  std::string pack(const std::string& name, const std::vector<Packed>& all) const {
    std::vector<jit::AotOp> ops;
    for (const Packed& packed : all) {
      const op::Problem problem = op::parse_problem(packed.problem).value();
      jit::AotOp& op = ops.emplace_back(jit::AotOp{.problem = op::to_string(problem), .variants = {}});
      for (const Isa isa : packed.isas) {
        const op::Program program = program_of(problem, isa, packed.numerics);
        op.variants.push_back({.target = {.isa = isa, .mcpu = "", .tune = ""},
                               .program = op::to_string(program),
                               .numerics = op::numerics(program),
                               .threads = packed.threads,
                               .kernels = op::lower(problem, program).value()});
      }
    }
    const std::string path = (folder_ / name).string();
    const Result<jit::Manifest> written = jit::write_package(ops, path, jit::Replace::kPackage);
    EXPECT_TRUE(written.ok()) << written.status().message();
    return path;
  }
  std::string pack(const std::string& name, const std::string& problem) const {
    return pack(name, {{problem, {isa_}}});
  }

  static std::string text_of(const std::filesystem::path& path) {
    std::ifstream in(path, std::ios::binary);
    return {std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
  }
  static void write_text(const std::filesystem::path& path, const std::string& text) {
    std::ofstream(path, std::ios::binary) << text;
  }
  // Changes the manifest, with true sizes and checksums of the files as they are.
  template <typename Change>
  static void change(const std::filesystem::path& package, Change body) {
    jit::Manifest manifest = jit::parse_manifest(text_of(package / "manifest.json")).value();
    body(manifest);
    for (jit::PackageFile& f : manifest.files) {
      const std::string content = text_of(package / f.name);
      f.bytes = static_cast<int64_t>(content.size());
      f.sha256 = sha256_hex(std::string_view(content));
    }
    write_text(package / "manifest.json", print(manifest));
  }

  jit::PackageHost host() const { return {.arch = std::string(jit::process_arch()), .features = machine_.features}; }

  std::filesystem::path folder_;
  Machine machine_;
  Isa isa_ = Isa::kAvx2;  // the strongest that this machine runs
};

}  // namespace hone::testing_api
