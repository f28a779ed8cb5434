// hone for C++: attention. Prepare it once, call it on any number of sequences of any length, from any number of
// threads.
//
//   hone::AttentionSpec spec{.heads = 32, .kv_heads = 8, .head_dim = 128, .causal = true};
//   auto attention = engine->prepare(spec);
//   hone::Status s = attention->run({.q = 512, .kv = 512, .query = q, .key = k, .value = v, .out = o});
//
// and with keys and values that the engine keeps (KvCache, below): prepare with spec.cache, append, run.
//
// What is computed, for each sequence, query head h of H (it reads KV head g = h / (H / KVH)), row i of q, key j of kv:
//
//   T[i, j] = sum over p ascending of (scale * Q[h, i, p]) * K[g, j, p]     one chain of fused multiply-adds from +0
//   T[i, j] = softcap * tanh(T[i, j] / softcap)                             if softcap > 0
//   T[i, j] = T[i, j] + mask[i, j]                                          additive mask; boolean: -inf where 0
//   w[i, j] = exp(T[i, j] - max over visible j of T[i, j]),  l[i] = sum of w[i, j]
//   O[h, i, :] = sum over j ascending of w[i, j] * V[g, j, :] / l[i]        zeros when l[i] = 0
//   lse[h, i]  = log of the sum of exp(T[i, j])                             -inf when l[i] = 0
//
// Visible keys of row i, whose position is i + kv - q (the last row sits at the last key, also when q > kv):
//   causal: j <= position. window W: position - W < j, and without causal also j < position + W.
//
// Reading and writing
//   - All sizes and strides count elements, are 64-bit, and may be of any size, 0 rows and 0 keys included.
//   - Keys that are not visible to a row are not read for it, whatever they hold. A key that only the mask hides has
//     weight 0: its V is multiplied by 0 and must be finite. A row without a key gives zeros and lse = -inf.
//   - A NaN in row i of Q reaches row i of O only, and all of it.
//   - Exactly the elements of O and lse are written; padding is neither read nor written. No alignment is needed beyond
//     that of the element.
//   - O and lse must not overlap anything that is read, nor each other: refused with the name of the operand within a
//     sequence, undefined between sequences and calls. What is read may overlap.
//   - The caller's floating-point control (MXCSR) is obeyed on every thread and not changed.
//
// The bits of the result depend on the operands and the numerics class alone, which says where the sums over keys are
// cut:
//   online(256)   keys in blocks of 256, each with the largest score so far. The class unless another is allowed: the
//                 same on every machine and for every length, so that prefill and decode give the same bits
//   ordered       no cuts        online(b), split(b,s): other blocks, or s runs of keys that are merged
// Not on the plan, the tuning, the code generator, the instruction set, the number of threads, how K and V lie, or
// which other sequences are in the call. With numerics "any" the plan chooses the class too, and PlanInfo::numerics
// names it.
#pragma once

#include <span>

#include "hone/engine.hpp"

namespace hone {

// How heads and rows lie within a sequence, where a stride is left to the default.
enum class HeadLayout : uint8_t {
  kHeadsFirst,  // [heads][rows][dim], "bhsd": rows are dense, heads follow each other
  kRowsFirst,   // [rows][heads][dim], "bshd": what a projection gives
};

enum class AttentionMask : uint8_t {
  kNone,
  kAdditive,  // f32, added to the scores after soft-capping; -inf hides a key
  kBoolean,   // one byte each, 0 hides a key
};

// How the keys of a KvCache lie.
enum class KeyLayout : uint8_t {
  kChosen,   // by the plan
  kRows,     // key by key
  kBlocked,  // 16 keys side by side, so that scores stream. A page has to be a multiple of 16 keys
};

// What stays the same over all calls.
struct AttentionSpec {
  int64_t heads = 1;
  int64_t kv_heads = 0;   // that K and V have; heads is a multiple of it. 0: heads
  int64_t head_dim = 0;   // of Q and K
  int64_t value_dim = 0;  // of V and O; 0: head_dim
  HeadLayout layout = HeadLayout::kHeadsFirst;
  // Distance of rows, in elements; 0: that of `layout`. With `cache`, ldk and ldv are of the rows appended.
  int64_t ldq = 0, ldk = 0, ldv = 0, ldo = 0;
  bool causal = false;
  int64_t window = 0;  // 0: none
  AttentionMask mask = AttentionMask::kNone;
  float softcap = 0;  // 0: none
  float scale = 0;    // 0: 1 / sqrt(head_dim)
  bool lse = false;   // calls give the log of the sums too
  int64_t page = 0;   // keys in a page of the cache; 0: contiguous
  // Keys and values come from a KvCache. Otherwise each call says where they lie, key by key.
  bool cache = false;
  KeyLayout key_layout = KeyLayout::kChosen;  // with `cache` only
  // Numerics classes that a plan may have: "" online(256) only; "any"; or one class, "ordered", "online(512)".
  std::string numerics = {};
  // Sequences that a call usually has. Plans are made for it; calls may have any number.
  int64_t batch = 1;
  // Rows and keys that matter most: each pair gets a plan made for it alone. The first decides on KeyLayout::kChosen.
  struct Shape {
    int64_t q = 1, kv = 1;
  };
  std::vector<Shape> expected = {};
  // prepare() makes and compiles the plans of all calls whose sequences have up to max_q rows and max_kv keys, rows not
  // exceeding keys, one for each bucket of similar lengths: none of them compiles or waits for who does. Others work
  // too; the first call of its bucket compiles. max_q = 0: only the plans of `expected` are made beforehand.
  int64_t max_q = 512, max_kv = 4096;

  // From a problem string, "attention:f32:b=1,hq=32,hkv=8,q=512,kv=512,d=128:causal" (b, q and kv may be ranges or
  // lists: the largest b, and `expected`). k=blocked gives cache and KeyLayout::kBlocked. Error: invalid_argument
  // showing where.
  HONE_API static Result<AttentionSpec> parse(std::string_view problem);
};

// One sequence of a call: element 0 of each operand. Those that the spec has no use for stay null. A head stride of -1
// is that of the spec's layout; 0 lets all heads read the same K, V or mask.
struct AttentionSequence {
  int64_t q = 0;                 // rows, >= 0
  int64_t kv = 0;                // keys, >= 0. From a cache: the first kv that it holds, 0: all
  const float* query = nullptr;  // [heads][q][head_dim]
  const float* key = nullptr;    // [kv_heads][kv][head_dim]; with pages, page 0 of the pool
  const float* value = nullptr;  // [kv_heads][kv][value_dim]; with pages, page 0 of the pool
  float* out = nullptr;          // [heads][q][value_dim]
  const void* mask = nullptr;    // [q][kv] of f32 or bytes, see mask_head
  float* lse = nullptr;          // [heads][q]
  int64_t q_head = -1, k_head = -1, v_head = -1, o_head = -1, lse_head = -1;
  int64_t mask_head = 0;  // elements from the mask of one head to that of the next; 0: the same for all
  int64_t mask_row = -1;  // elements from row to row; -1: kv, 0: the same for all
  // spec.page > 0, without a cache: key j lies in page page_table[j / page] of the pool, a page is
  // [kv_heads][page][dim].
  const int32_t* page_table = nullptr;
  int64_t pages = 0;                 // in the pool
  int64_t k_page = -1, v_page = -1;  // elements from page to page; -1: dense
  int64_t cached = 0;                // spec.cache: which sequence of the cache
};

// What a KvCache is made for. Pages are taken at once. Without pages the memory of a sequence grows with it, by
// doubling, up to its capacity.
struct KvCacheSpec {
  int64_t sequences = 1;
  int64_t capacity = 0;  // keys that each sequence may have
  int64_t pages = 0;     // spec.page > 0: pages in the pool that all sequences share; 0: enough for all to be full
};

// Rows of K and V to be appended to one sequence, laid out as the spec says.
struct KvRows {
  int64_t tokens = 0;
  const float* key = nullptr;    // [kv_heads][tokens][head_dim]
  const float* value = nullptr;  // [kv_heads][tokens][value_dim]
  int64_t k_head = -1, v_head = -1;
};

// Keys and values of some sequences, kept by the engine in the layout that its attention reads. Calls on different
// sequences may run at the same time; one that changes a sequence must not run with another on the same sequence.
// Copies share everything.
class HONE_API KvCache {
 public:
  // All or nothing. Errors, with the cache as before: invalid_argument (no such sequence, tokens < 0, an operand null),
  // resource_exhausted (capacity, no page free: how many there are, and are needed; or no memory to grow).
  Status append(int64_t sequence, const KvRows& rows);
  // Forgets all keys from `length` on and gives back their pages. Error: invalid_argument (longer than it is).
  Status truncate(int64_t sequence, int64_t length);

  int64_t length(int64_t sequence) const;  // keys; 0 where there is no such sequence
  int64_t bytes() const;                   // of memory for K and V
  int64_t free_pages() const;              // 0 without pages
  KeyLayout key_layout() const;            // kRows or kBlocked

  class Impl;
  explicit KvCache(std::shared_ptr<Impl> impl) : impl_(std::move(impl)) {}

 private:
  friend class Attention;
  std::shared_ptr<Impl> impl_;
};

// A prepared attention. Has no state of its own: layers of the same spec may share one. Copies share everything, and
// keep the engine's resources alive.
class HONE_API Attention {
 public:
  // O and lse of all sequences; `cache`, made by cache() of an attention of the same spec, for spec.cache. Thread safe.
  // With a plan in place it compiles nothing, and allocates nothing once a call of as many sequences has run on this
  // thread. The plan is that of the longest q and kv in the call. Errors, with nothing written: invalid_argument
  // (naming sequence and operand). resource_exhausted (no memory for a workspace): O and lse are unspecified.
  Status run(std::span<const AttentionSequence> sequences, const KvCache* cache = nullptr) const;
  Status run(const AttentionSequence& sequence, const KvCache* cache = nullptr) const {
    return run({&sequence, 1}, cache);
  }

  // The plan for sequences of up to q rows and kv keys (each >= 1), compiled if it was not yet. Thread safe.
  Result<PlanInfo> plan(int64_t q, int64_t kv) const;

  // For spec.cache. Errors: failed_precondition (the spec has no cache), invalid_argument naming the field,
  // resource_exhausted.
  Result<KvCache> cache(const KvCacheSpec& spec) const;

  class Impl;
  explicit Attention(std::shared_ptr<Impl> impl) : impl_(std::move(impl)) {}

 private:
  friend struct EngineAccess;
  std::shared_ptr<Impl> impl_;
};

}  // namespace hone
