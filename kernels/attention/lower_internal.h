// What the files of this folder share about lowering: one class, its parts in the order in which a task runs them.
//
//   lower.cpp     buffers, tasks, blocks of keys, the state of a row (m, l, O) from its beginning to the output
//   scores.cpp    transposes keys; score tiles, T = (scale Q) K^T
//   softmax.cpp   T -> weights in place, one row at a time; running maximum and sum
//   announce.cpp  prefetches of K and V
//   values.cpp    copies V; value tiles, O = O * alpha + weights V
//   merge.cpp     the second kernel of kSplit
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "engine/base/math.h"
#include "kernels/attention/problem.h"
#include "kernels/attention/program.h"
#include "kernels/ir/builder.h"
#include "kernels/math/ir_ops.h"
#include "kernels/math/lane_reducer.h"

namespace hone::attention {

// A row's entry in the partial states of kSplit: m in the first of kKeyGroup elements, the chains of l, then O.
inline int64_t partial_row_elements(const AttentionProblem& problem) {
  return 2 * kKeyGroup + round_up(problem.value_dim(), kKeyGroup);
}

// Those of all splits: [splits][heads][q][row].
inline ir::Buffer partial_states(const AttentionProblem& problem, const AttentionProgram& program, ir::Scope scope) {
  const int64_t row = partial_row_elements(problem), head = problem.q * row;
  return {.name = "P",
          .scope = scope,
          .extents = {program.splits, problem.heads, problem.q, row},
          .strides = {problem.heads * head, head, row, 1}};
}

// body(column, mask): a vector at a time, the mask invalid where it has all lanes.
void each_vector(ir::Builder& b, int lanes, int64_t elements, const std::function<void(ir::Affine, ir::RegRef)>& body);

// Of the search for the maximum: one chain is bound by the latency of max, 4 cycles on the CPUs known here.
inline constexpr int64_t kMaximumChains = 4;
// Columns, in vectors, of one row that sees keys which its tile does not: 8 sums, broadcast and vector fit AVX2 too.
inline constexpr int64_t kEdgeVectors = 8;
// Steps of a score tile in one turn of its loop.
inline constexpr int64_t kScoreSteps = 4;

// What ends a row: l from its chains, 1 / l, log-sum-exp. Its registers are set where it is made; that block must
// enclose its use.
class RowEnd {
 public:
  RowEnd(ir::Builder& builder, int lanes);
  // The sum of the kKeyGroup chains, of a tile of kKeyGroup / lanes registers, in every lane of the first of them.
  ir::RegRef sum(ir::RegId chains);
  // out = l == 0 ? 0 : 1 / l
  void inverse(const ir::RegRef& l, const ir::RegRef& out);
  // One element: l == 0 ? -inf : m + log(l).
  void store_log_sum_exp(const ir::Access& to, const ir::RegRef& m, const ir::RegRef& l);

 private:
  ir::Builder& b_;
  int lanes_;
  math::LaneReducer reducer_;
  math::IrOps ops_;
  ir::RegRef zero_, one_, low_, value_, empty_, first_;
};

class AttentionLowering {
 public:
  AttentionLowering(const AttentionProblem& problem, const AttentionProgram& program);
  ir::Kernel run();

 private:
  using Affine = ir::Affine;

  // Keys of a block, counted from its start: [first, end).
  struct Keys {
    Affine first, end;
  };
  // Rows of the task. Row r is position floor(r / per_position()) and a head.
  struct Rows {
    Affine first, count;
  };
  struct Row {
    Affine in_tile, in_task;
  };
  struct Block {
    Affine group;  // first key / kKeyGroup
    Affine keys;   // in it, up to the last that some row of the task sees
    Affine skip;   // keys before the first that some row sees
  };
  // Where the cache has a key: its page (nothing without pages) and its row there.
  struct PagedKey {
    Affine page, row;
  };
  // Sizes of a product tile.
  struct Step {
    int64_t rows, vectors;
  };

  // ---- lower.cpp ----
  int64_t per_position() const { return t_.group ? p_.group() : 1; }
  int64_t task_rows() const { return t_.bq * per_position(); }
  int64_t vectors(int64_t n) const { return ceil_div(n, t_.lanes); }
  int64_t column_tiles() const { return ceil_div(p_.value_dim(), t_.vn); }
  int64_t padded_columns() const { return round_up(p_.value_dim(), kKeyGroup); }
  bool split() const { return t_.algorithm == Algorithm::kSplit; }
  bool ordered() const { return is_ordered(t_.algorithm); }
  // May rows of one task see different keys?
  bool ragged() const { return p_.causal || p_.window > 0; }
  ir::RegRef vector(const char* name) { return ir::Builder::at(b_.reg(name, {.lanes = t_.lanes})); }
  Affine query_head(const Affine& within) const { return t_.group ? head_ * p_.group() + within : head_; }

  void declare_arguments();
  void declare_cache(const Affine& k_head, const Affine& v_head);
  void declare_workspaces();
  void declare_registers();
  void declare_lengths();
  void begin_rows();
  void key_blocks();
  void key_block(const Affine& group);
  void end_rows();
  // body(position in the task, head within the group, row)
  void each_task_row(const std::function<void(Affine, Affine, Affine)>& body);
  void each_vector(int64_t elements, const std::function<void(Affine, ir::RegRef)>& body) {
    attention::each_vector(b_, t_.lanes, elements, body);
  }
  // body(rows), whose count is a constant.
  void each_row_tile(const Rows& rows, int64_t step, const std::function<void(Rows)>& body);
  void constant_row_tiles(const Rows& rows, int64_t step, const std::function<void(Rows)>& body);
  Affine position_of(const Affine& row);
  Affine keys_end(const Affine& position, const Block& block);
  Affine keys_first(const Affine& position, const Block& block);
  Keys keys_of(const Affine& row, const Block& block);
  Keys union_keys(const Rows& rows, const Block& block);   // that some of the rows see
  Keys common_keys(const Rows& rows, const Block& block);  // that all of the rows see; first may be beyond end

  // ---- scores.cpp ----
  PagedKey locate(const Affine& key);
  ir::Access key_row(const PagedKey& key, const Affine& column) const;
  void transpose_keys(const Block& block, const Keys& keys, const Affine& to);
  void transpose_group(const Block& block, const Keys& keys, const Affine& group, const Affine& to, ir::RegId x,
                       ir::RegId y, bool whole);
  void gather_group(const Block& block, const Keys& keys, const Affine& group);
  void scores(const Block& block, const Rows& rows, const Keys& keys);
  void score_strip(const Block& block, const Rows& rows, const Rows& tile, const Affine& strip);
  void score_tile(const Block& block, const Rows& rows, const Rows& tile, const Affine& strip, int64_t groups);
  ir::Access group_access(const Block& block, const Affine& strip, int64_t g);
  void multiply_step(const Step& step, const std::function<void(int64_t, const ir::RegRef&)>& load_vector,
                     const std::function<void(const Affine&, const ir::RegRef&)>& broadcast_row,
                     const std::function<ir::RegRef(const Affine&, int64_t)>& acc);
  void each(int64_t rows, int64_t vectors, const std::function<void(const Affine&, int64_t)>& body);

  // ---- softmax.cpp ----
  void softmax(const Block& block, const Rows& rows);
  void softmax_row(math::IrOps& ops, const Block& block, const Row& row, const Keys& keys);
  void transform_scores(math::IrOps& ops, const Block& block, const Row& row, const Keys& groups, const Keys& keys);
  void hide_by_bytes(const Row& row, const Keys& groups, const Keys& keys,
                     const std::function<ir::Access(const Affine&)>& mask_at);
  void hide_edges(math::IrOps& ops, const Row& row, const Keys& groups, const Keys& keys);
  void maximum(math::IrOps& ops, const Row& row, const Keys& groups);
  void weights(math::IrOps& ops, const Row& row, const Keys& groups);

  // ---- announce.cpp ----
  bool keys_are_flat() const;
  bool announces() const;
  void announce_keys(const Block& block, const Affine& at, int64_t count);
  void announce_with_transposition(const Block& block, const Affine& group, const Affine& to, int64_t u,
                                   const Affine& p, const Affine& row);
  void announce_with_scores(const Block& block, const Affine& strip, int64_t groups, const Affine& p);
  void announce_values(const Block& block, const Affine& at, int64_t part);

  // ---- values.cpp ----
  void each_key(const Block& block, const Keys& keys, const std::function<void(const Affine&, const PagedKey&)>& body);
  ir::Access value_row(const PagedKey& key, const Affine& column) const;
  void copy_values(const Block& block);
  void values(const Block& block, const Rows& rows, const Keys& keys);
  void scale_rows(const Rows& rows);
  void value_tile(const Block& block, const Rows& rows, const Rows& tile, const Keys& keys, const Affine& column,
                  int64_t columns, const Affine& announced, bool scale);
  void accumulate(const Block& block, const Keys& keys, const Step& step, const Affine& first, const Affine& column,
                  int64_t columns, const Affine& announced,
                  const std::function<ir::RegRef(const Affine&, int64_t)>& acc);
  void ragged_tiles(const Block& block, const Rows& rows, bool before);
  void ragged_rows(const Block& block, const Rows& rows, const Rows& tile, const Affine& column, int64_t columns,
                   bool before);

  const AttentionProblem p_;
  const AttentionProgram t_;
  ir::Builder b_;
  Affine q_, kv_;                                   // as far as promised
  Affine head_, kv_head_, split_;                   // of the task; head_: KV head, or query head
  Affine first_position_ = 0, positions_, offset_;  // of the task; key at which position 0 sits
  Affine begin_, end_;                              // keys that some row of the task sees
  Affine table_entries_, pages_, key_groups_;
  ir::BufferId query_ = -1, key_ = -1, value_ = -1, out_ = -1, mask_ = -1, lse_ = -1, table_ = -1, partial_ = -1;
  ir::BufferId scaled_query_ = -1, keys_ = -1, gathered_ = -1, values_ = -1, scores_ = -1, sums_ = -1, m_ = -1, l_ = -1,
               alpha_ = -1;
  ir::RegId score_acc_ = -1, value_acc_ = -1, edge_acc_ = -1, held_ = -1, passing_ = -1, maximum_ = -1;
  ir::RegRef value_mask_;
};

// The second kernel of kSplit.
ir::Kernel lower_merge(const AttentionProblem& problem, const AttentionProgram& program);

}  // namespace hone::attention
