// Attention of several sequences in one call gives the bits of its numerics class, whatever the schedule and the order
// of tasks, and call 1 equals call N, also after the kernels were made again by another code generator.
#include <gtest/gtest.h>
#include <random>

#include "kernels/attention/bind.h"
#include "kernels/attention/blocking.h"
#include "kernels/attention/program.h"
#include "tests/differential/parity.h"
#include "tests/engine/attention_util.h"

namespace hone {
namespace {

using attention::Algorithm;
using attention::AttentionProblem;
using attention::AttentionProgram;
using testing_api::AttentionOperands;

constexpr int kCalls = 3;

struct Lengths {
  int64_t q, kv;
};
// More rows than keys, one key, keys that fill no block.
const std::vector<Lengths> kPrefill = {{19, 37}, {20, 9}, {5, 50}}, kDecode = {{1, 70}, {1, 1}, {1, 33}};
// MHA, GQA, MQA.
constexpr Lengths kHeads[] = {{4, 4}, {8, 2}, {6, 3}, {4, 1}, {9, 3}, {3, 1}};

// The operands of one call, and what they must become under each class.
class Call {
 public:
  Call(const AttentionSpec& spec, const std::vector<Lengths>& lengths) {
    for (const Lengths& l : lengths)
      sequences_.push_back(
          std::make_unique<AttentionOperands>(spec, l.q, l.kv, static_cast<uint32_t>(sequences_.size())));
    problem_ = sequences_.front()->problem();
    problem_.batch = static_cast<int64_t>(lengths.size());
    for (const Lengths& l : lengths) problem_.q = std::max(problem_.q, l.q), problem_.kv = std::max(problem_.kv, l.kv);
  }

  const AttentionProblem& problem() const { return problem_; }

  void run(std::span<const jit::Executable> kernels, const AttentionProgram& program, runtime::Schedule& on,
           jit::Walk walk) {
    static jit::WorkspacePool workspaces;
    const int64_t partial = attention::partial_elements(problem_, program);
    const AlignedBuffer states =
        AlignedBuffer::allocate_elements(partial * problem_.batch, sizeof(float), Touch::kNow).value();
    std::vector<attention::Arguments> args(sequences_.size());
    for (size_t k = 0; k < kernels.size(); ++k) {
      std::vector<jit::LaunchItem> items;
      for (size_t i = 0; i < sequences_.size(); ++i) {
        float* const its = partial == 0 ? nullptr : states.as<float>().data() + static_cast<int64_t>(i) * partial;
        args[i] = attention::bind(problem_, program, sequences_[i]->operands(), static_cast<int>(k), its);
        items.emplace_back(kernels[k], args[i].buffers.data(), args[i].params.data());
      }
      jit::Launch launch(kernels[k], items, &workspaces, walk);
      ASSERT_TRUE(parity::run(on, "attention", launch));
    }
  }

  void reset() {
    for (auto& s : sequences_) s->reset();
  }
  void expect_bits(std::string_view numerics) {
    std::vector<std::vector<float>>& want = expected_[std::string(numerics)];
    if (want.empty())
      for (auto& s : sequences_) want.push_back(s->expected(numerics));
    for (size_t i = 0; i < want.size(); ++i)
      ASSERT_TRUE(testing_api::same_bits(sequences_[i]->result(), want[i])) << "sequence " << i;
  }

 private:
  std::vector<std::unique_ptr<AttentionOperands>> sequences_;
  AttentionProblem problem_;
  std::map<std::string, std::vector<std::vector<float>>, std::less<>> expected_;
};

std::vector<jit::Executable> compile(const std::vector<ir::Kernel>& kernels, jit::CodeGenerator& generator, Isa isa) {
  std::vector<jit::Executable> all;
  for (const ir::Kernel& kernel : kernels) {
    Result<jit::Executable> made = jit::make_executable(kernel, generator, isa);
    EXPECT_TRUE(made.ok()) << generator.name() << ": " << made.status().to_string();
    if (made.ok()) all.push_back(std::move(made).value());
  }
  return all;
}

void expect_parity(Call& call, const AttentionProgram& program, bool every_generator) {
  const Status legal = attention::legal(call.problem(), program);
  ASSERT_TRUE(legal.ok()) << legal.to_string();
  const Result<std::vector<ir::Kernel>> kernels = attention::lower(call.problem(), program);
  ASSERT_TRUE(kernels.ok()) << kernels.status().to_string();
  for (jit::CodeGenerator* generator : parity::generators_for(program.isa)) {
    // asmjit takes a hundredth of the time of the others: they get every fifth case.
    if (generator->name() != "asmjit" && !every_generator) continue;
    const std::vector<jit::Executable> executables = compile(*kernels, *generator, program.isa);
    ASSERT_EQ(executables.size(), kernels->size());
    for (const parity::Named& on : parity::schedules()) {
      for (int n = 1; n <= kCalls; ++n) {
        SCOPED_TRACE(fmt::format("{}, {}, call {}", generator->name(), on.name, n));
        call.reset();
        call.run(executables, program, *on.schedule, n % 2 == 0 ? jit::Walk::kLastFirst : jit::Walk::kRange);
        call.expect_bits(attention::numerics(program));
        if (::testing::Test::HasFatalFailure()) return;
      }
    }
  }
}

// Drawn anew each turn, so that no choice goes with one of the loops around it; blocks that these lengths have several
// of, an instruction set that this CPU has where it has any.
AttentionProgram program_for(const AttentionProblem& problem, uint64_t turn) {
  std::mt19937_64 rng(turn);
  static const Machine machine = detect_machine().value();
  std::vector<Isa> isas;
  for (Isa isa : all_isas())
    if (machine.supports(isa)) isas.push_back(isa);
  if (isas.empty()) isas.assign(all_isas().begin(), all_isas().end());
  AttentionProgram p = attention::default_program(problem, isas[rng() % isas.size()], {}, "any");
  constexpr Algorithm kAlgorithms[] = {Algorithm::kOnline, Algorithm::kSplit, Algorithm::kTiled,
                                       Algorithm::kMaterialised};
  p.algorithm = kAlgorithms[rng() % std::size(kAlgorithms)];
  p.splits = p.algorithm == Algorithm::kSplit ? 3 : 1;
  p.bk = p.value_depth = attention::kKeyGroup;
  p.bq = rng() % 3 == 0 ? 4 : problem.q;
  p.group = rng() % 4 != 0;
  p.parallel = rng() % 5 == 0 ? attention::ParallelDim::kHeads : attention::ParallelDim::kHeadsRows;
  return attention::canonical(problem, p);
}

class AttentionParity : public ::testing::TestWithParam<bool> {};
INSTANTIATE_TEST_SUITE_P(, AttentionParity, ::testing::Bool(),
                         [](const auto& param) { return param.param ? "Decode" : "Prefill"; });

TEST_P(AttentionParity, EveryScheduleGivesTheBitsOfTheClass) {
  size_t turn = 0;
  for (const Lengths& heads : kHeads) {
    for (const char* sees : {"all", "causal", "mask"}) {
      for (int64_t page : {0, 5}) {
        AttentionSpec spec{
            .heads = heads.q, .kv_heads = heads.kv, .head_dim = 19, .value_dim = 33, .lse = true, .page = page};
        spec.causal = std::string_view(sees) == "causal";
        if (std::string_view(sees) == "mask") spec.mask = AttentionMask::kAdditive;
        Call call(spec, GetParam() ? kDecode : kPrefill);
        const AttentionProgram program = program_for(call.problem(), 2 * turn + (GetParam() ? 1 : 0));
        SCOPED_TRACE(fmt::format("{} | {}", attention::to_string(call.problem()), attention::to_string(program)));
        expect_parity(call, program, turn % 5 == 0);
        if (HasFailure()) return;
        ++turn;
      }
    }
  }
}

}  // namespace
}  // namespace hone
