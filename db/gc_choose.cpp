// Which decisions may go without any plan changing.
//
// The resolver (engine/plan/resolver.cpp) takes, for a problem, the newest decision of each (code generator, threads)
// of this machine and build, and the fastest of these that it can use. The others of such a group count as superseded
// and come after, the fastest first. Two things follow. A superseded decision is reached only when the newest of its
// group cannot be used; so it may go when the newest can, and one more stays in case that one is damaged some day. And
// a decision that cannot be used still supersedes the older ones of its group: it may go only when a usable newer one
// does that too, or nothing usable is behind it.
#include <algorithm>
#include <map>
#include <tuple>

#include <fmt/format.h>

#include "db/gc_internal.h"

namespace hone::db {
namespace {

// The newest, and a next best.
constexpr size_t kKeptOfGroup = 2;
constexpr int64_t kDay = 86'400;

// Among these the newest counts for the resolver. It tells machines of one key apart by their label; here they are
// one group, and what depends on the label is asked below.
auto group_key(const StoredDecision& d) {
  const Candidate& w = d.decision.winner;
  return std::tuple(d.decision.problem.text, d.machine.key, d.build.engine, w.codegen, w.codegen_version, w.threads);
}
auto machine_key(const StoredDecision& d) {
  return std::tuple(d.decision.problem.text, d.machine.key, d.machine.label);
}

using Group = std::vector<size_t>;  // newest first

template <typename Key>
std::vector<Group> grouped(const std::vector<StoredDecision>& all, Key key) {
  std::map<decltype(key(all.front())), Group> by_key;
  for (size_t i = 0; i < all.size(); ++i) by_key[key(all[i])].push_back(i);
  std::vector<Group> groups;
  for (auto& [k, group] : by_key) {
    std::sort(group.begin(), group.end(), [&](size_t a, size_t b) {
      return std::pair(all[a].decision.decided_at, all[a].id) > std::pair(all[b].decision.decided_at, all[b].id);
    });
    groups.push_back(std::move(group));
  }
  return groups;
}

class Choice {
 public:
  Choice(const std::vector<StoredDecision>& decisions, const std::vector<Worth>& worth, const GcOptions& options)
      : all_(decisions), worth_(worth), options_(options), reason_(decisions.size()) {}

  std::vector<std::pair<size_t, std::string>> run() {
    for (const Group& group : grouped(all_, group_key)) within_group(group);
    for (const Group& group : grouped(all_, machine_key)) of_machine(group);
    std::vector<std::pair<size_t, std::string>> chosen;
    for (size_t i = 0; i < all_.size(); ++i)
      if (!reason_[i].empty()) chosen.emplace_back(i, reason_[i]);
    return chosen;
  }

 private:
  bool usable(size_t i) const { return worth_[i].why_not.empty(); }

  void within_group(const Group& group) {
    for (size_t at = 0; at < group.size(); ++at) {
      const size_t i = group[at];
      const auto newer_end = group.begin() + static_cast<ptrdiff_t>(at);
      const bool usable_behind = std::any_of(newer_end + 1, group.end(), [&](size_t j) { return usable(j); });
      size_t newer_usable = 0;
      bool newest_usable = true;  // nothing unusable is newer than the newest usable one of this label
      for (auto j = group.begin(); j != newer_end; ++j) {
        if (!usable(*j) && newer_usable == 0) newest_usable = false;
        if (usable(*j) && all_[*j].machine.label == all_[i].machine.label) ++newer_usable;
      }
      if (worth_[i].hopeless && (newer_usable > 0 || !usable_behind)) {
        drop(i, "no build can use it: " + worth_[i].why_not);
      } else if (usable(i) && newest_usable && newer_usable >= kKeptOfGroup) {
        drop(i, fmt::format("superseded by {} newer ones", newer_usable));
      }
    }
  }

  // All decisions on one problem and one machine.
  void of_machine(const Group& group) {
    for (const size_t i : group) {
      const Worth& w = worth_[i];
      const bool again = std::any_of(group.begin(), group.end(), [&](size_t j) {
        return worth_[j].age == Age::kThisBuild && usable(j) &&
               all_[j].decision.winner.codegen == all_[i].decision.winner.codegen;
      });
      if (w.age == Age::kOlder && again) {
        drop(i, fmt::format("measured by {} with {} {}; this build measured it again", all_[i].build.engine,
                            all_[i].decision.winner.codegen, all_[i].decision.winner.codegen_version));
      } else if (options_.other_builds && w.age != Age::kThisBuild) {
        drop(i, fmt::format("measured by another build, {} with {} {}", all_[i].build.engine,
                            all_[i].decision.winner.codegen, all_[i].decision.winner.codegen_version));
      } else if (options_.older_than > 0 && all_[i].decision.decided_at < options_.now - options_.older_than) {
        drop(i, fmt::format("older than {} days", options_.older_than / kDay));
      }
    }
    keep_one(group);
  }

  // The last decision on a problem and a machine stays, unless it is nothing that any build can use.
  void keep_one(const Group& group) {
    const size_t* best = nullptr;
    for (const size_t& i : group) {
      if (worth_[i].hopeless) continue;
      if (reason_[i].empty()) return;
      const auto rank = [&](size_t j) { return std::pair(usable(j), worth_[j].age == Age::kThisBuild); };
      if (best == nullptr || rank(i) > rank(*best)) best = &i;
    }
    if (best != nullptr) reason_[*best].clear();
  }

  void drop(size_t i, std::string reason) {
    if (reason_[i].empty() && !worth_[i].in_use) reason_[i] = std::move(reason);
  }

  const std::vector<StoredDecision>& all_;
  const std::vector<Worth>& worth_;
  const GcOptions& options_;
  std::vector<std::string> reason_;  // "": stays
};

}  // namespace

std::vector<std::pair<size_t, std::string>> choose_decisions(const std::vector<StoredDecision>& decisions,
                                                             const std::vector<Worth>& worth,
                                                             const GcOptions& options) {
  return Choice(decisions, worth, options).run();
}

}  // namespace hone::db
