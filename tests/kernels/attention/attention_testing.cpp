// See attention_testing.h.
#include "tests/kernels/attention/attention_testing.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <numeric>

#include "kernels/attention/blocking.h"

namespace hone::attention {
namespace {

constexpr float kInf = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

int64_t span(int64_t heads, int64_t head, int64_t rows, int64_t row, int64_t width) {
  return rows == 0 ? 0 : (heads - 1) * head + (rows - 1) * row + width;
}

int64_t round_up(int64_t n, int64_t unit) { return (n + unit - 1) / unit * unit; }

// Memory with NaN equal to NaN.
bool same(const std::optional<GuardedBuffer>& got, const std::vector<float>& want) {
  const float* data = reinterpret_cast<const float*>(got->data());
  for (size_t i = 0; i < want.size(); ++i)
    if (std::isnan(data[i]) ? !std::isnan(want[i]) : data[i] != want[i]) return false;
  return true;
}

}  // namespace

TestSequence::TestSequence(const AttentionProblem& problem, int64_t q, int64_t kv, uint64_t seed, SequenceStyle style)
    : problem_(problem), rng_(seed), guard_(seed % 4 == 3 ? Guard::kBefore : Guard::kAfter) {
  const AttentionProblem& p = problem_;
  sequence_.q = q, sequence_.kv = kv;
  if (q > 0 && kv > 0) seen_ = {visible_keys(p, q, kv, 0).begin, visible_keys(p, q, kv, q - 1).end};
  choose_strides(style.dense);
  make_query();
  if (p.page > 0) make_pages();
  make_keys_and_values();
  if (p.mask != MaskKind::kNone) make_mask();
  sequence_.out = allocate(out_buffer_, span(p.heads, sequence_.o_head, q, p.row_stride_o(), p.value_dim()));
  if (p.lse) sequence_.lse = allocate(lse_buffer_, span(p.heads, sequence_.lse_head, q, 1, 1));
  if (style.bad_key && below(6) == 0) poison_a_key();
  const Status checked = check_sequence(p, sequence_);
  EXPECT_TRUE(checked.ok()) << checked.message();
}

float* TestSequence::allocate(Buffer& buffer, int64_t elements) {
  Result<GuardedBuffer> made = GuardedBuffer::create(elements * 4, guard_);
  if (!made.ok()) {
    ADD_FAILURE() << made.status().message();
    std::abort();
  }
  buffer.emplace(std::move(made).value());
  return reinterpret_cast<float*>(buffer->data());
}

// Woven into the rows where they fit, else one after the other with or without a gap.
int64_t TestSequence::head_stride(int64_t rows, int64_t row, int64_t heads, int64_t width) {
  if (row >= heads * width && below(4) != 0) return width;
  return rows * row + below(2) * below(20);
}

void TestSequence::choose_strides(bool dense) {
  const AttentionProblem& p = problem_;
  Sequence& s = sequence_;
  const int64_t capacity = s.kv + below(2) * below(40);
  set_dense_strides(p, s, capacity);
  if (dense) return;
  s.q_head = head_stride(s.q, p.row_stride_q(), p.heads, p.d);
  s.o_head = head_stride(s.q, p.row_stride_o(), p.heads, p.value_dim());
  s.lse_head = s.q + below(2) * below(5);
  if (p.k == KeyLayout::kRows) s.k_head = head_stride(p.page ? p.page : capacity, p.row_stride_k(), p.kv_heads, p.d);
  s.v_head = head_stride(p.page ? p.page : capacity, p.row_stride_v(), p.kv_heads, p.value_dim());
  if (below(8) == 0) s.k_head = 0;
  if (below(8) == 0) s.v_head = 0;
  if (p.page > 0) {
    s.k_page = span(p.kv_heads, s.k_head, p.page, p.row_stride_k(), p.d) + below(2) * below(30);
    s.v_page = span(p.kv_heads, s.v_head, p.page, p.row_stride_v(), p.value_dim()) + below(2) * below(30);
  }
  s.mask_row = below(4) == 0 ? 0 : s.kv + below(2) * below(9);
  s.mask_head = below(2) == 0 ? 0 : std::max(s.q * s.mask_row, s.kv);
}

void TestSequence::make_query() {
  const AttentionProblem& p = problem_;
  query_ = allocate(query_buffer_, span(p.heads, sequence_.q_head, sequence_.q, p.row_stride_q(), p.d));
  const float size = below(4) == 0 ? 20 : 1;  // large: almost all weight on one key, maxima that move
  for (int64_t h = 0; h < p.heads; ++h)
    for (int64_t i = 0; i < sequence_.q; ++i)
      for (int64_t c = 0; c < p.d; ++c) query_[h * sequence_.q_head + i * p.row_stride_q() + c] = size * uniform();
  sequence_.query = query_;
}

// Shuffled pages; entries of the table that no row needs are no pages.
void TestSequence::make_pages() {
  const int64_t entries = round_up(sequence_.kv, problem_.page) / problem_.page;
  sequence_.pages = entries + 1 + below(3);
  std::vector<int32_t> order(static_cast<size_t>(sequence_.pages));
  std::iota(order.begin(), order.end(), 0);
  std::shuffle(order.begin(), order.end(), rng_);
  auto* table = reinterpret_cast<int32_t*>(allocate(table_buffer_, entries));
  for (int64_t e = seen_.begin / problem_.page; e * problem_.page < seen_.end; ++e)
    table[e] = order[static_cast<size_t>(e)];
  sequence_.page_table = table;
}

int64_t TestSequence::page_base(int64_t j, int64_t stride) const {
  return problem_.page > 0 ? sequence_.page_table[j / problem_.page] * stride : 0;
}

float& TestSequence::key(int64_t g, int64_t j, int64_t c) {
  const AttentionProblem& p = problem_;
  const int64_t base = page_base(j, sequence_.k_page) + g * sequence_.k_head, r = p.page > 0 ? j % p.page : j;
  if (p.k == KeyLayout::kRows) return key_[base + r * p.row_stride_k() + c];
  return key_[base + r / kKeyGroup * p.d * kKeyGroup + c * kKeyGroup + r % kKeyGroup];
}

float& TestSequence::value(int64_t g, int64_t j, int64_t c) {
  const AttentionProblem& p = problem_;
  const int64_t base = page_base(j, sequence_.v_page) + g * sequence_.v_head, r = p.page > 0 ? j % p.page : j;
  return value_[base + r * p.row_stride_v() + c];
}

void TestSequence::make_keys_and_values() {
  const AttentionProblem& p = problem_;
  Sequence& s = sequence_;
  const bool blocked = p.k == KeyLayout::kBlocked;
  const int64_t keys = p.page > 0 ? p.page : s.kv;
  const int64_t key_rows = !blocked ? keys : p.page > 0 ? p.page : s.key_groups * kKeyGroup;
  int64_t k_elements = span(p.kv_heads, s.k_head, key_rows, p.row_stride_k(), p.d);
  int64_t v_elements = span(p.kv_heads, s.v_head, keys, p.row_stride_v(), p.value_dim());
  if (p.page > 0) {
    k_elements += (s.pages - 1) * s.k_page;
    v_elements += (s.pages - 1) * s.v_page;
  }
  s.key = key_ = allocate(key_buffer_, k_elements);
  s.value = value_ = allocate(value_buffer_, v_elements);
  for (int64_t g = 0; g < p.kv_heads; ++g)
    for (int64_t j = seen_.begin; j < seen_.end; ++j) {
      for (int64_t c = 0; c < p.d; ++c) key(g, j, c) = uniform();
      for (int64_t c = 0; c < p.value_dim(); ++c) value(g, j, c) = uniform();
    }
}

void TestSequence::make_mask() {
  const AttentionProblem& p = problem_;
  Sequence& s = sequence_;
  const int64_t elements = s.kv == 0 ? 0 : span(p.heads, s.mask_head, s.q, s.mask_row, s.kv);
  const bool bytes = p.mask == MaskKind::kBoolean;
  mask_ = allocate(mask_buffer_, bytes ? round_up(elements, 4) / 4 : elements);
  s.mask = mask_;
  // Bytes end at the guard too.
  if (bytes && guard_ == Guard::kAfter) s.mask = reinterpret_cast<uint8_t*>(mask_) + round_up(elements, 4) - elements;
  for (int64_t h = 0; h < p.heads; ++h)
    for (int64_t i = 0; i < s.q; ++i) fill_mask_row(h, i, visible_keys(p, s.q, s.kv, i));
}

void TestSequence::fill_mask_row(int64_t h, int64_t i, const Visible& visible) {
  const Sequence& s = sequence_;
  const int64_t row = h * s.mask_head + i * s.mask_row;
  const int64_t kind = below(10);  // 0: hides all; 1: the lowest float; 2: the first half; else 70 % (case a11)
  for (int64_t j = visible.begin; j < visible.end; ++j) {
    const bool hide = kind == 0 || (kind == 2 && 2 * j < s.kv) || (kind > 2 && below(10) < 7);
    if (problem_.mask == MaskKind::kBoolean) {
      const_cast<uint8_t*>(static_cast<const uint8_t*>(s.mask))[row + j] =
          hide ? 0 : static_cast<uint8_t>(1 + below(255));
    } else if (kind == 1) {
      mask_[row + j] = std::numeric_limits<float>::lowest();
    } else {
      mask_[row + j] = hide ? -kInf : uniform();
    }
  }
}

void TestSequence::poison_a_key() {
  if (seen_.begin >= seen_.end) return;
  const int64_t g = below(problem_.kv_heads), j = seen_.begin + below(seen_.end - seen_.begin);
  key(g, j, below(problem_.d)) = kNan;
  if (problem_.mask != MaskKind::kNone) return;  // V that a mask hides must be finite
  for (int64_t c = 0; c < problem_.value_dim(); ++c) value(g, j, c) = kNan;
}

void TestSequence::reset() {
  out_buffer_->poison();
  if (lse_buffer_) lse_buffer_->poison();
}

Comparison TestSequence::compare_with_class(std::string_view numerics) const {
  const auto copy_size = [](const Buffer& b) { return b ? static_cast<size_t>(b->size()) / 4 : 0; };
  std::vector<float> out(copy_size(out_buffer_), kNan), lse(copy_size(lse_buffer_), kNan);
  Sequence expected = sequence_;
  expected.out = out.data();
  expected.lse = problem_.lse ? lse.data() : nullptr;
  class_f32(problem_, expected, numerics);
  Comparison comparison = compare_bits(problem_, sequence_, expected);
  const bool written = !same(out_buffer_, out) || (lse_buffer_ && !same(lse_buffer_, lse)) ||
                       !out_buffer_->slack_intact() || (lse_buffer_ && !lse_buffer_->slack_intact());
  if (comparison.ok() && written) {
    ++comparison.mismatches;
    comparison.text = "memory around out or lse was written though it is padding";
  }
  return comparison;
}

AttentionProblem random_problem(uint64_t seed, const ProblemLimits& limits) {
  std::mt19937_64 rng(seed);
  auto below = [&](int64_t n) { return static_cast<int64_t>(rng() % static_cast<uint64_t>(n)); };
  auto pick = [&](std::initializer_list<int64_t> edges, int64_t lowest, int64_t largest) {
    const int64_t edge = edges.begin()[below(static_cast<int64_t>(edges.size()))];
    return edge <= largest && below(3) != 0 ? edge : lowest + below(largest - lowest + 1);
  };
  AttentionProblem p;
  p.kv_heads = 1 + below(3);
  p.heads = p.kv_heads * (1 + below(4));
  p.d = pick({8, 16, 40, 64, 80, 88, 96, 224, 512, 576}, 1, limits.max_d);
  if (below(3) == 0) p.dv = pick({8, 16, 40, 64, 80, 88, 96, 224, 512, 576}, 1, limits.max_d);
  p.q = pick({1, 1, 2, 3, 7, 8, 9, 16, 17, 33}, 0, limits.max_q);
  p.kv = pick({0, 1, 15, 16, 17, 31, 32, 33, 47, 48, 49, 64, 255, 256, 257}, 0, limits.max_kv);
  p.batch = 1 + below(3);
  if (below(4) == 0) p.k = KeyLayout::kBlocked;
  if (below(3) == 0) p.page = p.k == KeyLayout::kBlocked ? kKeyGroup * (1 + below(4)) : pick({1, 7, 16, 30, 64}, 1, 70);
  auto stride = [&](int64_t width, int64_t heads) {
    const int64_t kind = below(4);
    return kind == 0 ? width + below(20) : kind == 1 ? heads * width + below(2) * below(9) : 0;
  };
  p.ldq = stride(p.d, p.heads);
  if (p.k == KeyLayout::kRows) p.ldk = stride(p.d, p.kv_heads);
  p.ldv = stride(p.value_dim(), p.kv_heads);
  p.ldo = stride(p.value_dim(), p.heads);
  p.causal = below(2) == 0;
  if (below(3) == 0) p.window = 1 + below(below(2) == 0 ? 5 : 2 * p.kv + 2);
  p.mask = below(2) == 0 ? MaskKind::kNone : static_cast<MaskKind>(1 + below(2));
  if (below(4) == 0) p.softcap = 30;
  if (below(4) == 0) p.scale = 0.3F;
  p.lse = below(2) == 0;
  return canonical(p);
}

std::optional<AttentionProgram> random_program(const AttentionProblem& problem, uint64_t seed, Isa isa) {
  std::mt19937_64 rng(seed);
  auto below = [&](int64_t n) { return static_cast<int64_t>(rng() % static_cast<uint64_t>(n)); };
  auto one_of = [&](std::initializer_list<int64_t> values) {
    return values.begin()[below(static_cast<int64_t>(values.size()))];
  };
  for (int attempt = 0; attempt < 300; ++attempt) {
    AttentionProgram p = default_program(problem, isa, {});
    p.algorithm = static_cast<Algorithm>(below(4));
    p.splits = p.algorithm == Algorithm::kSplit ? 2 + below(4) : 1;
    p.bq = 1 + below(problem.q + 3);
    p.bk = one_of({16, 32, 48, 64, 256});
    p.group = below(2) == 0;
    p.mr = 1 + below(9);
    p.vr = below(2) == 0 ? p.mr : 1 + below(6);
    p.nr = kKeyGroup * (1 + below(3));
    p.vn = p.lanes * (1 + below(5));
    p.tile_rows = std::lcm(p.mr, p.vr) * (1 + below(3));
    p.value_depth = one_of({1, 7, 16, 40, 256});
    if (problem.k == KeyLayout::kRows) p.pack_k = below(2) == 0 ? PackK::kBlock : PackK::kStrip;
    p.pack_v = static_cast<PackV>(below(2));
    p.prefetch = one_of({0, 0, 8, 32, 256});
    p.lead = one_of({0, 1, 4});
    p.parallel = static_cast<ParallelDim>(below(2));
    p = canonical(problem, p);
    if (legal(problem, p).ok()) return p;
  }
  return std::nullopt;
}

}  // namespace hone::attention
