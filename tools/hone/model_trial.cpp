// See model_trial.h.
#include "tools/hone/model_trial.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <map>
#include <utility>

#include "autotune/recorder.h"
#include "engine/model/model.h"
#include "engine/plan/resolver.h"
#include "jit/codegen.h"
#include "kernels/op/op.h"
#include "tools/hone/regions.h"
#include "tools/hone/status_line.h"

namespace hone::cli {
namespace {

using autotune::Cause;
using autotune::Interval;
using autotune::PairedTimes;
using autotune::TakenBack;
using autotune::WholePart;
using executable::StepReport;

// A race of one work. 25 rounds show a loss of 5% through 3% of noise; a work whose rounds take long gets as many as
// decide anything (autotune::rounds_for), up to kMostSeconds.
constexpr size_t kMostRounds = 25, kRoundsToShow = 3;
constexpr double kSeconds = 10, kMostSeconds = 60;
// An answer is raced piece by piece: as many rounds as pieces for the time of one answer.
constexpr int64_t kPiece = 16;
constexpr size_t kDefault = 0, kTuned = 1;  // variants

// One problem as both variants run it. The default's is what it is called by.
struct Part {
  op::Problem problem;
  StepReport by_default, tuned_step;
  std::vector<int64_t> calls;      // by work
  std::vector<PairedTimes> times;  // of all calls, by work
  bool relaid = false, tuned = false;
};

// Calls of a work that run in one round.
struct Piece {
  ModelWork work;
  size_t first_call = 0;
};

std::vector<Piece> pieces_of(const ModelWork& work) {
  if (work.prompt > 0) return {{work, 0}};
  const int64_t count = std::max<int64_t>(work.generate / kPiece, 1);
  std::vector<Piece> pieces;
  for (int64_t i = 0; i < count; ++i) {
    const int64_t begin = work.generate * i / count, end = work.generate * (i + 1) / count;
    pieces.push_back({{.generate = end - begin, .depth = work.depth + begin}, static_cast<size_t>(begin)});
  }
  return pieces;
}

bool same_plan(const StepReport& a, const StepReport& b) {
  return a.plan == b.plan && a.codegen == b.codegen && a.threads == b.threads;
}

int64_t panel_of(const op::Problem& problem, const StepReport& report) {
  const Result<op::Program> program = op::parse_program(problem, report.plan);
  return program.ok() ? op::panel(problem, *program) : 0;
}

// As the store names it. Error: not_found, unsupported (a plan that no code generator made).
Result<db::Candidate> candidate_of(const op::Problem& problem, const StepReport& report) {
  HONE_ASSIGN_OR_RETURN(const op::Program program, op::parse_program(problem, report.plan));
  HONE_ASSIGN_OR_RETURN(const jit::CodeGenerator* const generator, jit::find_code_generator(report.codegen));
  return db::Candidate{.program = report.plan,
                       .codegen = report.codegen,
                       .codegen_version = generator->version(),
                       .threads = report.threads,
                       .numerics = op::numerics(program)};
}

std::string percent(const Interval& speedup) {
  const auto longer = [](double ratio) { return (1 / ratio - 1) * 100; };
  return fmt::format("{:.1f}% [{:.1f}%, {:.1f}%]", longer(speedup.mid), longer(speedup.hi), longer(speedup.lo));
}

class Trial {
 public:
  Trial(const TrialOptions& options, db::Store& store, const Machine& machine)
      : options_(options), store_(store), machine_(machine) {}

  Result<TrialReport> run() {
    report_.works.resize(options_.works.size());
    if (store_.mode() != db::OpenMode::kReadWrite) {
      note(fmt::format("the whole of {} is not run, as nothing can be taken back: the database {} is {}", options_.file,
                       store_.path(), store_.mode() == db::OpenMode::kReadOnly ? "read-only" : "in memory"));
      return std::move(report_);
    }
    HONE_ASSIGN_OR_RETURN(
        ModelSpeed speed,
        ModelSpeed::create(options_.file, {{options_.threads, false}, {options_.threads, true}}, options_.speed));
    for (int pass = 1;; ++pass) {
      HONE_RETURN_IF_ERROR(name_parts(speed));
      HONE_RETURN_IF_ERROR(race(speed, pass));
      if (interrupted() || pass == kMostPasses || all_asked_ || !take_back(pass)) break;
      HONE_RETURN_IF_ERROR(speed.reload(kTuned));
    }
    finish();
    return std::move(report_);
  }

 private:
  // ---- which part is which step ----

  Status name_parts(const ModelSpeed& speed) {
    parts_.clear();
    part_of_.assign(options_.works.size(), {});
    std::map<std::string, size_t> by_name;
    for (size_t w = 0; w < options_.works.size(); ++w) {
      for (const ModelCall& call : calls_of(options_.works[w], speed.model(kDefault).info().max_batch)) {
        std::vector<StepReport> reports[2];
        for (const size_t v : {kDefault, kTuned}) {
          HONE_ASSIGN_OR_RETURN(reports[v], ModelAccess::plan(speed.model(v)).report(call.tokens, call.position));
        }
        std::vector<int> parts;
        for (size_t s = 0; s < reports[kDefault].size(); ++s) {
          parts.push_back(part_of(reports[kDefault][s], reports[kTuned][s], by_name));
          if (parts.back() >= 0) ++parts_[static_cast<size_t>(parts.back())].calls[w];
        }
        part_of_[w].push_back(std::move(parts));
      }
    }
    size_t questions = 2 * options_.works.size();  // all of it, and what is not tuned
    for (const Part& p : parts_)
      if (p.tuned) questions += static_cast<size_t>(std::ranges::count_if(p.calls, [](int64_t n) { return n > 0; }));
    report_.tail = autotune::tail_of_each(questions, kMostPasses);
    return {};
  }

  // -1: a row program, about which nothing is tuned.
  int part_of(StepReport& by_default, StepReport& tuned, std::map<std::string, size_t>& by_name) {
    const auto at = by_name.find(by_default.kernel);
    if (at != by_name.end()) return static_cast<int>(at->second);
    const Result<op::Problem> problem = op::parse_problem(by_default.kernel);
    if (!problem.ok()) return -1;
    by_name.emplace(by_default.kernel, parts_.size());
    const StepChange change = change_of(*problem, by_default, tuned);
    parts_.push_back({.problem = *problem,
                      .by_default = by_default,
                      .tuned_step = tuned,
                      .calls = std::vector<int64_t>(options_.works.size()),
                      .times = {},
                      .relaid = change.relaid,
                      .tuned = change.tuned});
    return static_cast<int>(parts_.size()) - 1;
  }

  // ---- measuring ----

  Status race(ModelSpeed& speed, int pass) {
    times_.assign(options_.works.size(), {});
    untuned_ = times_;
    for (Part& part : parts_) part.times.assign(options_.works.size(), {});
    const auto begin = std::chrono::steady_clock::now();
    for (size_t w = 0; w < options_.works.size() && !interrupted(); ++w)
      HONE_RETURN_IF_ERROR(race_work(speed, w, pass));
    const double seconds = seconds_since(begin);
    seconds_ += seconds;
    uncharged_ += seconds;
    return {};
  }

  static double seconds_since(std::chrono::steady_clock::time_point begin) {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  }

  Status race_work(ModelSpeed& speed, size_t w, int pass) {
    const ModelWork& work = options_.works[w];
    const std::vector<Piece> pieces = pieces_of(work);
    for (const size_t variant : {kDefault, kTuned}) HONE_RETURN_IF_ERROR(warm_up(speed, variant, work));
    const size_t enough = autotune::rounds_for(report_.tail);
    const auto begin = std::chrono::steady_clock::now();
    const auto over = [&](size_t rounds) {
      const double seconds = seconds_since(begin);
      return rounds >= kMostRounds || (rounds >= enough && seconds > kSeconds) ||
             (rounds >= kRoundsToShow && seconds > kMostSeconds);
    };
    StatusLine line;
    for (size_t round = 0; !over(round) && !interrupted(); ++round) {
      line.show([&] {
        return fmt::format("the whole model: {}, pass {} of at most {}, round {}", work.name(), pass, kMostPasses,
                           round + 1);
      });
      for (const size_t turn : {size_t{0}, size_t{1}})
        HONE_RETURN_IF_ERROR(run_once(speed, round % 2 == 0 ? turn : 1 - turn, w, pieces[round % pieces.size()]));
    }
    if (const size_t rounds = times_[w].tuned.size(); rounds < enough && !interrupted())
      note(fmt::format(
          "{}: {} rounds of {} are too few to say who costs there ({} would do): none of its plans is blamed",
          work.name(), rounds, options_.file, enough));
    return {};
  }

  static Status warm_up(ModelSpeed& speed, size_t variant, ModelWork work) {
    work.generate = std::min<int64_t>(work.generate, 1);
    return speed.run(variant, work).status();
  }

  // Times are those of all calls of the work, at the pace of the piece.
  Status run_once(ModelSpeed& speed, size_t variant, size_t w, const Piece& piece) {
    std::vector<double> sums(parts_.size()), calls(parts_.size());
    double untuned = 0;
    const ModelSpeed::OnCall on_call = [&](size_t call, std::span<const int64_t> step_ns) {
      for (size_t s = 0; s < step_ns.size(); ++s) {
        const int part = part_of_[w][piece.first_call + call][s];
        const auto ns = static_cast<double>(step_ns[s]);
        if (part < 0 || !parts_[static_cast<size_t>(part)].tuned) untuned += ns;
        if (part < 0) continue;
        sums[static_cast<size_t>(part)] += ns;
        ++calls[static_cast<size_t>(part)];
      }
    };
    HONE_ASSIGN_OR_RETURN(const std::optional<int64_t> ns, speed.run(variant, piece.work, on_call));
    if (!ns) return {};
    const auto add = [&](PairedTimes& times, double value) {
      (variant == kDefault ? times.by_default : times.tuned).push_back(std::max(value, 1.0));
    };
    const double pieces = static_cast<double>(options_.works[w].tokens()) / static_cast<double>(piece.work.tokens());
    add(times_[w], static_cast<double>(*ns) * pieces);
    add(untuned_[w], untuned * pieces);
    for (size_t p = 0; p < parts_.size(); ++p)
      if (calls[p] > 0) add(parts_[p].times[w], sums[p] * static_cast<double>(parts_[p].calls[w]) / calls[p]);
    return {};
  }

  // ---- taking back ----

  bool any_slower(const std::vector<PairedTimes>& works) const {
    return std::ranges::any_of(works,
                               [&](const PairedTimes& times) { return autotune::surely_slower(times, report_.tail); });
  }

  // False: there is nothing more to take back, or no place to say so.
  bool take_back(int pass) {
    // Regions are those of all steps: plans are asked anew when these are as they were.
    if (any_slower(untuned_) && take_regions_back("what is not tuned is slower too")) return true;
    std::vector<WholePart> parts;
    for (const Part& p : parts_)
      parts.push_back({.problem = p.by_default.kernel,
                       .layout = op::family(p.problem),
                       .tuned = p.tuned,
                       .relaid = p.relaid,
                       .works = p.times});
    all_asked_ = pass + 1 == kMostPasses || seconds_ > kPatientSeconds;
    const std::vector<TakenBack> list = all_asked_ ? autotune::take_all_back(times_, parts, report_.tail)
                                                   : autotune::take_back(times_, parts, report_.tail);
    if (list.empty() && any_slower(times_)) return take_regions_back("it is slower with default plans too");
    bool any = false;
    for (const TakenBack& taken : list) {
      const Status stored = take_back(taken);
      if (!stored.ok())
        note(fmt::format("{} keeps a plan that costs: {}", parts_[taken.part].by_default.kernel, stored.message()));
      any = any || stored.ok();
    }
    return any;
  }

  Status take_back(const TakenBack& taken) {
    const Part& part = parts_[taken.part];
    HONE_ASSIGN_OR_RETURN(const db::Candidate fallback, candidate_of(part.problem, part.by_default));
    const std::string work = options_.works[taken.work].name();
    const std::string why = reason(taken, work);
    // The times are those of the work in which it costs, or, where the part has none there, of the first that it has.
    size_t w = taken.work;
    for (size_t tried = 0; part.times[w].tuned.empty() && tried < part.times.size(); ++tried)
      w = (w + 1) % part.times.size();
    const std::vector<db::SampleGroup> evidence = samples(part, w, fallback);
    const double ns = median_ns(evidence.front());
    const db::ProblemKey key = autotune::problem_record(part.problem);
    HONE_ASSIGN_OR_RETURN(const int64_t run,
                          store_.begin_run(autotune::machine_record(machine_), autotune::build_record(),
                                           {.cache_mode = std::string(db::kInWhole),
                                            .settings = db::whole_settings({.why = why, .threads = options_.threads}),
                                            .problem = key}));
    HONE_RETURN_IF_ERROR(store_.add_round(run, key, evidence, std::exchange(uncharged_, 0)));
    HONE_RETURN_IF_ERROR(store_
                             .add_decision(run, {.problem = key,
                                                 .winner = fallback,
                                                 .fallback = fallback,
                                                 .verdict = db::Verdict::kKept,
                                                 .ns = ns,
                                                 .default_ns = ns})
                             .status());
    note(fmt::format("{}: taken back: {}", key.text, why));
    report_.taken_back.push_back(in_whole(part, w, taken.speedup, why));
    return {};
  }

  // What the database says of regions is in force whatever the plans are. Without a threshold a record counts as one
  // that the next tune measures again.
  bool take_regions_back(std::string_view why) {
    const Result<plan::RegionPolicy> policy = region_policy_in_force(&store_, machine_, options_.threads);
    const plan::RegionPolicy by_default;
    if (!policy.ok() || !policy->measured) return false;
    if (policy->schedule.kind == by_default.schedule.kind && !policy->min_work) return false;
    db::ScheduleChoice choice = *policy->measured;
    choice.schedule = runtime::schedule_kind_name(by_default.schedule.kind);
    choice.min_work = 0;
    choice.measured_at = 0;
    if (const Status stored = store_.save_schedule(choice); !stored.ok()) {
      note(fmt::format("how regions run stays as measured: {}", stored.message()));
      return false;
    }
    note(fmt::format("{}: {}: how regions run is taken back to {}, to be measured again", options_.file, why,
                     choice.schedule));
    return true;
  }

  std::string reason(const TakenBack& taken, const std::string& work) const {
    const std::string where =
        fmt::format("in the whole of {} ({}, {} thread(s))", options_.file, work, options_.threads);
    switch (taken.cause) {
      case Cause::kItself:
        return fmt::format("{} the default plan is faster by {}", where, percent(taken.speedup));
      case Cause::kLayout:
        return fmt::format("{} what reads weights in this plan's layout is faster by {} in the default's", where,
                           percent(taken.speedup));
      case Cause::kWork:
        return fmt::format("{} all is faster by {} with default plans", where, percent(taken.speedup));
    }
    return where;
  }

  // Times of a call, round by round; those of the default plan first.
  static std::vector<db::SampleGroup> samples(const Part& part, size_t w, const db::Candidate& fallback) {
    const auto group = [&](const db::Candidate& candidate, const std::vector<double>& times, int order) {
      db::SampleGroup g{candidate, {}};
      for (size_t round = 0; round < times.size(); ++round) {
        const double ns = times[round] / static_cast<double>(std::max<int64_t>(part.calls[w], 1));
        g.samples.push_back({.round = static_cast<int64_t>(round),
                             .order = order,
                             .ns = std::max<int64_t>(static_cast<int64_t>(ns), 1),
                             .phase = db::Phase::kConfirm});
      }
      return g;
    };
    std::vector<db::SampleGroup> groups = {group(fallback, part.times[w].by_default, 0)};
    const Result<db::Candidate> tuned = candidate_of(part.problem, part.tuned_step);
    if (tuned.ok() && *tuned != fallback) groups.push_back(group(*tuned, part.times[w].tuned, 1));
    return groups;
  }

  static double median_ns(const db::SampleGroup& group) {
    std::vector<double> ns;
    for (const db::Sample& s : group.samples) ns.push_back(static_cast<double>(s.ns));
    return autotune::median_of(ns);
  }

  static PlanInWhole in_whole(const Part& part, size_t w, const Interval& speedup, const std::string& why) {
    return {.problem = part.by_default.kernel,
            .work = w,
            .program = part.tuned_step.plan,
            .default_ns = autotune::median(part.times[w].by_default),
            .ns = autotune::median(part.times[w].tuned),
            .speedup = speedup,
            .why = why};
  }

  void finish() {
    report_.works = times_;
    for (size_t w = 0; w < options_.works.size(); ++w)
      for (const Part& p : parts_)
        if (p.calls[w] > 0 && p.tuned && !p.times[w].tuned.empty())
          report_.kept.push_back(in_whole(p, w, autotune::speedup_of(p.times[w]), ""));
  }

  const TrialOptions& options_;
  db::Store& store_;
  const Machine& machine_;
  std::vector<Part> parts_;
  std::vector<std::vector<std::vector<int>>> part_of_;  // by work, call, step
  std::vector<PairedTimes> times_;                      // by work
  std::vector<PairedTimes> untuned_;                    // by work: what runs the default's plan in both
  double seconds_ = 0, uncharged_ = 0;                  // of all races; of those that no run was charged yet
  bool all_asked_ = false;                              // the next race shows the result
  TrialReport report_;
};

}  // namespace

Result<TrialReport> try_whole(const TrialOptions& options, db::Store& store, const Machine& machine) {
  return Trial(options, store, machine).run();
}

StepChange change_of(const op::Problem& problem, const StepReport& by_default, const StepReport& stored) {
  const bool relaid = by_default.kernel != stored.kernel || panel_of(problem, by_default) != panel_of(problem, stored);
  const bool chosen = stored.reason != plan::reason_name(plan::Reason::kDefault);
  return {.relaid = relaid, .tuned = relaid || (chosen && !same_plan(by_default, stored))};
}

std::string cost_note(const TrialReport& report, size_t w, const ModelWork& work) {
  if (!autotune::surely_slower(report.works[w], report.tail)) return "";
  const Interval speedup = autotune::sure_speedup_of(report.works[w], report.tail);
  std::string text = fmt::format("{}: the whole is slower with what is stored, {:.3f} [{:.3f}, {:.3f}]", work.name(),
                                 speedup.mid, speedup.lo, speedup.hi);
  std::vector<std::string> slower;
  size_t kept = 0;
  for (const PlanInWhole& p : report.kept) {
    if (p.work != w) continue;
    ++kept;
    if (p.speedup.mid < 1) slower.push_back(fmt::format("{} ({:.3f})", p.problem, p.speedup.mid));
  }
  if (kept == 0)
    return text +
           ", and no tuned plan of it is left: see how regions run (hone info), or tune with nothing else running";
  text += fmt::format(", and keeps {} tuned plan(s) of it", kept);
  if (!slower.empty()) text += fmt::format(", of which these look slower: {}", fmt::join(slower, ", "));
  return text + "; the same command tries it again";
}

}  // namespace hone::cli
