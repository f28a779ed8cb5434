// Weights as model files have them: of 16 bits, in one mapping, joined as runs, and packed by an earlier process.
#include <gtest/gtest.h>

#include <map>

#include "engine/base/aligned_buffer.h"
#include "engine/base/half.h"
#include "engine/executable/plan.h"
#include "engine/passes/pass.h"
#include "tests/engine/executable/decoder_graphs.h"

namespace hone::executable {
namespace {

using graph::Constant;
using graph::Dim;
using graph::Graph;
using graph::OpKind;
using graph::Tensor;
using graph::ValueId;

constexpr int64_t kWidth = 256, kHeads = 4, kKvHeads = 2, kHeadDim = 64, kHidden = 96, kWords = 50;

// The bytes of a file of weights; what is taken from it stays where it is.
class File {
 public:
  File(DType dtype, uint64_t seed) : dtype_(dtype) {
    for (const float v : random_floats(1 << 20, seed, 0.2F))
      bits_->push_back(dtype == DType::kBf16 ? f32_to_bf16(v) : f32_to_f16(v));
  }
  Constant take(int64_t rows, int64_t columns) {
    const auto count = static_cast<size_t>(rows * columns);
    Constant c{.type = {dtype_, {rows, columns}},
               .owner = bits_,
               .data = std::as_bytes(std::span(*bits_).subspan(at_, count))};
    c.content_key = "file:" + std::to_string(at_);
    at_ += count + 24;  // other tensors lie between
    return c;
  }
  size_t taken() const { return at_; }
  // Everything else that was taken after the first `keep` elements is lost.
  void forget_from(size_t keep) {
    std::fill(bits_->begin() + static_cast<ptrdiff_t>(keep), bits_->end(), uint16_t{0x7fff});
  }

 private:
  DType dtype_;
  std::shared_ptr<std::vector<uint16_t>> bits_ = std::make_shared<std::vector<uint16_t>>();
  size_t at_ = 0;
};

// tokens [s], rows [r] -> logits of those rows; the table of embeddings comes first in the file, and last in use.
Graph decoder(File& file) {
  graph::Builder b("model");
  const Dim s = Dim::symbol("s"), r = Dim::symbol("r");
  b.symbol({.name = "s", .min = 1, .max = 40});
  b.symbol({.name = "r", .min = 1, .max = 40});
  b.position("p", 64, s);
  const auto weights = [&](int64_t rows, int64_t columns, const char* name) {
    return b.constant(file.take(rows, columns), name);
  };
  const auto vector = [&](int64_t n) {
    return b.constant(Constant::f32({DType::kF32, {Dim(n)}}, random_floats(static_cast<size_t>(n), 9, 1)));
  };
  const ValueId tokens = b.input("tokens", {DType::kS32, {s}}), rows = b.input("rows", {DType::kS32, {r}});
  const ValueId table = weights(kWords, kWidth, "table");
  ValueId x = b.gather(table, tokens);
  const ValueId h = b.rms_norm(x, vector(kWidth), 1e-5), frequencies = vector(kHeadDim / 2);
  const auto heads = [&](int64_t count, const char* name) {
    return b.reshape(b.matmul(h, weights(count * kHeadDim, kWidth, name)), {s, Dim(count), Dim(kHeadDim)});
  };
  const auto cached = [&](ValueId v) {
    return b.kv_append(b.state("", {DType::kF32, {Dim(64), Dim(kKvHeads), Dim(kHeadDim)}}), v);
  };
  const ValueId q = b.rope(heads(kHeads, "q"), frequencies, Dim::symbol("p"), "half");
  const ValueId k = cached(b.rope(heads(kKvHeads, "k"), frequencies, Dim::symbol("p"), "half"));
  const ValueId a = b.attention(q, k, cached(heads(kKvHeads, "v")), {});
  x = b.add(OpKind::add, {x, b.matmul(b.reshape(a, {s, Dim(kWidth)}), weights(kWidth, kWidth, "o"))});
  const ValueId g = b.rms_norm(x, vector(kWidth), 1e-5);
  const ValueId gate = b.matmul(g, weights(kHidden, kWidth, "gate")), up = b.matmul(g, weights(kHidden, kWidth, "up"));
  x = b.add(OpKind::add, {x, b.matmul(b.swiglu(gate, up), weights(kWidth, kHidden, "down"))});
  b.output(b.matmul(b.rms_norm(b.gather(x, rows), vector(kWidth), 1e-5), table));
  Result<Graph> graph = b.finish();
  EXPECT_TRUE(graph.ok()) << graph.status().message();
  return graph.ok() ? *std::move(graph) : Graph();
}

passes::Compilation compiled(const Graph& graph) {
  passes::Compilation c;
  c.graph = graph;
  const auto times = passes::run_passes(c);
  EXPECT_TRUE(times.ok()) << times.status().message();
  return c;
}

Result<ExecutablePlan> plan_of(passes::Compilation c, const PlanOptions& options = {}) {
  HONE_ASSIGN_OR_RETURN(const Engine engine, Engine::create({.use_database = false}));
  return ExecutablePlan::create(engine, std::move(c), options);
}

Tensor tokens_of(int64_t count) {
  std::vector<int32_t> all;
  for (int64_t i = 0; i < count; ++i) all.push_back(static_cast<int32_t>(i * 17 % kWords));
  return Tensor::s32({count}, all);
}

// Logits of every row, after calls of these sizes.
std::vector<float> logits(const ExecutablePlan& plan, const std::vector<int64_t>& cuts) {
  std::vector<float> all;
  Result<Session> session = plan.session();
  EXPECT_TRUE(session.ok());
  int64_t at = 0;
  for (const int64_t cut : cuts) {
    const Tensor tokens = tokens_of(at + cut);
    std::vector<int32_t> rows;
    for (int64_t i = 0; i < cut; ++i) rows.push_back(static_cast<int32_t>(i));
    const std::vector<int64_t> shape = {cut};
    const InputTensor in[] = {{tokens.as<int32_t>().data() + at, shape}, {rows.data(), shape}};
    std::vector<float> y(static_cast<size_t>(cut * kWords));
    const OutputTensor out{y.data(), static_cast<int64_t>(y.size() * 4)};
    const Status done = session->run(in, {&out, 1});
    EXPECT_TRUE(done.ok()) << done.message();
    all.insert(all.end(), y.begin(), y.end());
    at += cut;
  }
  return all;
}

std::vector<float> eager(const Graph& graph, int64_t tokens) {
  std::vector<int32_t> rows;
  for (int64_t i = 0; i < tokens; ++i) rows.push_back(static_cast<int32_t>(i));
  const std::vector<Tensor> inputs = {tokens_of(tokens), Tensor::s32({tokens}, rows)};
  graph::ReferenceState state;
  const auto y = graph::evaluate(graph, inputs, &state);
  EXPECT_TRUE(y.ok()) << y.status().message();
  return y.ok() ? std::vector<float>(y->front().as<float>().begin(), y->front().as<float>().end())
                : std::vector<float>();
}

int64_t rounded(int64_t n) { return (n + 4095) / 4096 * 4096; }

// In memory; counts.
class Store final : public WeightStore {
 public:
  std::optional<Found> find(std::string_view key, int64_t bytes) override {
    const auto at = kept_.find(std::string(key));
    if (at == kept_.end() || at->second->size() < bytes) return std::nullopt;
    ++found;
    return Found{{at->second->data(), static_cast<size_t>(bytes)}, at->second};
  }
  void put(std::string_view key, std::span<const std::byte> bytes) override {
    auto memory = AlignedBuffer::allocate(rounded(static_cast<int64_t>(bytes.size())));
    ASSERT_TRUE(memory.ok());
    std::copy(bytes.begin(), bytes.end(), memory->data());
    kept_[std::string(key)] = std::make_shared<const AlignedBuffer>(std::move(*memory));
  }
  size_t size() const { return kept_.size(); }
  int found = 0;

 private:
  std::map<std::string, std::shared_ptr<const AlignedBuffer>> kept_;
};

TEST(ExecutableWeights, Of16BitsEqualTheEagerReferenceInAnyCuts) {
  for (const DType dtype : {DType::kBf16, DType::kF16}) {
    File file(dtype, 1);
    const Graph graph = decoder(file);
    const Result<ExecutablePlan> plan = plan_of(compiled(graph));
    ASSERT_TRUE(plan.ok()) << plan.status().message();
    const std::vector<float> want = eager(graph, 19);
    for (const std::vector<int64_t>& cuts : {std::vector<int64_t>{19}, {7, 1, 8, 1, 2}, std::vector<int64_t>(19, 1)})
      EXPECT_EQ(logits(*plan, cuts), want) << dtype_name(dtype);
  }
}

TEST(ExecutableWeights, RunsAndCopiesGiveOnePlan) {
  File file(DType::kBf16, 2);
  const Graph graph = decoder(file);
  passes::Compilation runs = compiled(graph), copies = runs;
  int joined = 0;
  for (const graph::NodeId id : copies.graph.order()) {
    graph::Node& n = copies.graph.node(id);
    if (!n.constant) continue;
    joined += n.constant->runs != nullptr;
    n.constant = n.constant->contiguous();
  }
  EXPECT_EQ(joined, 2) << "q, k and v; gate and up";
  const Result<ExecutablePlan> a = plan_of(std::move(runs)), b = plan_of(std::move(copies));
  ASSERT_TRUE(a.ok() && b.ok());
  EXPECT_EQ(logits(*a, {7, 1}), logits(*b, {7, 1}));
  EXPECT_EQ(a->memory().packed_bytes, b->memory().packed_bytes);
  EXPECT_EQ(a->memory().constant_bytes, b->memory().constant_bytes);
  const auto x = a->report(1, 3), y = b->report(1, 3);
  ASSERT_TRUE(x.ok() && y.ok());
  ASSERT_EQ(x->size(), y->size());
  for (size_t i = 0; i < x->size(); ++i) {
    EXPECT_EQ((*x)[i].kernel, (*y)[i].kernel);
    EXPECT_EQ((*x)[i].plan, (*y)[i].plan);
  }
}

// The second time the file has other bytes where matrices are; that they are not seen shows in the result.
TEST(ExecutableWeights, ASecondPlanTakesThemFromTheStore) {
  File file(DType::kF16, 3);
  const Graph graph = decoder(file);
  Store store;
  int64_t done = 0;
  PlanOptions options{.weights = &store, .done_with = [&](std::span<const std::byte> b) { done += std::ssize(b); }};
  std::vector<float> want;
  {
    const Result<ExecutablePlan> first = plan_of(compiled(graph), options);
    ASSERT_TRUE(first.ok()) << first.status().message();
    want = logits(*first, {5, 1});
  }
  EXPECT_EQ(store.size(), 5u) << "qkv, o, gate and up, down, logits";
  EXPECT_EQ(store.found, 0);
  const int64_t matrices =
      kWords * kWidth + (kHeads + 2 * kKvHeads) * kHeadDim * kWidth + kWidth * kWidth + 3 * kHidden * kWidth;
  EXPECT_EQ(done, 2 * matrices) << "every byte once";
  done = 0;
  file.forget_from(kWords * kWidth);
  const Result<ExecutablePlan> second = plan_of(compiled(graph), options);
  ASSERT_TRUE(second.ok()) << second.status().message();
  EXPECT_EQ(store.found, 5);
  EXPECT_EQ(store.size(), 5u);
  EXPECT_EQ(done, 0) << "nothing was read";
  EXPECT_EQ(logits(*second, {5, 1}), want);
}

TEST(ExecutableWeights, WithoutAKeyNothingIsStored) {
  File file(DType::kBf16, 4);
  Graph graph = decoder(file);
  for (const graph::NodeId id : graph.order())
    if (graph.node(id).constant) graph.node(id).constant->content_key.clear();
  Store store;
  const Result<ExecutablePlan> plan = plan_of(compiled(graph), {.weights = &store});
  ASSERT_TRUE(plan.ok()) << plan.status().message();
  EXPECT_EQ(store.size(), 0u);
}

}  // namespace
}  // namespace hone::executable
