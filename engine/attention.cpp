// The hot path reads from top to bottom in Impl::run: check the operands, find the slot of the longest, launch.
#include <fmt/format.h>

#include <algorithm>

#include "engine/attention_internal.h"
#include "engine/base/guarded.h"
#include "engine/base/log.h"
#include "engine/kv_cache_internal.h"

namespace hone {
namespace {

using attention::AttentionProblem;
using attention::Sequence;

// Which of several sequences an error is about.
Status named(Status status, size_t sequence, size_t sequences) {
  if (sequences == 1) return status;
  return {status.code(), fmt::format("sequence {}: {}", sequence, status.message())};
}

}  // namespace

Status Attention::Impl::run(std::span<const AttentionSequence> sequences, const KvCache::Impl* cache) {
  if (form_.cache && cache == nullptr)
    return invalid_argument("cache is null, but this attention reads from a KvCache");
  if (!form_.cache && cache != nullptr)
    return invalid_argument("a cache is given, but this attention was prepared without AttentionSpec::cache");
  if (cache != nullptr) HONE_RETURN_IF_ERROR(cache->check_fits(form_.problem));
  thread_local std::vector<Sequence> operands;  // its memory is what calls reuse
  operands.clear();
  for (size_t i = 0; i < sequences.size(); ++i) {
    if (Status s = add_operands(sequences[i], cache, operands); !s.ok())
      return named(std::move(s), i, sequences.size());
  }
  if (operands.empty()) return {};
  int64_t q = 1, kv = 1;
  for (const Sequence& s : operands) q = std::max(q, s.q), kv = std::max(kv, s.kv);
  HONE_ASSIGN_OR_RETURN(const AttentionReady* const ready, ready_for(q, kv));
  return ready->run(operands);
}

// Sequences without rows are left out: they have nothing to write.
Status Attention::Impl::add_operands(const AttentionSequence& sequence, const KvCache::Impl* cache,
                                     std::vector<Sequence>& operands) const {
  AttentionSequence lengths = sequence;
  if (cache != nullptr) {
    HONE_ASSIGN_OR_RETURN(lengths.kv, cache->keys(sequence.cached, sequence.kv));
  }
  HONE_ASSIGN_OR_RETURN(Sequence operand, sequence_of(form_, lengths));
  if (cache != nullptr) cache->set_operands(sequence.cached, operand);
  HONE_RETURN_IF_ERROR(attention::check_sequence(problem_for(operand.q, operand.kv), operand));
  if (operand.q > 0) operands.push_back(operand);
  return {};
}

Result<const AttentionReady*> Attention::Impl::ready(int64_t q, int64_t kv) {
  if (q < 1 || kv < 1) return invalid_argument(fmt::format("q={}, kv={}: a plan needs at least one of each", q, kv));
  HONE_RETURN_IF_ERROR(attention::validate(problem_for(q, kv)));
  return ready_for(q, kv);
}

Result<PlanInfo> Attention::Impl::plan(int64_t q, int64_t kv) {
  HONE_ASSIGN_OR_RETURN(const AttentionReady* const found, ready(q, kv));
  return describe(*found);
}

// ---- slots ----

AttentionProblem Attention::Impl::problem_for(int64_t q, int64_t kv) const {
  AttentionProblem problem = form_.problem;
  problem.q = q;
  problem.kv = kv;
  return problem;
}

Result<const AttentionReady*> Attention::Impl::ready_for(int64_t q, int64_t kv) {
  for (Expected& e : expected_)
    if (e.q == q && e.kv == kv) return fill(*e.slot, [&] { return attention::canonical(problem_for(q, kv)); });
  return fill_bucket(plan::bucket_of(q), plan::key_bucket_of(kv));
}

// For the largest lengths of the bucket: a plan may promise no more keys than it was made for, and a window that hides
// nothing of these hides nothing of fewer. Where the lengths are beyond all sizes, those of rows may be smaller.
Result<const AttentionReady*> Attention::Impl::fill_bucket(int rows, int keys) {
  return fill(bucket(rows, keys), [&] {
    const AttentionProblem largest = problem_for(plan::bucket_m(rows), plan::bucket_keys(keys));
    if (attention::validate(largest).ok()) return attention::canonical(largest);
    return problem_for(plan::bucket_first_m(rows), plan::bucket_keys(keys));
  });
}

// ---- preparing ----

Attention::Impl::Impl(std::shared_ptr<Engine::State> state, const AttentionForm& form, std::string numerics)
    : state_(std::move(state)), form_(form), buckets_(static_cast<size_t>(plan::kBuckets * plan::kKeyBuckets)) {
  constraints_.numerics = std::move(numerics);
}

Result<Attention> Attention::Impl::create(std::shared_ptr<Engine::State> state, const AttentionSpec& spec) {
  for (const AttentionSpec::Shape& s : spec.expected)
    if (s.q < 0 || s.kv < 0)
      return invalid_argument(fmt::format("expected has q={}, kv={}; lengths cannot be negative", s.q, s.kv));
  if (spec.max_q < 0 || spec.max_kv < 0)
    return invalid_argument(fmt::format("max_q={}, max_kv={}: neither can be negative", spec.max_q, spec.max_kv));
  HONE_ASSIGN_OR_RETURN(const AttentionForm form, form_of(spec, choose_key_layout(*state, spec)));
  std::shared_ptr<Impl> impl(new Impl(std::move(state), form, spec.numerics));
  HONE_RETURN_IF_ERROR(impl->warm_up(spec));
  return Attention(std::move(impl));
}

// As Matmul's: what the caller expects has to be had, other buckets may be left to their first call.
Status Attention::Impl::warm_up(const AttentionSpec& spec) {
  for (const AttentionSpec::Shape& s : spec.expected) {
    if (s.q == 0 || s.kv == 0) continue;
    HONE_RETURN_IF_ERROR(attention::validate(problem_for(s.q, s.kv)));
    const bool own =
        plan::bucket_m(plan::bucket_of(s.q)) != s.q || plan::bucket_keys(plan::key_bucket_of(s.kv)) != s.kv;
    if (own) expected_.push_back({s.q, s.kv, std::make_unique<Slot>()});
    HONE_RETURN_IF_ERROR(ready_for(s.q, s.kv).status());
  }
  if (spec.max_q == 0 || spec.max_kv == 0) return {};
  const int rows = plan::bucket_of(std::min(spec.max_q, plan::kMaxM)) + 1;
  const int keys = plan::key_bucket_of(std::min(spec.max_kv, plan::kMaxM)) + 1;
  for (int k = 0; k < keys; ++k) {
    for (int r = 0; r < rows && plan::bucket_first_m(r) <= plan::bucket_keys(k); ++r) {
      // From here on calls are refused: no plan is needed.
      if (!attention::validate(problem_for(plan::bucket_first_m(r), plan::bucket_keys(k))).ok()) return {};
      const Result<const AttentionReady*> made = guarded([&] { return fill_bucket(r, k); });
      if (made.ok()) continue;
      const AttentionProblem missing = problem_for(plan::bucket_m(r), plan::bucket_keys(k));
      HONE_LOG_EVENT(LogTopic::kDispatch, "not_prepared",
                     {{"problem", attention::to_string(missing)}, {"why", made.status().message()}});
      return {};
    }
  }
  return {};
}

Result<KvCache> Attention::Impl::cache(const KvCacheSpec& spec) const {
  if (!form_.cache) return failed_precondition("this attention was prepared without AttentionSpec::cache");
  return KvCache::Impl::create(state_, form_, spec);
}

// ---- the public face ----

Result<Attention> Engine::prepare(const AttentionSpec& spec) const {
  return guarded([&] { return Attention::Impl::create(state_, spec); });
}

Status Attention::run(std::span<const AttentionSequence> sequences, const KvCache* cache) const {
  return guarded([&] { return impl_->run(sequences, cache == nullptr ? nullptr : cache->impl_.get()); });
}

Result<PlanInfo> Attention::plan(int64_t q, int64_t kv) const {
  return guarded([&] { return impl_->plan(q, kv); });
}

Result<const plan::PlanFacts*> EngineAccess::facts(const Attention& attention, int64_t q, int64_t kv) {
  HONE_ASSIGN_OR_RETURN(const AttentionReady* const ready, attention.impl_->ready(q, kv));
  return &ready->plan;
}

Result<KvCache> Attention::cache(const KvCacheSpec& spec) const {
  return guarded([&] { return impl_->cache(spec); });
}

}  // namespace hone
