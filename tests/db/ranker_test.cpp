#include <gmock/gmock.h>

#include <cmath>

#include "tests/db/db_testing.h"

namespace hone::db {
namespace {

Ranker ranker(const std::string& features, int64_t trained_at) {
  return {.machine_key = "x86-64:avx2",
          .features = features,
          .trained_at = trained_at,
          .problems = 30,
          .samples = 9000,
          .correlation = 0.75,
          .baseline_correlation = 0.5,
          .model = std::string("bytes\0with\xff zeros", 17)};
}

TEST(DbRanker, NewestOfTheSameFeaturesComesBack) {
  Folder folder;
  auto store = must_open(folder.file("a.db"));
  EXPECT_FALSE(store->newest_ranker("x86-64:avx2", "f1")->has_value());
  Ranker better = ranker("f1", 200);
  better.correlation = 1.0 / 3;
  ASSERT_TRUE(store->save_ranker(better).ok());
  ASSERT_TRUE(store->save_ranker(ranker("f1", 100)).ok());
  ASSERT_TRUE(store->save_ranker(ranker("f2", 300)).ok());
  const auto found = store->newest_ranker("x86-64:avx2", "f1");
  ASSERT_TRUE(found.ok() && found->has_value());
  EXPECT_EQ((*found)->trained_at, 200);
  EXPECT_EQ((*found)->correlation, 1.0 / 3);
  EXPECT_EQ((*found)->model, better.model);
  EXPECT_EQ((*found)->samples, 9000);
  EXPECT_FALSE(store->newest_ranker("x86-64:avx512", "f1")->has_value());
}

TEST(DbRanker, RefusesWhatCannotBeAModel) {
  auto store = must_open("", OpenMode::kInMemory);
  Ranker bad = ranker("f", 1);
  bad.model.clear();
  EXPECT_EQ(store->save_ranker(bad).status().code(), Code::kInvalidArgument);
  bad = ranker("f", 1);
  bad.correlation = std::nan("");
  EXPECT_EQ(store->save_ranker(bad).status().code(), Code::kInvalidArgument);
  bad = ranker("f", 1);
  bad.machine_key.clear();
  EXPECT_EQ(store->save_ranker(bad).status().code(), Code::kInvalidArgument);
  EXPECT_EQ(rows(*store, "rankers"), 0);
}

}  // namespace
}  // namespace hone::db
