// Draws of tokens: distributions computed by hand, ties, seeds, and what is refused.
#include "hone/sampler.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <map>

namespace hone {
namespace {

Sampler make(const SamplerOptions& options) {
  Result<Sampler> sampler = Sampler::create(options);
  EXPECT_TRUE(sampler.ok()) << sampler.status().message();
  return std::move(sampler).value();
}

// Everything stays and nothing is reshaped, unless a test says so.
SamplerOptions plain() { return {.temperature = 1, .top_k = 0, .top_p = 1, .min_p = 0}; }

// ids 0 .. 3 with probabilities 0.1, 0.4, 0.2, 0.3.
std::vector<float> tenths() { return {std::log(0.1F), std::log(0.4F), std::log(0.2F), std::log(0.3F)}; }

std::map<int32_t, double> distribution(const SamplerOptions& options, const std::vector<float>& logits,
                                       const std::vector<int32_t>& before = {}) {
  Sampler sampler = make(options);
  sampler.accept(before);
  const auto left = sampler.distribution(logits);
  EXPECT_TRUE(left.ok()) << left.status().message();
  std::map<int32_t, double> by_id;
  for (const Sampler::Candidate& c : *left) by_id[c.id] = c.probability;
  return by_id;
}

void expect_distribution(const std::map<int32_t, double>& got, const std::map<int32_t, double>& want) {
  ASSERT_EQ(got.size(), want.size());
  for (const auto& [id, p] : want) {
    ASSERT_TRUE(got.contains(id)) << id;
    EXPECT_NEAR(got.at(id), p, 1e-6) << id;
  }
}

TEST(ModelSampler, SoftmaxOfAll) {
  expect_distribution(distribution(plain(), tenths()), {{0, 0.1}, {1, 0.4}, {2, 0.2}, {3, 0.3}});
}

TEST(ModelSampler, TopKKeepsTheLargest) {
  SamplerOptions o = plain();
  o.top_k = 2;
  expect_distribution(distribution(o, tenths()), {{1, 4.0 / 7}, {3, 3.0 / 7}});
}

TEST(ModelSampler, TopPKeepsTheFewestThatAddUp) {
  SamplerOptions o = plain();
  o.top_p = 0.69;
  expect_distribution(distribution(o, tenths()), {{1, 4.0 / 7}, {3, 3.0 / 7}});
  o.top_p = 0.71;
  expect_distribution(distribution(o, tenths()), {{1, 4.0 / 9}, {3, 3.0 / 9}, {2, 2.0 / 9}});
  o.top_p = 1e-9;
  expect_distribution(distribution(o, tenths()), {{1, 1}});
}

// top_p counts within what top_k left: 0.4 of 0.7 is 0.571.
TEST(ModelSampler, TopPComesAfterTopK) {
  SamplerOptions o = plain();
  o.top_k = 2, o.top_p = 0.56;
  expect_distribution(distribution(o, tenths()), {{1, 1}});
  o.top_p = 0.58;
  expect_distribution(distribution(o, tenths()), {{1, 4.0 / 7}, {3, 3.0 / 7}});
}

TEST(ModelSampler, MinPIsAShareOfTheLargest) {
  SamplerOptions o = plain();
  o.min_p = 0.49;
  expect_distribution(distribution(o, tenths()), {{1, 4.0 / 9}, {3, 3.0 / 9}, {2, 2.0 / 9}});
  o.min_p = 0.51;
  expect_distribution(distribution(o, tenths()), {{1, 4.0 / 7}, {3, 3.0 / 7}});
}

// Temperature is last: what is cut does not depend on it. At 0.5 probabilities are squared.
TEST(ModelSampler, TemperatureReshapesWhatIsLeft) {
  SamplerOptions o = plain();
  o.temperature = 0.5;
  expect_distribution(distribution(o, tenths()), {{0, 1.0 / 30}, {1, 16.0 / 30}, {2, 4.0 / 30}, {3, 9.0 / 30}});
  o.min_p = 0.49;
  expect_distribution(distribution(o, tenths()), {{1, 16.0 / 29}, {3, 9.0 / 29}, {2, 4.0 / 29}});
  o.temperature = 1e-300;
  expect_distribution(distribution(o, {1, 2, 2, 0}), {{1, 0.5}, {2, 0.5}});
}

TEST(ModelSampler, PenaltyDividesWhatIsPositiveAndMultipliesWhatIsNot) {
  SamplerOptions o = plain();
  o.repeat_penalty = 2;
  const auto got = distribution(o, {2, -1, 1, 0}, {0, 1, 0, 77});
  const double sum = std::exp(1) + std::exp(-2) + std::exp(1) + 1;  // 0 once, though it came twice
  expect_distribution(got, {{0, std::exp(1) / sum}, {1, std::exp(-2) / sum}, {2, std::exp(1) / sum}, {3, 1 / sum}});
}

TEST(ModelSampler, PenaltyForgetsBeyondItsWindow) {
  SamplerOptions o{.temperature = 0, .repeat_penalty = 10, .repeat_window = 2};
  Sampler sampler = make(o);
  const std::vector<float> logits = {3, 2.5F, 1};
  std::vector<int32_t> ids;
  for (int i = 0; i < 300; ++i) ids.push_back(*sampler.sample(logits));
  EXPECT_THAT(std::vector<int32_t>(ids.begin(), ids.begin() + 6), testing::ElementsAre(0, 1, 2, 0, 1, 2));
  EXPECT_THAT(std::vector<int32_t>(ids.end() - 3, ids.end()), testing::ElementsAre(0, 1, 2));
}

TEST(ModelSampler, GreedyTakesTheLowerIdOfEqualOnes) {
  Sampler sampler = make({});
  EXPECT_EQ(*sampler.sample(std::vector<float>{1, 3, 3, 2}), 1);
  EXPECT_EQ(*sampler.sample(std::vector<float>{-0.0F, 0.0F}), 0);
  EXPECT_EQ(*sampler.sample(std::vector<float>{-std::numeric_limits<float>::infinity(), -5}), 1);
}

TEST(ModelSampler, EqualOnesAreCutByIdToo) {
  SamplerOptions o = plain();
  o.top_k = 2;
  expect_distribution(distribution(o, {1, 1, 1, 1}), {{0, 0.5}, {1, 0.5}});
}

TEST(ModelSampler, DrawsFollowTheDistribution) {
  Sampler sampler = make(plain());
  std::vector<int> count(4);
  constexpr int kDraws = 20000;
  for (int i = 0; i < kDraws; ++i) ++count[static_cast<size_t>(*sampler.sample(tenths()))];
  const double want[] = {0.1, 0.4, 0.2, 0.3};
  for (size_t i = 0; i < 4; ++i)  // five standard deviations
    EXPECT_NEAR(count[i] / double{kDraws}, want[i], 5 * std::sqrt(want[i] * (1 - want[i]) / kDraws)) << i;
}

// These very tokens, on every machine.
TEST(ModelSampler, SeedsAreReproducible) {
  const auto draws = [](uint64_t seed) {
    SamplerOptions o = plain();
    o.seed = seed;
    Sampler sampler = make(o);
    std::vector<int32_t> ids;
    for (int i = 0; i < 12; ++i) ids.push_back(*sampler.sample(tenths()));
    return ids;
  };
  EXPECT_EQ(draws(1), draws(1));
  EXPECT_NE(draws(1), draws(2));
  // splitmix64 from 1 begins 0x910a2dec89025cc1: 0.5666, which is beyond 0.4 and within 0.4 + 0.3.
  EXPECT_EQ(draws(1)[0], 3);
}

TEST(ModelSampler, OptionsAreChecked) {
  const double nan = std::nan("");
  for (const SamplerOptions& o : std::vector<SamplerOptions>{{.temperature = -1},
                                                             {.temperature = nan},
                                                             {.temperature = INFINITY},
                                                             {.top_k = -1},
                                                             {.top_p = 0},
                                                             {.top_p = 1.5},
                                                             {.top_p = nan},
                                                             {.min_p = -0.1},
                                                             {.min_p = nan},
                                                             {.repeat_penalty = 0},
                                                             {.repeat_penalty = nan},
                                                             {.repeat_window = -1},
                                                             {.repeat_window = (int64_t{1} << 30) + 1},
                                                             {.repeat_window = INT64_MAX}}) {
    const Result<Sampler> sampler = Sampler::create(o);
    ASSERT_FALSE(sampler.ok());
    EXPECT_EQ(sampler.status().code(), Code::kInvalidArgument);
  }
}

TEST(ModelSampler, LogitsThatAreNoNumbersAreErrorsThatChangeNothing) {
  Sampler a = make(plain()), b = make(plain());
  const float inf = std::numeric_limits<float>::infinity();
  for (const std::vector<float>& logits :
       std::vector<std::vector<float>>{{}, {1, std::nanf("")}, {1, inf}, {-inf, -inf}}) {
    const Result<int32_t> id = a.sample(logits);
    ASSERT_FALSE(id.ok());
    EXPECT_EQ(id.status().code(), Code::kInvalidArgument);
  }
  EXPECT_THAT(a.sample(std::vector<float>{1, std::nanf("")}).status().message(), testing::HasSubstr("token 1"));
  for (int i = 0; i < 8; ++i) EXPECT_EQ(*a.sample(tenths()), *b.sample(tenths()));
}

// More than any vector may have, which is seen before one of them is read: an exception inside.
TEST(ModelSampler, NoExceptionLeavesIt) {
  Sampler sampler = make(plain());
  const float one = 1;
  const std::span<const float> endless(&one, size_t{1} << 60);
  EXPECT_EQ(sampler.sample(endless).status().code(), Code::kInternal);
  EXPECT_EQ(sampler.distribution(endless).status().code(), Code::kInternal);
}

TEST(ModelSampler, TheLargestWindow) {
  Sampler sampler = make({.temperature = 0, .repeat_penalty = 10, .repeat_window = int64_t{1} << 30});
  for (const int32_t id : {0, 1, 2}) EXPECT_EQ(*sampler.sample(std::vector<float>{3, 2.5F, 1}), id);
}

}  // namespace
}  // namespace hone
