// See kv_cache_internal.h. Appending writes every element of the rows it adds and no other, so the memory needs no
// clearing, and what truncating leaves behind is never read.
#include "engine/kv_cache_internal.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <numeric>

#include "engine/base/guarded.h"
#include "engine/base/math.h"
#include "kernels/op/region.h"

namespace hone {
namespace {

constexpr int64_t kGroup = attention::kKeyGroup;
constexpr int64_t kFirstRows = 256;       // of a sequence without pages, before it grows
constexpr int64_t kMost = INT64_MAX / 8;  // elements that have a size in bytes

Status too_large() { return invalid_argument("too large: the bytes of the cache do not fit 63 bits"); }

Result<int64_t> product(std::initializer_list<int64_t> factors) {
  int64_t all = 1;
  for (int64_t f : factors)
    if (f < 0 || __builtin_mul_overflow(all, f, &all) || all > kMost) return too_large();
  return all;
}

// `rows` elements of one head lie at most kMost from its first, see allocate().
Status check_reach(const char* name, int64_t heads, int64_t head, int64_t rows) {
  int64_t last = 0;
  if (!__builtin_mul_overflow(heads - 1, head, &last) && last <= kMost - rows) return {};
  return invalid_argument(fmt::format("the strides of {} reach beyond 63 bits", name));
}

void put_rows(const float* from, int64_t row, int64_t dim, int64_t rows, float* to) {
  for (int64_t r = 0; r < rows; ++r)
    std::memcpy(to + r * dim, from + r * row, static_cast<size_t>(dim) * sizeof(float));
}

// Rows of K from position `at` on, 16 side by side.
void put_blocked(const float* from, int64_t row, int64_t dim, int64_t rows, float* head, int64_t at) {
  for (const int64_t end = at + rows; at < end;) {
    const int64_t first = at % kGroup, count = std::min(kGroup - first, end - at);
    float* const group = head + (at - first) * dim + first;
    for (int64_t p = 0; p < dim; ++p)
      for (int64_t r = 0; r < count; ++r) group[p * kGroup + r] = from[r * row + p];
    from += count * row;
    at += count;
  }
}

}  // namespace

// ---- making one ----

Result<KvCache> KvCache::Impl::create(std::shared_ptr<Engine::State> state, const AttentionForm& form,
                                      const KvCacheSpec& spec) {
  if (spec.sequences < 1) return invalid_argument(fmt::format("sequences={} must be at least 1", spec.sequences));
  if (spec.capacity < 1) return invalid_argument(fmt::format("capacity={} must be at least 1", spec.capacity));
  if (spec.pages < 0 || spec.pages > INT32_MAX)
    return invalid_argument(fmt::format("pages={} must be from 0 to {}", spec.pages, INT32_MAX));
  if (spec.pages > 0 && form.problem.page == 0)
    return invalid_argument(fmt::format("pages={}, but AttentionSpec::page is 0", spec.pages));
  std::shared_ptr<Impl> impl(new Impl(std::move(state), form, spec));
  HONE_RETURN_IF_ERROR(impl->allocate());
  return KvCache(std::move(impl));
}

KvCache::Impl::Impl(std::shared_ptr<Engine::State> state, const AttentionForm& form, const KvCacheSpec& spec)
    : state_(std::move(state)), form_(form), spec_(spec) {}

Status KvCache::Impl::allocate() {
  const attention::AttentionProblem& p = form_.problem;
  const int64_t page = p.page, table = paged() ? (spec_.capacity - 1) / page + 1 : 0;
  if (spec_.capacity > kMost - kGroup) return too_large();  // the last group
  for (int64_t row : {key_row(), value_row()})              // of what may be appended at once
    HONE_RETURN_IF_ERROR(product({spec_.capacity, p.kv_heads, row}).status());
  if (paged()) {
    HONE_ASSIGN_OR_RETURN(const int64_t full, product({spec_.sequences, table}));
    if (spec_.pages == 0 && full > INT32_MAX)
      return invalid_argument(
          fmt::format("too large: {} pages for all sequences to be full, the most is {}", full, INT32_MAX));
    spec_.pages = spec_.pages > 0 ? std::min(spec_.pages, full) : full;
    HONE_ASSIGN_OR_RETURN(pool_, make_room(page, spec_.pages));
    free_.resize(index(spec_.pages));
    std::iota(free_.rbegin(), free_.rend(), 0);  // page 0 is taken first
  } else {
    // Memory is taken as they grow; a size that nobody could have is refused now.
    HONE_RETURN_IF_ERROR(measure(spec_.capacity, spec_.sequences).status());
  }
  sequences_.resize(index(spec_.sequences));
  for (Cached& c : sequences_) {
    c.table.resize(index(table));
    HONE_RETURN_IF_ERROR(grow(c, std::min(kFirstRows, spec_.capacity)));
  }
  return {};
}

Result<KvCache::Impl::Room> KvCache::Impl::measure(int64_t rows, int64_t blocks) const {
  const attention::AttentionProblem& p = form_.problem;
  Room room{.rows = rows};
  HONE_ASSIGN_OR_RETURN(room.key_head, product({blocked() ? round_up(rows, kGroup) : rows, p.d}));
  HONE_ASSIGN_OR_RETURN(room.value_head, product({rows, p.value_dim()}));
  HONE_ASSIGN_OR_RETURN(room.key_block, product({room.key_head, p.kv_heads}));
  HONE_ASSIGN_OR_RETURN(room.value_block, product({room.value_head, p.kv_heads}));
  HONE_RETURN_IF_ERROR(product({room.key_block, blocks}).status());
  HONE_RETURN_IF_ERROR(product({room.value_block, blocks}).status());
  return room;
}

Result<KvCache::Impl::Room> KvCache::Impl::make_room(int64_t rows, int64_t blocks) {
  HONE_ASSIGN_OR_RETURN(Room room, measure(rows, blocks));
  HONE_ASSIGN_OR_RETURN(room.keys, AlignedBuffer::allocate_elements(room.key_block * blocks, sizeof(float)));
  HONE_ASSIGN_OR_RETURN(room.values, AlignedBuffer::allocate_elements(room.value_block * blocks, sizeof(float)));
  bytes_ += room.keys.size() + room.values.size();
  return room;
}

// Nobody reads a sequence while it is appended to, so its keys may move.
Status KvCache::Impl::grow(Cached& cached, int64_t length) {
  if (paged() || length <= cached.own.rows) return {};
  const int64_t wanted = std::max(round_up(length, kGroup), 2 * cached.own.rows);
  HONE_ASSIGN_OR_RETURN(Room room, make_room(std::min(wanted, spec_.capacity), 1));
  const attention::AttentionProblem& p = form_.problem;
  const auto copy = [](const AlignedBuffer& from, int64_t from_at, AlignedBuffer& to, int64_t to_at, int64_t count) {
    if (count > 0)
      std::memcpy(to.as<float>().data() + to_at, from.as<float>().data() + from_at, index(count) * sizeof(float));
  };
  const int64_t key_rows = blocked() ? round_up(cached.length, kGroup) : cached.length;
  for (int64_t head = 0; head < p.kv_heads; ++head) {
    copy(cached.own.keys, head * cached.own.key_head, room.keys, head * room.key_head, key_rows * p.d);
    copy(cached.own.values, head * cached.own.value_head, room.values, head * room.value_head,
         cached.length * p.value_dim());
  }
  bytes_ -= cached.own.keys.size() + cached.own.values.size();
  cached.own = std::move(room);
  return {};
}

// ---- what attention reads ----

Status KvCache::Impl::check_fits(const attention::AttentionProblem& problem) const {
  const attention::AttentionProblem& p = form_.problem;
  const auto shape = [](const attention::AttentionProblem& of) {
    return fmt::format("hkv={}, d={}, dv={}, page={}, {} keys", of.kv_heads, of.d, of.value_dim(), of.page,
                       of.k == attention::KeyLayout::kBlocked ? "blocked" : "row-wise");
  };
  if (p.kv_heads == problem.kv_heads && p.d == problem.d && p.value_dim() == problem.value_dim() &&
      p.page == problem.page && p.k == problem.k)
    return {};
  return invalid_argument(fmt::format("the cache has {}; this attention needs {}", shape(p), shape(problem)));
}

Status KvCache::Impl::check_sequence(int64_t sequence) const {
  if (holds(sequence)) return {};
  return invalid_argument(fmt::format("the cache has sequences 0 to {}, not {}", spec_.sequences - 1, sequence));
}

Result<int64_t> KvCache::Impl::keys(int64_t sequence, int64_t wanted) const {
  HONE_RETURN_IF_ERROR(check_sequence(sequence));
  const int64_t there = sequences_[index(sequence)].length;
  if (wanted < 0 || wanted > there)
    return invalid_argument(fmt::format("kv={}: sequence {} of the cache has {} keys", wanted, sequence, there));
  return wanted == 0 ? there : wanted;
}

void KvCache::Impl::set_operands(int64_t sequence, attention::Sequence& operands) const {
  const Cached& cached = sequences_[index(sequence)];
  const Room& room = room_of(cached);
  operands.key = room.keys.as<float>().data();
  operands.value = room.values.as<float>().data();
  operands.k_head = room.key_head;
  operands.v_head = room.value_head;
  if (paged()) {
    operands.page_table = cached.table.data();
    operands.pages = spec_.pages;
    operands.k_page = room.key_block;
    operands.v_page = room.value_block;
  } else if (blocked()) {
    operands.key_groups = ceil_div(room.rows, kGroup);
  }
}

// ---- changing it ----

struct KvCache::Impl::Append {
  const Impl& cache;
  const Cached& cached;
  const Room& room;
  const KvRows& rows;
  int64_t key_head, value_head;

  static void run(void* context, int64_t begin, int64_t end) {
    const auto& append = *static_cast<const Append*>(context);
    for (int64_t head = begin; head < end; ++head) append.cache.append_head(append, head);
  }
};

Status KvCache::Impl::check_rows(const Cached& cached, const KvRows& rows) const {
  if (rows.tokens < 0) return invalid_argument(fmt::format("tokens={} is negative", rows.tokens));
  if (rows.tokens == 0) return {};
  if (rows.key == nullptr || rows.value == nullptr)
    return invalid_argument(fmt::format("{} is null", rows.key == nullptr ? "key" : "value"));
  if (rows.k_head < -1 || rows.v_head < -1) return invalid_argument("k_head or v_head is negative");
  if (rows.tokens > spec_.capacity - cached.length)
    return resource_exhausted(fmt::format("{} tokens do not fit: the sequence has {} of {} keys", rows.tokens,
                                          cached.length, spec_.capacity));
  const int64_t heads = form_.problem.kv_heads;
  HONE_RETURN_IF_ERROR(check_reach("key", heads, std::max<int64_t>(rows.k_head, 0), rows.tokens * key_row()));
  return check_reach("value", heads, std::max<int64_t>(rows.v_head, 0), rows.tokens * value_row());
}

Status KvCache::Impl::append(int64_t sequence, const KvRows& rows) {
  HONE_RETURN_IF_ERROR(check_sequence(sequence));
  Cached& cached = sequences_[index(sequence)];
  HONE_RETURN_IF_ERROR(check_rows(cached, rows));
  if (rows.tokens == 0) return {};
  const attention::AttentionProblem& p = form_.problem;
  const int64_t length = cached.length + rows.tokens;
  // Each element is read and written once: by the measure of region_work, 20 multiply-adds for each of the two.
  const double moved = 2.0 * static_cast<double>(rows.tokens * p.kv_heads) *
                       (static_cast<double>(p.d) + static_cast<double>(p.value_dim()));
  runtime::Schedule* on = nullptr;
  if (op::region_pays(20 * moved, state_->target.min_work)) {
    HONE_ASSIGN_OR_RETURN(on, state_->schedules.get(state_->target.threads));
  }
  HONE_RETURN_IF_ERROR(grow(cached, length));
  HONE_RETURN_IF_ERROR(take_pages(cached, length));
  const auto head_stride = [&](int64_t given, int64_t row, int64_t dim) {
    return given >= 0 ? given : form_.head_stride(rows.tokens, row, dim);
  };
  Append append{.cache = *this,
                .cached = cached,
                .room = room_of(cached),
                .rows = rows,
                .key_head = head_stride(rows.k_head, key_row(), p.d),
                .value_head = head_stride(rows.v_head, value_row(), p.value_dim())};
  run_tasks(on, {.op = "kv_append", .node = "kv_cache"}, p.kv_heads, {Append::run, &append});
  cached.length = length;
  return {};
}

// Rows of one head, block by block (all of them are one block where there are no pages).
void KvCache::Impl::append_head(const Append& append, int64_t head) const {
  const attention::AttentionProblem& p = form_.problem;
  const int64_t d = p.d, dv = p.value_dim();
  const float* key = append.rows.key + head * append.key_head;
  const float* value = append.rows.value + head * append.value_head;
  int64_t position = append.cached.length;
  for (const int64_t end = position + append.rows.tokens; position < end;) {
    const Room& room = append.room;
    const int64_t block = paged() ? append.cached.table[index(position / p.page)] : 0;
    const int64_t at = paged() ? position % p.page : position;
    const int64_t count = std::min(end - position, room.rows - at);
    float* const keys = room.keys.as<float>().data() + block * room.key_block + head * room.key_head;
    float* const values = room.values.as<float>().data() + block * room.value_block + head * room.value_head;
    if (blocked()) {
      put_blocked(key, key_row(), d, count, keys, at);
    } else {
      put_rows(key, key_row(), d, count, keys + at * d);
    }
    put_rows(value, value_row(), dv, count, values + at * dv);
    key += count * key_row();
    value += count * value_row();
    position += count;
  }
}

Status KvCache::Impl::truncate(int64_t sequence, int64_t length) {
  HONE_RETURN_IF_ERROR(check_sequence(sequence));
  Cached& cached = sequences_[index(sequence)];
  if (length < 0 || length > cached.length)
    return invalid_argument(fmt::format("length={}: the sequence has {} keys", length, cached.length));
  cached.length = length;
  give_pages(cached, length);
  return {};
}

// All or none.
Status KvCache::Impl::take_pages(Cached& cached, int64_t length) {
  if (!paged()) return {};
  const int64_t needed = ceil_div(length, form_.problem.page) - cached.pages;
  const std::lock_guard lock(mutex_);
  const auto left = static_cast<int64_t>(free_.size());
  if (needed > left)
    return resource_exhausted(fmt::format("{} pages are needed, {} of {} are free", needed, left, spec_.pages));
  for (int64_t i = 0; i < needed; ++i) {
    cached.table[index(cached.pages++)] = free_.back();
    free_.pop_back();
  }
  return {};
}

void KvCache::Impl::give_pages(Cached& cached, int64_t length) {
  if (!paged()) return;
  const std::lock_guard lock(mutex_);
  while (cached.pages > ceil_div(length, form_.problem.page)) free_.push_back(cached.table[index(--cached.pages)]);
}

int64_t KvCache::Impl::free_pages() const {
  const std::lock_guard lock(mutex_);
  return static_cast<int64_t>(free_.size());
}

// ---- the public face ----

Status KvCache::append(int64_t sequence, const KvRows& rows) {
  return guarded([&] { return impl_->append(sequence, rows); });
}
Status KvCache::truncate(int64_t sequence, int64_t length) {
  return guarded([&] { return impl_->truncate(sequence, length); });
}
int64_t KvCache::length(int64_t sequence) const { return impl_->length(sequence); }
int64_t KvCache::bytes() const { return impl_->bytes(); }
int64_t KvCache::free_pages() const { return impl_->free_pages(); }
KeyLayout KvCache::key_layout() const { return impl_->blocked() ? KeyLayout::kBlocked : KeyLayout::kRows; }

}  // namespace hone
