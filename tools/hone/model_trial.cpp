// See model_trial.h.
#include "tools/hone/model_trial.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <map>

#include "autotune/recorder.h"
#include "engine/model/model.h"
#include "jit/codegen.h"
#include "kernels/op/op.h"
#include "tools/hone/regions.h"
#include "tools/hone/rounds.h"
#include "tools/hone/status_line.h"

namespace hone::cli {
namespace {

using autotune::Cause;
using autotune::Interval;
using autotune::PairedTimes;
using autotune::TakenBack;
using autotune::WholePart;
using executable::StepReport;

constexpr RoundBudget kRounds{.repetitions = 7, .seconds = 20};
constexpr size_t kDefault = 0, kTuned = 1;  // variants

// One problem as both variants run it. The default's is what it is called by.
struct Part {
  op::Problem problem;
  StepReport by_default, tuned;
  std::vector<int64_t> calls;      // by work
  std::vector<PairedTimes> times;  // of all calls, by work
};

bool same_plan(const StepReport& a, const StepReport& b) {
  return a.kernel == b.kernel && a.plan == b.plan && a.codegen == b.codegen && a.threads == b.threads;
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
    HONE_ASSIGN_OR_RETURN(
        ModelSpeed speed,
        ModelSpeed::create(options_.file, {{options_.threads, false}, {options_.threads, true}}, options_.speed));
    for (int pass = 1;; ++pass) {
      HONE_RETURN_IF_ERROR(name_parts(speed));
      HONE_RETURN_IF_ERROR(race(speed, pass));
      if (interrupted() || pass == kMostPasses || !take_back(pass)) break;
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
    return {};
  }

  // -1: a row program, about which nothing is tuned.
  int part_of(StepReport& by_default, StepReport& tuned, std::map<std::string, size_t>& by_name) {
    const auto at = by_name.find(by_default.kernel);
    if (at != by_name.end()) return static_cast<int>(at->second);
    const Result<op::Problem> problem = op::parse_problem(by_default.kernel);
    if (!problem.ok()) return -1;
    by_name.emplace(by_default.kernel, parts_.size());
    parts_.push_back({*problem, by_default, tuned, std::vector<int64_t>(options_.works.size()), {}});
    return static_cast<int>(parts_.size()) - 1;
  }

  // ---- measuring ----

  Status race(ModelSpeed& speed, int pass) {
    times_.assign(options_.works.size(), {});
    for (Part& part : parts_) part.times.assign(options_.works.size(), {});
    StatusLine line;
    const auto begin = std::chrono::steady_clock::now();
    const auto seconds = [&] {
      return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
    };
    for (int round = -1; !kRounds.over(round, seconds()) && !interrupted(); ++round) {  // -1: to warm up
      for (size_t w = 0; w < options_.works.size() && !interrupted(); ++w) {
        line.show([&] {
          return fmt::format("the whole model: {}, pass {} of at most {}, round {}", options_.works[w].name(), pass,
                             kMostPasses, round + 1);
        });
        for (const size_t turn : {size_t{0}, size_t{1}})
          HONE_RETURN_IF_ERROR(run_once(speed, round % 2 == 0 ? turn : 1 - turn, w, round < 0));
      }
    }
    seconds_ += seconds();
    return {};
  }

  Status run_once(ModelSpeed& speed, size_t variant, size_t w, bool untimed) {
    ModelWork work = options_.works[w];
    if (untimed) {
      work.generate = std::min<int64_t>(work.generate, 1);
      return speed.run(variant, work).status();
    }
    std::vector<double> sums(parts_.size());
    const ModelSpeed::OnCall on_call = [&](size_t call, std::span<const int64_t> step_ns) {
      for (size_t s = 0; s < step_ns.size(); ++s)
        if (const int part = part_of_[w][call][s]; part >= 0)
          sums[static_cast<size_t>(part)] += static_cast<double>(step_ns[s]);
    };
    HONE_ASSIGN_OR_RETURN(const int64_t ns, speed.run(variant, work, on_call));
    const auto add = [&](PairedTimes& times, double value) {
      (variant == kDefault ? times.by_default : times.tuned).push_back(value);
    };
    add(times_[w], static_cast<double>(ns));
    for (size_t p = 0; p < parts_.size(); ++p)
      if (parts_[p].calls[w] > 0) add(parts_[p].times[w], std::max(sums[p], 1.0));
    return {};
  }

  // ---- taking back ----

  // False: there is nothing more to take back, or no place to say so.
  bool take_back(int pass) {
    std::vector<WholePart> parts;
    for (const Part& p : parts_)
      parts.push_back({.problem = p.by_default.kernel,
                       .layout = op::family(p.problem),
                       .tuned = !same_plan(p.by_default, p.tuned),
                       .relaid = p.by_default.kernel != p.tuned.kernel ||
                                 panel_of(p.problem, p.by_default) != panel_of(p.problem, p.tuned),
                       .works = p.times});
    const bool last = pass + 1 == kMostPasses || seconds_ > kPatientSeconds;
    const std::vector<TakenBack> list =
        last ? autotune::take_all_back(times_, parts) : autotune::take_back(times_, parts);
    const bool slower = std::ranges::any_of(
        times_, [](const PairedTimes& times) { return autotune::surely_slower(autotune::speedup_of(times)); });
    if (list.empty() && slower) return take_regions_back();
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
    HONE_RETURN_IF_ERROR(store_.add_round(run, key, evidence, seconds_));
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
  bool take_regions_back() {
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
    note(fmt::format("{} is slower with default plans too: how regions run is taken back to {}, to be measured again",
                     options_.file, choice.schedule));
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
    const Result<db::Candidate> tuned = candidate_of(part.problem, part.tuned);
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
            .program = part.tuned.plan,
            .default_ns = autotune::median(part.times[w].by_default),
            .ns = autotune::median(part.times[w].tuned),
            .speedup = speedup,
            .why = why};
  }

  void finish() {
    report_.works = times_;
    for (size_t w = 0; w < options_.works.size(); ++w)
      for (const Part& p : parts_)
        if (p.calls[w] > 0 && !same_plan(p.by_default, p.tuned) && !p.times[w].tuned.empty())
          report_.kept.push_back(in_whole(p, w, autotune::speedup_of(p.times[w]), ""));
  }

  const TrialOptions& options_;
  db::Store& store_;
  const Machine& machine_;
  std::vector<Part> parts_;
  std::vector<std::vector<std::vector<int>>> part_of_;  // by work, call, step
  std::vector<PairedTimes> times_;                      // by work
  double seconds_ = 0;                                  // of all races
  TrialReport report_;
};

}  // namespace

Result<TrialReport> try_whole(const TrialOptions& options, db::Store& store, const Machine& machine) {
  return Trial(options, store, machine).run();
}

}  // namespace hone::cli
