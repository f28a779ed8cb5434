#include "engine/base/hwcap.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "engine/base/machine_internal.h"

namespace hone {
namespace {

using testing::HasSubstr;

// As a Neoverse N1 r3p1 (AWS Graviton2) prints them: "fp asimd evtstrm aes pmull sha1 sha2 crc32 atomics fphp asimdhp
// cpuid asimdrdm lrcpc dcpop asimddp ssbs", MIDR 0x413fd0c1.
constexpr RawHwcap kNeoverseN1{.hwcap = 0x10119fff, .hwcap2 = 0, .midr = 0x413fd0c1};

TEST(Hwcap, DecodesIdentityAndFeatures) {
  const Machine m = decode_hwcap(kNeoverseN1);
  EXPECT_EQ(m.vendor, "ARM");
  EXPECT_EQ(m.family, 8);
  EXPECT_EQ(m.model, 0xd0c);
  EXPECT_EQ(m.stepping, 0x31);
  EXPECT_EQ(m.brand, "ARM part 0xd0c r3p1");
  EXPECT_EQ(m.microarch(), "neoverse_n1");
  EXPECT_EQ(m.features, (FeatureSet{Feature::kAsimd, Feature::kAsimdHp, Feature::kAsimdDp}));
  EXPECT_EQ(m.arch(), Arch::kAarch64);
  EXPECT_EQ(m.best_isa().value(), Isa::kNeon);
  EXPECT_EQ(m.key(), "aarch64:asimd,asimdhp,asimddp");
}

TEST(Hwcap, SecondWord) {
  const Machine m = decode_hwcap({.hwcap = 1 << 22, .hwcap2 = 1 << 1 | 1 << 13 | 1 << 14, .midr = 0});
  EXPECT_EQ(m.features, (FeatureSet{Feature::kSve, Feature::kSve2, Feature::kI8mm, Feature::kArmBf16}));
  EXPECT_EQ(m.vendor, "");
  EXPECT_EQ(m.microarch(), "");
  ASSERT_FALSE(m.best_isa().ok());
  EXPECT_THAT(m.best_isa().status().message(), HasSubstr("the weakest, neon, lacks asimd"));
}

// No machine of one architecture supports an instruction set of another, and none has features of both.
TEST(Hwcap, ArchitecturesDoNotMix) {
  const Machine arm = decode_hwcap(kNeoverseN1);
  for (Isa isa : all_isas()) EXPECT_EQ(arm.supports(isa), isa_info(isa).arch == Arch::kAarch64);
  const Result<Machine> both = parse_machine_description(R"({"isa": ["avx2", "asimd"]})");
  ASSERT_FALSE(both.ok());
  EXPECT_EQ(both.status().message(),
            "field 'isa' has 'asimd', which is no feature of x86-64 machines as the others are");
  EXPECT_FALSE(parse_machine_description(R"({"isa": ["asimd"], "isa_masked": ["avx"]})").ok());
}

// Asking about an AArch64 machine on one that is not, or the other way: nothing of it can be executed here.
TEST(Hwcap, AnotherArchitectureCannotBeExecuted) {
  Machine x86;
  x86.features = {Feature::kAvx, Feature::kAvx2, Feature::kFma, Feature::kBmi2};
  x86.masked = {Feature::kAvx512F};
  const Machine arm = decode_hwcap(kNeoverseN1);
  EXPECT_EQ(restrict_machine(arm, x86).features, FeatureSet{});
  EXPECT_EQ(restrict_machine(x86, arm).features, FeatureSet{});
  EXPECT_FALSE(restrict_machine(arm, x86).best_isa().ok());
  // What this machine masks is not said of the other.
  Machine described = x86;
  ASSERT_TRUE(describe_machine(R"({"isa": ["asimd"]})", described).ok());
  EXPECT_EQ(described.masked, FeatureSet{});
  EXPECT_EQ(described.key(), "aarch64:asimd");
}

TEST(Hwcap, ReadsNothingElsewhere) {
  if (host_arch() == Arch::kAarch64) {
    EXPECT_TRUE(decode_hwcap(read_hwcap()).supports(Isa::kNeon));
  } else {
    EXPECT_EQ(decode_hwcap(read_hwcap()), Machine{});
  }
}

}  // namespace
}  // namespace hone
