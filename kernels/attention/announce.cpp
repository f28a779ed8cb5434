// Announces K and V ahead of their use, for tasks that are bound by reading them.
//
// What counts is that memory is never idle and that several streams run at once. One core has some 16 line buffers, too
// few for the latency of memory; the hardware's own prefetching makes up for it, but follows each stream only so far
// ahead. So of the keys that start `prefetch` after the block's first, `streams` equal runs are announced side by side,
// a share of each with every step: while transposing and while multiplying, row after row as they lie.
#include "kernels/attention/lower_internal.h"

namespace hone::attention {

using ir::Affine;

namespace {
constexpr int64_t kLine = 16;  // elements
constexpr int kIntoL2 = 1;
}  // namespace

bool AttentionLowering::keys_are_flat() const { return p_.k == KeyLayout::kBlocked || p_.row_stride_k() == p_.d; }

// canonical() has reset what cannot be.
bool AttentionLowering::announces() const { return t_.prefetch > 0; }

// Elements [at, at + count) of each stream's run of keys, at within the run.
void AttentionLowering::announce_keys(const Block& block, const Affine& at, int64_t count) {
  for (int64_t s = 0; s < t_.streams; ++s) {
    const int64_t ahead = t_.prefetch + s * (t_.bk / t_.streams);
    for (int64_t c = 0; c < count; c += kLine) {
      if (p_.k == KeyLayout::kBlocked) {
        b_.prefetch({key_, {kv_head_, block.group + ahead / kKeyGroup, 0, at + c}}, kIntoL2);
      } else {
        b_.prefetch({key_, {kv_head_, block.group * kKeyGroup + ahead, at + c}}, kIntoL2);
      }
    }
  }
}

// With the square of rows `u` to `u` + lanes of a group, columns from p: the first half of what this strip (or, when
// all of the block is transposed first, the block) announces; the products announce the other.
void AttentionLowering::announce_with_transposition(const Block& block, const Affine& group, const Affine& to,
                                                    int64_t u, const Affine& p, const Affine& row) {
  if (!announces()) return;
  if (!keys_are_flat()) {
    for (int64_t j = 0; j < t_.lanes; ++j) b_.prefetch({key_, {kv_head_, row + (j + t_.prefetch), p}}, kIntoL2);
    return;
  }
  const int64_t half = kKeyGroup / 2 * p_.d / t_.streams;
  // group - to: the first group of the strip, of which as much was left to the products in each strip before it.
  const Affine before = t_.pack_k == PackK::kStrip ? (group - to) * half : Affine(0);
  const int64_t step = t_.lanes * t_.lanes / 2;
  announce_keys(block, before + group * half + u * p_.d / 2 / t_.streams + p * (t_.lanes / 2 / t_.streams),
                std::max<int64_t>(1, step / t_.streams));
}

// With kScoreSteps steps from p of a strip of which `groups` are there.
void AttentionLowering::announce_with_scores(const Block& block, const Affine& strip, int64_t groups, const Affine& p) {
  if (!announces() || !keys_are_flat()) return;
  const int64_t strip_run = t_.nr * p_.d / t_.streams, block_run = t_.bk * p_.d / t_.streams;
  const int64_t per_step = groups * kKeyGroup / t_.streams;
  switch (t_.pack_k) {
    case PackK::kNone:
      return announce_keys(block, strip * strip_run + p * per_step, kScoreSteps * per_step);
    case PackK::kStrip:
      return announce_keys(block, strip * strip_run + strip_run / 2 + p * (per_step / 2), kScoreSteps * per_step / 2);
    case PackK::kBlock:
      return announce_keys(block, strip * (strip_run / 2) + block_run / 2 + p * (per_step / 2),
                           kScoreSteps * per_step / 2);
  }
}

// With key `s` of `streams`: columns of one row of V, row `at` of the run s.
void AttentionLowering::announce_values(const Block& block, const Affine& at, int64_t s, const Affine& column,
                                        int64_t columns) {
  const int64_t ahead = t_.prefetch + s * (t_.bk / t_.streams);
  for (int64_t c = 0; c < columns; c += kLine)
    b_.prefetch({value_, {kv_head_, block.group * kKeyGroup + ahead + at, column + c}}, kIntoL2);
}

}  // namespace hone::attention
