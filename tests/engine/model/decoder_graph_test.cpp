// Plans of decoders against a decoder in double, over the forms that model files come in; and what the passes make of
// them.
#include "engine/model/decoder_graph.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <numeric>

#include "engine/base/random.h"
#include "engine/executable/plan.h"
#include "engine/model/rope_frequencies.h"
#include "engine/passes/pass.h"
#include "tests/engine/model/random_model.h"

namespace hone::model {
namespace {

DecoderConfig small() {
  return {.architecture = "llama",
          .layers = 2,
          .width = 48,
          .heads = 4,
          .kv_heads = 2,
          .head_dim = 16,
          .ff = 64,
          .vocabulary = 96,
          .context = 64,
          .rope_dims = 16,
          .rope_style = RopeStyle::kInterleaved};
}

struct Form {
  const char* name;
  DecoderConfig config;
};

template <typename Change>
Form form(const char* name, Change change) {
  DecoderConfig c = small();
  change(c);
  return {name, std::move(c)};
}

std::vector<Form> forms() {
  return {
      form("Llama", [](DecoderConfig&) {}),
      form("Qwen2",
           [](DecoderConfig& c) {
             c.architecture = "qwen2", c.heads = 6, c.kv_heads = 2, c.qkv_bias = c.tied_embeddings = true;
             c.rope_style = RopeStyle::kHalf, c.rope_theta = 1e6;
           }),
      form("Qwen3",
           [](DecoderConfig& c) {
             c.architecture = "qwen3", c.head_dim = c.rope_dims = 24, c.qk_norm = true;
             c.rope_style = RopeStyle::kHalf;
           }),
      form("BiasAndNorm", [](DecoderConfig& c) { c.qk_norm = c.qkv_bias = true, c.heads = c.kv_heads = 3; }),
      form("WindowMha", [](DecoderConfig& c) { c.window = 5, c.kv_heads = 4, c.rope_style = RopeStyle::kHalf; }),
      form("WindowsInSomeLayers",
           [](DecoderConfig& c) {
             c.layers = 3, c.window = 4, c.sliding = {false, true, false};
           }),
      form("AllBiases", [](DecoderConfig& c) { c.qkv_bias = c.o_bias = c.mlp_bias = true; }),
      form("BiasesOfTheMlpApart",
           [](DecoderConfig& c) {
             c.mlp_bias = true;
             c.ff = 40;  // gate and up cannot be interleaved
           }),
      form("Llama3Mqa",
           [](DecoderConfig& c) {
             c.kv_heads = 1, c.layers = 1, c.rope_theta = 50;
             c.rope_scaling = {.kind = RopeScalingKind::kLlama3, .factor = 8, .original_context = 64};
           }),
      form("Linear", [](DecoderConfig& c) { c.rope_scaling = {.kind = RopeScalingKind::kLinear, .factor = 4}; }),
      form("Yarn",
           [](DecoderConfig& c) {
             c.rope_style = RopeStyle::kHalf;
             c.rope_scaling = {.kind = RopeScalingKind::kYarn, .factor = 4, .original_context = 256};
           }),
      form("YarnOfAPart",
           [](DecoderConfig& c) {
             c.rope_dims = 8, c.rope_style = RopeStyle::kHalf;
             c.rope_scaling = {
                 .kind = RopeScalingKind::kYarn, .factor = 4, .original_context = 256, .attention_factor = 1.3};
           }),
      form("APartOfNeighbours", [](DecoderConfig& c) { c.rope_dims = 6; }),
      form("APartOfNeighboursOfAnOddHead", [](DecoderConfig& c) { c.head_dim = 15, c.rope_dims = 14; }),
      form("YarnOfAPartOfNeighbours",
           [](DecoderConfig& c) {
             c.rope_dims = 8;
             c.rope_scaling = {.kind = RopeScalingKind::kYarn, .factor = 4, .original_context = 256};
           }),
      form("DynamicWithinItsContext",
           [](DecoderConfig& c) {
             c.rope_scaling = {.kind = RopeScalingKind::kDynamic, .factor = 2, .original_context = 64};
           }),
      form("FactorsOfTheFile",
           [](DecoderConfig& c) {
             c.rope_factors = {1, 1, 1.5, 2, 3, 4, 8, 8};
             c.ff = 40;  // gate and up cannot be interleaved
           }),
  };
}

std::vector<int32_t> some_tokens(const DecoderConfig& c, size_t count) {
  Random random(5);
  std::vector<int32_t> tokens(count);
  for (int32_t& t : tokens) t = static_cast<int32_t>(random.below(c.vocabulary));
  return tokens;
}

Result<executable::ExecutablePlan> plan_of(const ModelFile& file, int threads = 1) {
  HONE_ASSIGN_OR_RETURN(const Engine engine, Engine::create({.use_database = false, .threads = threads}));
  passes::Compilation compilation;
  HONE_ASSIGN_OR_RETURN(compilation.graph, decoder_graph(file, {.context = 64, .max_batch = 32}));
  HONE_RETURN_IF_ERROR(passes::run_passes(compilation).status());
  return executable::ExecutablePlan::create(engine, std::move(compilation), {.warm_up = false});
}

Result<std::vector<float>> call(executable::Session& session, std::span<const int32_t> tokens, int64_t vocabulary) {
  std::vector<float> logits(static_cast<size_t>(vocabulary));
  const int64_t count = static_cast<int64_t>(tokens.size()), one = 1;
  const int32_t last = static_cast<int32_t>(count) - 1;
  const executable::InputTensor inputs[] = {{tokens.data(), {&count, 1}}, {&last, {&one, 1}}};
  const executable::OutputTensor outputs[] = {{logits.data(), vocabulary * int64_t{sizeof(float)}}};
  HONE_RETURN_IF_ERROR(session.run(inputs, outputs));
  return logits;
}

// Logits after all tokens, in calls of these sizes.
Result<std::vector<float>> logits_of(const executable::ExecutablePlan& plan, std::span<const int32_t> tokens,
                                     std::initializer_list<size_t> calls, int64_t vocabulary) {
  HONE_ASSIGN_OR_RETURN(executable::Session session, plan.session());
  std::vector<float> logits;
  size_t at = 0;
  for (const size_t count : calls) {
    HONE_ASSIGN_OR_RETURN(logits, call(session, tokens.subspan(at, count), vocabulary));
    at += count;
  }
  return logits;
}

double largest_difference(std::span<const float> got, std::span<const double> want) {
  double largest = got.size() == want.size() ? 0 : INFINITY;
  for (size_t i = 0; i < std::min(got.size(), want.size()); ++i) {
    const double d = std::abs(static_cast<double>(got[i]) - want[i]);
    largest = std::isnan(d) ? INFINITY : std::max(largest, d);
  }
  return largest;
}

class ModelDecoderForm : public testing::TestWithParam<Form> {};
INSTANTIATE_TEST_SUITE_P(All, ModelDecoderForm, testing::ValuesIn(forms()),
                         [](const auto& each) { return std::string(each.param.name); });

TEST_P(ModelDecoderForm, ComputesWhatADecoderInDoubleDoes) {
  const ModelFile file = random_model(GetParam().config, 17);
  const std::vector<int32_t> tokens = some_tokens(file.config, 14);
  const auto plan = plan_of(file);
  ASSERT_TRUE(plan.ok()) << plan.status().message();
  const std::vector<double> want = naive_logits(file, tokens);
  const auto whole = logits_of(*plan, tokens, {14}, file.config.vocabulary);
  ASSERT_TRUE(whole.ok()) << whole.status().message();
  EXPECT_LT(largest_difference(*whole, want), 1e-3);
  const auto cut = logits_of(*plan, tokens, {7, 4, 1, 1, 1}, file.config.vocabulary);
  ASSERT_TRUE(cut.ok()) << cut.status().message();
  EXPECT_EQ(*cut, *whole) << "the bits depend on how the tokens were cut";
}

TEST_P(ModelDecoderForm, FrequenciesAreThoseOfThePapers) {
  const DecoderConfig& c = GetParam().config;
  const RopeFrequencies got = rope_frequencies(c);
  const std::vector<double> want = naive_frequencies(c);
  ASSERT_EQ(got.inv_freq.size(), want.size());
  for (size_t i = 0; i < want.size(); ++i)
    EXPECT_NEAR(static_cast<double>(got.inv_freq[i]), want[i], 1e-7 * want[i]) << i;
  EXPECT_NEAR(got.amplitude, naive_amplitude(c), 1e-12);
}

// Values of Llama 3.1 8B: theta 5e5, 128 dimensions; pairs below, within and above the mixture.
TEST(ModelRopeFrequencies, OfLlama31) {
  DecoderConfig c = small();
  c.rope_dims = 128, c.rope_theta = 5e5;
  c.rope_scaling = {.kind = RopeScalingKind::kLlama3, .factor = 8, .original_context = 8192};
  const std::vector<float> f = rope_frequencies(c).inv_freq;
  EXPECT_FLOAT_EQ(f[0], 1.0F);
  EXPECT_FLOAT_EQ(f[1], 0.8146172F);
  EXPECT_FLOAT_EQ(f[63], static_cast<float>(std::pow(5e5, -126.0 / 128) / 8));
  EXPECT_GT(f[32], f[33] * 1.2F);  // strictly falling through the mixture
}

TEST(ModelDecoderGraph, ThreadsLeaveTheBits) {
  DecoderConfig c = small();
  c.width = 64, c.ff = 192, c.vocabulary = 300;
  const ModelFile file = random_model(c, 3);
  const std::vector<int32_t> tokens = some_tokens(c, 20);
  const auto one = plan_of(file, 1), two = plan_of(file, 2);
  ASSERT_TRUE(one.ok() && two.ok());
  const auto a = logits_of(*one, tokens, {16, 4}, c.vocabulary), b = logits_of(*two, tokens, {20}, c.vocabulary);
  ASSERT_TRUE(a.ok() && b.ok());
  EXPECT_EQ(*a, *b);
}

// Keys and values of the very token that a step decodes count: with one token there is no other. A change of W_k needs
// a second one, as the softmax of one score is 1.
TEST(ModelDecoderGraph, ScaledKeysAndValuesChangeAStep) {
  DecoderConfig c = small();
  c.layers = 1;
  const std::vector<int32_t> tokens = some_tokens(c, 2);
  const auto step = [&](auto change, size_t count) {
    const ModelFile file = random_model(c, 9);
    change(file.weights.layers[0]);
    const auto plan = plan_of(file);
    EXPECT_TRUE(plan.ok()) << plan.status().message();
    const auto logits =
        count == 1 ? logits_of(*plan, tokens, {1}, c.vocabulary) : logits_of(*plan, tokens, {1, 1}, c.vocabulary);
    EXPECT_TRUE(logits.ok());
    EXPECT_LT(largest_difference(*logits, naive_logits(file, std::span(tokens).first(count))), 1e-3);
    return *logits;
  };
  const auto scale = [](const Weight& w) {
    for (float& f : elements_of(w)) f *= 3;
  };
  const auto nothing = [](const LayerWeights&) {};
  const auto values = [&](const LayerWeights& l) { scale(l.v); };
  const auto keys = [&](const LayerWeights& l) { scale(l.k); };
  EXPECT_NE(step(values, 1), step(nothing, 1));
  EXPECT_NE(step(values, 2), step(nothing, 2));
  EXPECT_NE(step(keys, 2), step(nothing, 2));
}

// ---- what runs ----

std::vector<std::string> dispatches_of(const DecoderConfig& c) {
  const ModelFile file = random_model(c, 1);
  passes::Compilation compilation;
  auto graph = decoder_graph(file, {.context = 64, .max_batch = 32});
  EXPECT_TRUE(graph.ok()) << graph.status().message();
  compilation.graph = *std::move(graph);
  const auto ran = passes::run_passes(compilation);
  EXPECT_TRUE(ran.ok()) << ran.status().message();
  std::vector<std::string> names;
  for (const passes::Dispatch& d : compilation.dispatches) {
    if (d.kind == passes::DispatchKind::kView) continue;
    const graph::Node& main = compilation.graph.node(d.nodes[0]);
    names.push_back(std::string(passes::dispatch_kind_name(d.kind)) + ":" + std::string(op_info(main.op).name) +
                    main.text("epilogue"));
  }
  return names;
}

TEST(ModelDecoderGraph, ALayerIsNineLaunches) {
  DecoderConfig c = small();
  c.layers = 1;
  using testing::ElementsAre;
  EXPECT_THAT(dispatches_of(c), ElementsAre("rows:gather", "rows:rms_norm", "matmul:matmul", "rows:rope",
                                            "append:kv_append", "attention:attention", "rows:gather", "rows:gather",
                                            "matmul:matmul+residual", "rows:rms_norm", "matmul:matmul+swiglu",
                                            "matmul:matmul+residual", "rows:rms_norm", "matmul:matmul"));
}

TEST(ModelDecoderGraph, BiasesAreEpiloguesOfOneProjection) {
  DecoderConfig c = small();
  c.layers = 2, c.qkv_bias = true;
  const std::vector<std::string> names = dispatches_of(c);
  EXPECT_EQ(std::count(names.begin(), names.end(), "matmul:matmul+bias"), 2);
  EXPECT_EQ(std::count_if(names.begin(), names.end(), [](const auto& n) { return n.starts_with("matmul"); }),
            2 * 4 + 1);
  EXPECT_EQ(names.size(), 2u * 9 + 5);  // embedding, two choices of rows, norm, logits
}

TEST(ModelDecoderGraph, AllBiasesAreEpilogues) {
  DecoderConfig c = small();
  c.layers = 2, c.qkv_bias = c.o_bias = c.mlp_bias = true;
  const std::vector<std::string> names = dispatches_of(c);
  const auto count = [&](const char* name) { return std::count(names.begin(), names.end(), name); };
  EXPECT_EQ(count("matmul:matmul+bias"), 2) << "q, k and v";
  EXPECT_EQ(count("matmul:matmul+bias+residual"), 4) << "o and down";
  EXPECT_EQ(count("matmul:matmul+bias+swiglu"), 2) << "gate and up";
  EXPECT_EQ(names.size(), 2u * 9 + 5);
}

TEST(ModelDecoderGraph, NeighboursOfAPartOfAHeadAreTurnedInOneLaunch) {
  DecoderConfig whole = small(), part = small();
  part.rope_dims = 6;
  EXPECT_EQ(dispatches_of(part), dispatches_of(whole));
}

TEST(ModelDecoderGraph, EachLayerHasItsOwnWindow) {
  DecoderConfig c = small();
  c.window = 4, c.sliding = {true, false};
  const auto graph = decoder_graph(random_model(c, 1), {.context = 64, .max_batch = 32});
  ASSERT_TRUE(graph.ok());
  std::vector<int64_t> windows;
  for (const graph::NodeId id : graph->order())
    if (graph->node(id).op == graph::OpKind::attention) windows.push_back(graph->node(id).integer("window"));
  EXPECT_THAT(windows, testing::ElementsAre(4, 0));
}

TEST(ModelDecoderGraph, DynamicScalingHasNoLongerContext) {
  DecoderConfig c = small();
  c.rope_scaling = {.kind = RopeScalingKind::kDynamic, .factor = 2, .original_context = 48};
  EXPECT_TRUE(decoder_graph(random_model(c, 1), {.context = 48, .max_batch = 8}).ok());
  const auto longer = decoder_graph(random_model(c, 1), {.context = 49, .max_batch = 8});
  ASSERT_FALSE(longer.ok());
  EXPECT_EQ(longer.status().code(), Code::kUnsupported);
  EXPECT_THAT(longer.status().message(), testing::HasSubstr("beyond 48 tokens"));
}

TEST(ModelDecoderGraph, SizesThatCannotBeAreRefused) {
  const ModelFile file = random_model(small(), 1);
  for (const DecoderGraphOptions o :
       {DecoderGraphOptions{.context = 0}, DecoderGraphOptions{.max_batch = 0}, DecoderGraphOptions{.max_rows = 0},
        DecoderGraphOptions{.max_batch = 4, .max_rows = 5}}) {
    const auto graph = decoder_graph(file, o);
    ASSERT_FALSE(graph.ok());
    EXPECT_EQ(graph.status().code(), Code::kInvalidArgument);
  }
}

}  // namespace
}  // namespace hone::model
