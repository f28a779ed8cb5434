// Routed experts against loops: every strategy, code generator and shape gives the same bits, errors leave the output
// as it was, and the weights are packed once.
#include "engine/experts.h"

#include <gmock/gmock.h>

#include <set>
#include <thread>

#include "engine/experts_route_internal.h"
#include "jit/codegen.h"
#include "tests/engine/api_util.h"
#include "tests/engine/experts_util.h"

namespace hone {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing_api::kStrategies;
using testing_api::MoeModel;
using testing_api::MoeTokens;
using testing_api::same_bits;
using testing_api::Spread;

Engine engine_of(const std::string& codegen = "", int threads = 2) {
  return Engine::create({.use_database = false, .threads = threads, .codegen = codegen}).value();
}

// With memory for every strategy.
Experts prepared(const Engine& engine, const MoeModel& model, int64_t max_tokens = 32) {
  ExpertsSpec spec = model.spec(max_tokens);
  spec.strategy = ExpertsStrategy::kDense;
  Result<Experts> experts = Experts::prepare(engine, spec, model.weights());
  EXPECT_TRUE(experts.ok()) << experts.status().to_string();
  return *experts;
}

void expect_every_strategy(const Experts& experts, MoeTokens& tokens, const std::string& what) {
  const std::vector<float> want = tokens.expected();
  for (const ExpertsStrategy strategy : kStrategies) {
    tokens.poison();
    ExpertsChoice chosen;
    const Status status = experts.run(tokens.call(strategy), &chosen);
    ASSERT_TRUE(status.ok()) << what << ": " << status.to_string();
    EXPECT_EQ(chosen.strategy, strategy);
    EXPECT_TRUE(same_bits(tokens.out(), want)) << what << ", " << plan::strategy_name(strategy);
  }
}

class ExpertsBits : public testing::TestWithParam<std::string> {};

std::vector<std::string> generator_names() {
  std::vector<std::string> names{"package"};  // none: the precompiled kernels run
  for (const jit::CodeGenerator* g : jit::code_generators()) names.emplace_back(g->name());
  return names;
}
INSTANTIATE_TEST_SUITE_P(Generators, ExpertsBits, testing::ValuesIn(generator_names()),
                         [](const auto& its) { return its.param; });

// Paired columns and such that do not pair up, one expert, as many choices as experts, more than one pass combines.
TEST_P(ExpertsBits, OfTheLoopsForEveryShapeStrategyAndSpread) {
  const Engine engine = engine_of(GetParam());
  const int64_t shapes[][4] = {{8, 2, 33, 48}, {3, 3, 16, 16}, {4, 1, 5, 7}, {1, 1, 9, 32}, {10, 9, 20, 17}};
  for (const auto& [experts, top_k, d, ff] : shapes) {
    const MoeModel model(experts, top_k, d, ff);
    const Experts moe = prepared(engine, model, 20);
    for (const int64_t tokens : {1, 3, 20}) {
      for (const Spread spread : {Spread::kRandom, Spread::kAllOnTheLast, Spread::kNoneOnTheFirst}) {
        MoeTokens call(model, tokens, spread);
        expect_every_strategy(moe, call, testing::PrintToString(std::vector<int64_t>{experts, top_k, d, ff, tokens}));
        if (HasFailure()) return;
      }
    }
  }
}

// Nothing of ours in between: a sum in double, with libm's exp.
TEST(Experts, AreNearTheMathematicalValue) {
  const MoeModel model(6, 2, 64, 96);
  const Experts moe = prepared(engine_of(), model);
  MoeTokens tokens(model, 17);
  ASSERT_TRUE(moe.run(tokens.call()).ok());
  const std::vector<float> out = tokens.out();
  const std::vector<double> want = tokens.mathematical();
  for (size_t i = 0; i < out.size(); ++i) ASSERT_NEAR(out[i], want[i], 1e-5) << i;
}

TEST(Experts, NoTokensWriteNothing) {
  const MoeModel model(4, 2, 8, 16);
  const Experts moe = prepared(engine_of(), model);
  EXPECT_TRUE(moe.run({}).ok());
}

// Silu is of the gate: exchanged projections give something else.
TEST(Experts, GateAndUpAreNotInterchangeable) {
  const MoeModel model(2, 1, 16, 16);
  MoeTokens tokens(model, 4);
  const Engine engine = engine_of();
  const std::vector<float> want = tokens.expected();
  for (const bool exchanged : {false, true}) {
    ExpertsWeights w = model.weights();
    if (exchanged) std::swap(w.gate, w.up);
    const Experts moe = Experts::prepare(engine, model.spec(), w).value();
    ASSERT_TRUE(moe.run(tokens.call()).ok());
    EXPECT_EQ(static_cast<bool>(same_bits(tokens.out(), want)), !exchanged);
  }
}

// A token that is NaN reaches its own row only, also where every expert sees it; an expert that nobody chose may hold
// anything.
TEST(Experts, RowsAreIndependent) {
  MoeModel model(3, 2, 16, 32);
  for (size_t i = 0; i < 16 * 32; ++i) model.down[i] = NAN;  // of expert 0
  const Experts moe = prepared(engine_of(), model);
  MoeTokens tokens(model, 5, Spread::kNoneOnTheFirst);
  tokens.x()[2 * 16 + 3] = NAN;
  expect_every_strategy(moe, tokens, "NaN");
  const std::vector<float> out = tokens.out();
  for (size_t i = 0; i < out.size(); ++i) EXPECT_EQ(std::isnan(out[i]), i / 16 == 2) << i;
}

TEST(Experts, AnIndexThatIsNoExpertIsNamedAndNothingIsWritten) {
  const MoeModel model(4, 2, 8, 16);
  const Experts moe = prepared(engine_of(), model);
  for (const int32_t wrong : {4, -1, INT32_MAX, INT32_MIN}) {
    for (const ExpertsStrategy strategy : kStrategies) {
      MoeTokens tokens(model, 6);
      tokens.indices()[5 * 2 + 1] = wrong;
      const Status status = moe.run(tokens.call(strategy));
      EXPECT_EQ(status.code(), Code::kInvalidArgument);
      EXPECT_EQ(status.message(), "indices[5, 1] is " + std::to_string(wrong) + ", and experts are numbered 0 to 3");
      EXPECT_TRUE(tokens.untouched());
    }
  }
}

TEST(Experts, CallsThatAreWrongAreRefused) {
  const MoeModel model(8, 2, 8, 16);
  const Experts moe = Experts::prepare(engine_of(), model.spec(40), model.weights()).value();
  MoeTokens tokens(model, 40);
  const auto refused = [&](auto change) {
    ExpertsCall call = tokens.call();
    change(call);
    const Status status = moe.run(call);
    EXPECT_FALSE(status.ok());
    EXPECT_TRUE(tokens.untouched()) << status.message();
    return status.message();
  };
  EXPECT_THAT(refused([](ExpertsCall& c) { c.tokens = -1; }), HasSubstr("tokens=-1 is negative"));
  EXPECT_THAT(refused([](ExpertsCall& c) { c.tokens = 41; }), HasSubstr("tokens=41 is more than max_tokens=40"));
  EXPECT_THAT(refused([](ExpertsCall& c) { c.x = nullptr; }), HasSubstr("x is null"));
  EXPECT_THAT(refused([](ExpertsCall& c) { c.indices = nullptr; }), HasSubstr("indices is null"));
  EXPECT_THAT(refused([](ExpertsCall& c) { c.weights = nullptr; }), HasSubstr("weights is null"));
  EXPECT_THAT(refused([](ExpertsCall& c) { c.out = nullptr; }), HasSubstr("out is null"));
  EXPECT_THAT(refused([](ExpertsCall& c) { c.x = c.out + 1; }), HasSubstr("out overlaps x"));
  EXPECT_THAT(refused([](ExpertsCall& c) { c.weights = c.out; }), HasSubstr("out overlaps weights"));
  EXPECT_THAT(refused([](ExpertsCall& c) { c.strategy = ExpertsStrategy::kDense; }),
              HasSubstr("dense on 40 tokens needs 320 rows, there is memory for 80"));
  EXPECT_TRUE(moe.run(tokens.call()).ok());
}

TEST(Experts, SpecsThatAreWrongAreRefused) {
  const MoeModel model(4, 2, 8, 16);
  const Engine engine = engine_of();
  const auto refused = [&](auto change) {
    ExpertsSpec spec = model.spec();
    ExpertsWeights weights = model.weights();
    change(spec, weights);
    const Result<Experts> experts = Experts::prepare(engine, spec, weights);
    EXPECT_FALSE(experts.ok());
    return experts.status().message();
  };
  EXPECT_THAT(refused([](auto& s, auto&) { s.experts = 0; }), HasSubstr("experts=0 must be at least 1"));
  EXPECT_THAT(refused([](auto& s, auto&) { s.top_k = 5; }), HasSubstr("top_k=5 is more than the 4 experts"));
  EXPECT_THAT(refused([](auto& s, auto&) { s.ff = -16; }), HasSubstr("ff=-16"));
  EXPECT_THAT(refused([](auto& s, auto&) { s.max_tokens = 0; }), HasSubstr("max_tokens=0"));
  EXPECT_THAT(refused([](auto& s, auto&) { s.expected_tokens = {33}; }), HasSubstr("expected_tokens has 33"));
  EXPECT_THAT(refused([](auto&, auto& w) { w.up = nullptr; }), HasSubstr("the weights of up are null"));
  EXPECT_THAT(refused([](auto& s, auto&) { s.max_tokens = int64_t{1} << 40; }), HasSubstr("prepare for fewer tokens"));
  EXPECT_THAT(refused([](auto& s, auto&) { s.d = int64_t{1} << 40, s.ff = int64_t{1} << 30; }), HasSubstr("too large"));
}

// Each weight is there once, in panels (whole ones, on cache lines), and a call has no room for another copy of one
// expert. allocation_test shows that it makes none.
TEST(Experts, WeightsArePackedOnce) {
  MoeModel model(8, 2, 256, 512);
  const Experts moe = Experts::prepare(engine_of(), model.spec(1), model.weights()).value();
  const int64_t weights = 8 * 3 * 256 * 512 * 4;
  EXPECT_EQ(moe.weight_bytes(), weights) << "256, 512 and 1024 columns are whole panels";
  EXPECT_LT(moe.scratch_bytes(), weights / 8 / 3) << "less than one projection of one expert";
  MoeTokens tokens(model, 1);
  const std::vector<float> want = tokens.expected();
  for (std::vector<float>* w : {&model.gate, &model.up, &model.down}) w->assign(w->size(), NAN);
  ASSERT_TRUE(moe.run(tokens.call()).ok());
  EXPECT_TRUE(same_bits(tokens.out(), want)) << "the caller's weights are not read after preparing";
  const std::vector<PlanInfo> plans = moe.plans(1).value();
  for (const PlanInfo& plan : plans) EXPECT_THAT(plan.program, HasSubstr("pack_b(none)"));
}

TEST(Experts, PlansSayWhatRuns) {
  const MoeModel paired(4, 2, 32, 32), single(4, 2, 32, 24);
  const Engine engine = engine_of();
  const std::vector<PlanInfo> two = prepared(engine, paired).plans(3).value();
  ASSERT_EQ(two.size(), 2u);
  EXPECT_EQ(two[0].problem, "matmul:f32:m=3,n=64,k=32,b=packed:+swiglu");
  EXPECT_EQ(two[1].problem, "matmul:f32:m=3,n=32,k=32,b=packed");
  const std::vector<PlanInfo> three = prepared(engine, single).plans(3).value();
  ASSERT_EQ(three.size(), 3u);
  EXPECT_EQ(three[0].problem, "matmul:f32:m=3,n=24,k=32,b=packed:+silu");
  EXPECT_EQ(three[1].problem, "matmul:f32:m=3,n=24,k=32,b=packed:*gate");
  EXPECT_FALSE(prepared(engine, single).plans(0).ok());
}

TEST(Experts, TheLoadDecidesUnlessToldOtherwise) {
  const MoeModel model(4, 2, 16, 32);
  const Experts one = Experts::prepare(engine_of("", 1), model.spec(), model.weights()).value();
  const Experts two = Experts::prepare(engine_of("", 2), model.spec(), model.weights()).value();
  MoeTokens spread(model, 20), alone(model, 20, Spread::kAllOnTheLast);
  const auto chosen = [](const Experts& moe, MoeTokens& tokens) {
    ExpertsChoice choice;
    EXPECT_TRUE(moe.run(tokens.call(), &choice).ok());
    EXPECT_FALSE(choice.reason.empty());
    return choice.strategy;
  };
  EXPECT_EQ(chosen(one, spread), ExpertsStrategy::kPerExpert);
  EXPECT_EQ(chosen(two, spread), ExpertsStrategy::kGrouped);
  EXPECT_EQ(chosen(two, alone), ExpertsStrategy::kPerExpert);
  ExpertsSpec spec = model.spec();
  spec.strategy = ExpertsStrategy::kGrouped;
  EXPECT_EQ(chosen(Experts::prepare(engine_of("", 1), spec, model.weights()).value(), alone),
            ExpertsStrategy::kGrouped);
}

TEST(Experts, CallsAtOnceDoNotMeet) {
  const MoeModel model(6, 2, 24, 32);
  const Experts moe = prepared(engine_of(), model);
  std::vector<std::thread> threads;
  std::array<bool, 4> right{};
  for (unsigned i = 0; i < 4; ++i) {
    threads.emplace_back([&, i] {
      MoeTokens tokens(model, 3 + i, Spread::kRandom, i);
      const std::vector<float> want = tokens.expected();
      bool all = true;
      for (int call = 0; call < 50; ++call) {
        tokens.poison();
        all &= moe.run(tokens.call(kStrategies[static_cast<size_t>(call) % 3])).ok();
        all &= static_cast<bool>(same_bits(tokens.out(), want));
      }
      right[i] = all;
    });
  }
  for (std::thread& t : threads) t.join();
  EXPECT_THAT(right, ElementsAre(true, true, true, true));
}

TEST(ExpertsRoute, RowsOfAnExpertAreInTheOrderOfTokens) {
  const int32_t indices[] = {2, 0, 2, 1, 0, 2};  // 3 tokens, 2 each
  int64_t rows[4], first[4];
  int32_t token[6], position[6];
  const ExpertsRoute out{rows, first, token, position};
  route(indices, 3, 2, out);
  EXPECT_THAT(rows, ElementsAre(2, 1, 3, 0));
  EXPECT_THAT(first, ElementsAre(0, 2, 3, 6));
  EXPECT_THAT(token, ElementsAre(0, 2, 1, 0, 1, 2));
  EXPECT_THAT(position, ElementsAre(3, 4, 1, 0, 2, 5)) << "first choices, then second ones";
  route_dense(indices, 3, 2, out);
  EXPECT_THAT(rows, ElementsAre(3, 3, 3, 3));
  EXPECT_THAT(first, ElementsAre(0, 3, 6, 9));
  EXPECT_THAT(position, ElementsAre(6, 7, 2, 0, 4, 8));
}

}  // namespace
}  // namespace hone
