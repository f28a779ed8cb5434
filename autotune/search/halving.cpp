// Successive halving in two stages. Admission takes candidates in batches, in the order of the cost model, looks at
// each a few times together with the baseline, and keeps whoever may be as good as the leader. Halving then races those
// that are left and drops the worse half, except who is still a tie with the leader: a tie is kept as long as there is
// time. Then admission goes on with whoever was not measured yet, and at last with those whose looks were too few or
// too disturbed to be dropped for good.
//
// How often to look is a matter of cost. Where a sample takes as long as bringing in the next candidate, one look that
// is not promising is all that a candidate gets: what an outlier may hide is outweighed by the candidates that could
// not be measured. Where samples are cheap, three looks cost little and hide nothing.
#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <set>

#include "autotune/search/stats.h"
#include "autotune/search/strategy.h"

namespace hone::autotune {
namespace {

// More would measure more candidates than halving can tell apart; less would leave the cost model the last word. Its
// order is not trusted further than that: among equals by the model, hundreds differ by 10% in truth.
constexpr double kAdmissionShare = 0.65;
constexpr size_t kBatch = 8;
constexpr int kMostLooks = 3, kLeaderLooks = 6, kFewLooks = 8;
// Even its best look is further behind the leader's worst: by more than jitter, the quantum of a clock, and a step of
// the clock between two arms can hide.
const double kHopeless = std::log(1.08);
const double kHopelessAtFirstSight = std::log(1.15);
// Looks of one candidate that differ by more than this were not both undisturbed.
constexpr double kDisagreement = 0.05;
constexpr int64_t kFewestSurvivors = 4, kMostSurvivors = 64;
constexpr int kChances = 4;
// Common rounds without which falling behind is no proof.
constexpr size_t kTelling = 5;
// Of microsecond kernels; what a thousand rounds have not told apart the next will not.
constexpr int kMostReopenings = 16;
constexpr size_t kFinal = 2;
constexpr int kMostRounds = 64, kMostStage = 32;

class Halving {
 public:
  Halving(Race& race, const SearchTask& task) : race_(race), task_(task) {}

  SearchResult run() {
    adopt_earlier();
    bool separated = survivors_.empty() || halve();
    while (separated && (admission() || reconsider() || reopen())) separated = halve();
    return {.winner = leader(), .complete = separated && next_ >= task_.order.size() && !race_.stopped()};
  }

 private:
  struct Scored {
    int candidate = 0;
    double best = 0, worst = 0;  // of its log-ratios to the baseline
    double score = 0;            // their median; of few, the second best, as most disturbances make slower
    int looks = 0, calm = 0;
    bool agreed = true;  // the two best looks
  };

  Scored scored(int c) const {
    if (c == task_.baseline) return {.candidate = c, .looks = kMostLooks, .calm = kMostLooks};
    std::vector<double> ratios = race_.log_ratios(db::Phase::kSearch, c, task_.baseline);
    Scored s{.candidate = c};
    if (ratios.empty()) return s;
    s.best = ratios.front(), s.worst = ratios.front();
    double second = std::numeric_limits<double>::infinity();
    for (size_t i = 1; i < ratios.size(); ++i) {
      s.worst = std::max(s.worst, ratios[i]);
      second = std::min(second, std::max(s.best, ratios[i]));
      s.best = std::min(s.best, ratios[i]);
    }
    s.agreed = ratios.size() < 2 || second - s.best < kDisagreement;
    s.looks = static_cast<int>(ratios.size());
    s.calm = race_.met(db::Phase::kSearch, c, task_.baseline).calm;
    s.score = s.looks == 1 ? s.best : s.looks < kFewLooks ? second : median_of(ratios);
    return s;
  }

  int leader() const { return best_of(race_, task_, survivors_); }
  int64_t left_ns() const { return task_.deadline_ns - race_.now(); }
  bool affordable(std::span<const int> arms) const { return !race_.stopped() && race_.expected_ns(arms) <= left_ns(); }

  void progress(size_t waiting) {
    if (!task_.on_progress) return;
    const int best = leader();
    task_.on_progress(static_cast<int>(survivors_.size() + waiting), best, std::exp(score(race_, task_, best)));
  }

  std::vector<int> with_baseline(std::vector<int> arms) const {
    if (std::find(arms.begin(), arms.end(), task_.baseline) == arms.end()) arms.push_back(task_.baseline);
    return arms;
  }

  int64_t sample_ns() const {
    const int one[] = {task_.baseline};
    return race_.expected_ns(one);
  }

  int looks() const {
    const int64_t sample = std::max<int64_t>(sample_ns(), 1);
    return static_cast<int>(std::clamp<int64_t>(1 + race_.prepare_ns() / (2 * sample), 1, kMostLooks));
  }

  // As many as some rounds are affordable for.
  size_t most_survivors() const {
    return static_cast<size_t>(
        std::clamp<int64_t>(left_ns() / (8 * std::max<int64_t>(sample_ns(), 1)), kFewestSurvivors, kMostSurvivors));
  }

  // What an earlier process looked at counts as admitted; only who is still in the race is prepared again.
  void adopt_earlier() {
    for (int c : task_.order)
      if (c != task_.baseline && race_.samples(db::Phase::kSearch, c) > 0) survivors_.push_back(c);
    keep_near_leader();
    std::erase_if(survivors_, [&](int c) { return !race_.prepare(c); });
  }

  // False when there was nobody left to admit, or no time.
  bool admission() {
    const size_t first = next_;
    const int64_t end = race_.now() + static_cast<int64_t>(kAdmissionShare * static_cast<double>(left_ns()));
    while (next_ < task_.order.size() && !race_.stopped() && race_.now() < end) {
      const int64_t begun = race_.now();
      if (begun + race_.prepare_ns() + 2 * sample_ns() > task_.deadline_ns) break;
      std::vector<int> batch;
      while (next_ < task_.order.size() && batch.size() < kBatch && !race_.stopped()) {
        // Preparing costs as much as several samples: do not start what there is no time to race.
        const int64_t racing = race_.expected_ns(with_baseline(batch));
        if (!batch.empty() && race_.now() + race_.prepare_ns() + racing > end) break;
        const int c = task_.order[next_++];
        if (c == task_.baseline || race_.samples(db::Phase::kSearch, c) > 0) continue;
        if (race_.prepare(c)) batch.push_back(c);
      }
      if (batch.empty()) continue;
      look(batch, looks());
      survivors_.insert(survivors_.end(), batch.begin(), batch.end());
      make_sure_of_leader();
      keep_near_leader();
      progress(task_.order.size() - next_);
    }
    return next_ > first;
  }

  // Looks that can be believed: enough of them on a calm machine, and of the best two neither disturbed.
  bool credible(const Scored& s, int times) const { return s.calm >= times && s.agreed; }

  // Rounds with the baseline until each candidate's looks are credible, or have been twice as many.
  void look(const std::vector<int>& batch, int times) {
    for (int i = 0; i < 2 * times; ++i) {
      std::vector<int> arms;
      for (int c : batch)
        if (race_.alive(c) && !credible(scored(c), times)) arms.push_back(c);
      if (arms.empty()) return;
      arms = with_baseline(arms);
      if (i > 0 && !affordable(arms)) return;
      race_.round(db::Phase::kSearch, arms);
      if (race_.stopped()) return;
    }
  }

  // Who raises the bar for all others must have shown more: an outlier of the baseline flatters its whole batch. Where
  // one look is all that is affordable, three are for him.
  void make_sure_of_leader() {
    const int enough = looks() > 1 ? kLeaderLooks : kMostLooks;
    while (!race_.stopped()) {
      int best = task_.baseline;
      double lowest = 0;
      for (int c : survivors_) {
        const Scored s = scored(c);
        if (s.looks > 0 && race_.alive(c) && s.worst < lowest) best = c, lowest = s.worst;
      }
      if (best == task_.baseline || race_.samples(db::Phase::kSearch, best) >= enough) return;
      const std::vector<int> arms = {best, task_.baseline};
      if (!affordable(arms)) return;
      race_.round(db::Phase::kSearch, arms);
    }
  }

  static bool hopeless(const Scored& s, double bar) {
    return s.best > bar + (s.looks < 2 ? kHopelessAtFirstSight : kHopeless);
  }

  // The best that anybody has shown at his worst.
  double bar(const std::vector<Scored>& field) const {
    double bar = 0;  // the baseline's own
    for (const Scored& s : field)
      if (s.looks > 0) bar = std::min(bar, s.worst);
    return bar;
  }

  std::vector<Scored> ranked() {
    std::vector<Scored> field;
    for (int c : survivors_)
      if (!race_.dead(c)) field.push_back(scored(c));
    std::stable_sort(field.begin(), field.end(), [](const Scored& a, const Scored& b) { return a.score < b.score; });
    return field;
  }

  void keep_near_leader() {
    const std::vector<Scored> field = ranked();
    const double limit = bar(field);
    const size_t most = most_survivors();
    survivors_.clear();
    for (const Scored& s : field) {
      if (survivors_.size() < most && !hopeless(s, limit)) {
        survivors_.push_back(s.candidate);
        continue;
      }
      race_.drop(s.candidate);
    }
  }

  // Dropped for good only by looks that can be believed, and those must have been calm as it is seen now.
  bool deserves_another_chance(const Scored& s, double limit) const {
    if (s.looks == 0 || race_.alive(s.candidate) || race_.dead(s.candidate)) return false;
    const auto chances = chances_.find(s.candidate);
    if (chances != chances_.end() && chances->second >= kChances) return false;
    if (!credible(s, looks_)) return true;
    return !beaten_.contains(s.candidate) && !hopeless(s, limit);
  }

  std::vector<Scored> waiting() {
    const double limit = bar(ranked());
    std::vector<Scored> field;
    for (int c : task_.order) {
      if (c == task_.baseline || race_.samples(db::Phase::kSearch, c) == 0) continue;
      const Scored s = scored(c);
      if (deserves_another_chance(s, limit)) field.push_back(s);
    }
    return field;
  }

  // The best of those that were dropped on thin evidence are looked at once more. False when there are none.
  bool reconsider() {
    std::vector<Scored> field = waiting();
    // Disturbances make slower: the best look is what gives hope.
    std::stable_sort(field.begin(), field.end(), [](const Scored& a, const Scored& b) { return a.best < b.best; });
    bool any = false;
    for (size_t i = 0; i < field.size();) {
      std::vector<int> batch;
      for (; i < field.size() && batch.size() < kBatch; ++i) {
        if (race_.stopped() || race_.prepare_ns() + 2 * sample_ns() > left_ns()) return any;
        if (looks_ > kMostLooks && race_.now() >= task_.settle_ns) return any;
        ++chances_[field[i].candidate];
        if (race_.prepare(field[i].candidate)) batch.push_back(field[i].candidate);
      }
      look(batch, looks_);
      survivors_.insert(survivors_.end(), batch.begin(), batch.end());
      make_sure_of_leader();
      keep_near_leader();
      any = true;
      progress(field.size() - i);
    }
    return any;
  }

  // Everybody was looked at, but all within a moment of the machine's: whoever was dropped gets more looks, until the
  // search has seen more than one kind of weather.
  bool reopen() {
    if (race_.now() >= task_.settle_ns || race_.stopped() || reopened_++ >= kMostReopenings) return false;
    looks_ += kMostLooks;
    chances_.clear();
    reconsider();
    return true;
  }

  // True when it ended because the field was down to the finalists or the rounds were enough.
  bool halve() {
    // The more is known, the more it takes to change it.
    int stage = 2;
    for (int c : survivors_) stage = std::max(stage, std::min(race_.samples(db::Phase::kSearch, c) / 4, kMostStage));
    const bool more_to_come = next_ < task_.order.size() || !waiting().empty();
    const int64_t end = more_to_come
                            ? race_.now() + static_cast<int64_t>((1 - kAdmissionShare) * static_cast<double>(left_ns()))
                            : task_.deadline_ns;
    for (int total = 0; total < kMostRounds; stage = std::min(2 * stage, kMostStage)) {
      if (survivors_.size() <= 1) return true;
      std::vector<int> arms = with_baseline(survivors_);
      // The last stages must be affordable too: a third of the time that is left for this one.
      const int64_t most = (end - race_.now()) / std::max<int64_t>(3 * race_.expected_ns(arms), 1);
      const int rounds = static_cast<int>(std::clamp<int64_t>(most, 1, stage));
      for (int i = 0; i < rounds; ++i, ++total) {
        if (!affordable(arms)) return false;
        if (race_.now() > end) return true;
        race_.round(db::Phase::kSearch, arms);
      }
      drop_worse_half(most < stage);
      progress(0);
      if (survivors_.size() <= kFinal && total >= 12) return true;
    }
    return true;
  }

  // Among many candidates some fall behind by chance: the interval is widened by their number (Bonferroni). Where time
  // is short the worse half goes even so.
  void drop_worse_half(bool hurry) {
    std::erase_if(survivors_, [&](int c) { return !race_.alive(c); });
    const std::vector<Scored> field = ranked();
    survivors_.clear();
    for (const Scored& s : field) survivors_.push_back(s.candidate);
    if (survivors_.size() <= kFinal) return;
    const int best = leader();
    const int first = best != task_.baseline ? best : survivors_.front();
    const double confidence = 1 - 0.05 / static_cast<double>(survivors_.size());
    const size_t half = std::max(kFinal, (survivors_.size() + 1) / 2);
    std::vector<int> kept(survivors_.begin(), survivors_.begin() + static_cast<std::ptrdiff_t>(half));
    for (size_t i = half; i < survivors_.size(); ++i) {
      const std::vector<double> behind = race_.log_ratios(db::Phase::kSearch, survivors_[i], first);
      const bool tie = median_interval(behind, confidence).lo <= 0;
      if (tie && !hurry) {
        kept.push_back(survivors_[i]);
        continue;
      }
      race_.drop(survivors_[i]);
      if (!tie && behind.size() >= kTelling) beaten_.insert(survivors_[i]);
    }
    survivors_ = std::move(kept);
  }

  Race& race_;
  const SearchTask& task_;
  size_t next_ = 0;  // of task_.order: first that was not prepared
  std::vector<int> survivors_;
  std::set<int> beaten_;  // by an interval, in halving
  int reopened_ = 0;
  int looks_ = kMostLooks;      // that can be believed
  std::map<int, int> chances_;  // how often a candidate was reconsidered
};

}  // namespace

SearchResult search_by_halving(Race& race, const SearchTask& task) { return Halving(race, task).run(); }

}  // namespace hone::autotune
