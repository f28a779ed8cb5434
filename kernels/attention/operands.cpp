// Strides of dense operands, and the check of one sequence. Overlap is judged on intervals from first to last element:
// interleaving what is written with what is read is refused too, because a vector kernel makes no promise about the
// order of its loads and stores.
#include "kernels/attention/operands.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <optional>

namespace hone::attention {
namespace {

__extension__ typedef __int128 int128;

int64_t groups_of(int64_t keys) { return keys / kKeyGroup + (keys % kKeyGroup != 0); }

// Bytes [begin, end) from the start of an operand; empty when begin >= end.
struct Interval {
  int128 begin = 0, end = 0;
};

// Rows [begin, end) of `heads` heads.
Interval rows_interval(int64_t heads, int64_t head, int64_t begin, int64_t end, int64_t row, int64_t width,
                       int64_t bytes) {
  if (heads < 1 || begin >= end) return {};
  const int128 first = static_cast<int128>(begin) * row;
  const int128 last = static_cast<int128>(heads - 1) * head + static_cast<int128>(end - 1) * row + width;
  return {first * bytes, last * bytes};
}

bool representable(const Interval& i) { return i.end <= std::numeric_limits<int64_t>::max(); }

// A piece of memory that a call touches.
struct Piece {
  const char* name;
  const void* data;
  Interval bytes;

  bool overlaps(const Piece& other) const {
    if (bytes.begin >= bytes.end || other.bytes.begin >= other.bytes.end) return false;
    const auto a = static_cast<int128>(reinterpret_cast<uintptr_t>(data));
    const auto b = static_cast<int128>(reinterpret_cast<uintptr_t>(other.data));
    return a + bytes.begin < b + other.bytes.end && b + other.bytes.begin < a + bytes.end;
  }
};

class Checker {
 public:
  Checker(const AttentionProblem& p, const Sequence& s) : p_(p), s_(s) {}

  Status run() {
    HONE_RETURN_IF_ERROR(numbers());
    if (s_.q == 0) return {};
    seen_ = {visible_keys(p_, s_.q, s_.kv, 0).begin, visible_keys(p_, s_.q, s_.kv, s_.q - 1).end};
    HONE_RETURN_IF_ERROR(needed());
    HONE_RETURN_IF_ERROR(heads_apart());
    const Piece out{"out", s_.out,
                    rows_interval(p_.heads, s_.o_head, 0, s_.q, p_.row_stride_o(), p_.value_dim(), kF32)};
    const Piece lse{"lse", s_.lse, p_.lse ? rows_interval(p_.heads, s_.lse_head, 0, s_.q, 1, 1, kF32) : Interval{}};
    for (const Piece* written : {&out, &lse}) {
      if (!representable(written->bytes)) return too_far(written->name);
    }
    if (out.overlaps(lse)) return overlap(out, lse);
    writes_[0] = out, writes_[1] = lse;
    return reads();
  }

 private:
  static constexpr int64_t kF32 = sizeof(float);

  static Status too_far(std::string_view name) {
    return invalid_argument(fmt::format("the strides of {} reach beyond 63 bits", name));
  }
  static Status overlap(const Piece& written, const Piece& other) {
    return invalid_argument(fmt::format("{} overlaps {} ({} bytes at {}); give {} memory of its own", written.name,
                                        other.name, static_cast<int64_t>(other.bytes.end - other.bytes.begin),
                                        other.data, written.name));
  }

  Status numbers() const {
    const std::pair<const char*, int64_t> values[] = {{"q", s_.q},
                                                      {"kv", s_.kv},
                                                      {"q_head", s_.q_head},
                                                      {"k_head", s_.k_head},
                                                      {"v_head", s_.v_head},
                                                      {"o_head", s_.o_head},
                                                      {"k_page", s_.k_page},
                                                      {"v_page", s_.v_page},
                                                      {"pages", s_.pages},
                                                      {"lse_head", s_.lse_head},
                                                      {"mask_head", s_.mask_head},
                                                      {"mask_row", s_.mask_row}};
    for (const auto& [name, value] : values)
      if (value < 0) return invalid_argument(fmt::format("{}={} is negative", name, value));
    return {};
  }

  Status needed() const {
    const bool keys = seen_.begin < seen_.end;
    const struct {
      const char* name;
      const void* data;
      bool read;
    } operands[] = {{"query", s_.query, true},
                    {"key", s_.key, keys},
                    {"value", s_.value, keys},
                    {"page_table", s_.page_table, keys && p_.page > 0},
                    {"mask", s_.mask, keys && p_.mask != MaskKind::kNone},
                    {"out", s_.out, true},
                    {"lse", s_.lse, p_.lse}};
    for (const auto& o : operands)
      if (o.read && o.data == nullptr)
        return invalid_argument(fmt::format("{} is null, but the problem needs it: give its memory", o.name));
    if (p_.k == KeyLayout::kBlocked && p_.page == 0 && s_.key_groups < groups_of(s_.kv)) {
      return invalid_argument(
          fmt::format("key_groups={} is less than the {} groups of {} keys", s_.key_groups, groups_of(s_.kv), s_.kv));
    }
    return {};
  }

  // Heads of what is written lie one after the other, or side by side within the rows (as in [s, h, d]).
  Status heads_apart() const {
    if (p_.heads == 1) return {};
    const auto apart = [this](int64_t head, int64_t row, int64_t width) {
      const bool after = head >= static_cast<int128>(s_.q - 1) * row + width;
      return after || (head >= width && static_cast<int128>(p_.heads - 1) * head + width <= row);
    };
    if (!apart(s_.o_head, p_.row_stride_o(), p_.value_dim())) {
      return invalid_argument(fmt::format("o_head={} makes the heads of out overlap (q={}, rows of {})", s_.o_head,
                                          s_.q, p_.row_stride_o()));
    }
    if (p_.lse && !apart(s_.lse_head, 1, 1)) {
      return invalid_argument(fmt::format("lse_head={} makes the heads of lse overlap (q={})", s_.lse_head, s_.q));
    }
    return {};
  }

  Status read(const Piece& piece) const {
    if (!representable(piece.bytes)) return too_far(piece.name);
    for (const Piece& written : writes_)
      if (written.overlaps(piece)) return overlap(written, piece);
    return {};
  }

  Status reads() const {
    const int64_t begin = seen_.begin, end = seen_.end;
    HONE_RETURN_IF_ERROR(
        read({"query", s_.query, rows_interval(p_.heads, s_.q_head, 0, s_.q, p_.row_stride_q(), p_.d, kF32)}));
    if (begin >= end) return {};
    if (p_.mask != MaskKind::kNone) {
      const int64_t bytes = p_.mask == MaskKind::kAdditive ? kF32 : 1;
      HONE_RETURN_IF_ERROR(
          read({"mask", s_.mask, rows_interval(p_.heads, s_.mask_head, 0, s_.q, s_.mask_row, s_.kv, bytes)}));
    }
    if (p_.page > 0) return pages(begin, end);
    HONE_RETURN_IF_ERROR(read({"key", s_.key, key_rows(begin, end)}));
    return read({"value", s_.value, value_rows(begin, end)});
  }

  // Keys [begin, end) of a contiguous cache, or of one page. Groups are read whole.
  Interval key_rows(int64_t begin, int64_t end) const {
    if (p_.k == KeyLayout::kRows)
      return rows_interval(p_.kv_heads, s_.k_head, begin, end, p_.row_stride_k(), p_.d, kF32);
    const int64_t group = p_.d * kKeyGroup;
    return rows_interval(p_.kv_heads, s_.k_head, begin / kKeyGroup, groups_of(end), group, group, kF32);
  }
  Interval value_rows(int64_t begin, int64_t end) const {
    return rows_interval(p_.kv_heads, s_.v_head, begin, end, p_.row_stride_v(), p_.value_dim(), kF32);
  }

  Status pages(int64_t begin, int64_t end) const {
    HONE_RETURN_IF_ERROR(read({"page_table", s_.page_table,
                               rows_interval(1, 0, begin / p_.page, (end - 1) / p_.page + 1, 1, 1, sizeof(int32_t))}));
    for (int64_t entry = begin / p_.page; entry * p_.page < end; ++entry) {
      const int64_t page = s_.page_table[entry];
      if (page < 0 || page >= s_.pages) {
        return invalid_argument(
            fmt::format("page_table[{}]={} is no page of the pool (pages={})", entry, page, s_.pages));
      }
      const int64_t first = std::max<int64_t>(begin - entry * p_.page, 0);
      const int64_t last = std::min<int64_t>(end - entry * p_.page, p_.page);
      const auto shifted = [page](Interval i, int64_t stride) {
        const int128 by = static_cast<int128>(page) * stride * kF32;
        return Interval{i.begin + by, i.end + by};
      };
      HONE_RETURN_IF_ERROR(read({"key", s_.key, shifted(key_rows(first, last), s_.k_page)}));
      HONE_RETURN_IF_ERROR(read({"value", s_.value, shifted(value_rows(first, last), s_.v_page)}));
    }
    return {};
  }

  const AttentionProblem& p_;
  const Sequence& s_;
  Visible seen_;  // keys that some row sees
  Piece writes_[2] = {};
};

}  // namespace

void set_dense_strides(const AttentionProblem& p, Sequence& s, int64_t capacity) {
  const bool paged = p.page > 0, blocked = p.k == KeyLayout::kBlocked;
  const int64_t keys = paged ? p.page : std::max(capacity, s.kv);
  s.key_groups = blocked && !paged ? groups_of(keys) : 0;
  s.q_head = s.q * p.row_stride_q();
  s.k_head = (blocked ? groups_of(keys) * kKeyGroup : keys) * p.row_stride_k();
  s.v_head = keys * p.row_stride_v();
  s.o_head = s.q * p.row_stride_o();
  s.k_page = paged ? p.kv_heads * s.k_head : 0;
  s.v_page = paged ? p.kv_heads * s.v_head : 0;
  s.mask_head = 0;
  s.mask_row = s.kv;
  s.lse_head = s.q;
}

Status check_sequence(const AttentionProblem& problem, const Sequence& sequence) {
  return Checker(problem, sequence).run();
}

}  // namespace hone::attention
