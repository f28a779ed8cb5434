// What the store is told of a tune, and what it knows of one that was cut short.
//
// A store that cannot be written must not cost the user the measurement: the first failure is kept for the report, and
// the tune goes on. Only a busy store is asked again the next round.
#pragma once

#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "autotune/search/race.h"
#include "autotune/space/space.h"
#include "db/store.h"
#include "engine/base/machine.h"
#include "kernels/op/op.h"

namespace hone::autotune {

// How a candidate, a machine and this build are named in the store.
db::Candidate record(const Candidate& candidate);
// The candidate that a record names; nothing when this build cannot read its program or it is not legal for `problem`.
std::optional<Candidate> candidate_of(const db::Candidate& record, const op::Problem& problem);
db::MachineLabel machine_record(const Machine& machine);
db::BuildLabel build_record();
db::ProblemKey problem_record(const op::Problem& problem);
// The command that repeats one candidate, on the same values where `seed` is theirs.
std::string repeat_command(const std::string& problem, const Candidate& candidate, const std::string& cache_mode,
                           int64_t seed);

class Recorder {
 public:
  // Whoever owns the candidates says what they are called.
  struct Naming {
    std::function<db::Candidate(int candidate)> record;
    std::function<std::string(int candidate, const db::RunInfo& run)> command;  // repeats it
  };
  Recorder(db::Store& store, db::ProblemKey problem, Naming naming)
      : store_(store), key_(std::move(problem)), naming_(std::move(naming)) {}

  void begin(const Machine& machine, const db::RunInfo& info);
  // Goes on with a run of an earlier process, whose cache mode and seed `info` has.
  void resume(int64_t run_id, const db::RunInfo& info) { run_id_ = run_id, info_ = info; }

  void noise(double bound);
  void round(std::span<const RoundSample> samples, double spent_seconds);
  void outcome(int candidate, const Prepared& prepared);
  // False when it is not in the store. decision.problem is filled in.
  bool decision(db::Decision decision);

  std::string repeat_command(int candidate) const { return naming_.command(candidate, info_); }
  int64_t run_id() const { return run_id_; }  // 0: the store takes nothing
  const std::string& not_stored() const { return not_stored_; }

 private:
  bool writable() const { return run_id_ != 0 && !store_failed_; }
  void keep(const Status& status);

  db::Store& store_;
  db::ProblemKey key_;
  const Naming naming_;
  db::RunInfo info_;
  int64_t run_id_ = 0;
  bool store_failed_ = false;
  std::string not_stored_;
};

// What a run has measured and ruled out so far. Candidates that `candidates` lacks are appended if this build can
// still make them, else left out with their samples.
Result<Race::Earlier> read_earlier(db::Store& store, int64_t run_id, const op::Problem& problem,
                                   std::vector<Candidate>* candidates);

}  // namespace hone::autotune
