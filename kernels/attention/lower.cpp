// Lowers AttentionProblem x AttentionProgram to LoopIR: the tasks, the blocks of keys, and a row's state from its
// beginning to the output. The parts of a block are in scores.cpp, softmax.cpp and values.cpp.
//
//   parallel g or h, i, [s]             KV head, or query head (heads(one)); block of positions; split
//     rows: scaled Q, m = -inf, l = 0, O = 0
//     for blocks of keys that some row sees
//       transpose K, copy V             as pack_k, pack_v say
//       for tile_rows rows
//         scores                        T = (scale Q) K^T, strip of keys by strip, only of keys that some row sees
//         softmax                       each row: hide, maximum, weights in place, l, alpha
//         values                        O = O * alpha + weights V
//     rows: O * (1 / l), lse            or, for kSplit, the state as it is; merge.cpp
//
// What must stay true: a row's arithmetic depends on its own keys and the class only. A tile of rows that see different
// keys works on those that all see together and on each row's others by itself (values.cpp), so that what a neighbour
// sees never reaches a row, not even as 0 * inf.
#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <limits>
#include <utility>

#include "kernels/attention/lower_internal.h"

namespace hone::attention {

using ir::Access;
using ir::Affine;
using ir::BinaryOp;
using ir::Builder;
using ir::RegId;
using ir::RegRef;
using ir::Scope;

void each_vector(Builder& b, int lanes, int64_t elements, const std::function<void(Affine, RegRef)>& body) {
  const int64_t whole = elements / lanes * lanes;
  RegRef mask;
  if (whole < elements) {
    mask = Builder::at(b.reg("tail", {.lanes = lanes, .mask = true}));
    b.lane_mask(mask, elements - whole);
  }
  if (whole > 0) b.serial("c", 0, whole, lanes, [&](const Affine& c) { body(c, {}); });
  if (whole < elements) body(whole, mask);
}

AttentionLowering::AttentionLowering(const AttentionProblem& problem, const AttentionProgram& program)
    : p_(problem), t_(canonical(problem, program)), b_(kernel_name(problem, program)) {}

ir::Kernel AttentionLowering::run() {
  declare_arguments();
  declare_workspaces();
  declare_registers();
  auto in_rows = [&](Affine i) {
    first_position_ = std::move(i);
    auto rows = [&] {
      positions_ = t_.bq == 1 ? Affine(1) : b_.let_min("positions", {t_.bq, q_ - first_position_});
      begin_rows();
      key_blocks();
      end_rows();
    };
    // The tasks are those of the call's rows, which the partial states may have no room for.
    split() ? b_.if_ge_zero(q_ - first_position_ - 1, rows) : rows();
  };
  auto in_head = [&] {
    auto body = [&] {
      declare_lengths();
      if (t_.parallel == ParallelDim::kHeads) return b_.serial("i", 0, q_, t_.bq, in_rows);
      in_rows(first_position_);
    };
    auto splits = [&] {
      if (!split()) return body();
      b_.parallel("s", 0, t_.splits, 1, [&](Affine s) {
        split_ = std::move(s);
        body();
      });
    };
    if (t_.parallel == ParallelDim::kHeads) return splits();
    b_.parallel("i", 0, q_, t_.bq, [&](Affine i) {
      first_position_ = std::move(i);
      splits();
    });
  };
  b_.parallel(t_.group ? "g" : "h", 0, t_.group ? p_.kv_heads : p_.heads, 1, [&](Affine head) {
    head_ = std::move(head);
    in_head();
  });
  return b_.finish();
}

// ---- declarations ----

// In the order of bind.cpp.
void AttentionLowering::declare_arguments() {
  auto param = [&](const char* name) { return Affine::var(b_.param(name)); };
  q_ = param("q");
  kv_ = param("kv");
  const Affine q_head = param("sq"), k_head = param("sk"), v_head = param("sv");
  const Affine o_head = split() ? Affine(0) : param("so");
  auto buffer = [&](const char* name, Scope scope, std::vector<Affine> extents, std::vector<Affine> strides) {
    return b_.buffer({.name = name, .scope = scope, .extents = std::move(extents), .strides = std::move(strides)});
  };
  query_ = buffer("Q", Scope::kIn, {p_.heads, q_, p_.d}, {q_head, p_.row_stride_q(), 1});
  declare_cache(k_head, v_head);
  if (split()) {
    partial_ = b_.buffer(partial_states(p_, t_, Scope::kOut));
  } else {
    out_ = buffer("O", Scope::kOut, {p_.heads, q_, p_.value_dim()}, {o_head, p_.row_stride_o(), 1});
  }
  if (p_.mask != MaskKind::kNone) {
    const Affine mask_head = param("mh"), mask_row = param("mr");
    mask_ = b_.buffer({.name = "mask",
                       .dtype = p_.mask == MaskKind::kBoolean ? DType::kU8 : DType::kF32,
                       .scope = Scope::kIn,
                       .extents = {p_.heads, q_, kv_},
                       .strides = {mask_head, mask_row, 1},
                       .align = p_.mask == MaskKind::kBoolean ? 1 : 4});
  }
  if (p_.lse && !split()) lse_ = buffer("lse", Scope::kOut, {p_.heads, q_}, {param("lh"), 1});
}

void AttentionLowering::declare_cache(const Affine& k_head, const Affine& v_head) {
  auto param = [&](const char* name) { return Affine::var(b_.param(name)); };
  const bool blocked = p_.k == KeyLayout::kBlocked;
  std::vector<Affine> k_extents, k_strides, v_extents, v_strides;
  if (p_.page > 0) {
    table_entries_ = param("entries");
    pages_ = param("pages");
    const Affine k_page = param("pk"), v_page = param("pv");
    k_extents = {pages_, p_.kv_heads, blocked ? p_.page / kKeyGroup : p_.page};
    k_strides = {k_page, k_head};
    v_extents = {pages_, p_.kv_heads, p_.page};
    v_strides = {v_page, v_head};
    table_ = b_.buffer(
        {.name = "table", .dtype = DType::kS32, .scope = Scope::kIn, .extents = {table_entries_}, .strides = {1}});
  } else {
    if (blocked) key_groups_ = param("groups");
    k_extents = {p_.kv_heads, blocked ? key_groups_ : kv_};
    k_strides = {k_head};
    v_extents = {p_.kv_heads, kv_};
    v_strides = {v_head};
  }
  k_strides.emplace_back(blocked ? p_.d * kKeyGroup : p_.row_stride_k());
  k_extents.emplace_back(p_.d);
  if (blocked) {
    k_strides.emplace_back(kKeyGroup);
    k_extents.emplace_back(kKeyGroup);
  }
  k_strides.emplace_back(1);
  v_strides.emplace_back(p_.row_stride_v());
  v_strides.emplace_back(1);
  v_extents.emplace_back(p_.value_dim());
  key_ = b_.buffer({.name = "K", .scope = Scope::kIn, .extents = k_extents, .strides = k_strides});
  value_ = b_.buffer({.name = "V", .scope = Scope::kIn, .extents = v_extents, .strides = v_strides});
}

void AttentionLowering::declare_workspaces() {
  auto workspace = [&](const char* name, std::vector<Affine> extents, std::vector<Affine> strides) {
    return b_.buffer({.name = name,
                      .scope = Scope::kWorkspace,
                      .extents = std::move(extents),
                      .strides = std::move(strides),
                      .align = 64});
  };
  const int64_t rows = task_rows(), columns = padded_columns();
  scaled_query_ = workspace("Qs", {rows, p_.d}, {p_.d, 1});
  if (t_.pack_k != PackK::kNone) {
    const int64_t groups = (t_.pack_k == PackK::kStrip ? t_.nr : round_up(t_.bk, t_.nr)) / kKeyGroup;
    keys_ = workspace("Kt", {groups, p_.d, kKeyGroup}, {p_.d * kKeyGroup, kKeyGroup, 1});
    // As below: a column of it is read at once.
    const int64_t key_row = round_up(p_.d, kKeyGroup) + kKeyGroup;
    gathered_ = workspace("Kg", {kKeyGroup, key_row}, {key_row, 1});
  }
  if (t_.pack_v == PackV::kRows) values_ = workspace("Vp", {t_.bk, columns}, {columns, 1});
  // Rows of scores are a line more than a power of two apart: their broadcasts would share cache sets.
  const int64_t score_row = round_up(t_.bk, t_.nr) + kKeyGroup;
  scores_ = workspace("S", {t_.tile_rows, score_row}, {score_row, 1});
  sums_ = workspace("Os", {rows, columns}, {columns, 1});
  m_ = workspace("m", {rows, t_.lanes}, {t_.lanes, 1});
  l_ = workspace("l", {rows, kKeyGroup}, {kKeyGroup, 1});
  alpha_ = workspace("alpha", {t_.tile_rows, t_.lanes}, {t_.lanes, 1});
}

void AttentionLowering::declare_registers() {
  const ir::RegType vec{.lanes = t_.lanes};
  const int64_t score_vectors = t_.nr / t_.lanes, value_vectors = t_.vn / t_.lanes;
  score_acc_ = b_.reg("t", vec, {t_.mr, score_vectors});
  value_acc_ = b_.reg("o", vec, {t_.vr, value_vectors});
  if (ragged()) edge_acc_ = b_.reg("e", vec, {kEdgeVectors});
  held_ = b_.reg("held", vec, {std::max(std::min(t_.mr, score_vectors), std::min(t_.vr, value_vectors))});
  passing_ = b_.reg("passing", vec);
  maximum_ = b_.reg("max", vec, {kMaximumChains});
  value_mask_ = Builder::at(b_.reg("vtail", {.lanes = t_.lanes, .mask = true}));
}

// Inside the task: lengths as far as this plan promises them, so that the verifier need not believe the caller.
void AttentionLowering::declare_lengths() {
  std::vector<Affine> lengths = {kv_};
  if (p_.page > 0) lengths.push_back(table_entries_ * p_.page);
  if (p_.page == 0 && p_.k == KeyLayout::kBlocked) lengths.push_back(key_groups_ * kKeyGroup);
  if (ordered()) lengths.push_back(t_.bk);
  if (lengths.size() > 1) kv_ = b_.let_min("keys", lengths);
  if (split()) q_ = b_.let_min("rows", {q_, p_.q});
  offset_ = kv_ - q_;
  kv_head_ = t_.group ? head_ : b_.let_floor_div("g", head_, p_.group());
}

// ---- a row's beginning and end ----

void AttentionLowering::each_task_row(const std::function<void(Affine, Affine, Affine)>& body) {
  b_.serial("ri", 0, positions_, 1, [&](const Affine& i) {
    if (per_position() == 1) return body(i, 0, i);
    b_.serial("rh", 0, per_position(), 1, [&](const Affine& h) { body(i, h, i * per_position() + h); });
  });
}

void AttentionLowering::begin_rows() {
  const RegRef x = vector("x"), scale = vector("scale"), zero = vector("zero"), low = vector("low");
  b_.constant(scale, p_.scale_in_force());
  b_.constant(zero, 0.0F);
  b_.constant(low, -std::numeric_limits<float>::infinity());
  each_task_row([&](const Affine& i, const Affine& h, const Affine& row) {
    each_vector(p_.d, [&](const Affine& c, const RegRef& mask) {
      b_.load(x, {query_, {query_head(h), first_position_ + i, c}}, mask);
      b_.binary(BinaryOp::kMul, x, x, scale);
      b_.store({scaled_query_, {row, c}}, x, mask);
    });
    each_vector(padded_columns(), [&](const Affine& c, const RegRef&) { b_.store({sums_, {row, c}}, zero); });
    b_.store({m_, {row, 0}}, low);
    for (int64_t c = 0; c < kKeyGroup; c += t_.lanes) b_.store({l_, {row, c}}, zero);
  });
}

void AttentionLowering::end_rows() {
  if (split()) {
    const RegRef x = vector("x");
    each_task_row([&](const Affine& i, const Affine& h, const Affine& row) {
      auto at = [&](const Affine& c) { return Access{partial_, {split_, query_head(h), first_position_ + i, c}}; };
      auto copy = [&](const Access& from, const Affine& to) {
        b_.load(x, from);
        b_.store(at(to), x);
      };
      for (int64_t c = 0; c < kKeyGroup; c += t_.lanes) {
        copy({m_, {row, 0}}, c);
        copy({l_, {row, c}}, kKeyGroup + c);
      }
      b_.serial("c", 0, padded_columns(), t_.lanes, [&](const Affine& c) {
        copy({sums_, {row, c}}, c + 2 * kKeyGroup);
      });
    });
    return;
  }
  RowEnd end(b_, t_.lanes);
  const RegId chains = b_.reg("chains", {.lanes = t_.lanes}, {kKeyGroup / t_.lanes});
  const RegRef x = vector("x"), m = vector("mx"), inverse = vector("inverse");
  each_task_row([&](const Affine& i, const Affine& h, const Affine& row) {
    for (int64_t u = 0; u < kKeyGroup / t_.lanes; ++u) b_.load(Builder::at(chains, {u}), {l_, {row, u * t_.lanes}});
    const RegRef l = end.sum(chains);
    end.inverse(l, inverse);
    each_vector(p_.value_dim(), [&](const Affine& c, const RegRef& mask) {
      b_.load(x, {sums_, {row, c}});
      b_.binary(BinaryOp::kMul, x, x, inverse);
      b_.store({out_, {query_head(h), first_position_ + i, c}}, x, mask);
    });
    if (!p_.lse) return;
    b_.load(m, {m_, {row, 0}});
    end.store_log_sum_exp({lse_, {query_head(h), first_position_ + i}}, m, l);
  });
}

// ---- blocks of keys ----

void AttentionLowering::key_blocks() {
  const Affine after_last = first_position_ + positions_ + offset_;  // the position after the last row's
  Affine begin = 0;
  end_ = kv_;
  if (p_.causal) {
    end_ = b_.let_max("end", {0, after_last});
  } else if (p_.window > 0) {
    end_ = b_.let_max("end", {0, b_.let_min("reach", {kv_, after_last + p_.window - 1})});
  }
  if (p_.window > 0) begin = b_.let_max("begin", {0, first_position_ + offset_ - (p_.window - 1)});
  begin_ = begin;
  const int64_t step = t_.bk / kKeyGroup;
  const Affine groups = b_.let_floor_div("groups", end_ + (kKeyGroup - 1), kKeyGroup);
  if (split()) {
    b_.serial("kb", split_ * step, groups, step * t_.splits, [&](const Affine& group) {
      if (p_.window == 0) return key_block(group);
      b_.if_ge_zero(group * kKeyGroup + (t_.bk - 1) - begin_, [&] { key_block(group); });
    });
    return;
  }
  const Affine first = p_.window > 0 ? b_.let_floor_div("fb", begin, t_.bk) * step : Affine(0);
  b_.serial("kb", first, groups, step, [&](const Affine& group) { key_block(group); });
}

void AttentionLowering::key_block(const Affine& group) {
  Block block{.group = group,
              .keys = b_.let_min("kn", {t_.bk, end_ - group * kKeyGroup}),
              .skip = p_.window > 0 ? b_.let_max("skip", {0, begin_ - group * kKeyGroup}) : Affine(0)};
  if (t_.pack_k == PackK::kBlock) transpose_keys(block, {block.skip, block.keys}, 0);
  if (t_.pack_v == PackV::kRows) copy_values(block);
  const Affine rows = positions_ * per_position();
  auto tile = [&](const Affine& first, const Affine& count) {
    const Rows these{first, count};
    const Keys keys = union_keys(these, block);
    auto body = [&] {
      scores(block, these, keys);
      softmax(block, these);
      values(block, these, keys);
    };
    ragged() ? b_.if_ge_zero(keys.end - keys.first - 1, body) : body();
  };
  if (task_rows() <= t_.tile_rows) return tile(0, rows);
  b_.serial("rt", 0, rows, t_.tile_rows, [&](const Affine& r) { tile(r, b_.let_min("rn", {t_.tile_rows, rows - r})); });
}

// ---- who sees what ----

Affine AttentionLowering::position_of(const Affine& row) {
  return per_position() == 1 ? row : b_.let_floor_div("pos", row, per_position());
}

Affine AttentionLowering::keys_end(const Affine& position, const Block& block) {
  if (!ragged()) return block.keys;
  const Affine key = first_position_ + position + offset_ - block.group * kKeyGroup;
  const Affine reach = p_.causal ? key + 1 : key + p_.window;
  return b_.let_max("ke", {0, b_.let_min("kr", {block.keys, reach})});
}

Affine AttentionLowering::keys_first(const Affine& position, const Block& block) {
  if (p_.window == 0) return 0;
  const Affine key = first_position_ + position + offset_ - block.group * kKeyGroup;
  return b_.let_max("kf", {block.skip, key - (p_.window - 1)});
}

AttentionLowering::Keys AttentionLowering::keys_of(const Affine& row, const Block& block) {
  if (!ragged()) return {0, block.keys};
  const Affine position = position_of(row);
  return {keys_first(position, block), keys_end(position, block)};
}

AttentionLowering::Keys AttentionLowering::union_keys(const Rows& rows, const Block& block) {
  if (!ragged()) return {0, block.keys};
  const Affine first = p_.window > 0 ? keys_first(position_of(rows.first), block) : Affine(0);
  return {first, keys_end(position_of(rows.first + rows.count - 1), block)};
}

AttentionLowering::Keys AttentionLowering::common_keys(const Rows& rows, const Block& block) {
  if (!ragged()) return {0, block.keys};
  const Affine first = p_.window > 0 ? keys_first(position_of(rows.first + rows.count - 1), block) : Affine(0);
  return {first, keys_end(position_of(rows.first), block)};
}

// Tiles of `step` rows, and of powers of two for what is left: one body for each size, where versions for every count
// of rows would be four times the code.
void AttentionLowering::each_row_tile(const Rows& rows, int64_t step, const std::function<void(Rows)>& body) {
  if (rows.count.is_constant()) return constant_row_tiles(rows, step, body);
  const Affine full = step == 1 ? rows.count : b_.let_floor_div("rf", rows.count, step);
  b_.serial("r", 0, full, 1, [&](const Affine& r) { body({rows.first + r * step, step}); });
  Affine done = full * step, left = rows.count - done;
  for (int64_t size = static_cast<int64_t>(std::bit_floor(static_cast<uint64_t>(step - 1))); size > 0; size /= 2) {
    const Affine here = size == 1 ? left : b_.let_floor_div("rh", left, size);  // 0 or 1
    b_.if_ge_zero(here - 1, [&] { body({rows.first + done, size}); });
    done += here * size;
    left -= here * size;
  }
}

void AttentionLowering::constant_row_tiles(const Rows& rows, int64_t step, const std::function<void(Rows)>& body) {
  const int64_t count = rows.count.constant(), full = count / step;
  if (full == 1) body({rows.first, step});
  if (full > 1) b_.serial("r", 0, full, 1, [&](const Affine& r) { body({rows.first + r * step, step}); });
  int64_t done = full * step;
  while (done < count) {
    const auto size = static_cast<int64_t>(std::bit_floor(static_cast<uint64_t>(count - done)));
    body({rows.first + done, size});
    done += size;
  }
}

Result<std::vector<ir::Kernel>> lower(const AttentionProblem& problem, const AttentionProgram& program) {
  HONE_RETURN_IF_ERROR(legal(problem, program));
  std::vector<ir::Kernel> kernels;
  kernels.push_back(AttentionLowering(problem, program).run());
  if (program.algorithm == Algorithm::kSplit) kernels.push_back(lower_merge(problem, program));
  return kernels;
}

}  // namespace hone::attention
