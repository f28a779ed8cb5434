// See protocol.h. Budget: the noise race gets 6% of it (at least kFewestNoiseRounds), the search runs until 64% of the
// budget is gone, the winner's siblings race until 70%, confirmation takes the rest. Rounds are not started when the
// arms' last times say that they would not end in time, so the total stays within a round of the budget.
#include "autotune/search/protocol.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>

namespace hone::autotune {
namespace {

constexpr double kNoiseShare = 0.06;
constexpr double kSearchEnd = 0.64;
constexpr double kSiblingsEnd = 0.70;
constexpr int kSiblingRounds = 9;
constexpr int64_t kNever = std::numeric_limits<int64_t>::max() / 4;  // sums of it do not overflow

class Protocol {
 public:
  Protocol(Race& race, const ProtocolTask& task) : race_(race), task_(task) {
    result_.fallback = task.fallback;
    result_.incumbent = task.incumbent;
  }

  Result<ProtocolResult> run() {
    HONE_RETURN_IF_ERROR(usable_baseline());
    noise();
    search();
    progress("confirm", 2, ratio_);
    const int challenger = race_.alive(result_.found.winner) ? result_.found.winner : result_.incumbent;
    result_.confirmed =
        confirm(race_, {.challenger = challenger, .incumbent = result_.incumbent, .fallback = result_.fallback},
                result_.noise_bound, deadline(1.0));
    return result_;
  }

 private:
  int64_t share(double part) const { return static_cast<int64_t>(part * static_cast<double>(task_.budget_ns)); }
  int64_t deadline(double part) const { return task_.begin_ns + overdrawn_ns_ + share(part); }

  void progress(std::string_view phase, int left, double ratio) {
    ratio_ = ratio;
    if (task_.on_progress) task_.on_progress(phase, left, ratio);
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

  void search() {
    progress("search", static_cast<int>(task_.order.size()), 1);
    SearchTask task{.order = task_.order,
                    .baseline = result_.fallback,
                    .deadline_ns = deadline(kSearchEnd),
                    .on_progress = [&](int left, int, double ratio) { progress("search", left, ratio); }};
    // Two finalists at least must fit into what is left for confirmation.
    const int arms[] = {result_.fallback, result_.fallback};
    const int64_t latest = deadline(1.0) - (kFewestConfirmRounds + 1) * race_.expected_ns(arms);
    task.deadline_ns = std::min(task.deadline_ns, latest);
    if (task_.search_all) task.deadline_ns = kNever;
    result_.found = task_.strategy.run(race_, task);
    // What the search took beyond its part is not taken from what follows.
    if (task_.search_all) overdrawn_ns_ = std::max<int64_t>(0, race_.now() - deadline(kSearchEnd));
    task.deadline_ns = task_.search_all ? deadline(kSiblingsEnd) : std::min(deadline(kSiblingsEnd), latest);
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
    for (int i = 0; i < kSiblingRounds && race_.now() + race_.expected_ns(arms) <= task.deadline_ns; ++i)
      if (!race_.round(db::Phase::kSearch, arms)) break;
    std::erase_if(family, [&](int c) { return race_.log_ratios(db::Phase::kSearch, c, task.baseline).empty(); });
    return family.empty() ? winner : best_of(race_, task, family);
  }

  Race& race_;
  const ProtocolTask& task_;
  ProtocolResult result_;
  int64_t overdrawn_ns_ = 0;
  double ratio_ = 1;
};

}  // namespace

Result<ProtocolResult> run_protocol(Race& race, const ProtocolTask& task) { return Protocol(race, task).run(); }

}  // namespace hone::autotune
