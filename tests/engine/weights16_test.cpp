// Constant weights of 16 bits: the bits of the f32 matmul on what they widen to, on every way to execute; and packed
// weights that a store keeps.
#include <gmock/gmock.h>

#include <map>

#include "engine/base/half.h"
#include "engine/state_internal.h"
#include "engine/weight_store.h"
#include "hone/hone.h"
#include "tests/engine/api_util.h"

namespace hone {
namespace {

using ::testing::HasSubstr;
using testing_api::EngineWith;
using testing_api::Operands;
using testing_api::same_bits;

// B of `operands` rounded to 16 bits at the end of pages, and what it widens to put back: the reference is f32.
class Halves {
 public:
  Halves(Operands& operands, WeightType type)
      : memory_(GuardedBuffer::create(operands.b.elements() * static_cast<int64_t>(sizeof(uint16_t))).value()) {
    const bool bf16 = type == WeightType::kBf16;
    const std::span<uint16_t> halves = memory_.as<uint16_t>();
    for (int64_t i = 0; i < operands.b.elements(); ++i) {
      float& wide = operands.b.data()[i];
      halves[static_cast<size_t>(i)] = bf16 ? f32_to_bf16(wide) : f32_to_f16(wide);
      wide = bf16 ? bf16_to_f32(halves[static_cast<size_t>(i)]) : f16_to_f32(halves[static_cast<size_t>(i)]);
    }
  }
  const void* data() const { return memory_.data(); }

 private:
  GuardedBuffer memory_;
};

Result<Matmul> prepare16(const Engine& engine, MatmulSpec spec, WeightType type, const void* weights) {
  spec.weight_type = type;
  return engine.prepare(spec, weights);
}

void check16(const Engine& engine, const MatmulSpec& spec, int64_t m, WeightType type, bool specials = false) {
  Operands operands(spec, m);
  SCOPED_TRACE(matmul::to_string(operands.problem) + (type == WeightType::kBf16 ? " bf16" : " f16"));
  if (specials && operands.b.elements() > 40) {
    const float values[] = {INFINITY, -INFINITY, NAN, -0.0F, 0x1p-133F, -0x1p-130F, 0x1p-24F, -0x1.8p-15F, 65504.0F};
    for (size_t i = 0; i < std::size(values); ++i) operands.b.data()[4 * i + 3] = values[i];
  }
  const Halves halves(operands, type);
  const Result<Matmul> matmul = prepare16(engine, spec, type, halves.data());
  ASSERT_TRUE(matmul.ok()) << matmul.status().to_string();
  const std::vector<float> want = operands.expected();
  const Status status = matmul->run(operands.call(true));
  ASSERT_TRUE(status.ok()) << status.to_string();
  EXPECT_TRUE(same_bits(operands.c.snapshot(), want));
  EXPECT_TRUE(operands.c.slack_intact());
}

TEST(EngineWeights16, HaveTheBitsOfTheF32TheyWidenTo) {
  for (const std::string& codegen : testing_api::all_codegens()) {
    SCOPED_TRACE(codegen);
    const EngineWith engine(codegen);
    for (const WeightType type : {WeightType::kBf16, WeightType::kF16}) {
      for (const Layout layout : {Layout::kNn, Layout::kNt}) {
        MatmulSpec spec{.n = 67, .k = 45, .b = layout, .expected_m = {3}, .max_m = 0};
        for (int64_t m : {1, 3, 17}) check16(*engine, spec, m, type, true);
        spec.k = 1, spec.n = 16;
        check16(*engine, spec, 2, type);
      }
      check16(*engine, {.n = 64, .k = 33, .epilogue = {Epilogue::kBias, Epilogue::kSwiglu}, .max_m = 0}, 5, type);
      check16(*engine, {.n = 33, .k = 20, .batch = 2, .epilogue = {Epilogue::kResidual}, .max_m = 0}, 2, type);
      check16(*engine, {.n = 33, .k = 0, .beta = 2, .max_m = 0}, 2, type);
    }
  }
}

// Trap m1 with weights of 16 bits: tails of k, and rows beside each other in one tile.
TEST(EngineWeights16, m1_nan_row_stays_in_its_row) {
  for (const std::string& codegen : testing_api::all_codegens()) {
    SCOPED_TRACE(codegen);
    const EngineWith engine(codegen);
    for (int64_t k : {33, 40, 63}) {
      const MatmulSpec spec{.n = 35, .k = k, .max_m = 0};
      Operands operands(spec, 5);
      const Halves halves(operands, WeightType::kBf16);
      const Result<Matmul> matmul = prepare16(*engine, spec, WeightType::kBf16, halves.data());
      ASSERT_TRUE(matmul.ok()) << matmul.status().to_string();
      ASSERT_TRUE(matmul->run(operands.call(true)).ok());
      const std::vector<float> clean = operands.c.snapshot();
      for (int64_t p = 0; p < k; ++p) operands.a.at(2, p) = testing_api::kNaN;
      ASSERT_TRUE(matmul->run(operands.call(true)).ok());
      for (int64_t i = 0; i < 5; ++i) {
        for (int64_t j = 0; j < 35; ++j) {
          const float got = operands.c.at(i, j);
          ASSERT_TRUE(i == 2 ? std::isnan(got) : got == clean[static_cast<size_t>(i * 35 + j)]) << i << " " << j;
        }
      }
    }
  }
}

TEST(EngineWeights16, ComeWithPrepareOnly) {
  const EngineWith engine("");
  MatmulSpec spec{.n = 8, .k = 8, .weight_type = WeightType::kF16};
  EXPECT_THAT(engine->prepare(spec).status().message(), HasSubstr("weight_type is f16, but B comes with each call"));
  EXPECT_THAT(engine->prepare(spec, nullptr).status().message(), HasSubstr("weights are null"));
  spec.weight_type = static_cast<WeightType>(9);
  EXPECT_THAT(engine->prepare(spec, &spec).status().message(), HasSubstr("weight_type 9"));
  const MatmulSpec parsed = MatmulSpec::parse("matmul:bf16:m=2,n=8,k=8,b=nt").value();
  EXPECT_EQ(parsed.weight_type, WeightType::kBf16);
  EXPECT_EQ(parsed.b, Layout::kNt);
}

TEST(EngineWeights16, InC) {
  hone_engine* engine = nullptr;
  hone_engine_options options = {};
  options.no_database = 1;
  ASSERT_EQ(hone_engine_create(&options, &engine), HONE_OK);
  hone_matmul_spec spec;
  ASSERT_EQ(hone_matmul_spec_parse(&spec, "matmul:bf16:m=1,n=2,k=2,b=nt"), HONE_OK) << hone_last_error();
  EXPECT_EQ(spec.weight_type, HONE_WEIGHT_BF16);
  const uint16_t weights[] = {0x3f80, 0x4000, 0x4040, 0x4080};  // 1 2; 3 4
  hone_matmul* matmul = nullptr;
  ASSERT_EQ(hone_matmul_prepare_weights(engine, &spec, weights, &matmul), HONE_OK) << hone_last_error();
  const float a[] = {10, 1};
  float c[2];
  hone_matmul_call call = {};
  call.m = 1, call.a = a, call.c = c;
  ASSERT_EQ(hone_matmul_run(matmul, &call), HONE_OK) << hone_last_error();
  EXPECT_EQ(c[0], 12);
  EXPECT_EQ(c[1], 34);
  hone_matmul_destroy(matmul);
  hone_engine_destroy(engine);
}

// ---- a store of packed weights ----

class MemoryStore final : public WeightStore {
 public:
  std::optional<Found> find(std::string_view key, int64_t bytes) override {
    const auto at = kept_.find(key);
    if (at == kept_.end() || at->second->size() != bytes) return std::nullopt;
    return Found{{at->second->data(), static_cast<size_t>(at->second->size())}, at->second};
  }
  void put(std::string_view key, std::span<const std::byte> bytes) override {
    auto made = std::make_shared<AlignedBuffer>(AlignedBuffer::allocate(std::ssize(bytes)).value());
    std::ranges::copy(bytes, made->data());
    kept_[std::string(key)] = std::move(made);
  }
  void clear() { kept_.clear(); }
  size_t size() const { return kept_.size(); }

 private:
  std::map<std::string, std::shared_ptr<AlignedBuffer>, std::less<>> kept_;
};

struct Stored {
  const Engine& engine;
  MemoryStore store;
  int reads = 0;

  Result<Matmul> prepare(const MatmulSpec& spec, const void* weights, std::string key) {
    return EngineAccess::prepare(engine, spec,
                                 {.elements = [this, weights]() -> Result<const void*> {
                                    ++reads;
                                    return weights;
                                  },
                                  .content_key = std::move(key),
                                  .store = &store});
  }
};

TEST(EngineWeightStore, TheSecondTimeNothingIsReadOrPacked) {
  const EngineWith engine("");
  Stored stored{*engine, {}};
  for (const WeightType type : {WeightType::kF32, WeightType::kBf16}) {
    MatmulSpec spec{.n = 100, .k = 77, .weight_type = WeightType::kF32, .max_m = 0};
    Operands operands(spec, 1);
    const Halves halves(operands, WeightType::kBf16);
    spec.weight_type = type;
    const void* weights = type == WeightType::kF32 ? operands.b.data() : halves.data();
    const std::vector<float> want = operands.expected();
    stored.reads = 0;
    int64_t bytes = 0;
    for (int round = 0; round < 2; ++round) {
      operands.c.fill(testing_api::kNaN);
      const Result<Matmul> matmul = stored.prepare(spec, round == 0 ? weights : nullptr, "model:0+100");
      ASSERT_TRUE(matmul.ok()) << matmul.status().to_string();
      EXPECT_EQ(stored.reads, 1) << "round " << round;
      if (round == 0) bytes = matmul->weight_bytes();
      EXPECT_EQ(matmul->weight_bytes(), bytes);
      if (round == 1) stored.store.clear();  // what is in use stays
      ASSERT_TRUE(matmul->run(operands.call(true)).ok());
      EXPECT_TRUE(same_bits(operands.c.snapshot(), want));
    }
    EXPECT_GE(bytes, 100 * 77 * (type == WeightType::kF32 ? 4 : 2));
  }
}

// What else the bytes depend on is part of the key; without a key nothing is kept.
TEST(EngineWeightStore, ContentAndShapeTellWeightsApart) {
  const EngineWith engine("");
  Stored stored{*engine, {}};
  const std::vector<float> weights(64 * 64);
  MatmulSpec spec{.n = 32, .k = 64, .max_m = 0};
  size_t kept = 0;
  auto expect_new = [&](const MatmulSpec& s, const std::string& key) {
    const int before = stored.reads;
    ASSERT_TRUE(stored.prepare(s, weights.data(), key).ok());
    EXPECT_EQ(stored.reads, before + 1);
    EXPECT_EQ(stored.store.size(), ++kept);
  };
  expect_new(spec, "one");
  expect_new(spec, "two");
  spec.n = 64, spec.k = 32;
  expect_new(spec, "one");
  spec.b = Layout::kNn;
  expect_new(spec, "one");
  spec.ldb = 65;
  spec.k = 31;
  expect_new(spec, "one");
  spec.ldb = 0;
  expect_new(spec, "one");
  spec.weight_type = WeightType::kF16;
  expect_new(spec, "one");
  ASSERT_TRUE(stored.prepare(spec, weights.data(), "").ok());
  EXPECT_EQ(stored.store.size(), kept);
}

TEST(EngineWeightStore, AnErrorOfTheSourceIsThatOfPrepare) {
  const EngineWith engine("");
  const Result<Matmul> matmul = EngineAccess::prepare(
      *engine, {.n = 8, .k = 8},
      {.elements = []() -> Result<const void*> { return data_loss("the file ends early"); }, .content_key = {}});
  EXPECT_THAT(matmul.status().message(), HasSubstr("the file ends early"));
}

}  // namespace
}  // namespace hone
