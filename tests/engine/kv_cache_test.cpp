// A cache filled step by step gives the bits of keys and values in memory of the caller, pages come back, and what does
// not fit changes nothing.
#include <gmock/gmock.h>

#include "tests/engine/attention_util.h"

namespace hone {
namespace {

using ::testing::HasSubstr;
using testing_api::AttentionOperands;
using testing_api::from_cache;
using testing_api::same_bits;

Engine make_engine() { return Engine::create({.use_database = false, .threads = 2}).value(); }

struct Kind {
  KeyLayout layout;
  int64_t page;
};
constexpr Kind kKinds[] = {{KeyLayout::kRows, 0},    {KeyLayout::kRows, 7},     {KeyLayout::kRows, 64},
                           {KeyLayout::kBlocked, 0}, {KeyLayout::kBlocked, 16}, {KeyLayout::kBlocked, 48}};

class EngineKvCache : public ::testing::TestWithParam<Kind> {
 protected:
  AttentionSpec spec() const {
    return {.heads = 6,
            .kv_heads = 2,
            .head_dim = 20,
            .value_dim = 12,
            .causal = true,
            .lse = true,
            .page = GetParam().page,
            .cache = true,
            .key_layout = GetParam().layout,
            .max_q = 0};
  }
  const Engine engine_ = make_engine();
};
INSTANTIATE_TEST_SUITE_P(, EngineKvCache, ::testing::ValuesIn(kKinds), [](const auto& param) {
  return std::string(param.param.layout == KeyLayout::kRows ? "Rows" : "Blocked") + "Page" +
         std::to_string(param.param.page);
});

// Row i of a prefill is the decode step at which its token was the last.
TEST_P(EngineKvCache, DecodeStepsGiveTheBitsOfThePrefill) {
  const int64_t tokens = 300;  // more than one block of keys
  Result<Attention> attention = engine_.prepare(spec());
  ASSERT_TRUE(attention.ok()) << attention.status().to_string();
  AttentionOperands all(spec(), tokens, tokens);
  KvCache prefilled = attention->cache({.capacity = tokens}).value();
  testing_api::append_all(prefilled, 0, all, tokens);
  ASSERT_TRUE(attention->run(from_cache(all, 0), &prefilled).ok());
  testing_api::expect_result(all, "online(256)");

  KvCache stepped = attention->cache({.sequences = 2, .capacity = tokens}).value();
  EXPECT_EQ(stepped.key_layout(), GetParam().layout);
  std::vector<float> out(6 * 12), lse(6);
  for (int64_t i = 0; i < tokens; ++i) {
    const KvRows token{.tokens = 1,
                       .key = all.key_row(0, i),
                       .value = all.value_row(0, i),
                       .k_head = all.key_row(1, 0) - all.key_row(0, 0),
                       .v_head = all.value_row(1, 0) - all.value_row(0, 0)};
    ASSERT_TRUE(stepped.append(1, token).ok());
    ASSERT_EQ(stepped.length(1), i + 1);
    const AttentionSequence step{.q = 1,
                                 .query = &all.query.at(0, i, 0),
                                 .out = out.data(),
                                 .lse = lse.data(),
                                 .q_head = tokens * 20,
                                 .cached = 1};
    ASSERT_TRUE(attention->run(step, &stepped).ok());
    for (int64_t h = 0; h < 6; ++h) {
      EXPECT_EQ(lse[static_cast<size_t>(h)], all.lse.at(h, i)) << "token " << i;
      for (int64_t c = 0; c < 12; ++c)
        ASSERT_EQ(out[static_cast<size_t>(h * 12 + c)], all.out.at(h, i, c)) << "token " << i;
    }
  }
}

TEST_P(EngineKvCache, RowsSideBySideInAnyPieces) {
  AttentionSpec side_by_side = spec();
  side_by_side.layout = HeadLayout::kRowsFirst;
  side_by_side.ldk = 2 * 20 + 3, side_by_side.ldv = 70;
  Result<Attention> attention = engine_.prepare(side_by_side);
  ASSERT_TRUE(attention.ok()) << attention.status().to_string();
  AttentionOperands o(side_by_side, 9, 130);
  for (int64_t piece : {1, 3, 16, 33, 130}) {
    KvCache cache = attention->cache({.capacity = 140}).value();
    testing_api::append_all(cache, 0, o, piece);
    o.reset();
    ASSERT_TRUE(attention->run(from_cache(o, 0), &cache).ok());
    testing_api::expect_result(o, "online(256)");
  }
}

TEST_P(EngineKvCache, SequencesOfDifferentLengthsInOneCall) {
  Result<Attention> attention = engine_.prepare(spec());
  ASSERT_TRUE(attention.ok()) << attention.status().to_string();
  KvCache cache = attention->cache({.sequences = 3, .capacity = 100}).value();
  std::vector<AttentionOperands> batch;
  std::vector<AttentionSequence> call;
  const std::pair<int64_t, int64_t> lengths[] = {{1, 100}, {17, 17}, {4, 50}};
  for (const auto& [q, kv] : lengths) batch.emplace_back(spec(), q, kv, static_cast<uint32_t>(batch.size()));
  // Interleaved, so that their pages are.
  for (int64_t upto = 10; upto <= 100; upto += 10) {
    for (int64_t s = 0; s < 3; ++s) {
      AttentionOperands part(spec(), 1, std::min(upto, lengths[s].second));
      AttentionOperands& whole = batch[static_cast<size_t>(s)];
      const int64_t from = cache.length(s), to = std::min(upto, lengths[s].second);
      if (from == to) continue;
      ASSERT_TRUE(cache
                      .append(s, {.tokens = to - from,
                                  .key = whole.key_row(0, from),
                                  .value = whole.value_row(0, from),
                                  .k_head = whole.key_row(1, 0) - whole.key_row(0, 0),
                                  .v_head = whole.value_row(1, 0) - whole.value_row(0, 0)})
                      .ok());
    }
  }
  for (int64_t s = 0; s < 3; ++s) call.push_back(from_cache(batch[static_cast<size_t>(s)], s));
  const Status status = attention->run(call, &cache);
  ASSERT_TRUE(status.ok()) << status.to_string();
  for (AttentionOperands& o : batch) testing_api::expect_result(o, "online(256)");
}

TEST_P(EngineKvCache, TruncatingForgetsAndGivesPagesBack) {
  Result<Attention> attention = engine_.prepare(spec());
  ASSERT_TRUE(attention.ok());
  KvCache cache = attention->cache({.sequences = 2, .capacity = 96}).value();
  const int64_t all_free = cache.free_pages(), bytes = cache.bytes();
  EXPECT_EQ(all_free > 0, GetParam().page > 0);
  AttentionOperands wrong(spec(), 1, 96, 5), right(spec(), 20, 60, 6);
  testing_api::append_all(cache, 0, wrong, 96);
  ASSERT_TRUE(cache.truncate(0, 0).ok());
  EXPECT_EQ(cache.free_pages(), all_free);
  testing_api::append_all(cache, 0, right, 60);
  ASSERT_TRUE(cache
                  .append(0, {.tokens = 30,
                              .key = wrong.key_row(0, 0),
                              .value = wrong.value_row(0, 0),
                              .k_head = 96 * 20,
                              .v_head = 96 * 12})
                  .ok());
  ASSERT_TRUE(cache.truncate(0, 60).ok());
  right.reset();
  ASSERT_TRUE(attention->run(from_cache(right, 0), &cache).ok());
  testing_api::expect_result(right, "online(256)");
  EXPECT_EQ(cache.bytes(), bytes) << "96 tokens are there from the start";
  EXPECT_EQ(cache.truncate(0, 61).code(), Code::kInvalidArgument);
}

TEST_P(EngineKvCache, ASequenceGrowsWithItsTokensAndKeepsThem) {
  Result<Attention> attention = engine_.prepare(spec());
  ASSERT_TRUE(attention.ok());
  KvCache cache = attention->cache({.sequences = 2, .capacity = 1000, .pages = 0}).value();
  const bool paged = GetParam().page > 0;
  const int64_t bytes = cache.bytes();
  AttentionOperands first(spec(), 9, 700, 5), second(spec(), 9, 1000, 6);
  const auto add = [&](int64_t sequence, AttentionOperands& from, int64_t to) {
    const int64_t at = cache.length(sequence), tokens = from.sequence.kv;
    const KvRows rows{.tokens = to - at,
                      .key = from.key_row(0, at),
                      .value = from.value_row(0, at),
                      .k_head = tokens * spec().head_dim,
                      .v_head = tokens * 12};
    EXPECT_TRUE(cache.append(sequence, rows).ok());
  };
  for (const int64_t to : {250, 257, 258, 700}) add(0, first, to);
  const int64_t with_first = cache.bytes();
  for (const int64_t to : {1, 999, 1000}) add(1, second, to);
  EXPECT_EQ(with_first > bytes, !paged) << "pages are taken at once";
  EXPECT_EQ(cache.bytes() > with_first, !paged);
  for (AttentionOperands* o : {&first, &second}) {
    ASSERT_TRUE(attention->run(from_cache(*o, o == &first ? 0 : 1), &cache).ok());
    testing_api::expect_result(*o, "online(256)");
  }
}

TEST_P(EngineKvCache, WhatDoesNotFitChangesNothing) {
  Result<Attention> attention = engine_.prepare(spec());
  ASSERT_TRUE(attention.ok());
  KvCache cache = attention->cache({.sequences = 2, .capacity = 64}).value();
  AttentionOperands o(spec(), 1, 64);
  KvRows rows{.tokens = 40, .key = o.key_row(0, 0), .value = o.value_row(0, 0), .k_head = 64 * 20, .v_head = 64 * 12};
  ASSERT_TRUE(cache.append(0, rows).ok());
  const int64_t free = cache.free_pages();
  const Status full = cache.append(0, rows);
  EXPECT_EQ(full.code(), Code::kResourceExhausted);
  EXPECT_THAT(full.message(), HasSubstr("40 of 64 keys"));
  EXPECT_EQ(cache.append(2, rows).code(), Code::kInvalidArgument);
  EXPECT_EQ(cache.append(-1, rows).code(), Code::kInvalidArgument);
  rows.key = nullptr;
  EXPECT_THAT(cache.append(1, rows).message(), HasSubstr("key is null"));
  rows.tokens = -1;
  EXPECT_THAT(cache.append(1, rows).message(), HasSubstr("tokens=-1"));
  EXPECT_EQ(cache.length(0), 40);
  EXPECT_EQ(cache.length(1), 0);
  EXPECT_EQ(cache.length(7), 0);
  EXPECT_EQ(cache.free_pages(), free);
}

TEST(EngineKvCacheErrors, ASharedPoolRunsOut) {
  const Engine engine = make_engine();
  const AttentionSpec spec{.heads = 2, .head_dim = 8, .page = 16, .cache = true, .max_q = 0};
  Result<Attention> attention = engine.prepare(spec);
  ASSERT_TRUE(attention.ok()) << attention.status().to_string();
  KvCache cache = attention->cache({.sequences = 4, .capacity = 64, .pages = 5}).value();
  AttentionOperands o(spec, 1, 64);
  const KvRows rows{.tokens = 64, .key = o.key_row(0, 0), .value = o.value_row(0, 0)};
  ASSERT_TRUE(cache.append(0, rows).ok());
  const Status none = cache.append(1, rows);
  EXPECT_EQ(none.code(), Code::kResourceExhausted);
  EXPECT_THAT(none.message(), HasSubstr("4 pages are needed, 1 of 5 are free"));
  EXPECT_EQ(cache.length(1), 0);
  EXPECT_EQ(cache.free_pages(), 1);
  ASSERT_TRUE(cache.truncate(0, 0).ok());
  EXPECT_TRUE(cache.append(1, rows).ok());
}

TEST(EngineKvCacheErrors, SizesNearTheLargestNumberAreTooLarge) {
  const Engine engine = make_engine();
  for (int64_t page : {int64_t{0}, int64_t{16}, INT64_MAX / 16 * 16}) {
    Result<Attention> attention = engine.prepare({.heads = 2, .head_dim = 1, .page = page, .cache = true, .max_q = 0});
    if (!attention.ok()) continue;  // refused already
    for (int64_t capacity : {INT64_MAX, INT64_MAX - 8, INT64_MAX / 4})
      EXPECT_THAT(attention->cache({.capacity = capacity, .pages = page > 0 ? 1 : 0}).status().message(),
                  HasSubstr("too large"))
          << page << " " << capacity;
  }
}

TEST(EngineKvCacheErrors, HeadsThatAreTooFarApartAreRefused) {
  const Engine engine = make_engine();
  const AttentionSpec spec{.heads = 3, .head_dim = 8, .cache = true, .max_q = 0};
  KvCache cache = engine.prepare(spec)->cache({.capacity = 4}).value();
  AttentionOperands o(spec, 1, 4);
  KvRows rows{.tokens = 2, .key = o.key_row(0, 0), .value = o.value_row(0, 0), .k_head = INT64_MAX / 2};
  EXPECT_THAT(cache.append(0, rows).message(), HasSubstr("strides of key reach beyond"));
  rows.k_head = -1, rows.v_head = INT64_MAX / 16;
  EXPECT_THAT(cache.append(0, rows).message(), HasSubstr("strides of value reach beyond"));
  EXPECT_EQ(cache.length(0), 0);
}

TEST(EngineKvCacheErrors, CacheAndAttentionHaveToMatch) {
  const Engine engine = make_engine();
  AttentionSpec spec{.heads = 2, .head_dim = 8, .cache = true, .max_q = 0};
  const Attention attention = engine.prepare(spec).value();
  const KvCache cache = attention.cache({.capacity = 10}).value();
  spec.head_dim = 16;
  const Attention other = engine.prepare(spec).value();
  spec.cache = false;
  const Attention without = engine.prepare(spec).value();
  AttentionOperands o(spec, 1, 4);
  EXPECT_THAT(other.run(from_cache(o, 0), &cache).message(), HasSubstr("d=8"));
  EXPECT_THAT(other.run(from_cache(o, 0)).message(), HasSubstr("cache is null"));
  EXPECT_THAT(without.run(o.sequence, &cache).message(), HasSubstr("without AttentionSpec::cache"));
  EXPECT_EQ(without.cache({.capacity = 10}).status().code(), Code::kFailedPrecondition);
  EXPECT_THAT(other.cache({.capacity = 0}).status().message(), HasSubstr("capacity=0"));
  EXPECT_THAT(other.cache({.sequences = 0, .capacity = 1}).status().message(), HasSubstr("sequences=0"));
  EXPECT_THAT(other.cache({.capacity = 1, .pages = 3}).status().message(), HasSubstr("pages=3"));
  EXPECT_THAT(other.cache({.sequences = 1 << 30, .capacity = int64_t{1} << 50}).status().message(),
              HasSubstr("too large"));
  spec.cache = true;
  spec.ldv = int64_t{1} << 60;
  EXPECT_THAT(engine.prepare(spec)->cache({.capacity = 16}).status().message(), HasSubstr("too large"));
  AttentionSequence beyond = from_cache(o, 0);
  beyond.kv = 1;
  EXPECT_THAT(attention.run(beyond, &cache).message(), HasSubstr("has 0 keys"));
  beyond.cached = 3;
  EXPECT_THAT(attention.run(beyond, &cache).message(), HasSubstr("not 3"));
}

}  // namespace
}  // namespace hone
