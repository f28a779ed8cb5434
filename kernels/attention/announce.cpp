// Announces K and V ahead of their use, for tasks that are bound by reading them.
//
// Software prefetches alone do not fill memory's pipeline: one core has some 16 line buffers, too few for the latency
// of memory. The prefetcher of L2 does, but it wants to be shown its way: it follows accesses in one page of 4 KB. So
// all is announced in the order in which it lies, and each line twice: first `lead` keys (less than a page) ahead of
// the second time, which is `prefetch` keys ahead of its use. What is only announced once, a page or more ahead of its
// use, is read at 78% of the speed of four plain streams, several runs side by side at 82%, in pairs at 91% (V alone, 4
// rows, d=128, one thread of a Granite Rapids VM; a loop that only reads 75 and 98%).
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

// Elements [at, at + count) of the keys that start `prefetch` after the block's first.
void AttentionLowering::announce_keys(const Block& block, const Affine& at, int64_t count) {
  auto line = [&](const Affine& element) {
    if (p_.k == KeyLayout::kBlocked) {
      b_.prefetch({key_, {kv_head_, block.group + t_.prefetch / kKeyGroup, 0, element}}, kIntoL2);
    } else {
      b_.prefetch({key_, {kv_head_, block.group * kKeyGroup + t_.prefetch, element}}, kIntoL2);
    }
  };
  for (int64_t c = 0; c < count; c += kLine) {
    if (t_.lead > 0) line(at + (c + t_.lead * p_.d));
    line(at + c);
  }
}

// With the square of rows `u` to `u` + lanes of a group, columns from p: the first half of what this strip (or, when
// all of the block is transposed first, the block) announces; the products announce the other.
void AttentionLowering::announce_with_transposition(const Block& block, const Affine& group, const Affine& to,
                                                    int64_t u, const Affine& p, const Affine& row) {
  if (!announces()) return;
  if (!keys_are_flat()) {
    for (int64_t j = 0; j < t_.lanes; ++j) b_.prefetch({key_, {kv_head_, row + (j + t_.prefetch), p}}, kIntoL2);
    return;  // the order is not that of memory: nothing to lead
  }
  const int64_t half = kKeyGroup / 2 * p_.d;
  // group - to: the first group of the strip, of which as much was left to the products in each strip before it.
  const Affine before = t_.pack_k == PackK::kStrip ? (group - to) * half : Affine(0);
  const int64_t step = t_.lanes * t_.lanes / 2;
  announce_keys(block, before + group * half + u * p_.d / 2 + p * (t_.lanes / 2), step);
}

// With kScoreSteps steps from p of a strip of which `groups` are there.
void AttentionLowering::announce_with_scores(const Block& block, const Affine& strip, int64_t groups, const Affine& p) {
  if (!announces() || !keys_are_flat()) return;
  const int64_t strip_run = t_.nr * p_.d, block_run = t_.bk * p_.d;
  const int64_t per_step = groups * kKeyGroup;
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

// Part `part` of as many as there are column tiles: of row `at` of V, counted from `prefetch` keys after the block's
// first.
void AttentionLowering::announce_values(const Block& block, const Affine& at, int64_t part) {
  const Affine key = block.group * kKeyGroup + t_.prefetch + at;
  for (int64_t c = part * t_.vn; c < std::min((part + 1) * t_.vn, p_.value_dim()); c += kLine) {
    if (t_.lead > 0) b_.prefetch({value_, {kv_head_, key + t_.lead, c}}, kIntoL2);
    b_.prefetch({value_, {kv_head_, key, c}}, kIntoL2);
  }
}

}  // namespace hone::attention
