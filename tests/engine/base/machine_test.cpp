#include "engine/base/machine.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <fstream>

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
  EXPECT_EQ(m->cpus_usable, 3);
  EXPECT_EQ(m->cpus_source, "description");
  EXPECT_EQ(m->brand, "planted");
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
