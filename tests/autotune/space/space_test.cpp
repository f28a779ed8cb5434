// The space is a value: its size, its legality and the effect of every knob are facts that need no machine.
#include "autotune/space/space.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "kernels/ir/text.h"
#include "kernels/ir/verify.h"
#include "tests/autotune/matmul_of.h"

namespace hone::autotune {
namespace {

using matmul::MatmulProblem;
using matmul::TransformProgram;
using testing::HasSubstr;

MatmulProblem problem(std::string_view text) {
  Result<MatmulProblem> p = matmul::parse_problem(text);
  EXPECT_TRUE(p.ok()) << text << ": " << p.status().message();
  return *p;
}

Target target(std::vector<Isa> isas = {Isa::kAvx2, Isa::kAvx512}) {
  Target t;
  t.isas = std::move(isas);
  t.caches = {.l1d = 48 << 10, .l2 = 2 << 20, .l3_share = 4 << 20};
  t.threads = {1, 2};
  t.codegens = {"asmjit", "llvm"};
  return t;
}

std::string identity(const Candidate& c) {
  return op::to_string(c.program) + " " + c.codegen + " " + std::to_string(c.threads);
}

constexpr std::string_view kProblems[] = {
    "matmul:f32:m=1,n=4096,k=4096,b=packed",
    "matmul:f32:m=1,n=4096,k=4096,b=nt",
    "matmul:f32:m=4,n=5632,k=2048,b=nn",
    "matmul:f32:m=17,n=1000,k=333,b=packed",
    "matmul:f32:m=512,n=512,k=512,b=nn",
    "matmul:f32:m=128,n=11008,k=4096,b=nt",
    "matmul:f32:m=100,n=100,k=100,b=packed",
    "matmul:bf16:m=4,n=4096,k=4096,b=packed",
    "matmul:f16:m=100,n=1000,k=2048,b=packed:+bias",
    "matmul:f32:m=1,n=1,k=1",
    "matmul:f32:m=0,n=16,k=0",
    "matmul:f32:m=7,n=9,k=33,lda=40,batch=3:+bias+gelu",
    "matmul:f32:m=64,n=4096,k=4096,b=nt:+bias",
    "matmul:f32:m=16,n=11264,k=2048,b=packed:+swiglu",
};

// Classes compete where the caller says so and the CPU has what they need.
TEST(Space, DotProductsOfBf16CompeteWhereTheyMay) {
  const MatmulProblem p = problem("matmul:bf16:m=64,n=1000,k=2048,b=packed:+bias");
  const auto count = [&](const char* numerics, FeatureSet features) {
    Target t = target();
    t.numerics = numerics, t.features = features;
    std::pair<int, int> classes;  // ordered, bf16
    for (const Candidate& c : enumerate(p, t).candidates)
      ++(op::numerics(c.program) == "bf16" ? classes.second : classes.first);
    return classes;
  };
  const FeatureSet dots{Feature::kAvx512Bf16};
  const auto [ordered, none] = count("", dots);
  EXPECT_EQ(none, 0);
  EXPECT_GT(ordered, 100);
  const auto [both, with] = count("any", dots);
  EXPECT_GE(both, ordered - 4) << "the default of class ordered leads no more: 2 thread counts of 2 generators";
  EXPECT_GT(with, 100);
  EXPECT_EQ(count("bf16", dots), std::pair(0, with));
  EXPECT_EQ(count("any", {}), std::pair(ordered, 0));
  EXPECT_EQ(count("bf16", {}), std::pair(0, 0));
  Target t = target();
  t.numerics = "any", t.features = dots;
  EXPECT_EQ(op::numerics(enumerate(p, t).candidates.front().program), "bf16") << "the default plan leads";
}

TEST(Space, HasHundredsOfCandidatesForLargeProblems) {
  for (std::string_view text : {"matmul:f32:m=512,n=512,k=512,b=nn", "matmul:f32:m=128,n=11008,k=4096,b=nt",
                                "matmul:f32:m=2048,n=2048,k=2048,b=packed"}) {
    const Space space = enumerate(problem(text), target());
    EXPECT_GE(space.candidates.size(), 400u) << text;
    EXPECT_LE(space.candidates.size(), 12'000u) << text;
  }
}

TEST(Space, SmallMHasCandidatesThatStreamBOnce) {
  for (int64_t m : {1, 2, 3, 4, 5, 6, 7, 8}) {
    const MatmulProblem p = problem("matmul:f32:m=" + std::to_string(m) + ",n=4096,k=4096,b=packed");
    const Space space = enumerate(p, target());
    EXPECT_GE(space.candidates.size(), 100u) << m;
    auto streams = [&](const Candidate& c) {
      return matmul_of(c).mr == m && matmul_of(c).kc >= p.k && matmul_of(c).nr > matmul_of(c).panel;
    };
    EXPECT_GT(std::count_if(space.candidates.begin(), space.candidates.end(), streams), 10) << m;
  }
}

TEST(Space, EveryCandidateIsLegalAndNoneIsThereTwice) {
  for (std::string_view text : kProblems) {
    const MatmulProblem p = problem(text);
    const Space space = enumerate(p, target());
    ASSERT_FALSE(space.candidates.empty()) << text;
    std::set<std::string> seen;
    for (const Candidate& c : space.candidates) {
      EXPECT_TRUE(op::legal(p, c.program).ok()) << text << ' ' << op::to_string(c.program);
      EXPECT_EQ(c.program, op::canonical(p, c.program)) << text << ' ' << op::to_string(c.program);
      EXPECT_TRUE(seen.insert(identity(c)).second) << text << ' ' << identity(c);
    }
    EXPECT_EQ(space.candidates.front(), default_candidate(p, target())) << text;
  }
}

TEST(Space, CandidatesHaveDifferentLoopIr) {
  for (std::string_view text : {"matmul:f32:m=64,n=300,k=200,b=nt", "matmul:f32:m=7,n=9,k=33,lda=40,batch=3:+bias+gelu",
                                "matmul:f32:m=17,n=20,k=77:+bias", "matmul:f32:m=100,n=100,k=100,b=packed"}) {
    const MatmulProblem p = problem(text);
    Target t = target();
    t.threads = {1};
    t.codegens = {"asmjit"};
    std::set<std::pair<Isa, std::string>> seen;
    for (const Candidate& c : enumerate(p, t).candidates) {
      Result<ir::Kernel> kernel = matmul::lower(p, matmul_of(c));
      ASSERT_TRUE(kernel.ok());
      kernel->name = "same";
      EXPECT_TRUE(seen.insert({matmul_of(c).isa, ir::print(*kernel)}).second)
          << text << ' ' << op::to_string(c.program);
    }
  }
}

TEST(Space, SampleLowersToVerifiedIr) {
  for (std::string_view text : kProblems) {
    const MatmulProblem p = problem(text);
    Target t = target();
    t.threads = {1};
    t.codegens = {"asmjit"};
    const Space space = enumerate(p, t);
    const size_t step = std::max<size_t>(1, space.candidates.size() / 8);
    for (size_t i = 0; i < space.candidates.size(); i += step) {
      const Result<ir::Kernel> kernel = matmul::lower(p, matmul_of(space.candidates[i]));
      ASSERT_TRUE(kernel.ok()) << kernel.status().message();
      const Status verified = ir::verify(*kernel);
      EXPECT_TRUE(verified.ok()) << text << ' ' << op::to_string(space.candidates[i].program) << ": "
                                 << verified.message();
    }
  }
}

TEST(Space, EveryKnobChangesLoopIr) {
  const MatmulProblem p = problem("matmul:f32:m=512,n=1024,k=1024,b=nn");
  TransformProgram base = matmul_of(default_candidate(p, target({Isa::kAvx2})));
  base.mr = 6, base.nr = 16, base.mc = 72, base.nc = 128, base.kc = 256;
  base.parallel = matmul::ParallelDim::kN;
  base.pack_a = matmul::PackA::kRows, base.pack_b = matmul::PackB::kBlock;
  base.order = matmul::TileOrder::kJi;
  base.unroll_k = 1, base.prefetch_b = 0;
  ASSERT_TRUE(matmul::legal(p, base).ok()) << matmul::legal(p, base).message();
  std::set<uint64_t> hashes = {ir::hash(*matmul::lower(p, base))};
  auto expect_new = [&](const char* knob, TransformProgram t) {
    ASSERT_TRUE(matmul::legal(p, t).ok()) << knob << ": " << matmul::legal(p, t).message();
    EXPECT_TRUE(hashes.insert(ir::hash(*matmul::lower(p, t))).second) << knob << " changes nothing";
  };
  TransformProgram t = base;
  t.mr = 4, expect_new("mr", t), t = base;
  t.nr = 8, expect_new("nr", t), t = base;
  t.mc = 144, expect_new("mc", t), t = base;
  t.nc = 256, expect_new("nc", t), t = base;
  t.kc = 128, expect_new("kc", t), t = base;
  t.order = matmul::TileOrder::kIj, expect_new("order", t), t = base;
  t.pack_a = matmul::PackA::kNone, expect_new("pack_a", t), t = base;
  t.prefetch_c = true, expect_new("prefetch_c", t), t = base;
  t.pack_b = matmul::PackB::kNone, expect_new("pack_b none", t), t = base;
  t.pack_b = matmul::PackB::kStrip, expect_new("pack_b strip", t), t = base;
  t.unroll_k = 2, expect_new("unroll_k", t), t = base;
  t.prefetch_b = 8, expect_new("prefetch_b", t), t = base;
  t.parallel = matmul::ParallelDim::kM, expect_new("parallel", t), t = base;
  const MatmulProblem packed = problem("matmul:f32:m=512,n=1024,k=1024,b=packed");
  t = base;
  t.pack_b = matmul::PackB::kNone;
  t.panel = 8;
  const uint64_t narrow = ir::hash(*matmul::lower(packed, t));
  t.panel = 16;
  EXPECT_NE(narrow, ir::hash(*matmul::lower(packed, t))) << "panel";
  t.panel = 8, t.prefetch_next = true;
  EXPECT_NE(narrow, ir::hash(*matmul::lower(packed, t))) << "prefetch_next";
}

TEST(Space, RejectedSayWhy) {
  const Space nt = enumerate(problem("matmul:f32:m=64,n=512,k=512,b=nt"), target());
  ASSERT_FALSE(nt.rejected.empty());
  EXPECT_TRUE(std::any_of(nt.rejected.begin(), nt.rejected.end(),
                          [](const Rejected& r) { return r.why.find("b=nt") != std::string::npos; }));
  const Space avx2 = enumerate(problem("matmul:f32:m=64,n=512,k=512"), target({Isa::kAvx2}));
  for (const Candidate& c : avx2.candidates) EXPECT_EQ(matmul_of(c).isa, Isa::kAvx2);
  EXPECT_TRUE(std::any_of(avx2.rejected.begin(), avx2.rejected.end(),
                          [](const Rejected& r) { return r.why == "avx512: not usable on this machine"; }));
}

TEST(Space, PanelConstraintHolds) {
  Target t = target();
  t.panel = 32;
  for (std::string_view text : {"matmul:f32:m=1,n=4096,k=4096,b=packed", "matmul:f32:m=128,n=4096,k=4096,b=packed"}) {
    const Space space = enumerate(problem(text), t);
    EXPECT_GT(space.candidates.size(), 20u);
    for (const Candidate& c : space.candidates) EXPECT_EQ(matmul_of(c).panel, 32) << op::to_string(c.program);
  }
}

TEST(Space, IsPure) {
  const MatmulProblem p = problem("matmul:f32:m=33,n=600,k=700,b=nn");
  EXPECT_EQ(enumerate(p, target()).candidates, enumerate(p, target()).candidates);
}

}  // namespace
}  // namespace hone::autotune
