// The space of attention: legal, distinct, of allowed classes, with the default first.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "autotune/space/space.h"
#include "kernels/ir/text.h"
#include "kernels/ir/verify.h"

namespace hone::autotune {
namespace {

op::Problem problem(std::string_view text) {
  Result<op::Problem> p = op::parse_problem(text);
  EXPECT_TRUE(p.ok()) << text << ": " << p.status().message();
  return *p;
}

Target target(std::string numerics = "", std::vector<Isa> isas = {Isa::kAvx2, Isa::kAvx512}) {
  return {.isas = std::move(isas),
          .caches = {.l1d = 48 << 10, .l2 = 2 << 20, .l3_share = 4 << 20},
          .threads = {1, 2},
          .codegens = {"asmjit"},
          .numerics = std::move(numerics)};
}

const attention::AttentionProgram& program_of(const Candidate& c) {
  return std::get<attention::AttentionProgram>(c.program);
}

constexpr const char* kProblems[] = {
    "attention:f32:b=1,hq=8,hkv=2,q=1,kv=700,d=64",
    "attention:f32:b=1,hq=4,hkv=2,q=96,kv=300,d=40,dv=24:causal:lse",
    "attention:f32:b=2,hq=2,hkv=2,q=3,kv=100,d=32,k=blocked",
    "attention:f32:b=1,hq=4,hkv=1,q=5,kv=90,d=16,page=16:mask",
};

TEST(AttentionSpace, CandidatesAreLegalDistinctAndOfTheDefaultClass) {
  for (const char* text : kProblems) {
    const op::Problem p = problem(text);
    const Space space = enumerate(p, target());
    EXPECT_GE(space.candidates.size(), 50u) << text;
    EXPECT_LE(space.candidates.size(), 12000u) << text;
    std::set<std::string> seen;
    for (const Candidate& c : space.candidates) {
      const std::string name = op::to_string(c.program);
      EXPECT_TRUE(seen.insert(name + std::to_string(c.threads)).second) << name;
      ASSERT_TRUE(op::legal(p, c.program).ok()) << name << ": " << op::legal(p, c.program).message();
      EXPECT_EQ(c.program, op::canonical(p, c.program)) << name;
      EXPECT_EQ(op::numerics(c.program), "online(256)") << name;
    }
    EXPECT_EQ(space.candidates.front(), default_candidate(p, target())) << text;
  }
}

// What two programs differ in shows in their LoopIR.
TEST(AttentionSpace, NoTwoProgramsHaveTheSameLoopIr) {
  for (const char* text : {kProblems[0], kProblems[1]}) {
    const op::Problem p = problem(text);
    Target one = target("", {Isa::kAvx512});
    one.threads = {1};
    const Space space = enumerate(p, one);
    std::set<std::string> seen;
    // Lowering all takes long: every third, each with its neighbours in the list, which are its closest relatives.
    const size_t step = std::max<size_t>(1, space.candidates.size() / 120);
    for (size_t i = 0; i < space.candidates.size(); i += step) {
      const Result<std::vector<ir::Kernel>> kernels = op::lower(p, space.candidates[i].program);
      ASSERT_TRUE(kernels.ok()) << op::to_string(space.candidates[i].program) << kernels.status().message();
      std::string all;
      for (const ir::Kernel& kernel : *kernels) {
        const Status verified = ir::verify(kernel);
        ASSERT_TRUE(verified.ok()) << op::to_string(space.candidates[i].program) << ": " << verified.message();
        all += ir::print(kernel);
      }
      EXPECT_TRUE(seen.insert(all).second) << op::to_string(space.candidates[i].program);
    }
  }
}

TEST(AttentionSpace, ClassesCompeteOnlyWhereTheyMay) {
  const op::Problem p = problem("attention:f32:b=1,hq=8,hkv=2,q=1,kv=4096,d=64");
  auto classes = [&](const char* numerics) {
    std::set<std::string> all;
    for (const Candidate& c : enumerate(p, target(numerics)).candidates) all.insert(op::numerics(c.program));
    return all;
  };
  EXPECT_EQ(classes("ordered"), std::set<std::string>{"ordered"});
  EXPECT_EQ(classes("online(96)"), std::set<std::string>{"online(96)"});
  EXPECT_EQ(classes("split(128,6)"), std::set<std::string>{"split(128,6)"});
  const std::set<std::string> any = classes("any");
  for (const char* wanted : {"ordered", "online(64)", "online(256)", "split(256,4)"})
    EXPECT_TRUE(any.contains(wanted)) << wanted;
}

TEST(AttentionSpace, DecodeHasOneTileOfAllRowsAndAnnouncesKeys) {
  const Space space = enumerate(problem("attention:f32:b=1,hq=32,hkv=8,q=1,kv=4096,d=128"), target());
  EXPECT_TRUE(std::any_of(space.candidates.begin(), space.candidates.end(), [](const Candidate& c) {
    const attention::AttentionProgram& t = program_of(c);
    return t.mr == 4 && t.vr == 4 && t.prefetch > 0 && t.pack_k == attention::PackK::kStrip && t.group;
  }));
}

}  // namespace
}  // namespace hone::autotune
