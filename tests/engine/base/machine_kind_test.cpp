#include "engine/base/machine_kind.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/engine/base/cpuid_fixture_internal.h"

namespace hone {
namespace {

using testing::HasSubstr;

Machine cpu(std::string_view vendor, int family, int model, int stepping = 1) {
  Machine m;
  m.vendor = vendor;
  m.family = family;
  m.model = model;
  m.stepping = stepping;
  return m;
}

// Signatures (CPUID leaf 1 EAX) of CPUs that people have, as they are published for these products.
TEST(MachineKind, MicroarchitecturesOfKnownSignatures) {
  const struct {
    std::string_view vendor;
    uint32_t signature;
    std::string_view name;
  } cases[] = {
      {"GenuineIntel", 0x000306c3, "haswell"},          // Core i7-4770
      {"GenuineIntel", 0x000306f2, "haswell"},          // Xeon E5-2680 v3
      {"GenuineIntel", 0x000406f1, "broadwell"},        // Xeon E5-2699 v4
      {"GenuineIntel", 0x000506e3, "skylake"},          // Core i7-6700K
      {"GenuineIntel", 0x000906ea, "kaby_lake"},        // Core i7-8700K
      {"GenuineIntel", 0x00050654, "skylake_x"},        // Xeon Platinum 8180
      {"GenuineIntel", 0x00050657, "cascade_lake"},     // Xeon Platinum 8280
      {"GenuineIntel", 0x0005065b, "cooper_lake"},      // Xeon Platinum 8380H
      {"GenuineIntel", 0x000606a6, "ice_lake"},         // Xeon Platinum 8380
      {"GenuineIntel", 0x000706e5, "ice_lake_client"},  // Core i7-1065G7
      {"GenuineIntel", 0x000806c1, "tiger_lake"},       // Core i7-1165G7
      {"GenuineIntel", 0x000a0671, "rocket_lake"},      // Core i9-11900K
      {"GenuineIntel", 0x000806f8, "sapphire_rapids"},  // Xeon Platinum 8480+
      {"GenuineIntel", 0x000c06f2, "emerald_rapids"},   // Xeon Platinum 8592+
      {"GenuineIntel", 0x000a06d1, "granite_rapids"},   // Xeon 6980P
      {"GenuineIntel", 0x00090672, "alder_lake"},       // Core i9-12900K
      {"GenuineIntel", 0x000b0671, "raptor_lake"},      // Core i9-13900K
      {"GenuineIntel", 0x000a06a4, "meteor_lake"},      // Core Ultra 7 155H
      {"AuthenticAMD", 0x00800f11, "zen"},              // Ryzen 7 1800X
      {"AuthenticAMD", 0x00830f10, "zen2"},             // EPYC 7742
      {"AuthenticAMD", 0x00870f10, "zen2"},             // Ryzen 9 3900X
      {"AuthenticAMD", 0x00a20f10, "zen3"},             // Ryzen 9 5950X
      {"AuthenticAMD", 0x00a00f11, "zen3"},             // EPYC 7763
      {"AuthenticAMD", 0x00a10f11, "zen4"},             // EPYC 9654
      {"AuthenticAMD", 0x00a60f12, "zen4"},             // Ryzen 9 7950X
      {"AuthenticAMD", 0x00b00f21, "zen5"},             // EPYC 9755
      {"AuthenticAMD", 0x00b40f40, "zen5"},             // Ryzen 9 9950X
      {"GenuineIntel", 0x000106a5, ""},                 // Core i7-920: before AVX2
      {"AuthenticAMD", 0x000306c3, ""},
      {"", 0, ""},
  };
  for (const auto& c : cases) {
    RawCpuid raw;
    raw.leaves[{1, 0}].eax = c.signature;
    Machine m = decode_cpuid(raw);
    m.vendor = c.vendor;
    EXPECT_EQ(m.microarch(), c.name) << std::hex << c.signature;
  }
}

// A guest under an old model number, with AMX and bf16: no Rocket Lake has those.
TEST(MachineKind, FeaturesMayBelieTheModelNumber) {
  Machine m = decode_cpuid(avx512_guest());
  EXPECT_EQ(m.model, 167);
  EXPECT_EQ(m.microarch(), "");
  m.features = {Feature::kAvx2, Feature::kAvx512F, Feature::kAvx512Vnni};
  EXPECT_EQ(m.microarch(), "rocket_lake");
  m.masked.add(Feature::kAvx512Bf16);
  EXPECT_EQ(m.microarch(), "");
}

TEST(MachineKind, WhatIsNoPartOfIt) {
  const Machine a = decode_cpuid(avx512_guest());
  Machine b = a;
  b.stepping = 9;
  b.brand = "renamed";
  b.hypervisor = "";
  b.l3 = {.bytes = 1 << 20, .source = "hwloc", .shared_by = 64};
  b.cpus_usable = 96;
  b.cpus_source = "cgroup2 quota 96";
  b.threads_per_core = 2;
  b.numa_nodes = 4;
  b.cores = {.all = 192, .performance = 0, .efficient = 0, .source = "sysfs"};
  b.l1d.source = b.l2.source = "description";
  b.features.remove(Feature::kAmxTile);  // the key's business
  EXPECT_EQ(kind_of(a), kind_of(b));
  EXPECT_EQ(kind_difference(kind_of(a), kind_of(b)), "");
}

TEST(MachineKind, WhatMakesAnotherKindIsSaid) {
  const Machine zen4 = cpu("AuthenticAMD", 25, 97);
  Machine other = zen4;
  other.model = 17;
  EXPECT_THAT(
      kind_difference(kind_of(zen4), kind_of(other)),
      HasSubstr("measured on zen4 (AuthenticAMD family 25 model 97), this is zen4 (AuthenticAMD family 25 model 17)"));
  other = cpu("GenuineIntel", 6, 143);
  EXPECT_THAT(kind_difference(kind_of(zen4), kind_of(other)), HasSubstr("this is sapphire_rapids"));
  other = zen4;
  other.l2 = {.bytes = 2 << 20, .source = "cpuid4"};
  EXPECT_EQ(kind_difference(kind_of(zen4), kind_of(other)), "measured with 512 KiB of L2, here 2048");
  other.l1d = {.bytes = 64 << 10, .source = "cpuid4"};
  EXPECT_EQ(kind_difference(kind_of(zen4), kind_of(other)),
            "measured with 32 KiB of L1d, here 64; measured with 512 KiB of L2, here 2048");
  EXPECT_THAT(kind_difference(kind_of(Machine{}), kind_of(zen4)), HasSubstr("a machine that does not say what it is"));
}

// Blocking sees an absurd size as what it is clamped to, so two absurd sizes are one.
TEST(MachineKind, CachesCountAsBlockingSeesThem) {
  Machine a = cpu("AuthenticAMD", 25, 97), b = a;
  a.l1d = {.bytes = 0, .source = "cpuid4"};
  b.l1d = {.bytes = 32 << 10, .source = "cpuid4"};
  a.l2 = {.bytes = int64_t{1} << 40, .source = "cpuid4"};
  b.l2 = {.bytes = int64_t{1} << 33, .source = "cpuid4"};
  EXPECT_EQ(kind_difference(kind_of(a), kind_of(b)), "");
}

}  // namespace
}  // namespace hone
