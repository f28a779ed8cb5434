// The promise that tuning never changes a result, for attention: random problems under random legal programs, through
// every code generator, on every instruction set of this CPU, give the bits of the program's numerics class. Each plan
// runs on several sequences of different lengths at once; what a kernel must not touch holds NaN or a guard page.
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <memory>
#include <random>

#include "engine/base/machine.h"
#include "engine/runtime/schedule.h"
#include "jit/launch.h"
#include "jit/llvm/pipelines.h"
#include "kernels/attention/bind.h"
#include "kernels/attention/blocking.h"
#include "tests/kernels/attention/attention_testing.h"

namespace hone {
namespace {

using attention::AttentionProblem;
using attention::AttentionProgram;
using attention::TestSequence;

const Machine& machine() {
  static const Machine m = detect_machine().value();
  return m;
}

runtime::Schedule& schedule(int threads) {
  static const auto one = runtime::make_schedule({runtime::ScheduleKind::kTbb, 1}).value();
  static const auto three = runtime::make_schedule({runtime::ScheduleKind::kTbb, 3}).value();
  return threads == 1 ? *one : *three;
}

// The sequences of a batch: the first as long as the plan was made for, the others up to that.
std::vector<std::unique_ptr<TestSequence>> sequences(const AttentionProblem& p, uint64_t seed) {
  std::mt19937_64 rng(seed);
  std::vector<std::unique_ptr<TestSequence>> made;
  for (int64_t i = 0; i < std::max<int64_t>(p.batch, 1); ++i) {
    const int64_t q = i == 0 ? p.q : static_cast<int64_t>(rng() % static_cast<uint64_t>(p.q + 1));
    const int64_t kv = i == 0 ? p.kv : static_cast<int64_t>(rng() % static_cast<uint64_t>(p.kv + 1));
    made.push_back(std::make_unique<TestSequence>(p, q, kv, rng()));
  }
  return made;
}

struct Compiled {
  std::vector<jit::Executable> kernels;
};

// All sequences in one launch of each kernel.
void run(const Compiled& compiled, const AttentionProblem& problem, const AttentionProgram& program,
         const std::vector<std::unique_ptr<TestSequence>>& batch, runtime::Schedule& on) {
  static jit::WorkspacePool workspaces;  // of all cases: what one leaves behind the next must not show
  std::vector<GuardedBuffer> partials;
  for (size_t i = 0; i < batch.size(); ++i) {
    partials.push_back(GuardedBuffer::create(4 * attention::partial_elements(problem, program)).value());
  }
  for (size_t k = 0; k < compiled.kernels.size(); ++k) {
    std::vector<attention::Arguments> arguments(batch.size());
    std::vector<jit::LaunchItem> items;
    for (size_t i = 0; i < batch.size(); ++i) {
      arguments[i] = attention::bind(problem, program, batch[i]->sequence(), static_cast<int>(k),
                                     reinterpret_cast<float*>(partials[i].data()));
      items.emplace_back(compiled.kernels[k], arguments[i].buffers.data(), arguments[i].params.data());
    }
    jit::Launch launch(compiled.kernels[k], items, &workspaces, k % 2 == 0 ? jit::Walk::kLastFirst : jit::Walk::kRange);
    on.for_range({"attention", "test"}, launch.tasks(), 1, {jit::Launch::run_range, &launch});
    ASSERT_FALSE(launch.out_of_memory());
  }
}

// One program through one generator, on one thread and on three.
void expect_bits(const AttentionProblem& problem, const AttentionProgram& program, jit::CodeGenerator& generator,
                 uint64_t seed) {
  SCOPED_TRACE(fmt::format("{} | {} | {} | seed {}", attention::to_string(problem), attention::to_string(program),
                           generator.name(), seed));
  const Result<std::vector<ir::Kernel>> kernels = attention::lower(problem, program);
  ASSERT_TRUE(kernels.ok()) << kernels.status().message();
  Compiled compiled;
  for (const ir::Kernel& kernel : *kernels) {
    Result<jit::Executable> executable = jit::make_executable(kernel, generator, program.isa);
    ASSERT_TRUE(executable.ok()) << executable.status().message();
    compiled.kernels.push_back(std::move(*executable));
  }
  const auto batch = sequences(problem, seed);
  for (int threads : {1, 3}) {
    for (const auto& sequence : batch) sequence->reset();
    run(compiled, problem, program, batch, schedule(threads));
    for (size_t i = 0; i < batch.size(); ++i) {
      const attention::Comparison c = batch[i]->compare_with_class(attention::numerics(program));
      ASSERT_TRUE(c.ok()) << threads << " threads, item " << i << " (q=" << batch[i]->sequence().q
                          << ", kv=" << batch[i]->sequence().kv << "): " << c.text;
    }
  }
}

bool runs_here(const jit::CodeGenerator& generator, Isa isa) {
  return generator.name() == "interp" || (machine().supports(isa) && generator.targets(isa));
}

class AttentionBits : public ::testing::TestWithParam<std::string> {
 protected:
  jit::CodeGenerator& generator() const { return *jit::find_code_generator(GetParam()).value(); }

  // `count` problems for each instruction set; those for which chance finds no legal program do not count.
  void random_problems(uint64_t first_seed, int count, const attention::ProblemLimits& limits) {
    bool targets = false;
    for (Isa isa : all_isas()) {
      if (!runs_here(generator(), isa)) continue;
      targets = true;
      std::mt19937_64 rng(first_seed);
      int ran = 0;
      for (int tried = 0; ran < count && tried < 4 * count; ++tried) {
        const uint64_t seed = rng();
        const AttentionProblem problem = attention::random_problem(seed, limits);
        const std::optional<AttentionProgram> program = attention::random_program(problem, seed + 1, isa);
        if (!program) continue;
        ++ran;
        expect_bits(problem, *program, generator(), seed);
        if (HasFailure()) return;
      }
      EXPECT_EQ(ran, count) << isa_info(isa).name << ": too few legal programs";
    }
    if (!targets) GTEST_SKIP() << "this CPU has no instruction set that " << GetParam() << " emits";
  }
};

// The generators' speeds differ: the interpreter runs slowly, LLVM compiles slowly, its own pipelines more so.
TEST_P(AttentionBits, RandomPrograms) {
  const bool llvm = GetParam() == "llvm", pipeline = GetParam().starts_with("llvm-"), interp = GetParam() == "interp";
  random_problems(91,
                  pipeline ? 5
                  : llvm   ? 15
                  : interp ? 120
                           : 300,
                  {.max_q = 12, .max_kv = interp ? 70 : 140, .max_d = 48});
}

TEST_P(AttentionBits, RandomProgramsOfLargeHeads) {
  const bool llvm = GetParam().starts_with("llvm"), interp = GetParam() == "interp";
  random_problems(92, llvm ? 4 : interp ? 4 : 40, {.max_q = 34, .max_kv = interp ? 49 : 300, .max_d = 576});
}

// What random programs found. Entries of the table before the first that a row sees are no pages: a strip of keys that
// begins before it must not look them up.
TEST_P(AttentionBits, StripBeginsBeforeTheFirstPage) {
  const AttentionProblem problem =
      attention::parse_problem("attention:f32:b=2,hq=4,hkv=2,q=10,kv=120,d=19,k=blocked,page=64:causal:window=36")
          .value();
  for (Isa isa : all_isas()) {
    if (!runs_here(generator(), isa)) continue;
    AttentionProgram program = attention::default_program(problem, isa, {});
    program.mr = program.vr = 1;
    program.nr = 48;
    program.tile_rows = 8;
    expect_bits(problem, program, generator(), 7);
  }
}

// Splits of a paged, blocked cache under a window: the verifier once could not see that a group's page is in the table.
TEST_P(AttentionBits, SplitsOfPagedBlockedKeysUnderAWindow) {
  for (const char* page : {"16", "48", "1024"}) {
    const AttentionProblem problem =
        attention::parse_problem(
            fmt::format("attention:f32:b=2,hq=4,hkv=2,q=70,kv=300,d=19,k=blocked,page={}:window=37", page))
            .value();
    for (Isa isa : all_isas()) {
      if (!runs_here(generator(), isa)) continue;
      expect_bits(problem, attention::default_program(problem, isa, {}, "split(64,3)"), generator(), 8);
    }
  }
}

std::vector<std::string> generator_names() {
  std::vector<std::string> names;
  for (const jit::CodeGenerator* g : jit::code_generators()) names.emplace_back(g->name());
  for (const std::string_view pipeline : jit::llvm_pipeline_names()) names.emplace_back(pipeline);
  return names;
}

std::string name_of(const ::testing::TestParamInfo<std::string>& info) {
  std::string name = info.param;
  std::replace(name.begin(), name.end(), '-', '_');  // which gtest does not take
  return name;
}

INSTANTIATE_TEST_SUITE_P(All, AttentionBits, ::testing::ValuesIn(generator_names()), name_of);

}  // namespace
}  // namespace hone
