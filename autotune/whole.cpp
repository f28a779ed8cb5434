// See whole.h.
#include "autotune/whole.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace hone::autotune {
namespace {

constexpr double kConfidence = 0.95;
constexpr double kChanceOfBlame = 0.05;  // of noise, in a whole trial

// Default over tuned, round by round.
std::vector<double> logs_of(const PairedTimes& times) {
  std::vector<double> logs;
  for (size_t i = 0; i < std::min(times.by_default.size(), times.tuned.size()); ++i)
    logs.push_back(std::log(times.by_default[i] / times.tuned[i]));
  return logs;
}

bool runs_in(const WholePart& part, size_t work) { return work < part.works.size() && !part.works[work].tuned.empty(); }

class Judgement {
 public:
  Judgement(const std::vector<PairedTimes>& works, const std::vector<WholePart>& parts, double tail)
      : works_(works), parts_(parts), tail_(tail), taken_(parts.size()) {}

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
      if (surely_slower(works_[w], tail_)) blame(w, sure_speedup_of(works_[w], tail_));
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
      const Interval speedup = sure_speedup_of(times, tail_);
      const double loss = median(times.by_default) * (1 / speedup.mid - 1);
      all += loss;
      if (loss > most && surely_slower(times, tail_)) worst = w, of_worst = speedup, most = loss;
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
  const double tail_;
  std::vector<bool> taken_;  // by part
  std::vector<TakenBack> list_;
};

}  // namespace

Interval speedup_of(const PairedTimes& times) {
  const std::vector<double> logs = logs_of(times);
  if (logs.empty()) return {.lo = 0, .mid = 1, .hi = std::numeric_limits<double>::infinity()};
  return ratio_of(median_interval(logs, kConfidence));
}

Interval sure_speedup_of(const PairedTimes& times, double tail) {
  const std::vector<double> logs = logs_of(times);
  Interval speedup = ratio_of(order_interval(logs, tail));
  if (logs.size() < kFewestRounds) speedup.lo = 0, speedup.hi = std::numeric_limits<double>::infinity();
  return speedup;
}

bool surely_slower(const PairedTimes& times, double tail) {
  const Interval speedup = sure_speedup_of(times, tail);
  if (speedup.hi >= 1) return false;
  const std::vector<double> logs = logs_of(times);
  return speedup.mid < 1 / (1 + noise_bound(logs, static_cast<int>(logs.size())));
}

double tail_of_each(size_t questions, int passes) {
  return kChanceOfBlame / static_cast<double>(std::max<size_t>(questions, 1)) / std::max(passes, 1);
}

// The second of n values is the end of the interval where at most one of them is on the wrong side: n + 1 of 2^n cases.
size_t rounds_for(double tail) {
  size_t n = kFewestRounds;
  while (n < 64 && std::ldexp(static_cast<double>(n + 1), -static_cast<int>(n)) > tail) ++n;
  return n;
}

std::vector<TakenBack> take_back(const std::vector<PairedTimes>& works, const std::vector<WholePart>& parts,
                                 double tail) {
  return Judgement(works, parts, tail).blame();
}

std::vector<TakenBack> take_all_back(const std::vector<PairedTimes>& works, const std::vector<WholePart>& parts,
                                     double tail) {
  return Judgement(works, parts, tail).blame_all();
}

}  // namespace hone::autotune
