// A prepared attention: a slot per bucket of rows and bucket of keys, filled when it is prepared (up to max_q and
// max_kv) or on first use, and then read without a lock.
#pragma once

#include <memory>
#include <vector>

#include "engine/attention_plan_internal.h"
#include "engine/attention_spec_internal.h"
#include "engine/plan/buckets.h"
#include "engine/slots_internal.h"
#include "hone/attention.hpp"

namespace hone {

class Attention::Impl {
 public:
  static Result<Attention> create(std::shared_ptr<Engine::State> state, const AttentionSpec& spec);

  Status run(std::span<const AttentionSequence> sequences, const KvCache::Impl* cache);
  Result<PlanInfo> plan(int64_t q, int64_t kv);
  Result<const AttentionReady*> ready(int64_t q, int64_t kv);
  Result<KvCache> cache(const KvCacheSpec& spec) const;

 private:
  using Slot = hone::Slot<AttentionReady>;
  // Lengths of their own that the caller expects and that are not those that their bucket is planned for.
  struct Expected {
    int64_t q, kv;
    std::unique_ptr<Slot> slot;
  };

  Impl(std::shared_ptr<Engine::State> state, const AttentionForm& form, std::string numerics);
  Status warm_up(const AttentionSpec& spec);
  attention::AttentionProblem problem_for(int64_t q, int64_t kv) const;
  Slot& bucket(int rows, int keys) { return buckets_[static_cast<size_t>(rows * plan::kKeyBuckets + keys)]; }
  Result<const AttentionReady*> ready_for(int64_t q, int64_t kv);
  // problem() is asked only where the slot is empty.
  template <typename Problem>
  Result<const AttentionReady*> fill(Slot& slot, Problem problem) {
    return filler_.fill(slot, [&] { return make_ready(*state_, problem(), constraints_); });
  }
  Result<const AttentionReady*> fill_bucket(int rows, int keys);
  Status add_operands(const AttentionSequence& sequence, const KvCache::Impl* cache,
                      std::vector<attention::Sequence>& operands) const;

  const std::shared_ptr<Engine::State> state_;
  const AttentionForm form_;
  plan::Constraints constraints_;
  std::vector<Slot> buckets_;       // kBuckets x kKeyBuckets
  std::vector<Expected> expected_;  // fixed after create()
  SlotFiller<AttentionReady> filler_;
};

}  // namespace hone
