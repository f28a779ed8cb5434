// See guarded_sequence.h.
#include "kernels/attention/guarded_sequence.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <new>
#include <numeric>

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

GuardedSequence::GuardedSequence(const AttentionProblem& problem, int64_t q, int64_t kv, uint64_t seed,
                                 SequenceStyle style)
    : problem_(problem),
      random_(seed),
      values_(random_, style.specials),
      guard_(seed % 4 == 3 ? Guard::kBefore : Guard::kAfter) {
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
  checked_ = check_sequence(p, sequence_);
}

float* GuardedSequence::allocate(Buffer& buffer, int64_t elements) {
  Result<GuardedBuffer> made = GuardedBuffer::create(elements * 4, guard_);
  if (!made.ok()) throw std::bad_alloc();
  buffer.emplace(std::move(made).value());
  return reinterpret_cast<float*>(buffer->data());
}

// Woven into the rows where they fit, else one after the other with or without a gap.
int64_t GuardedSequence::head_stride(int64_t rows, int64_t row, int64_t heads, int64_t width) {
  if (row >= heads * width && below(4) != 0) return width;
  return rows * row + below(2) * below(20);
}

void GuardedSequence::choose_strides(bool dense) {
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

void GuardedSequence::make_query() {
  const AttentionProblem& p = problem_;
  query_ = allocate(query_buffer_, span(p.heads, sequence_.q_head, sequence_.q, p.row_stride_q(), p.d));
  const float size = below(4) == 0 ? 20 : 1;  // large: almost all weight on one key, maxima that move
  for (int64_t h = 0; h < p.heads; ++h)
    for (int64_t i = 0; i < sequence_.q; ++i)
      for (int64_t c = 0; c < p.d; ++c) query_[h * sequence_.q_head + i * p.row_stride_q() + c] = size * values_.next();
  sequence_.query = query_;
}

// Shuffled pages; entries of the table that no row needs are no pages.
void GuardedSequence::make_pages() {
  const int64_t entries = round_up(sequence_.kv, problem_.page) / problem_.page;
  sequence_.pages = entries + 1 + below(3);
  std::vector<int32_t> order(static_cast<size_t>(sequence_.pages));
  std::iota(order.begin(), order.end(), 0);
  random_.shuffle(order);
  auto* table = reinterpret_cast<int32_t*>(allocate(table_buffer_, entries));
  for (int64_t e = seen_.begin / problem_.page; e * problem_.page < seen_.end; ++e)
    table[e] = order[static_cast<size_t>(e)];
  sequence_.page_table = table;
}

int64_t GuardedSequence::page_base(int64_t j, int64_t stride) const {
  return problem_.page > 0 ? sequence_.page_table[j / problem_.page] * stride : 0;
}

float& GuardedSequence::key(int64_t g, int64_t j, int64_t c) {
  const AttentionProblem& p = problem_;
  const int64_t base = page_base(j, sequence_.k_page) + g * sequence_.k_head, r = p.page > 0 ? j % p.page : j;
  if (p.k == KeyLayout::kRows) return key_[base + r * p.row_stride_k() + c];
  return key_[base + r / kKeyGroup * p.d * kKeyGroup + c * kKeyGroup + r % kKeyGroup];
}

float& GuardedSequence::value(int64_t g, int64_t j, int64_t c) {
  const AttentionProblem& p = problem_;
  const int64_t base = page_base(j, sequence_.v_page) + g * sequence_.v_head, r = p.page > 0 ? j % p.page : j;
  return value_[base + r * p.row_stride_v() + c];
}

void GuardedSequence::make_keys_and_values() {
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
      for (int64_t c = 0; c < p.d; ++c) key(g, j, c) = values_.next();
      // V that a mask hides must be finite.
      for (int64_t c = 0; c < p.value_dim(); ++c)
        value(g, j, c) = p.mask == MaskKind::kNone ? values_.next() : uniform();
    }
}

void GuardedSequence::make_mask() {
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

void GuardedSequence::fill_mask_row(int64_t h, int64_t i, const Visible& visible) {
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

void GuardedSequence::poison_a_key() {
  if (seen_.begin >= seen_.end) return;
  const int64_t g = below(problem_.kv_heads), j = seen_.begin + below(seen_.end - seen_.begin);
  key(g, j, below(problem_.d)) = kNan;
  if (problem_.mask != MaskKind::kNone) return;  // V that a mask hides must be finite
  for (int64_t c = 0; c < problem_.value_dim(); ++c) value(g, j, c) = kNan;
}

std::vector<const GuardedBuffer*> GuardedSequence::memory() const {
  std::vector<const GuardedBuffer*> all;
  for (const Buffer* buffer :
       {&query_buffer_, &key_buffer_, &value_buffer_, &out_buffer_, &mask_buffer_, &lse_buffer_, &table_buffer_})
    if (*buffer) all.push_back(&**buffer);
  return all;
}

void GuardedSequence::reset() {
  out_buffer_->poison();
  if (lse_buffer_) lse_buffer_->poison();
}

GuardedSequence::Expected GuardedSequence::expected(std::string_view numerics) const {
  const auto elements = [](const Buffer& b) { return b ? static_cast<size_t>(b->size()) / 4 : 0; };
  Expected want{std::vector<float>(elements(out_buffer_), kNan), std::vector<float>(elements(lse_buffer_), kNan)};
  Sequence sequence = sequence_;
  sequence.out = want.out.data();
  sequence.lse = problem_.lse ? want.lse.data() : nullptr;
  class_f32(problem_, sequence, numerics);
  return want;
}

Comparison GuardedSequence::compare(const Expected& want) const {
  Sequence expected = sequence_;
  expected.out = const_cast<float*>(want.out.data());
  expected.lse = problem_.lse ? const_cast<float*>(want.lse.data()) : nullptr;
  Comparison comparison = compare_bits(problem_, sequence_, expected);
  const bool written = !same(out_buffer_, want.out) || (lse_buffer_ && !same(lse_buffer_, want.lse)) ||
                       !out_buffer_->slack_intact() || (lse_buffer_ && !lse_buffer_->slack_intact());
  if (comparison.ok() && written) {
    ++comparison.mismatches;
    comparison.text = "memory around out or lse was written though it is padding";
  }
  return comparison;
}

}  // namespace hone::attention
