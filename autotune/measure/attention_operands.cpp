// See attention_operands.h.
#include "autotune/measure/attention_operands.h"

#include <algorithm>
#include <bit>
#include <limits>
#include <numeric>

#include "autotune/measure/values_internal.h"
#include "engine/base/math.h"

namespace hone::autotune {
namespace {

using attention::AttentionProblem;
using attention::KeyLayout;
using attention::kKeyGroup;
using attention::MaskKind;
using attention::Sequence;

enum Operand : uint64_t { kQuery = 1, kKey, kValue, kMask, kTable };

// Heads side by side within the rows where there is room, else one after another.
int64_t head_stride(int64_t heads, int64_t rows, int64_t row_stride, int64_t width) {
  return heads > 1 && row_stride >= heads * width ? width : rows * row_stride;
}

// From the first element to one past the last.
int64_t span_of(int64_t heads, int64_t head, int64_t rows, int64_t row, int64_t width) {
  return heads == 0 || rows == 0 ? 0 : (heads - 1) * head + (rows - 1) * row + width;
}

}  // namespace

Result<AttentionOperands> AttentionOperands::create(const AttentionProblem& problem, uint64_t seed, Where where) {
  HONE_RETURN_IF_ERROR(attention::validate(problem));
  AttentionOperands operands(problem, seed, where);
  operands.set_strides();
  HONE_RETURN_IF_ERROR(operands.allocate());
  operands.fill_query();
  operands.fill_pages();
  operands.fill_cache();
  operands.fill_mask();
  operands.reset_output();
  return operands;
}

uint64_t AttentionOperands::random(uint64_t operand, uint64_t at) const { return mix(mix(seed_ * 8 + operand) + at); }

void AttentionOperands::set_strides() {
  const int64_t dv = p_.value_dim();
  const bool blocked = p_.k == KeyLayout::kBlocked;
  strides_.q = p_.q, strides_.kv = p_.kv;
  attention::set_dense_strides(p_, strides_);
  strides_.q_head = head_stride(p_.heads, p_.q, p_.row_stride_q(), p_.d);
  strides_.o_head = head_stride(p_.heads, p_.q, p_.row_stride_o(), dv);
  const int64_t keys = p_.page > 0 ? p_.page : p_.kv;  // of a head that lie together
  if (!blocked) strides_.k_head = head_stride(p_.kv_heads, keys, p_.row_stride_k(), p_.d);
  strides_.v_head = head_stride(p_.kv_heads, keys, p_.row_stride_v(), dv);
  const int64_t key_rows = blocked ? round_up(keys, kKeyGroup) : keys;
  key_item_ = span_of(p_.kv_heads, strides_.k_head, key_rows, blocked ? p_.d : p_.row_stride_k(), p_.d);
  value_item_ = span_of(p_.kv_heads, strides_.v_head, keys, p_.row_stride_v(), dv);
  query_item_ = span_of(p_.heads, strides_.q_head, p_.q, p_.row_stride_q(), p_.d);
  out_item_ = span_of(p_.heads, strides_.o_head, p_.q, p_.row_stride_o(), dv);
  mask_item_ = p_.mask == MaskKind::kNone ? 0 : p_.q * p_.kv;
  lse_item_ = p_.lse ? p_.heads * p_.q : 0;
  if (p_.page > 0) {
    pages_ = ceil_div(p_.kv, p_.page);
    strides_.pages = p_.batch * pages_;
    strides_.k_page = key_item_, strides_.v_page = value_item_;
  }
}

Status AttentionOperands::make(Memory& memory, int64_t elements, int64_t bytes) {
  if (where_ == Where::kGuarded) {
    HONE_ASSIGN_OR_RETURN(GuardedBuffer guarded, GuardedBuffer::create(elements * bytes));
    memory.guarded.push_back(std::move(guarded));
    return {};
  }
  HONE_ASSIGN_OR_RETURN(memory.real, AlignedBuffer::allocate_elements(elements, bytes, Touch::kNow));
  poison(memory.floats());
  return {};
}

Status AttentionOperands::allocate() {
  constexpr int64_t kF32 = sizeof(float);
  const int64_t caches = p_.page > 0 ? p_.batch * pages_ : p_.batch;
  HONE_RETURN_IF_ERROR(make(query_, p_.batch * query_item_, kF32));
  HONE_RETURN_IF_ERROR(make(key_, caches * key_item_, kF32));
  HONE_RETURN_IF_ERROR(make(value_, caches * value_item_, kF32));
  HONE_RETURN_IF_ERROR(make(out_, p_.batch * out_item_, kF32));
  HONE_RETURN_IF_ERROR(make(mask_, p_.batch * mask_item_, p_.mask == MaskKind::kBoolean ? 1 : kF32));
  HONE_RETURN_IF_ERROR(make(lse_, p_.batch * lse_item_, kF32));
  HONE_RETURN_IF_ERROR(make(table_, p_.batch * pages_, sizeof(int32_t)));
  for (int64_t item = 0; item < p_.batch; ++item) {
    Sequence s = strides_;
    const int64_t cache = p_.page > 0 ? 0 : item;
    s.query = query_.floats().data() + item * query_item_;
    s.key = key_.floats().data() + cache * key_item_;
    s.value = value_.floats().data() + cache * value_item_;
    s.out = out_.floats().data() + item * out_item_;
    if (p_.mask == MaskKind::kAdditive) s.mask = mask_.floats().data() + item * mask_item_;
    if (p_.mask == MaskKind::kBoolean) s.mask = mask_.data() + item * mask_item_;
    if (p_.lse) s.lse = lse_.floats().data() + item * lse_item_;
    if (p_.page > 0) s.page_table = reinterpret_cast<const int32_t*>(table_.data()) + item * pages_;
    sequences_.push_back(s);
  }
  return {};
}

void AttentionOperands::fill_query() {
  for (int64_t item = 0; item < p_.batch; ++item)
    for (int64_t h = 0; h < p_.heads; ++h)
      for (int64_t i = 0; i < p_.q; ++i) {
        const int64_t at = item * query_item_ + h * strides_.q_head + i * p_.row_stride_q();
        fill_row(query_.floats().subspan(static_cast<size_t>(at), static_cast<size_t>(p_.d)),
                 random(kQuery, static_cast<uint64_t>(at)));
      }
}

// A pool whose pages lie in no order.
void AttentionOperands::fill_pages() {
  if (p_.page == 0) return;
  const std::span<int32_t> table(reinterpret_cast<int32_t*>(table_.data()), static_cast<size_t>(strides_.pages));
  std::iota(table.begin(), table.end(), 0);
  for (size_t i = table.size(); i > 1; --i) std::swap(table[i - 1], table[random(kTable, i) % i]);
}

void AttentionOperands::fill_key(float* head, int64_t key, uint64_t value_of) {
  const auto d = static_cast<size_t>(p_.d);
  if (p_.k == KeyLayout::kRows) return fill_row({head + key * p_.row_stride_k(), d}, value_of);
  float* const group = head + key / kKeyGroup * p_.d * kKeyGroup + key % kKeyGroup;
  for (int64_t c = 0; c < p_.d; ++c)
    group[c * kKeyGroup] = unit(static_cast<uint32_t>(mix(value_of + static_cast<uint64_t>(c))));
}

void AttentionOperands::fill_cache() {
  for (const Sequence& s : sequences_) {
    for (int64_t g = 0; g < p_.kv_heads; ++g) {
      for (int64_t j = 0; j < p_.kv; ++j) {
        const int64_t page = p_.page > 0 ? s.page_table[j / p_.page] : 0, within = p_.page > 0 ? j % p_.page : j;
        const int64_t key_at = (s.key - key_.floats().data()) + page * s.k_page + g * s.k_head;
        const int64_t value_at =
            (s.value - value_.floats().data()) + page * s.v_page + g * s.v_head + within * p_.row_stride_v();
        fill_key(key_.floats().data() + key_at, within, random(kKey, static_cast<uint64_t>(key_at + within * p_.d)));
        fill_row(value_.floats().subspan(static_cast<size_t>(value_at), static_cast<size_t>(p_.value_dim())),
                 random(kValue, static_cast<uint64_t>(value_at)));
      }
    }
  }
}

void AttentionOperands::fill_mask() {
  constexpr uint64_t kSome = 16;  // one key in so many is hidden, and as many nearly so
  const auto count = static_cast<size_t>(p_.batch * mask_item_);
  for (size_t at = 0; at < count; ++at) {
    const uint64_t draw = random(kMask, at) % kSome;
    if (p_.mask == MaskKind::kBoolean) mask_.data()[at] = std::byte(draw == 0 ? 0 : 1);
    if (p_.mask == MaskKind::kAdditive)
      mask_.floats()[at] = draw == 0 ? -std::numeric_limits<float>::infinity() : draw == 1 ? -1e9F : 0.0F;
  }
}

void AttentionOperands::reset_output() const {
  poison(out_.floats());
  poison(lse_.floats());
}

Status AttentionOperands::check_gaps() const {
  for (const Memory* memory : {&out_, &lse_})
    if (!memory->guarded.empty() && !memory->guarded.front().slack_intact())
      return data_loss("the kernel wrote before the first element of an output");
  const std::span<const float> out = out_.floats();
  std::vector<bool> element(out.size());
  for (const Sequence& s : sequences_)
    for (int64_t h = 0; h < p_.heads; ++h)
      for (int64_t i = 0; i < p_.q; ++i)
        std::fill_n(element.begin() + ((s.out - out.data()) + h * s.o_head + i * p_.row_stride_o()), p_.value_dim(),
                    true);
  for (size_t at = 0; at < out.size(); ++at)
    if (!element[at] && std::bit_cast<uint32_t>(out[at]) != kPoison)
      return data_loss("element " + std::to_string(at) + " of out lies between rows and was written");
  return {};
}

std::vector<std::span<const std::byte>> AttentionOperands::ranges() const {
  std::vector<std::span<const std::byte>> all;
  for (const Memory* memory : {&query_, &key_, &value_, &out_, &mask_, &lse_, &table_})
    all.emplace_back(memory->data(), static_cast<size_t>(memory->size()));
  return all;
}

bool has_row(const AttentionProblem& problem, const Sequence& s, int64_t row) {
  return problem.causal || problem.window == 0 || row == s.q - 1;
}

AttentionRow row_of(const AttentionProblem& problem, const Sequence& s, int64_t head, int64_t row) {
  AttentionRow one{problem, s};
  one.problem.batch = one.problem.heads = one.problem.kv_heads = one.problem.q = 1;
  one.sequence.q = 1;
  // The last row sits at the last key: with causal the keys end where this row does.
  one.sequence.kv = problem.causal ? std::clamp<int64_t>(row + s.kv - s.q + 1, 0, s.kv) : s.kv;
  one.problem.kv = one.sequence.kv;
  const int64_t g = head / problem.group();
  one.sequence.query += head * s.q_head + row * problem.row_stride_q();
  one.sequence.key += g * s.k_head;
  one.sequence.value += g * s.v_head;
  one.sequence.out = one.sequence.lse = nullptr;
  const int64_t mask_at = head * s.mask_head + row * s.mask_row;
  if (problem.mask == MaskKind::kAdditive) one.sequence.mask = static_cast<const float*>(s.mask) + mask_at;
  if (problem.mask == MaskKind::kBoolean) one.sequence.mask = static_cast<const uint8_t*>(s.mask) + mask_at;
  return one;
}

}  // namespace hone::autotune
