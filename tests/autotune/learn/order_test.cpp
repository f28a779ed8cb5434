#include "autotune/learn/order.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <set>
#include <tuple>

#include "autotune/learn/evaluate.h"
#include "autotune/learn/features.h"
#include "tests/autotune/learn/learn_testing.h"

namespace hone::autotune {
namespace {

using testing::HasSubstr;

class LearnOrder : public testing::Test {
 protected:
  void SetUp() override { store_ = db::open({.path = ":memory:", .mode = db::OpenMode::kInMemory}).value(); }
  CandidateOrder order() { return candidate_order(problem_, candidates_, law_machine(), *store_, "here"); }
  void save(const std::string& model, const std::string& features = features_version()) {
    ASSERT_TRUE(store_->save_ranker({.machine_key = "here", .features = features, .model = model}).ok());
  }

  matmul::MatmulProblem problem_ = must_parse("matmul:f32:m=48,n=640,k=384");  // not among law_groups()
  std::vector<Candidate> candidates_ = law_candidates(problem_);
  std::vector<int> analytical_ = measuring_order(problem_, candidates_, law_machine());
  std::unique_ptr<db::Store> store_;
};

TEST_F(LearnOrder, IsAnalyticalWithoutARanker) {
  EXPECT_EQ(order().indices, analytical_);
  EXPECT_EQ(order().name(), "analytical");
  EXPECT_THAT(order().why_not, testing::AnyOf(HasSubstr("no ranker is stored"), HasSubstr("install libxgboost-dev")));
}

TEST_F(LearnOrder, IgnoresARankerThatIsDamaged) {
  save("these bytes are no model");
  EXPECT_EQ(order().indices, analytical_);
  EXPECT_FALSE(order().learned);
  if (ranker_available().ok()) {
    EXPECT_THAT(order().why_not, HasSubstr("ranker 1: not a model"));
  }
}

TEST_F(LearnOrder, LearnedIsAnotherOrderOfTheSameCandidates) {
  if (!ranker_available().ok()) GTEST_SKIP() << ranker_available().message();
  const std::string model = *train_ranker(training_rows(law_groups(4)), 1);
  save(model, "matmul of another version");
  EXPECT_FALSE(order().learned) << "made for other features";
  save(model);
  const CandidateOrder learned = order();
  ASSERT_TRUE(learned.learned) << learned.why_not;
  EXPECT_TRUE(std::is_permutation(learned.indices.begin(), learned.indices.end(), analytical_.begin()));
  auto best_of_first = [&](const std::vector<int>& indices, size_t count) {
    double best = 1e300;
    for (size_t i = 0; i < count; ++i)
      best = std::min(best, law_ns(problem_, candidates_[static_cast<size_t>(indices[i])]));
    return best;
  };
  EXPECT_LE(best_of_first(learned.indices, 8), best_of_first(analytical_, 8));
  std::set<std::tuple<int64_t, int64_t, matmul::PackA, matmul::PackB>> structures;
  for (size_t i = 0; i < 32; ++i) {
    const matmul::TransformProgram& t = matmul_of(candidates_[static_cast<size_t>(learned.indices[i])]);
    structures.insert({t.mr, t.nr, t.pack_a, t.pack_b});
  }
  EXPECT_GE(structures.size(), 4u) << "the first to be measured are not variants of one tile";
}

}  // namespace
}  // namespace hone::autotune
