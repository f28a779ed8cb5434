#include "engine/base/cpuid.h"

#include <gtest/gtest.h>

#include "tests/engine/base/cpuid_fixture_internal.h"

namespace hone {
namespace {

TEST(Cpuid, DecodesIdentity) {
  Machine m = decode_cpuid(avx512_guest());
  EXPECT_EQ(m.vendor, "GenuineIntel");
  EXPECT_EQ(m.family, 6);
  EXPECT_EQ(m.model, 167);
  EXPECT_EQ(m.stepping, 1);
  EXPECT_EQ(m.hypervisor, "KVMKVMKVM");
}

TEST(Cpuid, DecodesFeatures) {
  Machine m = decode_cpuid(avx512_guest());
  EXPECT_TRUE(m.supports(Isa::kAvx512));
  EXPECT_TRUE(m.features.contains({Feature::kAvx512Vnni, Feature::kAvx512Bf16, Feature::kAvxVnni, Feature::kAvx512Fp16,
                                   Feature::kAmxTile, Feature::kAmxBf16, Feature::kAmxInt8, Feature::kF16c}));
  EXPECT_EQ(m.masked, FeatureSet{});
}

// Case r4: CPUID says AVX-512, XCR0 masks it.
TEST(Cpuid, CaseR4MaskedAvx512MeansAvx2) {
  RawCpuid raw = avx512_guest();
  raw.xcr0 = 0x7;
  Machine m = decode_cpuid(raw);
  ASSERT_TRUE(m.best_isa().ok());
  EXPECT_EQ(*m.best_isa(), Isa::kAvx2);
  EXPECT_FALSE(m.features.has(Feature::kAvx512F));
  EXPECT_TRUE(m.masked.contains(
      {Feature::kAvx512F, Feature::kAvx512Dq, Feature::kAvx512Bw, Feature::kAvx512Vl, Feature::kAmxTile}));
  EXPECT_TRUE(m.features.contains({Feature::kAvx, Feature::kAvx2, Feature::kFma, Feature::kBmi2}));
}

// Only all three AVX-512 states together make it usable; only both tile states AMX.
TEST(Cpuid, PartialStateIsNotEnough) {
  for (uint64_t missing : {0x2, 0x4, 0x20, 0x40, 0x80}) {
    RawCpuid raw = avx512_guest();
    raw.xcr0 &= ~missing;
    EXPECT_FALSE(decode_cpuid(raw).supports(Isa::kAvx512)) << "without XCR0 bits " << missing;
  }
  for (uint64_t missing : {0x20000, 0x40000}) {
    RawCpuid raw = avx512_guest();
    raw.xcr0 &= ~missing;
    EXPECT_FALSE(decode_cpuid(raw).features.has(Feature::kAmxTile));
    EXPECT_TRUE(decode_cpuid(raw).supports(Isa::kAvx512));
  }
}

TEST(Cpuid, WithoutOsxsaveNoVectorFeatureIsUsable) {
  RawCpuid raw = avx512_guest();
  raw.leaves[{1, 0}].ecx &= ~(1u << 27);
  Machine m = decode_cpuid(raw);
  EXPECT_FALSE(m.features.has(Feature::kAvx));
  EXPECT_TRUE(m.features.has(Feature::kBmi2));
  EXPECT_TRUE(m.masked.has(Feature::kAvx2));
}

TEST(Cpuid, NothingReportedMeansNothingSupported) {
  Machine m = decode_cpuid(RawCpuid{});
  EXPECT_EQ(m.features, FeatureSet{});
  EXPECT_EQ(m.l1d.bytes, 0);
  ASSERT_FALSE(m.best_isa().ok());
  EXPECT_EQ(m.best_isa().status().code(), Code::kNotFound);
  EXPECT_NE(m.best_isa().status().message().find("avx2,fma"), std::string::npos) << m.best_isa().status().message();
}

TEST(Cpuid, CachesFromLeaf4) {
  Machine m = decode_cpuid(avx512_guest());
  EXPECT_EQ(m.l1d, (CacheInfo{.bytes = 48 << 10, .source = "cpuid4", .shared_by = 1}));
  EXPECT_EQ(m.l2, (CacheInfo{.bytes = 2 << 20, .source = "cpuid4", .shared_by = 1}));
  EXPECT_EQ(m.l3, (CacheInfo{.bytes = 480 << 20, .source = "cpuid4", .shared_by = 2}));
}

TEST(Cpuid, CachesFromLeaf8000001d) {
  RawCpuid raw;  // 32 KiB L1d, 32 KiB L1i, 512 KiB L2 for two threads; 32 MiB L3 for sixteen
  raw.leaves[{0x8000001d, 0}] = {0x00004121, 0x01c0003f, 0x3f, 0};
  raw.leaves[{0x8000001d, 1}] = {0x00004122, 0x01c0003f, 0x3f, 0};
  raw.leaves[{0x8000001d, 2}] = {0x00004143, 0x01c0003f, 0x3ff, 2};
  raw.leaves[{0x8000001d, 3}] = {0x0003c163, 0x03c0003f, 0x7fff, 1};
  Machine m = decode_cpuid(raw);
  EXPECT_EQ(m.l1d, (CacheInfo{.bytes = 32 << 10, .source = "cpuid8000001d", .shared_by = 2}));
  EXPECT_EQ(m.l2.bytes, 512 << 10);
  EXPECT_EQ(m.l3, (CacheInfo{.bytes = 32 << 20, .source = "cpuid8000001d", .shared_by = 16}));
}

TEST(Cpuid, CachesFromTheOldLeaves) {
  RawCpuid raw;
  raw.leaves[{0x80000005, 0}] = {0, 0, 0x20080140, 0};
  raw.leaves[{0x80000006, 0}] = {0, 0, 0x02006140, 0x01009140};
  Machine m = decode_cpuid(raw);
  EXPECT_EQ(m.l1d.bytes, 32 << 10);
  EXPECT_EQ(m.l2, (CacheInfo{.bytes = 512 << 10, .source = "cpuid80000006"}));
  EXPECT_EQ(m.l3.bytes, 32 << 20);
}

TEST(Cpuid, EndlessCacheListEnds) {
  RawCpuid raw;
  for (uint32_t i = 0; i < 64; ++i) raw.leaves[{4, i}] = {0x04000121, 0x02c0003f, 0x3f, 0};
  EXPECT_EQ(decode_cpuid(raw).l1d.bytes, 48 << 10);
}

TEST(Cpuid, ReadsThisMachineTwiceAlike) {
  RawCpuid first = read_cpuid(), second = read_cpuid();
  EXPECT_EQ(first.xcr0, second.xcr0);
  EXPECT_EQ(decode_cpuid(first).key(), decode_cpuid(second).key());
}

#if defined(__x86_64__)
// The compiler's run-time library decodes the same bits on its own: an oracle for the bit positions of isa.inc.
TEST(Cpuid, AgreesWithTheCompilersRuntime) {
  FeatureSet ours = decode_cpuid(read_cpuid()).features;
  EXPECT_EQ(ours.has(Feature::kAvx), __builtin_cpu_supports("avx") != 0);
  EXPECT_EQ(ours.has(Feature::kAvx2), __builtin_cpu_supports("avx2") != 0);
  EXPECT_EQ(ours.has(Feature::kFma), __builtin_cpu_supports("fma") != 0);
  EXPECT_EQ(ours.has(Feature::kBmi2), __builtin_cpu_supports("bmi2") != 0);
  EXPECT_EQ(ours.has(Feature::kAvx512F), __builtin_cpu_supports("avx512f") != 0);
  EXPECT_EQ(ours.has(Feature::kAvx512Dq), __builtin_cpu_supports("avx512dq") != 0);
  EXPECT_EQ(ours.has(Feature::kAvx512Bw), __builtin_cpu_supports("avx512bw") != 0);
  EXPECT_EQ(ours.has(Feature::kAvx512Vl), __builtin_cpu_supports("avx512vl") != 0);
  EXPECT_EQ(ours.has(Feature::kAvx512Vnni), __builtin_cpu_supports("avx512vnni") != 0);
}
#endif

}  // namespace
}  // namespace hone
