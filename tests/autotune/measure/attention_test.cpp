// The workload of attention: candidates of every class and generator pass, a wrong one does not, memory is as promised.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "autotune/measure/attention_operands.h"
#include "autotune/measure/kernel_racer.h"
#include "kernels/attention/reference.h"

namespace hone::autotune {
namespace {

using testing::HasSubstr;

attention::AttentionProblem problem(std::string_view text) {
  Result<attention::AttentionProblem> p = attention::parse_problem(text);
  EXPECT_TRUE(p.ok()) << text << ": " << p.status().message();
  return *p;
}

class AttentionRacing : public testing::Test {
 protected:
  void SetUp() override {
    const Result<Machine> machine = detect_machine();
    ASSERT_TRUE(machine.ok());
    target_.caches = blocking_caches(*machine);
    target_.threads = {1, 2};
    for (Isa isa : all_isas())
      if (machine->supports(isa)) target_.isas.push_back(isa);
    if (target_.isas.empty()) GTEST_SKIP() << "no ISA of this build on this CPU";
    for (jit::CodeGenerator* g : jit::compiling_generators())
      if (g->targets(target_.isas.back())) target_.codegens.emplace_back(g->name());
    if (target_.codegens.empty()) GTEST_SKIP() << "no code generator here";
  }

  Target target_;
  SteadyClock clock_;
};

TEST_F(AttentionRacing, CandidatesOfEveryClassRun) {
  target_.numerics = "any";
  for (std::string_view text :
       {"attention:f32:b=2,hq=4,hkv=2,q=1,kv=600,d=24", "attention:f32:b=1,hq=2,hkv=2,q=70,kv=90,d=16,dv=20:causal:lse",
        "attention:f32:b=1,hq=2,hkv=1,q=9,kv=300,d=16,page=16:window=40:mask"}) {
    for (CacheMode mode : {CacheMode::kCold, CacheMode::kWarm}) {
      const std::vector<Candidate> all = enumerate(problem(text), target_).candidates;
      std::vector<Candidate> some;
      for (size_t i = 0; i < all.size(); i += std::max<size_t>(1, all.size() / 8)) some.push_back(all[i]);
      Result<std::unique_ptr<KernelRacer>> racer =
          KernelRacer::create(problem(text), some, clock_, {.cache = mode, .seed = 2});
      ASSERT_TRUE(racer.ok()) << racer.status().message();
      for (int c = 0; c < static_cast<int>(some.size()); ++c) {
        const Prepared prepared = (*racer)->prepare(c);
        const std::string what = std::string(text) + " " + op::to_string(some[static_cast<size_t>(c)].program) + " " +
                                 some[static_cast<size_t>(c)].codegen;
        ASSERT_EQ(prepared.outcome, db::Outcome::kMeasured) << what << ": " << prepared.detail;
        const Timing timing = (*racer)->round(std::span(&c, 1)).front();
        ASSERT_EQ(timing.outcome, db::Outcome::kMeasured) << what << ": " << timing.detail;
        (*racer)->release(c);
      }
    }
  }
}

TEST_F(AttentionRacing, WrongKernelIsFoundBeforeItIsTimed) {
  const attention::AttentionProblem p = problem("attention:f32:b=1,hq=4,hkv=2,q=5,kv=100,d=16:lse");
  std::vector<Candidate> both(2, default_candidate(p, target_));
  both[1].codegen = "fault-wrong";
  Result<std::unique_ptr<KernelRacer>> racer = KernelRacer::create(p, both, clock_, {.seed = 2});
  ASSERT_TRUE(racer.ok());
  EXPECT_EQ((*racer)->prepare(0).outcome, db::Outcome::kMeasured);
  const Prepared wrong = (*racer)->prepare(1);
  EXPECT_EQ(wrong.outcome, db::Outcome::kWrong) << wrong.detail;
}

TEST(AttentionOperands, PassTheChecksOfACallAndPoisonWhatIsNoElement) {
  for (std::string_view text :
       {"attention:f32:b=2,hq=4,hkv=2,q=3,kv=50,d=8,ldq=12,ldk=9,ldv=10,ldo=11:lse",
        "attention:f32:b=2,hq=4,hkv=2,q=3,kv=50,d=8,layout=bshd",
        "attention:f32:b=3,hq=2,hkv=1,q=2,kv=37,d=8,page=16,k=blocked:causal",
        "attention:f32:b=1,hq=2,hkv=2,q=4,kv=33,d=8:boolmask", "attention:f32:b=1,hq=2,hkv=2,q=4,kv=0,d=8",
        "attention:f32:b=0,hq=2,hkv=2,q=4,kv=5,d=8"}) {
    const attention::AttentionProblem p = problem(text);
    for (const Where where : {Where::kReal, Where::kGuarded}) {
      Result<AttentionOperands> operands = AttentionOperands::create(p, 7, where);
      ASSERT_TRUE(operands.ok()) << text << operands.status().message();
      ASSERT_EQ(static_cast<int64_t>(operands->sequences().size()), p.batch);
      for (const attention::Sequence& s : operands->sequences()) {
        const Status good = attention::check_sequence(p, s);
        EXPECT_TRUE(good.ok()) << text << ": " << good.message();
        attention::class_f32(p, s, "online(256)");
        for (int64_t h = 0; h < p.heads; ++h)
          for (int64_t c = 0; c < p.value_dim(); ++c) EXPECT_TRUE(std::isfinite(s.out[h * s.o_head + c])) << text;
      }
      EXPECT_TRUE(operands->check_gaps().ok()) << text;
    }
  }
}

TEST(AttentionOperands, AWriteBetweenRowsIsFound) {
  const attention::AttentionProblem p = problem("attention:f32:b=1,hq=2,hkv=2,q=4,kv=9,d=8,ldo=10");
  Result<AttentionOperands> operands = AttentionOperands::create(p, 7, Where::kGuarded);
  ASSERT_TRUE(operands.ok());
  operands->sequences().front().out[8] = 0;
  EXPECT_THAT(operands->check_gaps().message(), HasSubstr("between rows"));
}

// One row as a problem of its own has the bits that it has among the others.
TEST(AttentionOperands, ARowByItselfHasItsBits) {
  for (std::string_view text :
       {"attention:f32:b=1,hq=4,hkv=2,q=20,kv=50,d=8:causal", "attention:f32:b=1,hq=4,hkv=2,q=50,kv=20,d=8:causal:lse",
        "attention:f32:b=1,hq=2,hkv=1,q=9,kv=300,d=16,page=16:causal:window=40:mask",
        "attention:f32:b=1,hq=2,hkv=1,q=9,kv=300,d=16:window=40"}) {
    const attention::AttentionProblem p = problem(text);
    Result<AttentionOperands> operands = AttentionOperands::create(p, 7, Where::kReal);
    ASSERT_TRUE(operands.ok());
    const attention::Sequence& s = operands->sequences().front();
    attention::class_f32(p, s, "split(16,2)");
    for (int64_t row = 0; row < p.q; ++row) {
      if (!has_row(p, s, row)) continue;
      for (int64_t h = 0; h < p.heads; ++h) {
        AttentionRow one = row_of(p, s, h, row);
        std::vector<float> memory(static_cast<size_t>(p.value_dim()) + 1);
        one.sequence.out = memory.data();
        if (p.lse) one.sequence.lse = &memory.back();
        attention::class_f32(one.problem, one.sequence, "split(16,2)");
        attention::Sequence got = one.sequence;
        got.out = s.out + h * s.o_head + row * p.row_stride_o();
        if (p.lse) got.lse = s.lse + h * s.lse_head + row;
        const attention::Comparison same = attention::compare_bits(one.problem, got, one.sequence);
        EXPECT_TRUE(same.ok()) << text << " row " << row << ": " << same.text;
      }
    }
  }
}

}  // namespace
}  // namespace hone::autotune
