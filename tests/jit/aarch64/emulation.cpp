// See emulation.h. The runner and the emulator are found by CMake (HONE_AARCH64_RUNNER, HONE_AARCH64_EMULATOR); both
// are
// "" where something is missing.
#include "tests/jit/aarch64/emulation.h"

#include <fmt/format.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cstdio>

#include "engine/base/guarded_buffer.h"
#include "jit/aot/write.h"
#include "jit/fuzz/arguments.h"
#include "jit/launch.h"
#include "kernels/ir/text.h"
#include "kernels/ir/verify.h"
#include "kernels/op/trial.h"

namespace hone::jit {
namespace {

namespace fs = std::filesystem;

using Memory = std::vector<const GuardedBuffer*>;

std::vector<uint8_t> content(const GuardedBuffer& buffer) {
  const std::span<const uint8_t> bytes = buffer.as<uint8_t>();
  return {bytes.begin(), bytes.end()};
}

// `floats`: of each region.
Recording::Case before(std::string name, const Memory& memory, const std::vector<bool>& floats) {
  Recording::Case c{.name = std::move(name), .regions = {}, .launches = {}};
  for (size_t i = 0; i < memory.size(); ++i)
    c.regions.push_back({memory[i]->guard() == Guard::kBefore, floats[i], content(*memory[i]), {}});
  return c;
}

void after(const Memory& memory, Recording::Case& c) {
  for (size_t i = 0; i < memory.size(); ++i) c.regions[i].after = content(*memory[i]);
}

Recording::Pointer pointer_into(const Memory& memory, const void* p) {
  const auto* byte = static_cast<const std::byte*>(p);
  for (size_t i = 0; i < memory.size(); ++i)
    if (p != nullptr && byte >= memory[i]->data() && byte <= memory[i]->data() + memory[i]->size())
      return {static_cast<int32_t>(i), byte - memory[i]->data()};
  return {};
}

Recording::Item item_of(const ir::Kernel& kernel, const Memory& memory, void* const* buffers, const int64_t* params) {
  Recording::Item item;
  for (size_t i = 0; i < kernel.arguments().size(); ++i) item.buffers.push_back(pointer_into(memory, buffers[i]));
  item.params.assign(params, params + kernel.params().size());
  return item;
}

Result<Executable> interpreted(const ir::Kernel& kernel) {
  HONE_ASSIGN_OR_RETURN(CodeGenerator * interp, find_code_generator("interp"));
  return make_executable(kernel, *interp, Isa::kNeon);
}

AotVariant neon() {
  return {.target = {.isa = Isa::kNeon, .mcpu = "generic", .tune = ""},
          .program = "any",
          .numerics = "any",
          .threads = 0,
          .kernels = {}};
}

}  // namespace

std::string Emulation::why_not() {
  if (std::string(HONE_AARCH64_RUNNER).empty())
    return "no cross compiler (Debian: g++-aarch64-linux-gnu) when this was configured";
  if (std::string(HONE_AARCH64_EMULATOR).empty()) return "no qemu-aarch64 (Debian: qemu-user) when this was configured";
  const Result<AotTarget> target = aot_target("cortex-a72", {});
  return target.ok() ? "" : target.status().message();
}

Status Emulation::add(const op::Problem& problem, const op::Program& program, uint64_t seed) {
  HONE_ASSIGN_OR_RETURN(const std::vector<ir::Kernel> kernels, op::lower(problem, program));
  HONE_ASSIGN_OR_RETURN(const std::unique_ptr<op::Trial> trial, op::make_trial(problem, program, seed));
  const Memory memory = trial->memory();
  const std::string name = fmt::format("{} | {} | seed {}", op::to_string(problem), op::to_string(program), seed);
  trial->reset();
  Recording::Case recorded = before(name, memory, std::vector<bool>(memory.size(), true));
  WorkspacePool workspaces;
  for (size_t k = 0; k < kernels.size(); ++k) {
    HONE_ASSIGN_OR_RETURN(const Executable executable, interpreted(kernels[k]));
    Recording::Launch launch{.op = static_cast<int32_t>(ops_.size()), .kernel = static_cast<int32_t>(k)};
    for (const op::Trial::Call& call : trial->calls(k)) {
      launch.items.push_back(item_of(kernels[k], memory, call.buffers, call.params));
      Launch here(executable, call.buffers, call.params, &workspaces);
      Launch::run_range(&here, 0, here.tasks());
    }
    recorded.launches.push_back(std::move(launch));
  }
  if (const numeric::Comparison c = trial->compare(); !c.ok()) return internal_error(name + ": " + c.text);
  after(memory, recorded);

  AotVariant variant = neon();
  variant.program = op::to_string(program);
  variant.numerics = op::numerics(program);
  variant.kernels = kernels;
  // A package has each problem once.
  ops_.push_back({.problem = fmt::format("{} {}", ops_.size(), op::to_string(problem)), .variants = {variant}});
  recording_.cases.push_back(std::move(recorded));
  return {};
}

Status Emulation::add(const ir::Kernel& kernel, const std::vector<std::vector<int64_t>>& runs, uint64_t seed) {
  constexpr size_t kMostKernels = 64;  // of one op of a package
  if (!loose_ || ops_[*loose_].variants[0].kernels.size() == kMostKernels) {
    loose_ = ops_.size();
    ops_.push_back({.problem = fmt::format("{} kernels", ops_.size()), .variants = {neon()}});
  }
  std::vector<ir::Kernel>& loose = ops_[*loose_].variants[0].kernels;
  const auto op = static_cast<int32_t>(*loose_), index = static_cast<int32_t>(loose.size());
  HONE_ASSIGN_OR_RETURN(const Executable executable, interpreted(kernel));
  std::vector<bool> floats;
  for (const ir::BufferId id : kernel.arguments())
    floats.push_back(kernel.buffers[static_cast<size_t>(id)].dtype == DType::kF32);
  for (const std::vector<int64_t>& params : runs) {
    HONE_ASSIGN_OR_RETURN(Arguments arguments, Arguments::create(kernel, params, seed));
    const Memory memory = arguments.memory();
    Recording::Case recorded =
        before(fmt::format("{} ({}) seed {}", kernel.name, fmt::join(params, " "), seed), memory, floats);
    recorded.launches.push_back({.op = op,
                                 .kernel = index,
                                 .poisoned = true,
                                 .items = {item_of(kernel, memory, arguments.pointers(), params.data())}});
    arguments.run_tasks([&](auto... all) { executable.kernel->run(all...); });
    after(memory, recorded);
    recording_.cases.push_back(std::move(recorded));
  }
  loose.push_back(kernel);
  loose.back().name += "_" + std::to_string(index);  // functions of one object
  return {};
}

Result<Emulation::Outcome> Emulation::run(const fs::path& folder) const {
  const std::string package = folder / "neon.hone", file = folder / "recording";
  HONE_RETURN_IF_ERROR(write_package(ops_, package, Replace::kPackage).status());
  Recording recorded = recording_;
  if (!write_recording(file, recorded)) return internal_error("cannot write " + file);

  const std::string command =
      fmt::format("{} {} '{}' '{}' 2>&1", HONE_AARCH64_EMULATOR, HONE_AARCH64_RUNNER, package, file);
  FILE* const pipe = popen(command.c_str(), "r");
  if (pipe == nullptr) return internal_error("cannot start " + command);
  Outcome outcome{.code = -1, .output = ""};
  std::array<char, 4096> chunk;
  for (size_t got; (got = fread(chunk.data(), 1, chunk.size(), pipe)) > 0;) outcome.output.append(chunk.data(), got);
  const int status = pclose(pipe);
  if (WIFEXITED(status)) outcome.code = WEXITSTATUS(status);
  return outcome;
}

EmulatedTest::EmulatedTest() {
  const testing::TestInfo& test = *testing::UnitTest::GetInstance()->current_test_info();
  folder_ = fs::path(testing::TempDir()) / fmt::format("hone_{}_{}_{}", getpid(), test.test_suite_name(), test.name());
  fs::remove_all(folder_);
  fs::create_directories(folder_);
}

EmulatedTest::~EmulatedTest() { fs::remove_all(folder_); }

void EmulatedTest::expect_equal_bits() {
  const Result<Emulation::Outcome> outcome = emulation_.run(folder_);
  ASSERT_TRUE(outcome.ok()) << outcome.status().message();
  EXPECT_EQ(outcome->code, 0) << outcome->output;
  EXPECT_EQ(outcome->output, fmt::format("{} cases, 0 differences\n", emulation_.cases()));
}

}  // namespace hone::jit
