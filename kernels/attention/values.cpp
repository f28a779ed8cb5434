// Values of a block: O = O * alpha + weights V, one chain of fma over keys ascending for each element.
//
// A tile of rows runs over the keys that all of its rows see. What only some see comes row by row, before and after: 0
// times what another row may see would not be nothing if that is infinite, and a row's bits would depend on its
// neighbours.
#include "kernels/attention/lower_internal.h"

namespace hone::attention {

using ir::Access;
using ir::Affine;
using ir::BinaryOp;
using ir::Builder;
using ir::RegId;
using ir::RegRef;

// Walks keys [from, to) of the block in order; `body` gets a key of the block and where V has it.
void AttentionLowering::each_key(const Block& block, const Keys& keys,
                                 const std::function<void(const Affine&, const PagedKey&)>& body) {
  const Affine start = block.group * kKeyGroup;
  if (p_.page == 0) {
    b_.serial("k", keys.first, keys.end, 1, [&](const Affine& k) { body(k, {0, start + k}); });
    return;
  }
  const Affine first = b_.let_floor_div("pf", start + keys.first, p_.page);
  const Affine last = b_.let_floor_div("pl", start + keys.end + (p_.page - 1), p_.page);
  b_.serial("pg", first, last, 1, [&](const Affine& entry) {
    const Affine page = b_.let_load("page", {table_, {entry}}, pages_);
    const Affine from = b_.let_max("pk", {keys.first, entry * p_.page - start});
    const Affine to = b_.let_min("pe", {keys.end, entry * p_.page + p_.page - start});
    b_.serial("k", from, to, 1, [&](const Affine& k) { body(k, {page, start + k - entry * p_.page}); });
  });
}

Access AttentionLowering::value_row(const PagedKey& key, const Affine& column) const {
  if (p_.page > 0) return {value_, {key.page, kv_head_, key.row, column}};
  return {value_, {kv_head_, key.row, column}};
}

void AttentionLowering::copy_values(const Block& block) {
  const RegRef x = vector("x");
  each_key(block, {block.skip, block.keys}, [&](const Affine& k, const PagedKey& key) {
    each_vector(p_.value_dim(), [&](const Affine& c, const RegRef& mask) {
      b_.load(x, value_row(key, c), mask);
      b_.store({values_, {k, c}}, x);
    });
  });
}

void AttentionLowering::values(const Block& block, const Rows& rows, const Keys& keys) {
  const bool segments = t_.value_depth < t_.bk;
  const bool scale_first = segments || p_.window > 0;
  if (scale_first) scale_rows(rows);
  const int64_t whole = p_.value_dim() / t_.vn * t_.vn;
  auto each_column_tile = [&](const std::function<void(Affine, int64_t)>& body) {
    if (whole > 0) b_.serial("vc", 0, whole / t_.vn, 1, [&](const Affine& c) { body(c, t_.vn); });
    if (whole < p_.value_dim()) body(whole / t_.vn, p_.value_dim() - whole);
  };
  auto tiles = [&](const std::function<void(Rows, Affine, int64_t)>& body) {
    each_column_tile([&](const Affine& c, int64_t columns) {
      each_row_tile(rows, t_.vr, [&](const Rows& tile) { body(tile, c, columns); });
    });
  };
  if (p_.window > 0) ragged_tiles(block, rows, /*before=*/true);
  auto common = [&](const Affine* segment) {
    tiles([&](const Rows& tile, const Affine& c, int64_t columns) {
      Keys of_tile = common_keys(tile, block);
      if (segment != nullptr) {
        of_tile.end = b_.let_min("ve", {of_tile.end, *segment + t_.value_depth});
        of_tile.first = b_.let_max("vf", {of_tile.first, *segment});
      }
      const Affine announced =
          (segment == nullptr ? Affine(0) : *segment) + c * ceil_div(t_.value_depth, column_tiles());
      value_tile(block, rows, tile, of_tile, c * t_.vn, columns, announced, !scale_first);
    });
  };
  if (!segments) {
    common(nullptr);
  } else {
    const Affine first = p_.window > 0 ? b_.let_floor_div("vs", keys.first, t_.value_depth) : Affine(0);
    const Affine last = b_.let_floor_div("vl", keys.end + (t_.value_depth - 1), t_.value_depth);
    b_.serial("vs", first, last, 1, [&](const Affine& s) {
      const Affine segment = s * t_.value_depth;
      common(&segment);
    });
  }
  if (ragged()) ragged_tiles(block, rows, /*before=*/false);
}

void AttentionLowering::scale_rows(const Rows& rows) {
  const RegRef x = vector("x"), alpha = vector("alpha");
  b_.serial("r", 0, rows.count, 1, [&](const Affine& r) {
    b_.load(alpha, {alpha_, {r, 0}});
    b_.serial("c", 0, padded_columns(), t_.lanes, [&](const Affine& c) {
      b_.load(x, {sums_, {rows.first + r, c}});
      b_.binary(BinaryOp::kMul, x, x, alpha);
      b_.store({sums_, {rows.first + r, c}}, x);
    });
  });
}

void AttentionLowering::value_tile(const Block& block, const Rows& rows, const Rows& tile, const Keys& keys,
                                   const Affine& column, int64_t columns, const Affine& announced, bool scale) {
  const int64_t nv = vectors(columns);
  auto acc = [&](const Affine& r, int64_t v) { return Builder::at(value_acc_, {r, v}); };
  auto sum = [&](const Affine& r, int64_t v) { return Access{sums_, {tile.first + r, column + v * t_.lanes}}; };
  const int64_t count = tile.count.constant();
  b_.unroll("r", 0, count, 1, [&](const Affine& r) {
    if (scale) b_.load(Builder::at(passing_), {alpha_, {tile.first - rows.first + r, 0}});
    for (int64_t v = 0; v < nv; ++v) {
      b_.load(acc(r, v), sum(r, v));
      if (scale) b_.binary(BinaryOp::kMul, acc(r, v), acc(r, v), Builder::at(passing_));
    }
  });
  accumulate(block, keys, {.rows = count, .vectors = nv}, tile.first - rows.first, column, columns, announced, acc);
  each(count, nv, [&](const Affine& r, int64_t v) { b_.store(sum(r, v), acc(r, v)); });
}

// acc += weights * V over the keys; row r of the step is row first + r of the scores.
void AttentionLowering::accumulate(const Block& block, const Keys& keys, const Step& step, const Affine& first,
                                   const Affine& column, int64_t columns, const Affine& announced,
                                   const std::function<RegRef(const Affine&, int64_t)>& acc) {
  const bool copied = t_.pack_v == PackV::kRows;
  const RegRef mask = value_mask_;
  if (!copied && columns % t_.lanes != 0) b_.lane_mask(mask, columns % t_.lanes);
  auto step_at = [&](const Affine& k, const std::function<Access(const Affine&)>& row) {
    multiply_step(
        step,
        [&](int64_t v, const RegRef& to) {
          const bool tail = !copied && (v + 1) * t_.lanes > columns;
          b_.load(to, row(column + v * t_.lanes), tail ? mask : RegRef{});
        },
        [&](const Affine& r, const RegRef& to) {
          b_.broadcast(to, {scores_, {first + r, k}});
        },
        acc);
  };
  if (copied) {
    b_.serial("k", keys.first, keys.end, 1, [&](const Affine& k) {
      step_at(k, [&](const Affine& c) { return Access{values_, {k, c}}; });
    });
    return;
  }
  auto in_place = [&](const Affine& k, const PagedKey& key) {
    step_at(k, [&](const Affine& c) { return value_row(key, c); });
  };
  if (!announces() || ragged()) return each_key(block, keys, in_place);
  const Affine start = block.group * kKeyGroup;
  // Each tile of columns walks the keys, so each announces a share of the rows, and those whole.
  const int64_t tiles = column_tiles();
  const Affine turns = b_.let_floor_div("kt", keys.end - keys.first, tiles);
  b_.serial("k", 0, turns, 1, [&](const Affine& turn) {
    for (int64_t part = 0; part < tiles; ++part) {
      const Affine k = keys.first + turn * tiles + part;
      in_place(k, {0, start + k});
      announce_values(block, announced + turn, part);
    }
  });
  b_.serial("k", keys.first + turns * tiles, keys.end, 1, [&](const Affine& k) { in_place(k, {0, start + k}); });
}

// The keys of each tile of values that only some of its rows see, over as many columns at a time as registers hold: a
// row has few of them, so what counts is how often it is come back to.
void AttentionLowering::ragged_tiles(const Block& block, const Rows& rows, bool before) {
  const int64_t most = kEdgeVectors * t_.lanes, whole = p_.value_dim() / most * most;
  auto columns_at = [&](const Affine& c, int64_t columns) {
    each_row_tile(rows, t_.vr, [&](const Rows& tile) {
      if (tile.count != Affine(1)) ragged_rows(block, rows, tile, c, columns, before);  // one row agrees with itself
    });
  };
  if (whole > 0) b_.serial("ec", 0, whole, most, [&](const Affine& c) { columns_at(c, most); });
  if (whole < p_.value_dim()) columns_at(whole, p_.value_dim() - whole);
}

// Keys that a row sees and not all of its tile do: those before the common ones, or those after.
void AttentionLowering::ragged_rows(const Block& block, const Rows& rows, const Rows& tile, const Affine& column,
                                    int64_t columns, bool before) {
  const Keys common = common_keys(tile, block);
  const int64_t nv = vectors(columns);
  auto acc = [&](const Affine&, int64_t v) { return Builder::at(edge_acc_, {v}); };
  each_row_tile(tile, 1, [&](const Rows& row) {
    Keys keys = keys_of(row.first, block);
    if (before) {
      keys.end = b_.let_min("re", {keys.end, common.first});
    } else if (p_.window > 0) {
      keys.first = b_.let_max("rf", {keys.first, common.first, common.end});
    } else {
      keys.first = common.end;
    }
    b_.if_ge_zero(keys.end - keys.first - 1, [&] {
      auto sum = [&](int64_t v) { return Access{sums_, {row.first, column + v * t_.lanes}}; };
      for (int64_t v = 0; v < nv; ++v) b_.load(acc(0, v), sum(v));
      accumulate(block, keys, {.rows = 1, .vectors = nv}, row.first - rows.first, column, columns, 0, acc);
      for (int64_t v = 0; v < nv; ++v) b_.store(sum(v), acc(0, v));
    });
  });
}

}  // namespace hone::attention
