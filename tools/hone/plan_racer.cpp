// See plan_racer.h. A sample is one call; short calls are repeated until the sample takes kSampleNs. An untimed call
// goes before it, as the plans before this one have left their own weights in the caches: in a model, what ran a moment
// ago is the same plan.
#include "tools/hone/plan_racer.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>

#include "engine/graph/reference.h"
#include "engine/passes/pass.h"

namespace hone::cli {
namespace {

using autotune::Prepared;
using autotune::Timing;
using graph::Tensor;

constexpr int64_t kSampleNs = 20'000;
constexpr int64_t kLongCallNs = 50'000'000;  // what it finds in the caches is little of it
constexpr int64_t kMostRepeats = 1000;
constexpr int64_t kReferenceTokens = 3;

bool same(const Tensor& a, const Tensor& b, size_t i, float bound) {
  if (a.dtype != DType::kF32) return a.data[i] == b.data[i];
  const float x = a.as<float>()[i], y = b.as<float>()[i];
  if (std::memcmp(&x, &y, sizeof x) == 0) return true;
  return bound > 0 && std::abs(x - y) <= bound;  // false for NaN
}

std::string value_at(const Tensor& t, size_t i) {
  return t.dtype == DType::kF32 ? fmt::format("{}", t.as<float>()[i]) : fmt::format("{:#04x}", t.data[i]);
}

}  // namespace

std::string difference(const std::vector<Tensor>& got, const std::vector<Tensor>& want, bool same_bits) {
  if (got.size() != want.size()) return fmt::format("{} outputs instead of {}", got.size(), want.size());
  for (size_t o = 0; o < got.size(); ++o) {
    if (got[o].shape != want[o].shape || got[o].dtype != want[o].dtype)
      return fmt::format("output {} has another shape", o);
    float largest = 0;
    if (want[o].dtype == DType::kF32 && !same_bits)
      for (const float f : want[o].as<float>())
        if (std::isfinite(f)) largest = std::max(largest, std::abs(f));
    const size_t count = want[o].dtype == DType::kF32 ? want[o].as<float>().size() : want[o].data.size();
    for (size_t i = 0; i < count; ++i)
      if (!same(got[o], want[o], i, kClassBound * largest))
        return fmt::format("output {}, element {} is {} and must be {}", o, i, value_at(got[o], i),
                           value_at(want[o], i));
  }
  return "";
}

Result<executable::ExecutablePlan> PlanRacer::compile(const passes::PlanPolicy& policy) const {
  passes::Compilation c;
  c.graph = graph_;
  c.policy = policy;
  HONE_RETURN_IF_ERROR(passes::run_passes(c).status());
  return executable::ExecutablePlan::create(engine_, std::move(c),
                                            {.expected_tokens = {call_.tokens}, .warm_up = false});
}

// A few tokens, behind as many others where the graph has a position: what a call left is read by the next.
Status PlanRacer::check_reference(const executable::ExecutablePlan& plan) const {
  const graph::Symbol* s = graph_.find_symbol(graph_.tokens.as_symbol().value_or(""));
  const bool few = s == nullptr || (s->min <= kReferenceTokens && s->multiple_of == 1);
  const int64_t tokens = few ? std::min(call_.tokens, kReferenceTokens) : call_.tokens;
  const graph::Symbol* p = graph_.find_symbol(graph_.position);
  const int64_t position = p != nullptr && p->max >= 2 * tokens ? tokens : 0;
  HONE_ASSIGN_OR_RETURN(PlanCall call, PlanCall::create(plan, graph_, {tokens, position, call_.seed}));
  HONE_RETURN_IF_ERROR(call.run());
  graph::ReferenceState state;
  if (position > 0) {
    HONE_ASSIGN_OR_RETURN(const std::vector<Tensor> before,
                          invented_inputs(graph_, tokens, 0, PlanCall::seed_before(call_.seed, 0)));
    HONE_RETURN_IF_ERROR(graph::evaluate(graph_, before, &state).status());
  }
  HONE_ASSIGN_OR_RETURN(const std::vector<Tensor> inputs, invented_inputs(graph_, tokens, position, call_.seed));
  HONE_ASSIGN_OR_RETURN(const std::vector<Tensor> want, graph::evaluate(graph_, inputs, &state));
  const std::string differs = difference(call.outputs(), want, policies_[0].attention.empty());
  if (differs.empty()) return {};
  return data_loss(fmt::format("against the reference, {} token(s) at {}: {}", tokens, position, differs));
}

Status PlanRacer::check_call(int candidate, PlanCall& call) {
  HONE_RETURN_IF_ERROR(call.run());
  HONE_RETURN_IF_ERROR(call.forget());
  if (wanted_.empty()) {
    wanted_ = call.outputs();
    return {};
  }
  const bool same_class = policies_[static_cast<size_t>(candidate)].attention == policies_[0].attention;
  const std::string differs = difference(call.outputs(), wanted_, same_class);
  return differs.empty() ? Status() : data_loss("against the default plan: " + differs);
}

Result<PlanRacer::Ready> PlanRacer::make(int candidate) {
  HONE_ASSIGN_OR_RETURN(const executable::ExecutablePlan plan, compile(policies_[static_cast<size_t>(candidate)]));
  if (candidate == 0 && wanted_.empty()) HONE_RETURN_IF_ERROR(check_reference(plan));
  HONE_ASSIGN_OR_RETURN(PlanCall call, PlanCall::create(plan, graph_, call_));
  Ready ready{.call = std::move(call)};
  const int64_t begin = clock_.now_ns();
  HONE_RETURN_IF_ERROR(check_call(candidate, ready.call));
  const int64_t first = clock_.now_ns() - begin;
  ready.settles = first < kLongCallNs;
  if (!ready.settles) return ready;
  HONE_ASSIGN_OR_RETURN(const int64_t once, time_once(ready.call));
  ready.repeat = static_cast<int>(std::clamp<int64_t>(kSampleNs / std::max<int64_t>(once, 1), 1, kMostRepeats));
  return ready;
}

Prepared PlanRacer::prepare(int candidate) {
  if (ready_.contains(candidate)) return {};
  if (candidate != 0 && wanted_.empty()) return {db::Outcome::kRefused, "the default plan has not run"};
  Result<Ready> ready = make(candidate);
  if (!ready.ok())
    return {ready.status().code() == Code::kDataLoss ? db::Outcome::kWrong : db::Outcome::kRefused,
            ready.status().message()};
  ready_.emplace(candidate, std::move(*ready));
  return {};
}

Result<int64_t> PlanRacer::time_once(PlanCall& call) {
  const int64_t begin = clock_.now_ns();
  HONE_RETURN_IF_ERROR(call.run());
  const int64_t ns = clock_.now_ns() - begin;
  HONE_RETURN_IF_ERROR(call.forget());
  return ns;
}

Result<int64_t> PlanRacer::sample(Ready& ready) {
  if (ready.settles) HONE_RETURN_IF_ERROR(time_once(ready.call).status());
  int64_t total = 0;
  for (int i = 0; i < ready.repeat; ++i) {
    HONE_ASSIGN_OR_RETURN(const int64_t ns, time_once(ready.call));
    total += ns;
  }
  if (total <= 0) return failed_precondition("a time of 0");
  return std::max<int64_t>(total / ready.repeat, 1);
}

std::vector<Timing> PlanRacer::round(std::span<const int> arms) {
  std::vector<Timing> timings;
  for (const int arm : arms) {
    const int64_t begin = clock_.now_ns();
    const Prepared again = prepare(arm);
    Timing timing{.outcome = again.outcome, .detail = again.detail};
    if (again.outcome == db::Outcome::kMeasured) {
      const Result<int64_t> ns = sample(ready_.at(arm));
      if (ns.ok()) timing.ns = *ns;
      if (!ns.ok()) timing.outcome = db::Outcome::kRefused, timing.detail = ns.status().message();
    }
    timing.wall_ns = clock_.now_ns() - begin;
    timings.push_back(std::move(timing));
  }
  return timings;
}

}  // namespace hone::cli
