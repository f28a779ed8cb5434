// Scores of a block: T = (scale Q) K^T, one chain of fma over the head dimension for each, keys along the lanes.
//
// Lanes are keys because a chain must run over d ascending; so K, which lies row by row, is transposed into groups of
// kKeyGroup keys, [group][d][16], which is also how a cache of KeyLayout::kBlocked lies: read where it is.
#include "kernels/attention/lower_internal.h"
#include "kernels/ir/transpose.h"

namespace hone::attention {

using ir::Access;
using ir::Affine;
using ir::Builder;
using ir::RegId;
using ir::RegRef;

// ---- K ----

// Row `key` of K (counted from the start of the sequence), from `column` on.
Access AttentionLowering::key_row(const PagedKey& key, const Affine& column) const {
  if (p_.page > 0) return {key_, {key.page, kv_head_, key.row, column}};
  return {key_, {kv_head_, key.row, column}};
}

AttentionLowering::PagedKey AttentionLowering::locate(const Affine& key) {
  if (p_.page == 0) return {0, key};
  const Affine entry = b_.let_floor_div("pe", key, p_.page);
  return {b_.let_load("page", {table_, {entry}}, pages_), key - entry * p_.page};
}

// Keys [keys.first, keys.end) of the block into groups of Kt, group g of the block into group g - to.
void AttentionLowering::transpose_keys(const Block& block, const Keys& keys, const Affine& to) {
  const Affine first = p_.window > 0              ? b_.let_floor_div("tg", keys.first, kKeyGroup)
                       : keys.first.is_constant() ? Affine(0)
                                                  : to;
  const Affine last = b_.let_floor_div("te", keys.end + (kKeyGroup - 1), kKeyGroup);
  const RegId x = b_.reg("kx", {.lanes = t_.lanes}, {t_.lanes}), y = b_.reg("ky", {.lanes = t_.lanes}, {t_.lanes});
  b_.serial("kg", first, last, 1, [&](const Affine& g) {
    auto clamped = [&] { transpose_group(block, keys, g, g - to, x, y, /*whole=*/false); };
    if (p_.page % kKeyGroup != 0) return clamped();
    auto whole = [&] { transpose_group(block, keys, g, g - to, x, y, /*whole=*/true); };
    auto ends_inside = [&] { b_.if_ge_zero(keys.end - kKeyGroup - g * kKeyGroup, whole, clamped); };
    if (p_.window == 0) return ends_inside();
    b_.if_ge_zero(g * kKeyGroup - keys.first, ends_inside, clamped);
  });
}

// A group of keys, of which not all need be there: they are gathered first, one row after the other. Transposed from
// where they lie they would need a pointer each, 16 of them, more than there are registers.
void AttentionLowering::transpose_group(const Block& block, const Keys& keys, const Affine& group, const Affine& to,
                                        RegId x, RegId y, bool whole) {
  const PagedKey base = whole ? locate((block.group + group) * kKeyGroup) : PagedKey{};
  if (!whole) gather_group(block, keys, group);
  for (int64_t u = 0; u < kKeyGroup; u += t_.lanes) {
    auto square = [&](const Affine& p, int64_t columns, const RegRef& mask) {
      for (int64_t j = 0; j < t_.lanes; ++j)
        b_.load(Builder::at(x, {j}),
                whole ? key_row({base.page, base.row + (u + j)}, p) : Access{gathered_, {u + j, p}}, mask);
      if (whole) announce_with_transposition(block, group, to, u, p, base.row + u);
      const RegId transposed = ir::emit_transpose(b_, t_.lanes, x, y);
      for (int64_t r = 0; r < columns; ++r) b_.store({keys_, {to, p + r, u}}, Builder::at(transposed, {r}));
    };
    const int64_t even = p_.d / t_.lanes * t_.lanes;
    if (even > 0) b_.serial("kp", 0, even, t_.lanes, [&](const Affine& p) { square(p, t_.lanes, {}); });
    if (even == p_.d) continue;
    const RegRef mask = Builder::at(b_.reg("kmask", {.lanes = t_.lanes, .mask = true}));
    b_.lane_mask(mask, p_.d - even);
    square(even, p_.d - even, mask);
  }
}

// In place of keys that are not to be read the nearest that is: what it scores is never looked at. A row is copied by
// straight-line code where that is short: the loop over rows is then an innermost one, whose integers are in registers.
void AttentionLowering::gather_group(const Block& block, const Keys& keys, const Affine& group) {
  constexpr int64_t kVectorsUnrolled = 16;
  const RegRef x = vector("kg");
  const int64_t whole = p_.d / t_.lanes * t_.lanes;
  RegRef mask;
  if (whole < p_.d) {
    mask = Builder::at(b_.reg("kmask", {.lanes = t_.lanes, .mask = true}));
    b_.lane_mask(mask, p_.d - whole);
  }
  const bool one_page = p_.page % kKeyGroup == 0;
  const PagedKey base = one_page ? locate((block.group + group) * kKeyGroup) : PagedKey{};
  b_.serial("kj", 0, kKeyGroup, 1, [&](const Affine& j) {
    Affine key = group * kKeyGroup + j;
    if (p_.window > 0) key = b_.let_max("kl", {keys.first, key});
    const Affine nearest = b_.let_min("kn", {key, keys.end - 1});
    const PagedKey row = one_page ? PagedKey{base.page, base.row + nearest - group * kKeyGroup}
                                  : locate(block.group * kKeyGroup + nearest);
    auto copy = [&](const Affine& c, const RegRef& some) {
      b_.load(x, key_row(row, c), some);
      b_.store({gathered_, {j, c}}, x, some);
    };
    auto all = [&](const Affine& c) { copy(c, {}); };
    if (whole / t_.lanes <= kVectorsUnrolled) {
      b_.unroll("c", 0, whole, t_.lanes, all);
    } else {
      b_.serial("c", 0, whole, t_.lanes, all);
    }
    if (mask.valid()) copy(whole, mask);
  });
}

// ---- tiles ----

void AttentionLowering::scores(const Block& block, const Rows& rows, const Keys& keys) {
  const Affine first = p_.window > 0 ? b_.let_floor_div("sf", keys.first, t_.nr) : Affine(0);
  const Affine last = b_.let_floor_div("sl", keys.end + (t_.nr - 1), t_.nr);
  b_.serial("st", first, last, 1, [&](const Affine& strip) {
    if (t_.pack_k == PackK::kStrip) {
      Keys part{strip * t_.nr, b_.let_min("pe", {block.keys, strip * t_.nr + t_.nr})};
      if (p_.window > 0) part.first = b_.let_max("pf", {block.skip, part.first});
      transpose_keys(block, part, strip * (t_.nr / kKeyGroup));
    }
    each_row_tile(rows, t_.mr, [&](const Rows& tile) { score_strip(block, rows, tile, strip); });
  });
}

// The score tile of these rows and this strip, as far as they see keys there.
void AttentionLowering::score_strip(const Block& block, const Rows& rows, const Rows& tile, const Affine& strip) {
  const Keys keys = union_keys(tile, block);
  const Affine left = b_.let_min("sn", {t_.nr, keys.end - strip * t_.nr});
  auto body = [&] {
    const Affine groups = b_.let_floor_div("sg", left + (kKeyGroup - 1), kKeyGroup);
    const int64_t most = t_.nr / kKeyGroup;
    // One version for each number of groups, the largest first.
    std::function<void(int64_t)> version = [&](int64_t n) {
      auto tile_of_n = [&] { score_tile(block, rows, tile, strip, n); };
      if (n == 1) return tile_of_n();
      b_.if_ge_zero(groups - n, tile_of_n, [&] { version(n - 1); });
    };
    version(most);
  };
  auto not_after = [&] { ragged() ? b_.if_ge_zero(left - 1, body) : body(); };
  if (p_.window == 0) return not_after();
  b_.if_ge_zero(strip * t_.nr + (t_.nr - 1) - keys.first, not_after);
}

void AttentionLowering::score_tile(const Block& block, const Rows& rows, const Rows& tile, const Affine& strip,
                                   int64_t groups) {
  const int64_t per_group = kKeyGroup / t_.lanes, nv = groups * per_group;
  std::vector<Access> keys;  // of each group, at p = 0
  for (int64_t g = 0; g < groups; ++g) keys.push_back(group_access(block, strip, g));
  auto key_vector = [&](int64_t v, const Affine& p) {
    Access at = keys[static_cast<size_t>(v / per_group)];
    at.index[at.index.size() - 2] = p;
    at.index.back() = v % per_group * t_.lanes;
    return at;
  };
  const int64_t count = tile.count.constant();
  auto acc = [&](const Affine& r, int64_t v) { return Builder::at(score_acc_, {r, v}); };
  each(count, nv, [&](const Affine& r, int64_t v) { b_.constant(acc(r, v), 0.0F); });
  auto step = [&](const Affine& p) {
    multiply_step(
        {.rows = count, .vectors = nv}, [&](int64_t v, const RegRef& to) { b_.load(to, key_vector(v, p)); },
        [&](const Affine& r, const RegRef& to) {
          b_.broadcast(to, {scaled_query_, {tile.first + r, p}});
        },
        acc);
  };
  const int64_t even = p_.d / kScoreSteps * kScoreSteps;
  if (even > 0) {
    b_.serial("p", 0, even, kScoreSteps, [&](const Affine& p) {
      b_.unroll("u", 0, kScoreSteps, 1, [&](const Affine& u) { step(p + u); });
      announce_with_scores(block, strip, groups, p);
    });
  }
  if (even < p_.d) b_.serial("p", even, p_.d, 1, step);
  each(count, nv, [&](const Affine& r, int64_t v) {
    b_.store({scores_, {tile.first - rows.first + r, strip * t_.nr + v * t_.lanes}}, acc(r, v));
  });
}

// Group g of a strip, where it lies transposed.
Access AttentionLowering::group_access(const Block& block, const Affine& strip, int64_t g) {
  const Affine in_block = strip * (t_.nr / kKeyGroup) + g;
  if (t_.pack_k == PackK::kStrip) return {keys_, {g, 0, 0}};
  if (t_.pack_k == PackK::kBlock) return {keys_, {in_block, 0, 0}};
  if (p_.page == 0) return {key_, {kv_head_, block.group + in_block, 0, 0}};
  // Groups of the strip before the first that some row sees may have no page; nobody uses their scores.
  Affine here = in_block;
  if (p_.window > 0) {
    const Affine first = b_.let_floor_div("gs", block.skip, kKeyGroup);
    const Affine last = b_.let_floor_div("gl", block.keys - 1, kKeyGroup);
    here = b_.let_min("gh", {last, b_.let_max("gf", {first, here})});
  }
  const Affine group = block.group + here;
  const int64_t per_page = p_.page / kKeyGroup;
  const Affine entry = b_.let_floor_div("ge", group, per_page);
  return {key_, {b_.let_load("gp", {table_, {entry}}, pages_), kv_head_, group - entry * per_page, 0, 0}};
}

// One step of a product tile: acc[r][v] += a[r] * b[v]. What is smaller, rows or vectors, waits in registers.
void AttentionLowering::multiply_step(const Step& step, const std::function<void(int64_t, const RegRef&)>& load_vector,
                                      const std::function<void(const Affine&, const RegRef&)>& broadcast_row,
                                      const std::function<RegRef(const Affine&, int64_t)>& acc) {
  if (step.vectors <= step.rows) {
    for (int64_t v = 0; v < step.vectors; ++v) load_vector(v, Builder::at(held_, {v}));
    b_.unroll("r", 0, step.rows, 1, [&](const Affine& r) {
      broadcast_row(r, Builder::at(passing_));
      for (int64_t v = 0; v < step.vectors; ++v)
        b_.fma(acc(r, v), Builder::at(passing_), Builder::at(held_, {v}), acc(r, v));
    });
    return;
  }
  b_.unroll("r", 0, step.rows, 1, [&](const Affine& r) { broadcast_row(r, Builder::at(held_, {r})); });
  for (int64_t v = 0; v < step.vectors; ++v) {
    load_vector(v, Builder::at(passing_));
    b_.unroll("r", 0, step.rows, 1,
              [&](const Affine& r) { b_.fma(acc(r, v), Builder::at(held_, {r}), Builder::at(passing_), acc(r, v)); });
  }
}

void AttentionLowering::each(int64_t rows, int64_t vectors, const std::function<void(const Affine&, int64_t)>& body) {
  b_.unroll("r", 0, rows, 1, [&](const Affine& r) {
    for (int64_t v = 0; v < vectors; ++v) body(r, v);
  });
}

}  // namespace hone::attention
