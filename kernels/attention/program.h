// TransformProgram of attention: the loop-level recipe that turns an AttentionProblem into LoopIR.
//
// Text (canonical, one line, steps in this order):
//   vectorize(avx512,16) attention(online) block(64,256) heads(group) tile_rows(28) score_tile(14,32) value_tile(14,32)
//   value_depth(256) pack_k(block) pack_v(none) prefetch(32,2) parallel(hq)
// and splits(4) after attention(split). prefetch is absent when 0.
//
// Numerics class, the order in which a row is accumulated:
//   ordered       m over all visible keys first; w = exp(T - m); l in 16 chains, chain c over keys j = c mod 16
//                 ascending, then a fixed tree; O one chain of fma over keys ascending from +0; O * (1 / l)
//   online(b)     the same with keys in blocks [0, b), [b, 2b), ..: each block takes m' = max(m, its own m), scales l
//                 and O by exp(m - m') and goes on from there
//   split(b,s)    split i of s takes the blocks i, i + s, i + 2s, .. as online(b); the states are merged, i ascending
// Everything else (row blocks, tiles, packing, threads, code generator, ISA) leaves the bits as they are. The number of
// splits is the class's, never the number of threads.
#pragma once

#include <compare>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "engine/base/isa.h"
#include "engine/base/status.h"
#include "kernels/attention/problem.h"
#include "kernels/ir/ir.h"

namespace hone::attention {

enum class Algorithm : uint8_t {
  kMaterialised,  // all scores of the task, then their softmax, then the values. Class ordered
  kTiled,         // the same for tile_rows rows at a time: scores stay in cache. Class ordered
  kOnline,        // block of keys by block of keys. Class online(b)
  kSplit,         // online over each of `splits` runs of keys, as tasks of their own, and a merge. Class split(b,s)
};

constexpr bool is_ordered(Algorithm a) { return a == Algorithm::kMaterialised || a == Algorithm::kTiled; }

inline constexpr int64_t kMaxSplits = 256;
// Of a class by name: more than any workspace holds, and little enough to reckon with.
inline constexpr int64_t kMaxKeyBlock = int64_t{1} << 30;

enum class PackK : uint8_t {
  kBlock,  // a block of keys is transposed for all rows of the task
  kStrip,  // nr keys at a time are, just before they are used: for tasks with no more than tile_rows rows
  kNone,   // read where it is: KeyLayout::kBlocked
};

enum class PackV : uint8_t { kNone, kRows };  // kRows: a block of V is copied so that its rows lie together

// Which loops are tasks (batch items always are).
enum class ParallelDim : uint8_t { kHeads, kHeadsRows };

struct AttentionProgram {
  Isa isa = Isa::kAvx2;
  int lanes = 8;
  Algorithm algorithm = Algorithm::kOnline;
  int64_t splits = 1;  // kSplit: 2 to kMaxSplits; else 1
  int64_t bq = 64;     // query positions of a task
  int64_t bk = 256;    // keys of a block, a multiple of kKeyGroup. Ordered: all keys of the problem, rounded up
  bool group = true;   // all query heads of a KV head in one task (K and V are read once), or each in its own
  // Rows whose scores are held at a time, a multiple of mr and vr. A row is a position and a head: rows of one position
  // follow one another. kMaterialised: all rows of the task.
  int64_t tile_rows = 12;
  int64_t mr = 6, nr = 16;    // score tile: rows x keys, nr a multiple of kKeyGroup
  int64_t vr = 6, vn = 16;    // value tile: rows x columns, vn a multiple of lanes
  int64_t value_depth = 256;  // keys that a value tile runs over before the next columns do, at most bk
  PackK pack_k = PackK::kBlock;
  PackV pack_v = PackV::kNone;
  // K and V are announced `prefetch` keys ahead, 0: not at all, and before that another `lead` keys ahead, 0: once
  // only.
  int64_t prefetch = 0, lead = 0;
  ParallelDim parallel = ParallelDim::kHeadsRows;

  auto operator<=>(const AttentionProgram&) const = default;
};

std::string to_string(const AttentionProgram& program);
Result<AttentionProgram> parse_program(std::string_view text);

// "ordered", "online(256)", "split(256,4)".
std::string numerics(const AttentionProgram& program);
// The key block of the class online(b) that plans have unless the caller allows others: the same on every machine and
// for every length, so that prefill and decode agree bit for bit.
inline constexpr int64_t kDefaultKeyBlock = 256;

// ok, or unsupported/invalid_argument with the rule and the numbers.
Status legal(const AttentionProblem& problem, const AttentionProgram& program);
// Block sizes cut to the problem and knobs that cannot matter reset. Never changes the class.
AttentionProgram canonical(const AttentionProblem& problem, AttentionProgram program);
// Bytes that each task needs; INT64_MAX when they do not fit 63 bits.
int64_t workspace_bytes(const AttentionProblem& problem, const AttentionProgram& program);
// "attention_f32_online_14x32_14x32_avx512": score tile, value tile
std::string kernel_name(const AttentionProblem& problem, const AttentionProgram& program);

// The kernels to run one after the other, each over all its tasks: one, or for kSplit two (partial states, merge).
// Arguments: bind.h.
Result<std::vector<ir::Kernel>> lower(const AttentionProblem& problem, const AttentionProgram& program);

}  // namespace hone::attention
