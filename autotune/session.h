// One `hone tune`: a list of problems under one set of options, which a later process takes up where this one ended,
// however it ended. Problems that were decided are not measured again; of the one that was under way every round
// counts that had reached the store.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "autotune/tune.h"

namespace hone::autotune {

class Session {
 public:
  // Takes up the newest unfinished session of this machine, build, list and options whose process is gone, unless
  // options.fresh; else begins one. With a store that cannot be written nothing is taken up, and nothing kept.
  static Session open(db::Store& store, const Machine& machine, const std::vector<op::Problem>& problems,
                      const TuneOptions& options);

  int64_t id() const { return id_; }  // 0: the store keeps no sessions
  bool resumed() const { return resumed_; }
  int64_t started_at() const { return started_at_; }  // unix seconds, of the first start
  int decided_count() const;

  // What was decided for problems[i] before; its measured counts are those of the run.
  std::optional<TuneReport> decided(size_t i) const;
  // Puts into `options` where an earlier process was with problems[i], if it was.
  void resume(size_t i, TuneOptions* options) const;

  // `complete`: the list is through; else the session stays open for the next `hone tune`.
  Status end(bool complete);

 private:
  struct Entry {
    op::Problem problem;
    std::optional<db::StoredRun> run;  // the newest of this problem in the session
    std::optional<TuneReport> report;  // when decided
  };
  explicit Session(db::Store& store) : store_(&store) {}
  Status claim(const Machine& machine, const TuneOptions& options);
  Status read_runs();

  db::Store* store_;
  int64_t id_ = 0;
  bool resumed_ = false;
  int64_t started_at_ = 0;
  std::vector<Entry> entries_;
};

}  // namespace hone::autotune
