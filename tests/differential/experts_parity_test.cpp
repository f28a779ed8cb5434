// Routed experts give the bits of the loops under every schedule and strategy, and call 1 equals call N: few tokens and
// many, spread evenly and all on one expert.
#include <gtest/gtest.h>

#include "tests/differential/parity.h"
#include "tests/engine/api_util.h"
#include "tests/engine/experts_util.h"

namespace hone {
namespace {

using testing_api::MoeModel;
using testing_api::MoeTokens;
using testing_api::Spread;

constexpr int kCalls = 3;

TEST(ExpertsParity, EveryScheduleAndStrategyGivesTheSameBits) {
  for (const int64_t ff : {96, 40}) {  // 40: gate and up are matmuls of their own
    const MoeModel model(8, 2, 70, ff);
    ExpertsSpec spec = model.spec(61);
    spec.strategy = ExpertsStrategy::kDense;
    for (jit::CodeGenerator* generator : parity::generators_for(detect_machine().value().best_isa().value())) {
      if (generator->name() == "interp" && ff == 40) continue;  // slow, and the loops are the same
      const Engine engine = Engine::create({.use_database = false, .codegen = std::string(generator->name())}).value();
      const Experts moe = Experts::prepare(engine, spec, model.weights()).value();
      for (const int64_t count : {1, 61}) {
        for (const Spread spread : {Spread::kRandom, Spread::kAllOnTheLast}) {
          MoeTokens tokens(model, count, spread);
          const std::vector<float> want = tokens.expected();
          for (const parity::Named& on : parity::schedules()) {
            for (const ExpertsStrategy strategy : testing_api::kStrategies) {
              for (int i = 1; i <= kCalls; ++i) {
                tokens.poison();
                ExpertsCall call = tokens.call(strategy);
                call.schedule = on.schedule.get();
                ASSERT_TRUE(moe.run(call).ok());
                ASSERT_TRUE(testing_api::same_bits(tokens.out(), want))
                    << generator->name() << ", " << on.name << ", " << plan::strategy_name(strategy) << ", tokens "
                    << count << ", call " << i;
              }
              if (generator->name() == "interp") break;
            }
          }
        }
      }
    }
  }
}

}  // namespace
}  // namespace hone
