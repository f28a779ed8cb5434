// What has to change for a stored plan to miss, and what must not: cases d1 and d2. A decision is made on one machine
// by one build; each row changes one thing about where it is looked up.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <nlohmann/json.hpp>

#include "tests/engine/plan/decision_util.h"

namespace hone::plan {
namespace {

using testing::HasSubstr;

const matmul::MatmulProblem kProblem{.m = 128, .n = 1024, .k = 512, .b = matmul::BLayout::kPacked, .epilogue = {}};

// Where a plan is looked up: a machine, and what of the build can change.
struct Where {
  Machine machine = described("sapphire_rapids");
  std::string engine = "hone test", asmjit = "1", llvm = "19";
  int threads = 2;
};

MatmulPlan look_up(const Where& where, const db::StoredDecision& decision) {
  Target target = target_of(where.machine);
  target.engine = where.engine;
  target.threads = where.threads;
  target.codegens[0].version = where.asmjit;
  target.codegens[1].version = where.llvm;
  return resolved(kProblem, target, {decision});
}

struct Change {
  const char* what;
  std::function<void(Where&)> change;
  const char* difference;  // "": hit
};

class PlanKeys : public testing::TestWithParam<std::string> {};

void check(const std::vector<Change>& changes, const std::string& codegen) {
  db::StoredDecision decision = decided(kProblem, Where().machine, 1);
  decision.decision.winner.codegen = codegen;
  decision.decision.winner.codegen_version = codegen == "llvm" ? "19" : "1";
  ASSERT_EQ(look_up({}, decision).reason, Reason::kExact);
  for (const Change& c : changes) {
    SCOPED_TRACE(c.what);
    Where where;
    c.change(where);
    const MatmulPlan plan = look_up(where, decision);
    ASSERT_TRUE(plan.from);
    EXPECT_EQ(plan.reason, *c.difference == '\0' ? Reason::kExact : Reason::kNearMachine);
    EXPECT_EQ(plan.from->difference.empty(), *c.difference == '\0') << plan.from->difference;
    EXPECT_THAT(plan.from->difference, HasSubstr(c.difference));
  }
}

TEST_P(PlanKeys, d2_what_changes_no_code_and_no_speed_of_a_core_hits) {
  check({{"the L3", [](Where& w) { w.machine.l3 = {.bytes = 1 << 20, .source = "hwloc", .shared_by = 3}; }, ""},
         {"the source of a size", [](Where& w) { w.machine.l2.source = "hwloc"; }, ""},
         {"usable CPUs", [](Where& w) { w.machine.cpus_usable = 3, w.machine.cpus_source = "cgroup2 quota 3.5"; }, ""},
         {"HONE_THREADS raised", [](Where& w) { w.threads = 64; }, ""},
         {"the hypervisor", [](Where& w) { w.machine.hypervisor = "Microsoft Hv"; }, ""},
         {"stepping", [](Where& w) { w.machine.stepping = 4; }, ""},
         {"brand", [](Where& w) { w.machine.brand = "Engineering sample"; }, ""},
         {"NUMA nodes", [](Where& w) { w.machine.numa_nodes = 4; }, ""},
         {"threads per core", [](Where& w) { w.machine.threads_per_core = 1; }, ""},
         {"core classes", [](Where& w) { w.machine.cores = {}; }, ""},
         {"what the OS masks", [](Where& w) { w.machine.masked = {Feature::kF16c}; }, ""}},
        GetParam());
}

TEST_P(PlanKeys, WhatChangesCodeOrSpeedMisses) {
  const bool llvm = GetParam() == "llvm";
  check({{"a feature less", [](Where& w) { w.machine.features.remove(Feature::kAmxTile); },
          "measured on a CPU with other features"},
         {"another feature less", [](Where& w) { w.machine.features.remove(Feature::kAvxVnni); },
          "measured on a CPU with other features"},
         {"engine", [](Where& w) { w.engine = "hone test 2"; }, "measured by hone test"},
         {"asmjit", [](Where& w) { w.asmjit = "2"; }, llvm ? "" : "measured with asmjit 1, this is 2"},
         {"LLVM", [](Where& w) { w.llvm = "20"; }, llvm ? "measured with llvm 19, this is 20" : ""},
         {"model", [](Where& w) { w.machine.model = 207; }, "measured on sapphire_rapids"},
         {"family", [](Where& w) { w.machine.family = 19; }, "measured on sapphire_rapids"},
         {"vendor", [](Where& w) { w.machine.vendor = "AuthenticAMD"; }, "measured on sapphire_rapids"},
         {"the L1d", [](Where& w) { w.machine.l1d.bytes = 32 << 10; }, "measured with 48 KiB of L1d, here 32"},
         {"the L2", [](Where& w) { w.machine.l2.bytes = 1 << 20; }, "measured with 2048 KiB of L2, here 1024"}},
        GetParam());
}

INSTANTIATE_TEST_SUITE_P(All, PlanKeys, testing::Values("asmjit", "llvm"), [](const auto& i) { return i.param; });

// ---- the key itself ----

TEST(PlanKey, OrderOfFeaturesInADescriptionIsNoPartOfIt) {
  const CpuDescription& cpu = cpu_library().front();
  nlohmann::json turned = nlohmann::json::parse(cpu.json);
  std::reverse(turned["isa"].begin(), turned["isa"].end());
  EXPECT_EQ(parse_machine_description(turned.dump())->key(), parse_machine_description(cpu.json)->key());
}

TEST(PlanKey, EveryFeatureIsPartOfIt) {
  const Machine all = described("sapphire_rapids");
  for (const std::string& name : all.features.names()) {
    Machine less = all;
    less.features.remove(*parse_feature(name));
    EXPECT_NE(less.key(), all.key()) << name;
  }
}

// ---- kinds of machines with one key ----

Machine zen4_desktop() { return described("zen4"); }
// The same features and caches under another model number.
Machine zen4_server() {
  Machine m = described("zen4");
  m.model = 17;
  m.brand = "AMD EPYC 9654";
  return m;
}

TEST(PlanKind, AnotherKindNeverBeatsThisOneHoweverNewOrFast) {
  db::StoredDecision own = decided(kProblem, zen4_desktop(), 1), other = decided(kProblem, zen4_server(), 1000);
  ASSERT_EQ(own.machine.key, other.machine.key);
  other.decision.ns = 1;
  const Target here = target_of(zen4_desktop());
  EXPECT_EQ(resolved(kProblem, here, {other, own}).from->decision, 1);
  EXPECT_EQ(resolved(kProblem, here, {other, own}).reason, Reason::kExact);

  // Nor does it beat a neighbour of this kind,
  matmul::MatmulProblem near = kProblem;
  near.m = 100;
  db::StoredDecision neighbour = decided(near, zen4_desktop(), 2);
  EXPECT_EQ(resolved(kProblem, here, {other, neighbour}).from->decision, 2);
  EXPECT_EQ(resolved(kProblem, here, {other, neighbour}).reason, Reason::kNearShape);

  // nor one of this kind that an older build measured.
  db::StoredDecision old_build = decided(near, zen4_desktop(), 3);
  old_build.build.engine = "hone 0.0.1";
  EXPECT_EQ(resolved(kProblem, here, {other, old_build}).from->decision, 3);

  // Alone it is used, and says where it comes from.
  const MatmulPlan plan = resolved(kProblem, here, {other});
  EXPECT_EQ(plan.reason, Reason::kNearMachine);
  EXPECT_EQ(plan.from->difference,
            "measured on zen4 (AuthenticAMD family 25 model 17), this is zen4 (AuthenticAMD family 25 model 97)");
}

TEST(PlanKind, LabelsThatSayNothingAreAnotherKind) {
  for (const char* label : {"", "{}", "nonsense", R"({"cpus_usable": 2})"}) {
    db::StoredDecision d = decided(kProblem, zen4_desktop(), 1);
    d.machine.label = label;
    const MatmulPlan plan = resolved(kProblem, target_of(zen4_desktop()), {d});
    EXPECT_EQ(plan.reason, Reason::kNearMachine) << label;
    EXPECT_THAT(plan.from->difference, HasSubstr("a machine that does not say what it is")) << label;
  }
}

// As the first version stored them; and as a later one may.
TEST(PlanKind, LabelsOfOtherVersionsCount) {
  db::StoredDecision d = decided(kProblem, zen4_desktop(), 1);
  nlohmann::json label = nlohmann::json::parse(d.machine.label);
  label.erase("microarch");
  label.erase("core_classes");
  d.machine.label = label.dump();
  EXPECT_EQ(resolved(kProblem, target_of(zen4_desktop()), {d}).reason, Reason::kExact);
  label["frequency"] = {{"base", 4.5}};
  label["isa"].push_back("avx10");
  d.machine.label = label.dump();
  EXPECT_EQ(resolved(kProblem, target_of(zen4_desktop()), {d}).reason, Reason::kExact);
}

}  // namespace
}  // namespace hone::plan
