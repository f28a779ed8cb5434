// Runs attention of the public API on memory that catches what it must not touch, and compares with both references:
// the bits of the numerics class, and the mathematical result.
#pragma once

#include <algorithm>
#include <numeric>

#include "engine/attention_spec_internal.h"
#include "hone/attention.hpp"
#include "kernels/attention/reference.h"
#include "tests/engine/api_util.h"

namespace hone::testing_api {

// Memory of one sequence, each operand at the very end of its pages. Elements are random; padding between rows, keys
// that a page has beyond the last, pages of the pool that no key lies in and what is to be written are NaN.
class AttentionOperands {
 public:
  AttentionOperands(const AttentionSpec& spec, int64_t q, int64_t kv, uint32_t seed = 1)
      : spec_(spec), form_(form_of(without_cache(spec), KeyLayout::kRows).value()) {
    const attention::AttentionProblem& p = form_.problem;
    sequence.q = q, sequence.kv = kv;
    query = heads_of(p.heads, q, p.row_stride_q(), p.d, seed);
    out = heads_of(p.heads, q, p.row_stride_o(), p.value_dim(), seed);
    out.fill(kNaN);
    lse = Matrix(p.heads, q, q, 1, 0, seed);
    lse.fill(kNaN);
    key =
        p.page > 0 ? pool(p.row_stride_k(), p.d, seed + 1) : heads_of(p.kv_heads, kv, p.row_stride_k(), p.d, seed + 1);
    value = p.page > 0 ? pool(p.row_stride_v(), p.value_dim(), seed + 2)
                       : heads_of(p.kv_heads, kv, p.row_stride_v(), p.value_dim(), seed + 2);
    sequence.query = query.data(), sequence.key = key.data(), sequence.value = value.data();
    sequence.out = out.data(), sequence.lse = spec.lse ? lse.data() : nullptr;
    if (p.page > 0) set_pages(seed);
    if (spec.mask == AttentionMask::kAdditive) set_additive_mask(seed + 3);
    if (spec.mask == AttentionMask::kBoolean) set_boolean_mask(seed + 3);
  }

  // The memory as kernels see it.
  attention::AttentionProblem problem() const {
    attention::AttentionProblem p = form_.problem;
    p.batch = 1, p.q = sequence.q, p.kv = sequence.kv;
    return p;
  }
  attention::Sequence operands() const { return sequence_of(form_, sequence).value(); }

  // O, and lse behind it, with all padding.
  std::vector<float> result() const {
    std::vector<float> all = out.snapshot();
    if (spec_.lse) {
      const std::vector<float> sums = lse.snapshot();
      all.insert(all.end(), sums.begin(), sums.end());
    }
    return all;
  }
  // What result() has to become: the bits of the class.
  std::vector<float> expected(std::string_view numerics) const {
    std::vector<float> o(out.snapshot().size(), kNaN), l(lse.snapshot().size(), kNaN);
    attention::Sequence s = operands();
    s.out = o.data();
    s.lse = spec_.lse ? l.data() : nullptr;
    attention::class_f32(problem(), s, numerics);
    if (spec_.lse) o.insert(o.end(), l.begin(), l.end());
    return o;
  }
  bool slack_intact() const { return out.slack_intact() && lse.slack_intact(); }
  void reset() {
    out.fill(kNaN);
    lse.fill(kNaN);
  }

  // Row j of K or V of a head, wherever it lies.
  float* key_row(int64_t head, int64_t j) { return row(key, head, j); }
  float* value_row(int64_t head, int64_t j) { return row(value, head, j); }
  float& mask_at(int64_t i, int64_t j) { return mask.at(i, j); }

  AttentionSequence sequence;
  Matrix query, key, value, out, lse, mask;

 private:
  static AttentionSpec without_cache(AttentionSpec spec) {
    if (spec.cache) spec.page = 0;
    spec.cache = false;
    spec.key_layout = KeyLayout::kChosen;
    return spec;
  }
  Matrix heads_of(int64_t heads, int64_t rows, int64_t row, int64_t dim, uint32_t seed) const {
    return {rows, dim, row, heads, form_.head_stride(rows, row, dim), seed};
  }
  // Two pages more than needed.
  Matrix pool(int64_t row_stride, int64_t dim, uint32_t seed) {
    const attention::AttentionProblem& p = form_.problem;
    pages_ = (sequence.kv + p.page - 1) / p.page + 2;
    if (form_.layout == HeadLayout::kRowsFirst)  // heads side by side: one matrix as wide as a row
      return {p.page, p.kv_heads * dim, row_stride, pages_, p.page * row_stride, seed};
    return {p.page, dim, row_stride, pages_ * p.kv_heads, p.page * row_stride, seed};
  }
  void set_pages(uint32_t seed) {
    const int64_t page = form_.problem.page, used = (sequence.kv + page - 1) / page;
    table_.resize(static_cast<size_t>(pages_));
    std::iota(table_.begin(), table_.end(), 0);
    std::shuffle(table_.begin(), table_.end(), std::mt19937(seed));
    sequence.page_table = table_.data(), sequence.pages = pages_;
    for (int64_t j = used * page; j-- > sequence.kv;) poison(j);
    for (int64_t j = used * page; j < pages_ * page; ++j) poison(j);
    for (size_t i = static_cast<size_t>(used); i < table_.size(); ++i) table_[i] = -1;  // entries that no row sees
  }
  void poison(int64_t j) {
    for (int64_t h = 0; h < form_.problem.kv_heads; ++h) {
      std::fill_n(key_row(h, j), form_.problem.d, kNaN);
      std::fill_n(value_row(h, j), form_.problem.value_dim(), kNaN);
    }
  }
  float* row(Matrix& of, int64_t head, int64_t j) {
    const attention::AttentionProblem& p = form_.problem;
    const bool keys = &of == &key;
    const int64_t row = keys ? p.row_stride_k() : p.row_stride_v(), dim = keys ? p.d : p.value_dim();
    const int64_t rows = p.page > 0 ? p.page : sequence.kv;
    float* base = of.data() + head * form_.head_stride(rows, row, dim);
    if (p.page == 0) return base + j * row;
    const int64_t heads = form_.layout == HeadLayout::kRowsFirst ? 1 : p.kv_heads;
    return base + table_[static_cast<size_t>(j / p.page)] * heads * p.page * row + j % p.page * row;
  }
  void set_additive_mask(uint32_t seed) {
    mask = Matrix(sequence.q, sequence.kv, sequence.kv + 3, 1, 0, seed);
    sequence.mask = mask.data(), sequence.mask_row = sequence.kv + 3;
  }
  void set_boolean_mask(uint32_t seed) {
    bytes_ = std::make_unique<GuardedBuffer>(GuardedBuffer::create(sequence.q * sequence.kv).value());
    std::mt19937 random(seed);
    for (uint8_t& b : bytes_->as<uint8_t>()) b = random() % 10 < 7 ? 1 : 0;
    sequence.mask = bytes_->data();
  }

  AttentionSpec spec_;
  AttentionForm form_;
  int64_t pages_ = 0;
  std::vector<int32_t> table_;
  std::unique_ptr<GuardedBuffer> bytes_;

 public:
  std::span<uint8_t> mask_bytes() { return bytes_->as<uint8_t>(); }
};

// The bits of `numerics`, and within the bound of the mathematical result.
inline void expect_result(const AttentionOperands& o, std::string_view numerics) {
  EXPECT_TRUE(same_bits(o.result(), o.expected(numerics)));
  const attention::Comparison c =
      attention::compare(o.problem(), o.operands(), attention::reference_f64(o.problem(), o.operands()));
  EXPECT_TRUE(c.ok()) << c.text;
  EXPECT_TRUE(o.slack_intact()) << "something was written before O or lse";
}

// Puts K and V of the operands into a cache, in pieces of `step` tokens.
inline void append_all(KvCache& cache, int64_t sequence, AttentionOperands& o, int64_t step) {
  const attention::AttentionProblem p = o.problem();
  const bool side_by_side = p.kv_heads > 1 && o.key_row(1, 0) == o.key_row(0, 0) + p.d;
  for (int64_t j = cache.length(sequence); j < o.sequence.kv; j += step) {
    const int64_t tokens = std::min(step, o.sequence.kv - j);
    KvRows rows{.tokens = tokens, .key = o.key_row(0, j), .value = o.value_row(0, j)};
    if (!side_by_side && p.kv_heads > 1) {  // heads are as far apart as in all of K, not as in these rows
      rows.k_head = o.key_row(1, 0) - o.key_row(0, 0);
      rows.v_head = o.value_row(1, 0) - o.value_row(0, 0);
    }
    const Status status = cache.append(sequence, rows);
    ASSERT_TRUE(status.ok()) << status.to_string();
  }
}

// The same operands, read from a cache.
inline AttentionSequence from_cache(const AttentionOperands& o, int64_t sequence) {
  AttentionSequence s = o.sequence;
  s.kv = 0, s.key = s.value = nullptr, s.page_table = nullptr, s.pages = 0;
  s.cached = sequence;
  return s;
}

// Every place that K and V may lie in, in turn: memory of the call, dense or in pages, and caches with either layout of
// keys. `body` gets a spec and a name.
template <typename Body>
void all_places(AttentionSpec spec, Body body) {
  spec.max_q = 0;  // only what is called gets compiled, as there are many such tests
  body(spec, std::string("dense"));
  AttentionSpec paged = spec;
  paged.page = 5;
  body(paged, std::string("pages of 5"));
  for (KeyLayout layout : {KeyLayout::kRows, KeyLayout::kBlocked}) {
    for (int64_t page : {0, 16}) {
      AttentionSpec cached = spec;
      cached.cache = true, cached.key_layout = layout, cached.page = page;
      body(cached, std::string(layout == KeyLayout::kRows ? "cache of rows" : "cache of blocks") +
                       (page > 0 ? ", pages of 16" : ""));
    }
  }
}

// Prepares, appends if the spec has a cache, runs and compares.
inline void check(const Engine& engine, const AttentionSpec& spec, AttentionOperands& o) {
  SCOPED_TRACE(attention::to_string(o.problem()));
  Result<Attention> attention = engine.prepare(spec);
  ASSERT_TRUE(attention.ok()) << attention.status().to_string();
  o.reset();
  if (!spec.cache) {
    const Status status = attention->run(o.sequence);
    ASSERT_TRUE(status.ok()) << status.to_string();
  } else if (o.sequence.kv > 0) {
    Result<KvCache> cache = attention->cache({.capacity = o.sequence.kv});
    ASSERT_TRUE(cache.ok()) << cache.status().to_string();
    append_all(*cache, 0, o, 7);
    const Status status = attention->run(from_cache(o, 0), &*cache);
    ASSERT_TRUE(status.ok()) << status.to_string();
  } else {
    return;
  }
  const Result<PlanInfo> plan =
      attention->plan(std::max<int64_t>(o.sequence.q, 1), std::max<int64_t>(o.sequence.kv, 1));
  ASSERT_TRUE(plan.ok()) << plan.status().to_string();
  expect_result(o, plan->numerics);
}

}  // namespace hone::testing_api
