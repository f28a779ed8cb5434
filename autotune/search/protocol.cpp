// See protocol.h. Budget: the noise race gets 6% of it (at least kFewestNoiseRounds), confirmation is promised 25%, as
// a neighbour may disturb the machine for seconds; the search has the time between, of which the winner's siblings get
// the last 8%. A confirmation on a calm machine needs little of its part: the search then goes on with the rest, and
// confirms once more if somebody better turns up. Rounds are not started when the arms' last times say that they would
// not end in time, so the total stays within a round of the budget.
#include "autotune/search/protocol.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

namespace hone::autotune {
namespace {

constexpr double kNoiseShare = 0.06;
constexpr double kSiblingsShare = 0.08;
constexpr double kConfirmShare = 0.25, kSecondPassShare = 0.16;
// Neighbours come and go within seconds; a decision in less time is one about the weather.
constexpr double kSettleShare = 0.7;
constexpr int64_t kSettleNs = 8'000'000'000;
constexpr int kSiblingRounds = 9;
constexpr int64_t kNever = std::numeric_limits<int64_t>::max() / 4;  // sums of it do not overflow

class Protocol {
 public:
  Protocol(Race& race, const ProtocolTask& task) : race_(race), task_(task) {
    result_.fallback = task.fallback;
    result_.incumbent = task.incumbent;
    begin_ns_ = race.now();
    budget_ns_ = std::max<int64_t>(task.begin_ns + task.budget_ns - begin_ns_, 0);
  }

  Result<ProtocolResult> run() {
    HONE_RETURN_IF_ERROR(usable_baseline());
    noise();
    pass(kConfirmShare);
    // Confirmation was promised more than it needs on a calm machine: the search goes on with what is left of it.
    const int64_t left = deadline(1.0) - race_.now();
    if (!result_.found.complete && !race_.stopped() && left > share(kSecondPassShare)) pass(kSecondPassShare / 2);
    return result_;
  }

 private:
  // Parts of what is left of the budget when the protocol begins: setting up must not cost the search its turn.
  int64_t share(double part) const { return static_cast<int64_t>(part * static_cast<double>(budget_ns_)); }
  int64_t deadline(double part) const { return begin_ns_ + overdrawn_ns_ + share(part); }

  void progress(std::string_view phase, int left, double ratio) {
    ratio_ = ratio;
    if (task_.on_progress) task_.on_progress(phase, left, ratio);
  }

  // The incumbent's time over the default plan's, 1 until the two have met.
  double incumbent_ratio() const {
    const std::vector<double> logs = race_.log_ratios(db::Phase::kSearch, result_.incumbent, result_.fallback);
    return result_.incumbent == result_.fallback || logs.empty() ? 1 : std::exp(median(logs));
  }

  // The default plan must run, or whatever comes next in line takes its place: there must be something to compare with.
  Status usable_baseline() {
    int tried = 1;
    bool found = race_.prepare(result_.fallback);
    for (size_t i = 0; i < task_.substitutes.size() && !found; ++i) {
      if (race_.stopped() || race_.now() > deadline(1.0)) break;
      if (task_.substitutes[i] == task_.fallback) continue;
      result_.fallback = task_.substitutes[i];
      found = race_.prepare(result_.fallback);
      ++tried;
    }
    if (!found && race_.stopped()) return unavailable("interrupted before a candidate was ready");
    if (!found)
      return internal_error(fmt::format("none of {} candidates compiles and computes the right result", tried));
    if (!race_.prepare(result_.incumbent)) result_.incumbent = result_.fallback;
    return {};
  }

  void noise() {
    progress("noise", static_cast<int>(task_.order.size()), 1);
    result_.noise_bound = race_noise(race_, result_.fallback, race_.now() + share(kNoiseShare));
    if (task_.on_noise) task_.on_noise(result_.noise_bound);
  }

  // Search, then confirmation in what is left, a share of the budget.
  void pass(double confirm_share) {
    const int confirmed = result_.confirmed.rounds > 0 ? result_.found.winner : -1;
    search(confirm_share);
    if (confirmed >= 0 && (result_.found.winner == confirmed || race_.stopped())) return;
    progress("confirm", 2, ratio_);
    const bool again = confirmed >= 0;
    const int holder = again ? result_.confirmed.winner : result_.incumbent;
    const int challenger = race_.alive(result_.found.winner) ? result_.found.winner : holder;
    const Confirmed earlier = result_.confirmed;
    result_.confirmed = confirm(race_, {.challenger = challenger, .incumbent = holder, .fallback = result_.fallback},
                                result_.noise_bound, deadline(1.0), result_.found.complete);
    // Who was not beaten keeps what was said of him; the later rounds chose nothing and say nothing.
    if (again && (result_.confirmed.winner == earlier.winner || result_.confirmed.cut_short))
      result_.confirmed = earlier;
  }

  void search(double confirm_share) {
    progress("search", static_cast<int>(task_.order.size()), 1);
    std::vector<int> arms(result_.incumbent == result_.fallback ? 2 : 3, result_.fallback);
    // Two or three finalists at least must fit into what is left for confirmation.
    const int64_t reserve = std::max(share(confirm_share), (kFewestConfirmRounds + 1) * race_.expected_ns(arms));
    const int64_t end = deadline(1.0) - reserve;
    SearchTask task{.order = task_.order,
                    .baseline = result_.fallback,
                    .deadline_ns = task_.siblings ? end - share(kSiblingsShare) : end,
                    .settle_ns = begin_ns_ + std::min(share(kSettleShare), kSettleNs)};
    if (task_.on_progress)
      task.on_progress = [&](int left, int, double ratio) { progress("search", left, ratio / incumbent_ratio()); };
    if (task_.search_all) task.deadline_ns = kNever;
    result_.found = task_.strategy.run(race_, task);
    // What the search took beyond its part is not taken from what follows.
    const int64_t beyond = task_.search_all ? std::max<int64_t>(0, race_.now() - end) : 0;
    overdrawn_ns_ += beyond;
    task.deadline_ns = end + beyond;
    result_.found.winner = best_sibling(task, result_.found.winner);
  }

  int best_sibling(const SearchTask& task, int winner) {
    std::vector<int> family = {winner};
    if (task_.siblings)
      for (int c : task_.siblings(winner))
        if (c != winner && race_.prepare(c)) family.push_back(c);
    if (family.size() == 1 || !race_.alive(winner)) return winner;
    std::vector<int> arms = family;
    if (std::find(arms.begin(), arms.end(), task.baseline) == arms.end()) arms.push_back(task.baseline);
    int met = kSiblingRounds;
    for (int c : family) met = std::min(met, race_.met(db::Phase::kSearch, c, winner).rounds);
    for (; met < kSiblingRounds && race_.now() + race_.expected_ns(arms) <= task.deadline_ns; ++met)
      if (!race_.round(db::Phase::kSearch, arms)) break;
    std::erase_if(family, [&](int c) { return race_.log_ratios(db::Phase::kSearch, c, task.baseline).empty(); });
    return family.empty() ? winner : best_of(race_, task, family);
  }

  Race& race_;
  const ProtocolTask& task_;
  int64_t begin_ns_ = 0, budget_ns_ = 0;
  ProtocolResult result_;
  int64_t overdrawn_ns_ = 0;
  double ratio_ = 1;
};

}  // namespace

Result<ProtocolResult> run_protocol(Race& race, const ProtocolTask& task) { return Protocol(race, task).run(); }

}  // namespace hone::autotune
