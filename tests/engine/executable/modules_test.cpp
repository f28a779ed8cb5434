// From the text of a module to a plan that runs: every module in the style of JAX, compared with the module itself
// (within the bound of tests/engine/passes/modules_test.cpp: sums are of another order) and with the graph that the
// passes left (every bit).
#include <gtest/gtest.h>

#include "engine/executable/plan.h"
#include "engine/passes/pass.h"
#include "tests/engine/graph/stablehlo/decoder_module.h"
#include "tests/engine/graph/stablehlo/stablehlo_testing.h"
#include "tests/engine/passes/exported.h"

namespace hone::executable {
namespace {

using graph::Graph;
using graph::Tensor;

constexpr double kBound = 2e-5;

// The graph as the passes over graphs leave it, and the plan of all passes.
struct Compiled {
  Graph canonical;
  ExecutablePlan plan;
};

Result<Compiled> compiled(const Graph& module) {
  passes::Compilation c;
  c.graph = module;
  Graph canonical;
  HONE_RETURN_IF_ERROR(passes::run_passes(c, {.after =
                                                  [&](const passes::Pass& pass, const passes::Compilation& now) {
                                                    if (pass.name == "schedule_annotation") canonical = now.graph;
                                                  }})
                           .status());
  HONE_ASSIGN_OR_RETURN(const Engine engine, Engine::create({.use_database = false}));
  HONE_ASSIGN_OR_RETURN(ExecutablePlan plan, ExecutablePlan::create(engine, std::move(c)));
  return Compiled{std::move(canonical), std::move(plan)};
}

Result<std::vector<Tensor>> run(Session& session, const std::vector<Tensor>& inputs) {
  std::vector<InputTensor> in;
  for (const Tensor& t : inputs) in.push_back({t.data.data(), t.shape});
  HONE_ASSIGN_OR_RETURN(const auto shapes, session.output_shapes(in));
  std::vector<Tensor> outputs;
  std::vector<OutputTensor> out;
  for (const auto& shape : shapes) outputs.push_back(Tensor::make(DType::kF32, shape));
  for (Tensor& t : outputs) out.push_back({t.data.data(), static_cast<int64_t>(t.data.size())});
  HONE_RETURN_IF_ERROR(session.run(in, out));
  return outputs;
}

void expect_near(const Tensor& got, const Tensor& want) {
  ASSERT_EQ(got.shape, want.shape);
  for (size_t i = 0; i < want.as<float>().size(); ++i)
    ASSERT_NEAR(got.as<float>()[i], want.as<float>()[i], kBound) << "element " << i;
}

TEST(ExecutableModules, EachRunsAsItsText) {
  for (const char* name : {"attention_mha", "attention_gqa", "layer_norm", "mlp_gelu_erf", "mlp_gelu_tanh", "mlp_silu",
                           "rms_norm", "rope_half", "rope_interleaved", "softmax", "moe_one_hot", "moe_gather",
                           "attention_mha.generic", "mlp_silu.generic"}) {
    SCOPED_TRACE(name);
    const Graph module = graph::stablehlo::import_or_throw(graph::stablehlo::module_text(name));
    Result<Compiled> c = compiled(module);
    ASSERT_TRUE(c.ok()) << c.status().message();
    const std::vector<Tensor> inputs = passes::random_inputs(module);
    Result<Session> session = c->plan.session();
    ASSERT_TRUE(session.ok());
    const Result<std::vector<Tensor>> got = run(*session, inputs);
    ASSERT_TRUE(got.ok()) << got.status().message();
    const std::vector<Tensor> text = graph::stablehlo::evaluate_or_throw(module, inputs);
    const std::vector<Tensor> canonical = graph::stablehlo::evaluate_or_throw(c->canonical, inputs);
    ASSERT_EQ(got->size(), text.size());
    for (size_t i = 0; i < text.size(); ++i) {
      expect_near((*got)[i], text[i]);
      EXPECT_EQ((*got)[i], canonical[i]) << "output " << i;
    }
  }
}

// The module hands its caches and the position on; the plan keeps them.
TEST(ExecutableModules, ADecoderLayerAtEveryPosition) {
  for (const int64_t tokens : {int64_t{1}, int64_t{4}}) {
    SCOPED_TRACE(tokens);
    const Graph module = graph::stablehlo::import_or_throw(graph::stablehlo::decoder_module(
        {.d = 64, .heads = 8, .kv_heads = 2, .ff = 96, .tokens = tokens, .capacity = 16}));
    Result<Compiled> c = compiled(module);
    ASSERT_TRUE(c.ok()) << c.status().message();
    Result<Session> session = c->plan.session();
    ASSERT_TRUE(session.ok());
    std::vector<Tensor> handed_on = passes::random_inputs(module);
    for (size_t i = 1; i < 4; ++i) std::fill(handed_on[i].data.begin(), handed_on[i].data.end(), std::byte{0});
    graph::ReferenceState state;
    for (int64_t position = 0; position < 16; position += tokens) {
      handed_on[0] = passes::random_inputs(module, 1, static_cast<unsigned>(position))[0];
      std::vector<Tensor> text = graph::stablehlo::evaluate_or_throw(module, handed_on);
      const std::vector<Tensor> canonical = graph::stablehlo::evaluate_or_throw(c->canonical, {handed_on[0]}, &state);
      const Result<std::vector<Tensor>> got = run(*session, {handed_on[0]});
      ASSERT_TRUE(got.ok()) << got.status().message();
      expect_near((*got)[0], text[0]);
      ASSERT_EQ((*got)[0], canonical[0]) << "position " << position;
      for (size_t i = 1; i < 4; ++i) handed_on[i] = std::move(text[i]);
    }
    EXPECT_EQ(session->position(), 16);
  }
}

}  // namespace
}  // namespace hone::executable
