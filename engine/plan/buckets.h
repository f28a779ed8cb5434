// Buckets of sizes: which calls share one plan.
//
// Rows (M of matmul, q of attention): 1..8 rows are a bucket each, as the number of rows decides the register
// tile there (B is streamed once and bounds the time). Above that one bucket per power of two, (8, 16], (16, 32], ...:
// within a factor of two the same blocking is right, and 66 buckets cover every M that has an address.
#pragma once

#include <bit>
#include <cstdint>

namespace hone::plan {

inline constexpr int64_t kSingleRows = 8;
inline constexpr int64_t kMaxM = int64_t{1} << 61;  // a column of f32 fills the 63-bit address space
inline constexpr int kBuckets = 8 + 58;

// Bucket of m, 1 <= m <= kMaxM.
constexpr int bucket_of(int64_t m) {
  if (m <= kSingleRows) return static_cast<int>(m - 1);
  return static_cast<int>(kSingleRows) + std::bit_width(static_cast<uint64_t>(m - 1)) - 4;
}

// The largest m of a bucket: the plan is made for it.
constexpr int64_t bucket_m(int bucket) {
  if (bucket < kSingleRows) return bucket + 1;
  return int64_t{16} << (bucket - kSingleRows);
}

// The smallest m of a bucket.
constexpr int64_t bucket_first_m(int bucket) {
  if (bucket < kSingleRows) return bucket + 1;
  return bucket_m(bucket) / 2 + 1;
}

// Keys of attention: up to 256, the default block of keys (attention::kDefaultKeyBlock), it is the same work whatever
// their number; above that one bucket per power of two.
inline constexpr int64_t kFewKeys = 256;
inline constexpr int kKeyBuckets = 1 + 53;  // up to kMaxM as well

// Bucket of kv, 1 <= kv <= kMaxM.
constexpr int key_bucket_of(int64_t kv) {
  return kv <= kFewKeys ? 0 : std::bit_width(static_cast<uint64_t>(kv - 1)) - 8;
}

// The largest kv of a bucket: the plan is made for it, as some plans promise no more keys than they were made for.
constexpr int64_t bucket_keys(int bucket) { return kFewKeys << bucket; }

}  // namespace hone::plan
