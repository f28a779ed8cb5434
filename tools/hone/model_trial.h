// Whether a model may keep the plans that its problems were tuned to. A tuner measures each problem alone; this runs
// the whole with default plans and with what the database gives, in turns, and takes back what costs there
// (autotune/whole.h): a decision for the default plan, which withdraws older ones, with the times that it rests on.
// What was measured of regions goes first where all that is not tuned is slower too, and where no plan is left to
// blame.
#pragma once

#include <string>
#include <vector>

#include "autotune/whole.h"
#include "db/store.h"
#include "engine/base/machine.h"
#include "engine/executable/plan.h"
#include "kernels/op/op.h"
#include "tools/hone/model_speed.h"

namespace hone::cli {

struct TrialOptions {
  std::string file;
  int threads = 1;
  ModelSpeedOptions speed;
  std::vector<ModelWork> works;
};

// What a tuned plan is worth while the whole runs: all calls of its problem in one work.
struct PlanInWhole {
  std::string problem;
  size_t work = 0;
  std::string program;
  double default_ns = 0, ns = 0;
  autotune::Interval speedup;  // that decided, of a plan that was taken back (autotune::TakenBack)
  std::string why;             // it was taken back, as stored; "": kept
};

struct TrialReport {
  std::vector<autotune::PairedTimes> works;  // after the last change; without rounds when interrupted before
  std::vector<PlanInWhole> kept;             // other plans than the default's that run in the last race, by work
  std::vector<PlanInWhole> taken_back;
  double tail = 0;  // of what was asked, see autotune::surely_slower
};

// Stores each retraction as soon as it is decided. It takes at most kMostPasses races of the whole; when the first of
// them took kPatientSeconds together, the next takes back all that may be to blame, and one more shows the result.
inline constexpr int kMostPasses = 6;
inline constexpr double kPatientSeconds = 120;

// Errors: of loading and running the model. What the store refuses is noted, and nothing more is taken back. One that
// does not write on disk is noted before anything runs: the report is without rounds.
Result<TrialReport> try_whole(const TrialOptions& options, db::Store& store, const Machine& machine);

// How a step that runs with what is stored differs from the default's. A default plan on the same weights is not tuned,
// whatever was measured of regions makes of its threads and, by them, of its tiles.
struct StepChange {
  bool relaid = false;  // reads weights, or keys, that lie in another way
  bool tuned = false;
};
StepChange change_of(const op::Problem& problem, const executable::StepReport& by_default,
                     const executable::StepReport& stored);

// What is to be said where work `w` is surely slower in the end: which of the plans that are kept look slower in it, or
// that none is left. "": nothing.
std::string cost_note(const TrialReport& report, size_t w, const ModelWork& work);

}  // namespace hone::cli
