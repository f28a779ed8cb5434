#include "engine/base/isa.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace hone {
namespace {

TEST(Isa, FeatureNamesParseBack) {
  for (int i = 0; i <= static_cast<int>(Feature::kArmBf16); ++i) {
    auto feature = static_cast<Feature>(i);
    EXPECT_EQ(parse_feature(feature_name(feature)), feature);
    EXPECT_TRUE(features_of(feature_arch(feature)).has(feature));
  }
  EXPECT_FALSE(parse_feature("avx9").has_value());
}

TEST(Isa, SetsListNamesInOrderOfTheList) {
  FeatureSet set{Feature::kFma, Feature::kAvx, Feature::kAvx2};
  EXPECT_THAT(set.names(), testing::ElementsAre("avx", "avx2", "fma"));
  set.remove(Feature::kAvx2);
  EXPECT_FALSE(set.has(Feature::kAvx2));
  EXPECT_TRUE((FeatureSet{Feature::kAvx, Feature::kFma}.contains(set)));
  EXPECT_FALSE(set.contains({Feature::kBmi2}));
}

TEST(Isa, InfoSaysWhatGenerationNeeds) {
  EXPECT_EQ(isa_info(Isa::kAvx2).lanes_f32(), 8);
  EXPECT_FALSE(isa_info(Isa::kAvx2).mask_registers);
  EXPECT_EQ(isa_info(Isa::kAvx512).lanes_f32(), 16);
  EXPECT_EQ(isa_info(Isa::kAvx512).vector_registers, 32);
  EXPECT_TRUE(isa_info(Isa::kAvx512).required.contains(isa_info(Isa::kAvx2).required));
  EXPECT_EQ(isa_info(Isa::kNeon).lanes_f32(), 4);
  for (Isa isa : all_isas()) EXPECT_EQ(parse_isa(isa_info(isa).name), isa);
  EXPECT_FALSE(parse_isa("sve").has_value());
}

TEST(Isa, BelongsToOneArchitecture) {
  for (Isa isa : all_isas()) {
    const IsaInfo& info = isa_info(isa);
    EXPECT_TRUE(features_of(info.arch).contains(info.required)) << info.name;
    EXPECT_FALSE(info.required == FeatureSet{}) << info.name;
  }
  EXPECT_THAT(isas_of(Arch::kX86_64), testing::ElementsAre(Isa::kAvx2, Isa::kAvx512));
  EXPECT_THAT(isas_of(Arch::kAarch64), testing::ElementsAre(Isa::kNeon));
  EXPECT_TRUE(isas_of(Arch::kOther).empty());
  EXPECT_FALSE(features_of(Arch::kX86_64).intersects(features_of(Arch::kAarch64)));
  EXPECT_EQ(arch_name(Arch::kX86_64), "x86-64");  // as stored keys begin
}

}  // namespace
}  // namespace hone
