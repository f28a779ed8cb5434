// Attention through the C API: hone/attention.h to hone/attention.hpp and back.
#include <algorithm>
#include <cstring>
#include <vector>

#include "engine/base/status.h"
#include "engine/c_api_internal.h"
#include "hone/attention.h"
#include "hone/attention.hpp"

struct hone_attention {
  hone::Attention attention;
};

struct hone_kv_cache {
  hone::KvCache cache;
};

namespace {

using hone::Status;
using hone::c_api::call;
using hone::c_api::null_argument;

// One list for both. What is none of them is refused here: the enumerators of C++ have a byte, and C's may be any int.
static_assert(static_cast<int>(hone::HeadLayout::kRowsFirst) == HONE_ROWS_FIRST);
static_assert(static_cast<int>(hone::AttentionMask::kAdditive) == HONE_MASK_ADDITIVE &&
              static_cast<int>(hone::AttentionMask::kBoolean) == HONE_MASK_BOOLEAN);
static_assert(static_cast<int>(hone::KeyLayout::kRows) == HONE_KEYS_ROWS &&
              static_cast<int>(hone::KeyLayout::kBlocked) == HONE_KEYS_BLOCKED);

// The enumerator of C++ that a field of C says, of 0 to `last`.
template <typename Enum, typename CEnum>
hone::Result<Enum> enumerator(const char* field, const CEnum& value, Enum last) {
  const int number = hone::c_api::number_of(value);
  if (number >= 0 && number <= static_cast<int>(last)) return static_cast<Enum>(number);
  return hone::invalid_argument(std::string(field) + "=" + std::to_string(number) + " must be from 0 to " +
                                std::to_string(static_cast<int>(last)));
}

hone::Result<hone::AttentionSpec> spec_from_c(const hone_attention_spec& c) {
  if (c.expected_length > HONE_MAX_EXPECTED_SHAPES)
    return hone::invalid_argument("expected_length=" + std::to_string(c.expected_length) +
                                  " exceeds HONE_MAX_EXPECTED_SHAPES");
  const size_t numerics = strnlen(c.numerics, HONE_MAX_NUMERICS);
  if (numerics == HONE_MAX_NUMERICS) return hone::invalid_argument("numerics does not end within HONE_MAX_NUMERICS");
  HONE_ASSIGN_OR_RETURN(const auto layout, enumerator("layout", c.layout, hone::HeadLayout::kRowsFirst));
  HONE_ASSIGN_OR_RETURN(const auto mask, enumerator("mask", c.mask, hone::AttentionMask::kBoolean));
  HONE_ASSIGN_OR_RETURN(const auto key_layout, enumerator("key_layout", c.key_layout, hone::KeyLayout::kBlocked));
  hone::AttentionSpec spec{.heads = c.heads,
                           .kv_heads = c.kv_heads,
                           .head_dim = c.head_dim,
                           .value_dim = c.value_dim,
                           .layout = layout,
                           .ldq = c.ldq,
                           .ldk = c.ldk,
                           .ldv = c.ldv,
                           .ldo = c.ldo,
                           .causal = c.causal != 0,
                           .window = c.window,
                           .mask = mask,
                           .softcap = c.softcap,
                           .scale = c.scale,
                           .lse = c.lse != 0,
                           .page = c.page,
                           .cache = c.cache != 0,
                           .key_layout = key_layout,
                           .numerics = {c.numerics, numerics},
                           .batch = c.batch,
                           .max_q = c.max_q,
                           .max_kv = c.max_kv};
  for (size_t i = 0; i < c.expected_length; ++i) spec.expected.push_back({c.expected[i].q, c.expected[i].kv});
  return spec;
}

Status spec_to_c(const hone::AttentionSpec& spec, hone_attention_spec* c) {
  if (spec.expected.size() > HONE_MAX_EXPECTED_SHAPES)
    return hone::unsupported("q and kv have more than HONE_MAX_EXPECTED_SHAPES pairs");
  *c = {};
  c->heads = spec.heads, c->kv_heads = spec.kv_heads;
  c->head_dim = spec.head_dim, c->value_dim = spec.value_dim;
  c->layout = static_cast<hone_head_layout>(spec.layout);
  c->ldq = spec.ldq, c->ldk = spec.ldk, c->ldv = spec.ldv, c->ldo = spec.ldo;
  c->causal = spec.causal ? 1 : 0;
  c->window = spec.window;
  c->mask = static_cast<hone_attention_mask>(spec.mask);
  c->softcap = spec.softcap, c->scale = spec.scale;
  c->lse = spec.lse ? 1 : 0;
  c->page = spec.page;
  c->cache = spec.cache ? 1 : 0;
  c->key_layout = static_cast<hone_key_layout>(spec.key_layout);
  c->batch = spec.batch;
  c->expected_length = spec.expected.size();
  std::transform(spec.expected.begin(), spec.expected.end(), c->expected, [](const hone::AttentionSpec::Shape& s) {
    return hone_attention_shape{s.q, s.kv};
  });
  c->max_q = spec.max_q, c->max_kv = spec.max_kv;
  return {};
}

hone::AttentionSequence sequence_from_c(const hone_attention_sequence& c) {
  return {.q = c.q,
          .kv = c.kv,
          .query = c.query,
          .key = c.key,
          .value = c.value,
          .out = c.out,
          .mask = c.mask,
          .lse = c.lse,
          .q_head = c.q_head,
          .k_head = c.k_head,
          .v_head = c.v_head,
          .o_head = c.o_head,
          .lse_head = c.lse_head,
          .mask_head = c.mask_head,
          .mask_row = c.mask_row,
          .page_table = c.page_table,
          .pages = c.pages,
          .k_page = c.k_page,
          .v_page = c.v_page,
          .cached = c.cached};
}

}  // namespace

extern "C" {

hone_status hone_attention_spec_init(hone_attention_spec* spec, int64_t heads, int64_t kv_heads, int64_t head_dim) {
  return call([&]() -> Status {
    if (spec == nullptr) return null_argument("spec");
    return spec_to_c({.heads = heads, .kv_heads = kv_heads, .head_dim = head_dim}, spec);
  });
}

hone_status hone_attention_spec_parse(hone_attention_spec* spec, const char* problem) {
  return call([&]() -> Status {
    if (spec == nullptr) return null_argument("spec");
    if (problem == nullptr) return null_argument("problem");
    hone::Result<hone::AttentionSpec> parsed = hone::AttentionSpec::parse(problem);
    return parsed.ok() ? spec_to_c(*parsed, spec) : parsed.status();
  });
}

hone_status hone_attention_prepare(const hone_engine* engine, const hone_attention_spec* spec,
                                   hone_attention** attention) {
  if (attention != nullptr) *attention = nullptr;
  return call([&]() -> Status {
    if (engine == nullptr) return null_argument("engine");
    if (spec == nullptr) return null_argument("spec");
    if (attention == nullptr) return null_argument("attention");
    hone::Result<hone::AttentionSpec> converted = spec_from_c(*spec);
    if (!converted.ok()) return converted.status();
    hone::Result<hone::Attention> made = engine->engine.prepare(*converted);
    if (!made.ok()) return made.status();
    *attention = new hone_attention{*std::move(made)};
    return {};
  });
}

void hone_attention_destroy(hone_attention* attention) { delete attention; }

hone_status hone_attention_sequence_init(hone_attention_sequence* sequence, int64_t q, int64_t kv) {
  return call([&]() -> Status {
    if (sequence == nullptr) return null_argument("sequence");
    *sequence = {};
    sequence->q = q, sequence->kv = kv;
    sequence->q_head = sequence->k_head = sequence->v_head = sequence->o_head = sequence->lse_head = -1;
    sequence->mask_row = sequence->k_page = sequence->v_page = -1;
    return {};
  });
}

hone_status hone_attention_run(const hone_attention* attention, const hone_attention_sequence* sequences, size_t count,
                               const hone_kv_cache* cache) {
  return call([&]() -> Status {
    if (attention == nullptr) return null_argument("attention");
    if (sequences == nullptr && count > 0) return null_argument("sequences");
    thread_local std::vector<hone::AttentionSequence> converted;  // its memory is what calls reuse
    converted.resize(count);
    std::transform(sequences, sequences + count, converted.begin(), sequence_from_c);
    return attention->attention.run(converted, cache == nullptr ? nullptr : &cache->cache);
  });
}

hone_status hone_attention_plan(const hone_attention* attention, int64_t q, int64_t kv, hone_plan** plan) {
  if (plan != nullptr) *plan = nullptr;
  return call([&]() -> Status {
    if (attention == nullptr) return null_argument("attention");
    if (plan == nullptr) return null_argument("plan");
    hone::Result<hone::PlanInfo> info = attention->attention.plan(q, kv);
    if (!info.ok()) return info.status();
    *plan = hone::c_api::make_plan(*std::move(info));
    return {};
  });
}

hone_status hone_kv_cache_create(const hone_attention* attention, int64_t sequences, int64_t capacity, int64_t pages,
                                 hone_kv_cache** cache) {
  if (cache != nullptr) *cache = nullptr;
  return call([&]() -> Status {
    if (attention == nullptr) return null_argument("attention");
    if (cache == nullptr) return null_argument("cache");
    hone::Result<hone::KvCache> made =
        attention->attention.cache({.sequences = sequences, .capacity = capacity, .pages = pages});
    if (!made.ok()) return made.status();
    *cache = new hone_kv_cache{*std::move(made)};
    return {};
  });
}

void hone_kv_cache_destroy(hone_kv_cache* cache) { delete cache; }

hone_status hone_kv_cache_append(hone_kv_cache* cache, int64_t sequence, int64_t tokens, const float* key,
                                 int64_t k_head, const float* value, int64_t v_head) {
  return call([&]() -> Status {
    if (cache == nullptr) return null_argument("cache");
    return cache->cache.append(sequence,
                               {.tokens = tokens, .key = key, .value = value, .k_head = k_head, .v_head = v_head});
  });
}

hone_status hone_kv_cache_truncate(hone_kv_cache* cache, int64_t sequence, int64_t length) {
  return call([&]() -> Status {
    if (cache == nullptr) return null_argument("cache");
    return cache->cache.truncate(sequence, length);
  });
}

int64_t hone_kv_cache_length(const hone_kv_cache* cache, int64_t sequence) {
  return cache == nullptr ? 0 : cache->cache.length(sequence);
}
int64_t hone_kv_cache_bytes(const hone_kv_cache* cache) { return cache == nullptr ? 0 : cache->cache.bytes(); }
int64_t hone_kv_cache_free_pages(const hone_kv_cache* cache) {
  return cache == nullptr ? 0 : cache->cache.free_pages();
}

}  // extern "C"
