// See whole.h.
#include "autotune/whole.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace hone::autotune {
namespace {

constexpr double kConfidence = 0.95;

bool runs_in(const WholePart& part, size_t work) { return work < part.works.size() && !part.works[work].tuned.empty(); }

class Judgement {
 public:
  Judgement(const std::vector<PairedTimes>& works, const std::vector<WholePart>& parts)
      : works_(works), parts_(parts), taken_(parts.size()) {}

  std::vector<TakenBack> blame() {
    blame_each();
    if (list_.empty()) for_slower_works([this](size_t w, const Interval& speedup) { blame_parts_of(w, speedup); });
    return std::move(list_);
  }

  std::vector<TakenBack> blame_all() {
    blame_each();
    for_slower_works([this](size_t w, const Interval& speedup) {
      for (size_t p = 0; p < parts_.size(); ++p)
        if (parts_[p].tuned && runs_in(parts_[p], w)) take_with_layout(p, w, Cause::kWork, speedup);
    });
    return std::move(list_);
  }

 private:
  template <typename Blame>
  void for_slower_works(Blame blame) {
    for (size_t w = 0; w < works_.size(); ++w)
      if (const Interval speedup = speedup_of(works_[w]); surely_slower(speedup)) blame(w, speedup);
  }

  void take(size_t part, size_t work, Cause cause, const Interval& speedup) {
    if (taken_[part] || !parts_[part].tuned) return;
    taken_[part] = true;
    list_.push_back({part, work, cause, speedup});
  }

  void take_with_layout(size_t part, size_t work, Cause cause, const Interval& speedup) {
    if (!parts_[part].relaid) return take(part, work, cause, speedup);
    for (size_t p = 0; p < parts_.size(); ++p)
      if (parts_[p].layout == parts_[part].layout) take(p, work, Cause::kLayout, speedup);
  }

  void blame_each() {
    for (size_t p = 0; p < parts_.size(); ++p)
      if (parts_[p].tuned) blame_itself(p);
  }

  // In the work where it costs most; unless it gains more in others.
  void blame_itself(size_t part) {
    size_t worst = works_.size();
    Interval of_worst;
    double most = 0, all = 0;  // nanoseconds
    for (size_t w = 0; w < works_.size(); ++w) {
      if (!runs_in(parts_[part], w)) continue;
      const PairedTimes& times = parts_[part].works[w];
      const Interval speedup = speedup_of(times);
      const double loss = median(times.by_default) * (1 / speedup.mid - 1);
      all += loss;
      if (surely_slower(speedup) && loss > most) worst = w, of_worst = speedup, most = loss;
    }
    if (worst < works_.size() && all > 0) take_with_layout(part, worst, Cause::kItself, of_worst);
  }

  void blame_parts_of(size_t work, const Interval& speedup) {
    std::vector<size_t> suspects, slower;
    for (size_t p = 0; p < parts_.size(); ++p) {
      if (taken_[p] || !parts_[p].tuned || !runs_in(parts_[p], work)) continue;
      suspects.push_back(p);
      if (speedup_of(parts_[p].works[work]).mid < 1) slower.push_back(p);
    }
    if (slower.empty()) {
      std::stable_sort(suspects.begin(), suspects.end(), [&](size_t a, size_t b) {
        return median(parts_[a].works[work].tuned) > median(parts_[b].works[work].tuned);
      });
      suspects.resize((suspects.size() + 1) / 2);
      slower = std::move(suspects);
    }
    for (const size_t p : slower) take_with_layout(p, work, Cause::kWork, speedup);
  }

  const std::vector<PairedTimes>& works_;
  const std::vector<WholePart>& parts_;
  std::vector<bool> taken_;  // by part
  std::vector<TakenBack> list_;
};

}  // namespace

Interval speedup_of(const PairedTimes& times) {
  const size_t rounds = std::min(times.by_default.size(), times.tuned.size());
  if (rounds == 0) return {.lo = 0, .mid = 1, .hi = std::numeric_limits<double>::infinity()};
  std::vector<double> logs;
  for (size_t i = 0; i < rounds; ++i) logs.push_back(std::log(times.by_default[i] / times.tuned[i]));
  return ratio_of(median_interval(logs, kConfidence));
}

bool surely_slower(const Interval& speedup) { return speedup.hi < 1 && speedup.mid < 1 / (1 + kNoiseFloor); }

std::vector<TakenBack> take_back(const std::vector<PairedTimes>& works, const std::vector<WholePart>& parts) {
  return Judgement(works, parts).blame();
}

std::vector<TakenBack> take_all_back(const std::vector<PairedTimes>& works, const std::vector<WholePart>& parts) {
  return Judgement(works, parts).blame_all();
}

}  // namespace hone::autotune
