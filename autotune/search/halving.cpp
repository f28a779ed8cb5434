// Successive halving in two stages. Admission takes candidates in batches, in the order of the cost model, gives each
// two rounds together with the baseline, and keeps those near the leader. Halving then doubles the rounds of those that
// are left and drops the worse half, except who is still a tie with the leader: a tie is kept as long as there is time.
//
// Admission may take 55% of the time. More would measure more candidates than halving can tell apart; less would leave
// the cost model the last word. The order of the model is not trusted further than that: among equals by the model,
// hundreds differ by 10% in truth.
#include <algorithm>
#include <cmath>

#include "autotune/search/stats.h"
#include "autotune/search/strategy.h"

namespace hone::autotune {
namespace {

constexpr double kAdmissionShare = 0.55;
constexpr size_t kBatch = 8;
constexpr int kAdmissionRounds = 2;
constexpr int kDoubtfulRounds = 2;
// Log-ratios of one candidate that differ by more than this were not both undisturbed.
constexpr double kDisagreement = 0.08;
// After two rounds: further behind than noise on a busy machine can explain.
const double kHopeless = std::log(1.30);
constexpr size_t kMostSurvivors = 24;
constexpr size_t kFinal = 2;
constexpr int kMostRounds = 64;

class Halving {
 public:
  Halving(Race& race, const SearchTask& task) : race_(race), task_(task) {}

  // Halving may be over early, when few were ties: the time left goes to those who were not admitted, against the
  // finalists so far.
  SearchResult run() {
    bool separated = true;
    while (separated && admission()) separated = halve();
    return {.winner = leader(), .complete = separated && next_ >= task_.order.size()};
  }

 private:
  int leader() const { return best_of(race_, task_, survivors_); }

  void progress(size_t waiting) {
    if (!task_.on_progress) return;
    const int best = leader();
    task_.on_progress(static_cast<int>(survivors_.size() + waiting), best, std::exp(score(race_, task_, best)));
  }

  std::vector<int> with_baseline(std::vector<int> arms) const {
    if (std::find(arms.begin(), arms.end(), task_.baseline) == arms.end()) arms.push_back(task_.baseline);
    return arms;
  }

  // False when there was nobody left to admit, or no time.
  bool admission() {
    const size_t first = next_;
    const int64_t begin = race_.now();
    const int64_t end = begin + static_cast<int64_t>(kAdmissionShare * static_cast<double>(task_.deadline_ns - begin));
    const int pair[] = {task_.baseline, task_.baseline};
    while (next_ < task_.order.size() && !race_.stopped() && race_.now() < end) {
      if (race_.now() + race_.prepare_ns() + kAdmissionRounds * race_.expected_ns(pair) > task_.deadline_ns) break;
      std::vector<int> batch;
      while (next_ < task_.order.size() && batch.size() < kBatch && !race_.stopped()) {
        // Preparing costs as much as several samples: do not start what there is no time to race.
        const int64_t racing = kAdmissionRounds * std::max(race_.expected_ns(with_baseline(batch)), int64_t{0});
        if (!batch.empty() && race_.now() + race_.prepare_ns() + racing > end) break;
        const int c = task_.order[next_++];
        if (c != task_.baseline && race_.prepare(c)) batch.push_back(c);
      }
      if (batch.empty()) continue;
      const std::vector<int> arms = with_baseline(batch);
      admission_rounds(arms);
      survivors_.insert(survivors_.end(), batch.begin(), batch.end());
      keep_near_leader();
      progress(task_.order.size() - next_);
    }
    return next_ > first;
  }

  // Of two ratios that disagree one was disturbed; a third says which. A disturbed baseline makes all of them doubtful.
  void admission_rounds(const std::vector<int>& arms) {
    auto affordable = [&](const std::vector<int>& a) {
      return !race_.stopped() && race_.now() + race_.expected_ns(a) <= task_.deadline_ns;
    };
    for (int i = 0; i < kAdmissionRounds && (i == 0 || affordable(arms)); ++i) race_.round(db::Phase::kSearch, arms);
    for (int i = 0; i < kDoubtfulRounds; ++i) {
      std::vector<int> doubtful;
      for (int c : arms)
        if (c != task_.baseline && race_.alive(c) && is_doubtful(c)) doubtful.push_back(c);
      if (doubtful.empty()) return;
      doubtful = with_baseline(doubtful);
      if (!affordable(doubtful)) return;
      race_.round(db::Phase::kSearch, doubtful);
    }
  }

  bool is_doubtful(int c) const {
    std::vector<double> ratios = race_.log_ratios(db::Phase::kSearch, c, task_.baseline);
    if (ratios.size() < 2) return true;
    std::sort(ratios.begin(), ratios.end());
    // Settled when the median has company, or when even the best of them is hopeless.
    const size_t middle = ratios.size() / 2;
    return ratios[middle] - ratios[middle - 1] > kDisagreement && ratios.front() < kHopeless;
  }

  void sort_survivors() {
    std::erase_if(survivors_, [&](int c) { return !race_.alive(c); });
    std::stable_sort(survivors_.begin(), survivors_.end(),
                     [&](int a, int b) { return score(race_, task_, a) < score(race_, task_, b); });
  }

  void keep_near_leader() {
    sort_survivors();
    const double best = std::min(0.0, survivors_.empty() ? 0.0 : score(race_, task_, survivors_.front()));
    size_t keep = 0;
    while (keep < survivors_.size() && keep < kMostSurvivors &&
           score(race_, task_, survivors_[keep]) <= best + kHopeless)
      ++keep;
    drop_from(keep);
  }

  void drop_from(size_t keep) {
    for (size_t i = keep; i < survivors_.size(); ++i)
      if (survivors_[i] != task_.baseline) race_.drop(survivors_[i]);
    survivors_.resize(std::min(keep, survivors_.size()));
  }

  // True when it ended because the field was down to the finalists or the rounds were enough.
  bool halve() {
    int rounds = 3;
    for (int total = 0; total < kMostRounds; rounds = std::min(2 * rounds, 16)) {
      if (survivors_.size() <= 1) return true;
      const std::vector<int> arms = with_baseline(survivors_);
      for (int i = 0; i < rounds; ++i, ++total) {
        if (race_.stopped() || race_.now() + race_.expected_ns(arms) > task_.deadline_ns) return false;
        race_.round(db::Phase::kSearch, arms);
      }
      drop_worse_half();
      progress(0);
      if (survivors_.size() <= kFinal && total >= 12) return true;
    }
    return true;
  }

  // Among many candidates some fall behind by chance: the interval is widened by their number (Bonferroni).
  void drop_worse_half() {
    sort_survivors();
    if (survivors_.size() <= kFinal) return;
    const int first = survivors_.front();
    const double confidence = 1 - 0.05 / static_cast<double>(survivors_.size());
    const size_t half = std::max(kFinal, (survivors_.size() + 1) / 2);
    std::vector<int> kept(survivors_.begin(), survivors_.begin() + static_cast<std::ptrdiff_t>(half));
    for (size_t i = half; i < survivors_.size(); ++i) {
      const std::vector<double> behind = race_.log_ratios(db::Phase::kSearch, survivors_[i], first);
      if (median_interval(behind, confidence, race_.seed()).lo <= 0) {
        kept.push_back(survivors_[i]);
      } else if (survivors_[i] != task_.baseline) {
        race_.drop(survivors_[i]);
      }
    }
    survivors_ = std::move(kept);
  }

  Race& race_;
  const SearchTask& task_;
  size_t next_ = 0;  // of task_.order: first that was not prepared
  std::vector<int> survivors_;
};

}  // namespace

SearchResult search_by_halving(Race& race, const SearchTask& task) { return Halving(race, task).run(); }

}  // namespace hone::autotune
