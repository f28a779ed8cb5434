// The strategy is a function of the load.
#include "engine/plan/experts_policy.h"

#include <gmock/gmock.h>

#include <vector>

namespace hone::plan {
namespace {

using testing::HasSubstr;

ExpertsChoice choice(const std::vector<int64_t>& rows, int64_t tokens, int threads, bool dense_fits = true) {
  return choose_experts({.tokens = tokens, .rows = rows, .dense_fits = dense_fits, .threads = threads});
}

TEST(ExpertsPolicy, DenseWhereEveryExpertHasEveryToken) {
  EXPECT_EQ(choice({5, 5, 5}, 5, 4).strategy, ExpertsStrategy::kDense);
  EXPECT_EQ(choice({5, 5, 5}, 5, 4, false).strategy, ExpertsStrategy::kGrouped) << "no memory for it";
  EXPECT_EQ(choice({5, 5, 4}, 5, 4).strategy, ExpertsStrategy::kGrouped) << "a row more than is used";
  EXPECT_EQ(choice({1, 0}, 1, 4).strategy, ExpertsStrategy::kPerExpert) << "weights that nobody needs";
}

TEST(ExpertsPolicy, OneRegionWhereSeveralThreadsShareSeveralExperts) {
  EXPECT_EQ(choice({100, 1, 0, 3}, 52, 2).strategy, ExpertsStrategy::kGrouped);
  EXPECT_EQ(choice({100, 1, 0, 3}, 52, 1).strategy, ExpertsStrategy::kPerExpert);
  EXPECT_EQ(choice({0, 0, 0, 104}, 52, 2).strategy, ExpertsStrategy::kPerExpert);
}

TEST(ExpertsPolicy, EveryChoiceHasAReasonAndAName) {
  EXPECT_THAT(choice({5, 5, 5}, 5, 4).reason, HasSubstr("nothing to gather"));
  EXPECT_THAT(choice({9, 1}, 9, 4).reason, HasSubstr("one region"));
  EXPECT_THAT(choice({9, 1}, 9, 1).reason, HasSubstr("one thread"));
  EXPECT_THAT(choice({9, 0}, 9, 4).reason, HasSubstr("one expert"));
  EXPECT_EQ(strategy_name(ExpertsStrategy::kPerExpert), "per_expert");
  EXPECT_EQ(strategy_name(ExpertsStrategy::kGrouped), "grouped");
  EXPECT_EQ(strategy_name(ExpertsStrategy::kDense), "dense");
}

}  // namespace
}  // namespace hone::plan
