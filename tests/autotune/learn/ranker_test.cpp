#include "autotune/learn/ranker.h"

#include <gmock/gmock.h>

#include <cmath>
#include <random>

namespace hone::autotune {
namespace {

using testing::HasSubstr;

std::vector<TrainingRow> planted(int count) {
  std::mt19937 random(5);
  std::uniform_real_distribution<float> uniform(0, 1);
  std::vector<TrainingRow> rows;
  for (int i = 0; i < count; ++i) {
    TrainingRow row{.features = {uniform(random), uniform(random), uniform(random)}};
    row.correction = (row.features[0] > 0.5F ? 1.0 : 0.0) - row.features[1];
    rows.push_back(std::move(row));
  }
  return rows;
}

TEST(LearnRanker, WithoutALibrarySaysWhatToInstall) {
  if (ranker_available().ok()) GTEST_SKIP() << "this build has a library";
  EXPECT_EQ(ranker_available().code(), Code::kUnsupported);
  EXPECT_THAT(ranker_available().message(), HasSubstr("install libxgboost-dev and build again"));
  EXPECT_EQ(train_ranker(planted(10), 1).status().code(), Code::kUnsupported);
  const std::vector<float> rows[] = {{1, 2, 3}};
  EXPECT_EQ(predict("anything", rows).status().code(), Code::kUnsupported);
}

class LearnRankerWithLibrary : public testing::Test {
  void SetUp() override {
    if (!ranker_available().ok()) GTEST_SKIP() << ranker_available().message();
  }
};

TEST_F(LearnRankerWithLibrary, FindsAPlantedLaw) {
  const Result<std::string> model = train_ranker(planted(2000), 1);
  ASSERT_TRUE(model.ok()) << model.status().message();
  const std::vector<float> rows[] = {{0.9F, 0.1F, 0.5F}, {0.1F, 0.1F, 0.5F}, {0.1F, 0.9F, 0.5F}};
  const Result<std::vector<double>> values = predict(*model, rows);
  ASSERT_TRUE(values.ok()) << values.status().message();
  EXPECT_NEAR((*values)[0], 0.9, 0.1);
  EXPECT_NEAR((*values)[1], -0.1, 0.1);
  EXPECT_NEAR((*values)[2], -0.9, 0.1);
  EXPECT_TRUE(predict(*model, {})->empty());
}

TEST_F(LearnRankerWithLibrary, SameRowsAndSeedGiveTheSameBytes) {
  EXPECT_EQ(*train_ranker(planted(300), 3), *train_ranker(planted(300), 3));
  EXPECT_NE(*train_ranker(planted(300), 3), *train_ranker(planted(300), 4));
}

TEST_F(LearnRankerWithLibrary, DamagedOrForeignModelsAreRefused) {
  const std::string model = *train_ranker(planted(200), 1);
  const std::vector<float> rows[] = {{1, 2, 3}};
  auto code = [&](const std::string& bytes) { return predict(bytes, rows).status().code(); };
  std::string flipped = model;
  flipped[model.size() / 2] = static_cast<char>(flipped[model.size() / 2] ^ 1);
  EXPECT_EQ(code(flipped), Code::kDataLoss);
  EXPECT_EQ(code(model.substr(0, model.size() - 1)), Code::kDataLoss);
  EXPECT_EQ(code(""), Code::kDataLoss);
  EXPECT_EQ(code("noise without a line"), Code::kDataLoss);
  EXPECT_EQ(code("binf\n" + std::string(100, '\xff')), Code::kDataLoss);
  const std::vector<float> wider[] = {{1, 2, 3, 4}};
  EXPECT_EQ(predict(model, wider).status().code(), Code::kDataLoss);
  const std::vector<float> uneven[] = {{1, 2, 3}, {1, 2}};
  EXPECT_EQ(predict(model, uneven).status().code(), Code::kInvalidArgument);
}

TEST_F(LearnRankerWithLibrary, NothingToTrainOnIsAnError) {
  EXPECT_EQ(train_ranker({}, 1).status().code(), Code::kInvalidArgument);
}

}  // namespace
}  // namespace hone::autotune
