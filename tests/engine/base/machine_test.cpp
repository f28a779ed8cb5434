#include "engine/base/machine.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <hwloc.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <fstream>

#include "engine/base/core_classes.h"
#include "engine/base/cpu_library.h"
#include "engine/base/cpuid.h"
#include "tests/engine/base/cpuid_fixture_internal.h"

namespace hone {
namespace {

using testing::HasSubstr;

TEST(Machine, BlockingKeepsSaneSizes) {
  Machine m;
  m.l1d = {.bytes = 48 << 10, .source = "cpuid4"};
  m.l2 = {.bytes = 2 << 20, .source = "cpuid4"};
  m.l3 = {.bytes = 32 << 20, .source = "cpuid4", .shared_by = 16};
  m.threads_per_core = 2;
  BlockingCaches caches = blocking_caches(m);
  EXPECT_EQ(caches.l1d, 48 << 10);
  EXPECT_EQ(caches.l2, 2 << 20);
  EXPECT_EQ(caches.l3_share, 4 << 20);  // eight cores share it
  EXPECT_EQ(caches.l1d_source, "cpuid4");
  EXPECT_EQ(caches.l3_source, "cpuid4");
}

// Case r5: L1 = 0, no L3.
TEST(Machine, CaseR5MissingCaches) {
  Machine m;
  m.l1d = {.bytes = 0, .source = "cpuid4"};
  BlockingCaches caches = blocking_caches(m);
  EXPECT_EQ(caches.l1d, 32 << 10);
  EXPECT_EQ(caches.l1d_source, "assumed");
  EXPECT_EQ(caches.l2, 512 << 10);
  EXPECT_EQ(caches.l2_source, "assumed");
  EXPECT_EQ(caches.l3_share, 0);
  EXPECT_EQ(caches.l3_source, "none");
}

// Case r5: 508 MiB of L3 per core.
TEST(Machine, CaseR5AbsurdCaches) {
  Machine m;
  m.l1d = {.bytes = 1, .source = "cpuid4"};
  m.l2 = {.bytes = int64_t{1} << 40, .source = "hwloc"};
  m.l3 = {.bytes = int64_t{508} << 20, .source = "cpuid4", .shared_by = 1};
  BlockingCaches caches = blocking_caches(m);
  EXPECT_EQ(caches.l1d, 16 << 10);
  EXPECT_EQ(caches.l1d_source, "cpuid4 clamped from 1");
  EXPECT_EQ(caches.l2, 4 << 20);
  EXPECT_EQ(caches.l3_share, 8 << 20);
  EXPECT_EQ(caches.l3_source, "cpuid4 clamped from 532676608");
  EXPECT_EQ(m.l3.bytes, int64_t{508} << 20);  // what was reported stays visible
}

TEST(Machine, GuestWith480MiBOfL3) { EXPECT_EQ(blocking_caches(decode_cpuid(avx512_guest())).l3_share, 8 << 20); }

// Case d2: the same machine with other preferences has the same key.
TEST(Machine, CaseD2KeyIgnoresPreferences) {
  Machine a = decode_cpuid(avx512_guest()), b = a;
  b.model = 1;
  b.l1d.bytes = b.l3.bytes = 0;
  b.cpus_usable = 99;
  b.hypervisor = "";
  EXPECT_EQ(a.key(), b.key());
  b.features.remove(Feature::kAvx512F);
  EXPECT_NE(a.key(), b.key());
  EXPECT_THAT(a.key(), HasSubstr(":avx,avx2,fma,f16c,bmi2,avx512f"));
}

class DetectMachine : public testing::Test {
 protected:
  void SetUp() override {
    if (const char* set = std::getenv("HONE_CPU"); set != nullptr) before_ = set;
    unsetenv("HONE_CPU");
    path_ = testing::TempDir() + "hone_cpu_" + std::to_string(getpid()) + ".json";
  }
  void TearDown() override {
    if (!before_.empty()) setenv("HONE_CPU", before_.c_str(), 1);
    std::remove(path_.c_str());
  }
  Result<Machine> detect_with(const std::string& description) {
    std::ofstream(path_) << description;
    setenv("HONE_CPU", path_.c_str(), 1);
    Result<Machine> machine = detect_machine();
    unsetenv("HONE_CPU");
    return machine;
  }
  std::string before_, path_;
};

TEST_F(DetectMachine, FindsSomething) {
  Result<Machine> m = detect_machine();
  ASSERT_TRUE(m.ok()) << m.status().to_string();
  EXPECT_GE(m->cpus_usable, 1);
  EXPECT_FALSE(m->cpus_source.empty());
  EXPECT_GT(m->l1d.bytes, 0);
  EXPECT_GT(m->l2.bytes, 0);
  EXPECT_FALSE(m->l1d.source.empty());
  EXPECT_GE(m->threads_per_core, 1);
  EXPECT_GE(m->numa_nodes, 1);
}

TEST_F(DetectMachine, DescriptionReplacesPreferences) {
  Result<Machine> m = detect_with(R"({"l1d": {"bytes": 65536}, "cpus_usable": 3, "brand": "planted"})");
  ASSERT_TRUE(m.ok()) << m.status().to_string();
  EXPECT_EQ(m->l1d, (CacheInfo{.bytes = 65536, .source = "description"}));
  Result<Machine> here = detect_machine();
  ASSERT_TRUE(here.ok());
  EXPECT_EQ(m->cpus_usable, std::min(3, here->cpus_usable));
  EXPECT_EQ(m->cpus_source, here->cpus_usable < 3 ? here->cpus_source : "description");
  // Measurements are labelled with what they were taken on.
  EXPECT_EQ(m->brand, here->brand);
}

TEST_F(DetectMachine, AQuestionIsAnsweredForTheMachineAsDescribed) {
  setenv("HONE_CPU", "sapphire_rapids", 1);
  Result<Machine> asked = described_machine(), executing = detect_machine();
  unsetenv("HONE_CPU");
  ASSERT_TRUE(asked.ok()) << asked.status().to_string();
  ASSERT_TRUE(executing.ok()) << executing.status().to_string();
  EXPECT_EQ(*asked, parse_machine_description(*find_cpu_description("sapphire_rapids")).value());
  EXPECT_TRUE(asked->features.has(Feature::kAmxTile));
  Machine real = detect_machine().value();
  EXPECT_TRUE(real.features.contains(executing->features));
  EXPECT_EQ(executing->vendor, real.vendor);
  EXPECT_EQ(executing->model, real.model);
  EXPECT_LE(executing->cpus_usable, real.cpus_usable);
  EXPECT_EQ(executing->l2, asked->l2);
}

TEST_F(DetectMachine, WithoutADescriptionBothAreTheSame) {
  EXPECT_EQ(described_machine().value(), detect_machine().value());
}

TEST_F(DetectMachine, AFileIsUsedWhereNoNameFits) {
  setenv("HONE_CPU", "zen9", 1);
  for (const Result<Machine>& m : {detect_machine(), described_machine()}) {
    ASSERT_FALSE(m.ok());
    EXPECT_EQ(m.status().code(), Code::kInvalidArgument);
    EXPECT_THAT(m.status().message(), HasSubstr("HONE_CPU=zen9: "));
    EXPECT_THAT(m.status().message(), HasSubstr("alder_lake, cortex_a72, ice_lake"));
    EXPECT_EQ(m.status().message().find('\n'), std::string::npos);
  }
  unsetenv("HONE_CPU");
}

// A machine with two NUMA nodes and two classes of cores, as the OS would tell.
TEST_F(DetectMachine, TopologyComesFromTheOs) {
  if (read_core_classes("").performance > 0) GTEST_SKIP() << "this machine has two classes, which sysfs says first";
  hwloc_topology_t planted;
  ASSERT_EQ(hwloc_topology_init(&planted), 0);
  ASSERT_EQ(hwloc_topology_set_synthetic(planted, "numa:2 core:4 pu:2"), 0);
  ASSERT_EQ(hwloc_topology_load(planted), 0);
  const struct {
    const char* type;
    unsigned first, last;
  } kinds[] = {{"IntelCore", 0, 9}, {"IntelAtom", 10, 15}};
  for (const auto& kind : kinds) {
    hwloc_bitmap_t cpus = hwloc_bitmap_alloc();
    hwloc_bitmap_set_range(cpus, kind.first, static_cast<int>(kind.last));
    std::string name = "CoreType", value = kind.type;
    hwloc_info_s info{.name = name.data(), .value = value.data()};
    EXPECT_EQ(hwloc_cpukinds_register(planted, cpus, -1, 1, &info, 0), 0);
    hwloc_bitmap_free(cpus);
  }
  ASSERT_EQ(hwloc_topology_export_xml(planted, path_.c_str(), 0), 0);
  hwloc_topology_destroy(planted);
  setenv("HWLOC_XMLFILE", path_.c_str(), 1);
  Result<Machine> m = detect_machine();
  unsetenv("HWLOC_XMLFILE");
  ASSERT_TRUE(m.ok());
  EXPECT_EQ(m->numa_nodes, 2);
  EXPECT_EQ(m->threads_per_core, 2);
  EXPECT_EQ(m->cores.performance, 10);
  EXPECT_EQ(m->cores.efficient, 6);
  EXPECT_EQ(m->cores.source, "hwloc");
}

TEST_F(DetectMachine, DescriptionOnlyRemovesFeatures) {
  FeatureSet real = detect_machine().value().features;
  Result<Machine> none = detect_with(R"({"isa": []})");
  ASSERT_TRUE(none.ok());
  EXPECT_EQ(none->features, FeatureSet{});
  EXPECT_TRUE(none->masked.contains(real));
  Result<Machine> all = detect_with(
      R"({"isa": ["avx","avx2","fma","f16c","bmi2","avx512f","avx512dq","avx512bw","avx512vl","amxtile"]})");
  ASSERT_TRUE(all.ok());
  EXPECT_TRUE(real.contains(all->features));
}

TEST_F(DetectMachine, BadDescriptionNamesFileAndField) {
  Result<Machine> m = detect_with(R"({"isa": ["avx2", "avx9"]})");
  ASSERT_FALSE(m.ok());
  EXPECT_EQ(m.status().code(), Code::kInvalidArgument);
  EXPECT_THAT(m.status().message(), HasSubstr(path_));
  EXPECT_THAT(m.status().message(), HasSubstr("'isa'"));
  EXPECT_THAT(m.status().message(), HasSubstr("'avx9'"));
}

TEST_F(DetectMachine, MissingDescriptionIsAnError) {
  setenv("HONE_CPU", "/nonexistent/cpu.json", 1);
  Result<Machine> m = detect_machine();
  unsetenv("HONE_CPU");
  ASSERT_FALSE(m.ok());
  EXPECT_THAT(m.status().message(), HasSubstr("/nonexistent/cpu.json"));
}

}  // namespace
}  // namespace hone
