#include "autotune/learn/features.h"

#include <gmock/gmock.h>

#include <cmath>
#include <set>

#include "tests/autotune/learn/learn_testing.h"

namespace hone::autotune {
namespace {

TEST(LearnFeatures, NamesAreUniqueAndEachHasAValue) {
  const auto names = feature_names();
  EXPECT_EQ(std::set<std::string_view>(names.begin(), names.end()).size(), names.size());
  const auto p = must_parse("matmul:f32:m=64,n=512,k=512");
  EXPECT_EQ(features(p, law_candidates(p).front(), law_machine()).size(), names.size());
}

TEST(LearnFeatures, AreFiniteForProblemsWithoutWork) {
  for (std::string_view text : {"matmul:f32:m=0,n=16,k=16", "matmul:f32:m=4,n=1,k=0", "matmul:f32:m=1,n=1,k=1,b=nt",
                                "matmul:f32:m=4,n=4294967296,k=65536,b=packed"}) {
    const auto p = must_parse(text);
    for (const Candidate& c : law_candidates(p))
      for (float value : features(p, c, law_machine())) ASSERT_TRUE(std::isfinite(value)) << text;
  }
}

TEST(LearnFeatures, TellProgramsApartAndNotCodeGenerators) {
  const auto p = must_parse("matmul:f32:m=64,n=512,k=512");
  std::vector<Candidate> all = law_candidates(p);
  std::set<std::vector<float>> rows;
  for (const Candidate& c : all) rows.insert(features(p, c, law_machine()));
  EXPECT_EQ(rows.size(), all.size());
  Candidate other = all.front();
  other.codegen = "llvm";
  EXPECT_EQ(features(p, other, law_machine()), features(p, all.front(), law_machine()));
}

TEST(LearnFeatures, VersionIsOneShortLine) {
  EXPECT_EQ(features_version(), features_version());
  EXPECT_THAT(features_version(), testing::MatchesRegex("matmul [0-9a-f]+"));
}

}  // namespace
}  // namespace hone::autotune
