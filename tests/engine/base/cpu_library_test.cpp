#include "engine/base/cpu_library.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "engine/base/machine_kind.h"

namespace hone {
namespace {

using testing::HasSubstr;

Machine described(std::string_view name) {
  Result<std::string> text = find_cpu_description(std::string(name));
  EXPECT_TRUE(text.ok()) << text.status().to_string();
  Result<Machine> machine = parse_machine_description(text.ok() ? *text : "{}");
  EXPECT_TRUE(machine.ok()) << machine.status().to_string();
  return machine.ok() ? *machine : Machine{};
}

// What a description leaves out would be that of the machine on which the question is asked.
TEST(CpuLibrary, DescriptionsAreCompleteAndSayTheirSource) {
  std::set<std::string> fields;
  const nlohmann::json label = nlohmann::json::parse(machine_to_json(Machine{}));
  for (const auto& [key, value] : label.items())
    if (key != "key" && key != "microarch" && key != "cpus_source") fields.insert(key);  // they follow from the others
  fields.insert("source");
  for (const CpuDescription& cpu : cpu_library()) {
    std::set<std::string> has;
    const nlohmann::json object = nlohmann::json::parse(cpu.json);
    for (const auto& [key, value] : object.items()) has.insert(key);
    EXPECT_EQ(has, fields) << cpu.name;
    EXPECT_GT(object["source"].get<std::string>().size(), 20u) << cpu.name;
    described(cpu.name);
  }
}

// The strongest ISA and the microarchitecture of each: a new description adds its row.
TEST(CpuLibrary, GoldenIsaAndMicroarchitecture) {
  std::map<std::string, std::string> golden = {{"zen2", "avx2 zen2"},
                                               {"zen3", "avx2 zen3"},
                                               {"zen4", "avx512 zen4"},
                                               {"zen5", "avx512 zen5"},
                                               {"skylake_x", "avx512 skylake_x"},
                                               {"ice_lake", "avx512 ice_lake"},
                                               {"sapphire_rapids", "avx512 sapphire_rapids"},
                                               {"alder_lake", "avx2 alder_lake"},
                                               {"vm_masked_avx512", "avx2 ice_lake"},
                                               {"vm_absurd_caches", "avx512 zen4"},
                                               {"vm_small_avx2", "avx2 haswell"},
                                               {"cortex_a72", "neon cortex_a72"},
                                               {"neoverse_n1", "neon neoverse_n1"}};
  std::map<std::string, std::string> found;
  for (const CpuDescription& cpu : cpu_library()) {
    const Machine m = described(cpu.name);
    ASSERT_TRUE(m.best_isa().ok()) << cpu.name;
    found[std::string(cpu.name)] = std::string(isa_info(*m.best_isa()).name) + " " + std::string(m.microarch());
  }
  EXPECT_EQ(found, golden);
}

TEST(CpuLibrary, SizesArePlausible) {
  for (const CpuDescription& cpu : cpu_library()) {
    const Machine m = described(cpu.name);
    const BlockingCaches caches = blocking_caches(m);
    EXPECT_GE(caches.l1d, 32 << 10) << cpu.name;
    EXPECT_LE(caches.l1d, m.arch() == Arch::kX86_64 ? 48 << 10 : 64 << 10) << cpu.name;
    EXPECT_GE(caches.l2, 256 << 10) << cpu.name;
    EXPECT_LE(caches.l2, 4 << 20) << cpu.name;
    EXPECT_EQ(caches.l3_share > 0, m.l3.bytes > 0) << cpu.name;
    EXPECT_FALSE(m.features.intersects(m.masked)) << cpu.name;
    EXPECT_EQ(m.cores.all % m.threads_per_core, 0) << cpu.name;
    EXPECT_LE(m.cpus_usable, m.cores.all) << cpu.name;
    if (m.cores.performance > 0) {
      EXPECT_EQ(m.cores.performance + m.cores.efficient, m.cores.all) << cpu.name;
    }
  }
}

// Case r4: CPUID says AVX-512, the OS does not save its registers.
TEST(CpuLibrary, CaseR4MaskedAvx512) {
  const Machine m = described("vm_masked_avx512");
  EXPECT_TRUE(m.masked.has(Feature::kAvx512F));
  EXPECT_FALSE(m.supports(Isa::kAvx512));
}

// Case r5: no L1d, an L2 and an L3 that nobody has.
TEST(CpuLibrary, CaseR5AbsurdCaches) {
  const Machine m = described("vm_absurd_caches");
  EXPECT_EQ(m.l1d.bytes, 0);
  EXPECT_EQ(m.l3.bytes, int64_t{508} << 20);
  EXPECT_EQ(blocking_caches(m).l1d_source, "assumed");
  EXPECT_EQ(blocking_caches(m).l2, 4 << 20);
  EXPECT_EQ(blocking_caches(m).l3_share, 8 << 20);
}

TEST(CpuLibrary, HybridCoresAreCounted) {
  EXPECT_EQ(described("alder_lake").cores,
            (CoreClasses{.all = 24, .performance = 16, .efficient = 8, .source = "description"}));
}

TEST(CpuLibrary, EveryTwoAreOfDifferentKinds) {
  for (const CpuDescription& a : cpu_library()) {
    for (const CpuDescription& b : cpu_library()) {
      const std::string difference = kind_difference(kind_of(described(a.name)), kind_of(described(b.name)));
      // A guest on the same CPU as ice_lake, with fewer features: the kind is one, the key another.
      const bool same_cpu = a.name == b.name || (a.name == "ice_lake" && b.name == "vm_masked_avx512") ||
                            (b.name == "ice_lake" && a.name == "vm_masked_avx512");
      EXPECT_EQ(difference.empty(), same_cpu) << a.name << " and " << b.name << ": " << difference;
    }
  }
}

TEST(CpuLibrary, UnknownNamesListTheKnown) {
  for (const char* wrong : {"zen9", "Zen4", "", "/", "/nonexistent/cpu.json"}) {
    Result<std::string> text = find_cpu_description(wrong);
    ASSERT_FALSE(text.ok()) << wrong;
    EXPECT_EQ(text.status().code(), Code::kInvalidArgument);
    EXPECT_THAT(text.status().message(), HasSubstr("zen2, zen3, zen4, zen5"));
    EXPECT_EQ(text.status().message().find('\n'), std::string::npos);
  }
}

}  // namespace
}  // namespace hone
