// See tune.h. What the protocol is told of kernels, and what the store is told of the protocol.
#include "autotune/tune.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "autotune/learn/order.h"
#include "autotune/recorder.h"
#include "autotune/search/protocol.h"
#include "engine/base/env.h"
#include "engine/base/guarded.h"
#include "engine/base/log.h"
#include "engine/base/machine_kind.h"
#include "jit/codegen.h"
#include "kernels/op/region.h"

namespace hone::autotune {
namespace {

template <typename T>
bool contains(const std::vector<T>& list, const T& value) {
  return std::find(list.begin(), list.end(), value) != list.end();
}

std::string cache_name(CacheMode mode) { return mode == CacheMode::kCold ? "cold" : "warm"; }

// `order` and `peak`: by whose word candidates were measured, and what it was told of the machine.
std::string settings_json(const TuneOptions& options, const Target& target, size_t enumerated, const std::string& order,
                          const Peak& peak) {
  nlohmann::json j = {{"budget", options.budget_seconds},
                      {"strategy", options.strategy},
                      {"threads", target.threads},
                      {"codegens", target.codegens},
                      {"panel", options.panel},
                      {"fresh", options.fresh},
                      {"numerics", options.numerics},
                      {"enumerated", enumerated},
                      {"order", order},
                      {"schedule", runtime::schedule_kind_name(options.schedule)}};
  j["peak"] = {{"f32_gflops_1t", peak.f32_gflops_1t},
               {"bf16_gflops_1t", peak.bf16_gflops_1t},
               {"read_gbs_1t", peak.read_gbs_1t},
               {"read_gbs_all", peak.read_gbs_all},
               {"l2_gbs_1t", peak.l2_gbs_1t}};
  return j.dump();
}

class Tuning {
 public:
  Tuning(const op::Problem& problem, const TuneOptions& options, const TuneContext& context)
      : problem_(problem),
        options_(options),
        context_(context),
        text_(op::to_string(problem)),
        recorder_(context.store, problem_record(problem),
                  {.record = [this](int c) { return record(candidate(c)); },
                   .command =
                       [this](int c, const db::RunInfo& run) {
                         return repeat_command(text_, candidate(c), run.cache_mode, run.seed);
                       }}) {}

  Result<TuneReport> run() {
    begin_ = clock_.now_ns() - static_cast<int64_t>(options_.spent_seconds * 1e9);
    HONE_RETURN_IF_ERROR(op::validate(problem_));
    HONE_RETURN_IF_ERROR(op::check_numerics(problem_, options_.numerics));
    HONE_ASSIGN_OR_RETURN(strategy_, find_strategy(options_.strategy));
    HONE_ASSIGN_OR_RETURN(target_, tune_target(context_.machine, options_));
    // As the resolver will: no other class would ever be taken under "any".
    target_.numerics = op::narrow_numerics(problem_, options_.numerics, target_.features, context_.machine.arch());
    // The default plan's own count is a candidate too, also where it is no power of two.
    if (options_.threads.empty())
      add_threads(op::default_threads(op::region_work(problem_), target_.threads.back(), target_.min_work));
    progress("prepare", 0, 1);
    peak();
    space_ = enumerate(problem_, target_);
    if (space_.candidates.empty())
      return unsupported(fmt::format("{}: no candidate is legal here, among them: {}", text_,
                                     space_.rejected.empty() ? "none" : space_.rejected.front().why));
    add_incumbent();
    order();
    HONE_ASSIGN_OR_RETURN(const Race::Earlier earlier, begin_run());
    HONE_ASSIGN_OR_RETURN(const std::unique_ptr<Racer> racer,
                          make_racer(context_.isolation, problem_, space_.candidates, clock_,
                                     {.cache = options_.cache,
                                      .seed = options_.seed,
                                      .peak = peak_,
                                      .cpus = context_.machine.cpus_usable,
                                      .schedule = options_.schedule},
                                     options_.budget_seconds, context_.stop));
    Race race(*racer, clock_, options_.seed, hooks());
    race.restore(earlier);
    HONE_ASSIGN_OR_RETURN(const ProtocolResult result, decide(race));
    return report(race, result);
  }

 private:
  double elapsed() { return static_cast<double>(clock_.now_ns() - begin_) * 1e-9; }
  bool stopped() const { return context_.stop != nullptr && context_.stop->load(); }

  void progress(std::string_view phase, int left, double ratio) {
    phase_ = phase, left_ = left, ratio_ = ratio;
    tick();
  }
  void tick() {
    if (!context_.on_progress) return;
    context_.on_progress({.problem = text_,
                          .phase = phase_,
                          .candidates_left = left_,
                          .best_ratio = ratio_,
                          .seconds_left = std::max(0.0, options_.budget_seconds - elapsed())});
  }

  void add_threads(int count) {
    const auto at = std::lower_bound(target_.threads.begin(), target_.threads.end(), count);
    if (at == target_.threads.end() || *at != count) target_.threads.insert(at, count);
  }

  void peak() {
    peak_ = options_.peak;
    if (peak_.f32_gflops_1t > 0) return;
    // 3% of the budget, at most 0.3 s. Without an answer nothing is refused for being too fast.
    const Result<Peak> quick = measure_peak(
        context_.machine, {.seconds = std::min(0.3, 0.03 * options_.budget_seconds), .dram_bytes = int64_t{16} << 20});
    if (quick.ok()) peak_ = *quick;
  }

  // ---- who is in the race ----

  // Who is to be beaten joins the candidates: who the caller says, else the newest earlier decision of this kind of
  // machine that can still run, else the default plan.
  void add_incumbent() {
    if (options_.incumbent) {
      const TunedPlan& plan = *options_.incumbent;
      if (join({.program = plan.program, .codegen = plan.codegen, .threads = plan.threads, .numerics = plan.numerics}))
        return;
    }
    if (options_.fresh) return;
    const Result<std::vector<db::StoredDecision>> earlier = context_.store.decisions_for_problem(text_);
    if (!earlier.ok()) return;  // a store that cannot be read leaves the default as incumbent
    const MachineKind here = kind_of(context_.machine);
    for (const db::StoredDecision& stored : *earlier) {
      if (stored.machine.key != context_.machine.key()) continue;
      if (!kind_difference(kind_of(read_machine_label(stored.machine.label)), here).empty()) continue;
      if (join(stored.decision.winner)) return;
    }
  }

  bool join(const db::Candidate& winner) {
    const std::optional<Candidate> candidate = candidate_of(winner, problem_);
    if (!candidate || !context_.machine.supports(op::isa(candidate->program))) return false;
    if (!op::panel_fits(problem_, candidate->program, options_.panel).ok()) return false;
    if (!op::missing(candidate->program, target_.features).empty()) return false;
    // Only what this run may choose: a decision is made among the thread counts, code generators and numerics classes
    // that were asked for.
    if (!op::numerics_allowed(problem_, target_.numerics, op::numerics(candidate->program))) return false;
    if (!contains(target_.codegens, winner.codegen)) return false;
    if (!contains(target_.threads, winner.threads)) return false;
    const auto at = std::find(space_.candidates.begin(), space_.candidates.end(), *candidate);
    incumbent_ = static_cast<int>(at - space_.candidates.begin());
    if (at == space_.candidates.end()) space_.candidates.push_back(*candidate);
    return true;
  }

  void order() {
    CandidateOrder chosen = candidate_order(problem_, space_.candidates,
                                            cost_machine(context_.machine, peak_, options_.cache == CacheMode::kCold),
                                            context_.store, context_.machine.key());
    order_ = std::move(chosen.indices);
    report_.order = chosen.name();
    HONE_LOG_EVENT(LogTopic::kTune, "order", {{"problem", text_}, {"order", report_.order}, {"why", chosen.why_not}});
  }

  // ---- the protocol ----

  Result<ProtocolResult> decide(Race& race) {
    Result<ProtocolResult> result = run_protocol(
        race, {.fallback = fallback_,
               .incumbent = incumbent_,
               .order = search_order(order_),
               .siblings = [this](int winner) { return siblings(winner); },
               .substitutes = order_,
               .strategy = strategy_,
               .begin_ns = begin_,
               .budget_ns = static_cast<int64_t>(options_.budget_seconds * 1e9),
               .search_all = options_.search_all,
               .on_progress = [this](std::string_view phase, int left, double ratio) { progress(phase, left, ratio); },
               .on_noise = [this](double bound) { recorder_.noise(bound); }});
    if (result.ok() || stopped()) return result;
    return internal_error(fmt::format("{}: {} (of {} candidates); the last: {}", text_, result.status().message(),
                                      space_.candidates.size(), last_failure_));
  }

  // The order of measuring: code generators agree within a few percent on one program, programs do not agree with each
  // other, so all programs come first with the preferred generator; the winner meets its siblings afterwards.
  std::vector<int> search_order(std::vector<int> order) const {
    // Everything means the other code generators as well.
    if (options_.search_all) return order;
    std::stable_partition(order.begin(), order.end(),
                          [&](int c) { return candidate(c).codegen == target_.codegens.front(); });
    // The one to beat is met at once: what is gained over it can then be told while the search goes on.
    std::stable_partition(order.begin(), order.end(), [&](int c) { return c == incumbent_; });
    return order;
  }

  const Candidate& candidate(int index) const { return space_.candidates[static_cast<size_t>(index)]; }

  // The winner's program through the other code generators.
  std::vector<int> siblings(int winner) const {
    const Candidate& best = candidate(winner);
    std::vector<int> family;
    for (int c = 0; c < static_cast<int>(space_.candidates.size()); ++c) {
      const Candidate& other = candidate(c);
      if (other.codegen != best.codegen && other.threads == best.threads && other.program == best.program)
        family.push_back(c);
    }
    return family;
  }

  // ---- records ----

  // A run of an earlier process goes on, or a new one begins.
  Result<Race::Earlier> begin_run() {
    const db::RunInfo info{.seed = static_cast<int64_t>(options_.seed),
                           .cache_mode = cache_name(options_.cache),
                           .settings = settings_json(options_, target_, space_.candidates.size(), report_.order, peak_),
                           .session_id = options_.session_id,
                           .problem = problem_record(problem_)};
    if (options_.resume_run > 0) {
      recorder_.resume(options_.resume_run, info);
      HONE_ASSIGN_OR_RETURN(const std::vector<db::StoredOutcome> ruled_out,
                            context_.store.outcomes(options_.resume_run));
      for (const db::StoredOutcome& o : ruled_out) {
        count_outcome(o.outcome, &report_);
        if (o.outcome == db::Outcome::kCrashed) report_.crashes.push_back({o.detail, o.command});
      }
      return read_earlier(context_.store, options_.resume_run, problem_, &space_.candidates);
    }
    recorder_.begin(context_.machine, info);
    return Race::Earlier{};
  }

  Race::Hooks hooks() {
    return {.on_round = [this](std::span<const RoundSample> samples) { recorder_.round(samples, elapsed()); },
            .on_outcome =
                [this](int candidate, const Prepared& why) {
                  last_failure_ = why.detail;
                  count_outcome(why.outcome, &report_);
                  if (why.outcome == db::Outcome::kCrashed)
                    report_.crashes.push_back({why.detail, recorder_.repeat_command(candidate)});
                  recorder_.outcome(candidate, why);
                },
            .on_step = [this] { tick(); },
            .stop = context_.stop};
  }

  TunedPlan plan(int index, double ns) const {
    const Candidate& c = candidate(index);
    return {.program = op::to_string(c.program),
            .codegen = c.codegen,
            .threads = c.threads,
            .numerics = op::numerics(c.program),
            .ns = ns,
            .gflops = ns > 0 ? op::flops(problem_) / ns : 0};
  }

  void store_decision(const ProtocolResult& result) {
    const Confirmed& confirmed = result.confirmed;
    // Fewer rounds than the protocol asks for decide nothing.
    if (confirmed.cut_short || confirmed.rounds < kFewestConfirmRounds || confirmed.ns <= 0 ||
        confirmed.fallback_ns <= 0)
      return;
    report_.decided = recorder_.decision({.winner = record(candidate(confirmed.winner)),
                                          .fallback = record(candidate(result.fallback)),
                                          .verdict = confirmed.verdict,
                                          .ns = confirmed.ns,
                                          .default_ns = confirmed.fallback_ns,
                                          .speedup = confirmed.speedup.mid,
                                          .speedup_lo = confirmed.speedup.lo,
                                          .speedup_hi = confirmed.speedup.hi,
                                          .noise_bound = result.noise_bound});
  }

  TuneReport report(Race& race, const ProtocolResult& result) {
    const Confirmed& confirmed = result.confirmed;
    store_decision(result);
    report_.problem = text_;
    report_.decision = confirmed.verdict;
    report_.winner = plan(confirmed.winner, confirmed.ns);
    report_.fallback = plan(result.fallback, confirmed.fallback_ns);
    report_.speedup = confirmed.speedup.mid;
    report_.speedup_lo = confirmed.speedup.lo;
    report_.speedup_hi = confirmed.speedup.hi;
    report_.challenger = plan(confirmed.challenger, 0);
    report_.gain = confirmed.gain.mid;
    report_.gain_lo = confirmed.gain.lo;
    report_.gain_hi = confirmed.gain.hi;
    report_.noise_bound = result.noise_bound;
    report_.enumerated = static_cast<int>(space_.candidates.size());
    report_.measured = race.measured();
    report_.rounds = race.rounds(db::Phase::kSearch) + race.rounds(db::Phase::kConfirm);
    report_.run_id = recorder_.run_id();
    report_.not_stored = recorder_.not_stored();
    report_.interrupted = stopped();
    report_.seconds = elapsed();
    return report_;
  }

  op::Problem problem_;
  TuneOptions options_;
  const TuneContext& context_;
  std::string text_;
  SteadyClock clock_;
  int64_t begin_ = 0;
  Strategy strategy_{};
  Target target_;
  Peak peak_;
  Space space_;
  int incumbent_ = 0, fallback_ = 0;
  std::vector<int> order_;  // of all candidates, most promising first
  Recorder recorder_;
  std::string last_failure_;
  std::string_view phase_;
  int left_ = 0;
  double ratio_ = 1;
  TuneReport report_;
};

}  // namespace

Result<Target> tune_target(const Machine& machine, const TuneOptions& options) {
  Target target;
  target.caches = blocking_caches(machine);
  target.panel = options.panel;
  target.min_work = options.min_work;
  target.numerics = options.numerics;
  target.features = machine.features;
  for (Isa isa : all_isas())
    if (machine.supports(isa)) target.isas.push_back(isa);
  if (target.isas.empty()) return machine.best_isa().status();
  target.threads = options.threads;
  if (target.threads.empty()) {
    const int all = std::clamp(options.max_threads > 0 ? options.max_threads : machine.cpus_usable, 1, kMaxThreads);
    for (int t = 1; t < all; t *= 2) target.threads.push_back(t);
    target.threads.push_back(all);
  }
  std::sort(target.threads.begin(), target.threads.end());
  target.threads.erase(std::unique(target.threads.begin(), target.threads.end()), target.threads.end());
  for (const int threads : {target.threads.front(), target.threads.back()})
    if (threads < 1 || threads > kMaxThreads)
      return invalid_argument(fmt::format("threads={} must be from 1 to {}", threads, kMaxThreads));
  for (const std::string& name : options.codegens) {
    HONE_ASSIGN_OR_RETURN(const jit::CodeGenerator* generator, jit::find_code_generator(name));
    target.codegens.emplace_back(generator->name());
  }
  if (target.codegens.empty()) {
    for (jit::CodeGenerator* g : jit::compiling_generators())
      if (g->targets(target.isas.back())) target.codegens.emplace_back(g->name());
  }
  if (target.codegens.empty()) target.codegens.emplace_back("interp");
  return target;
}

void count_outcome(db::Outcome outcome, TuneReport* report) {
  switch (outcome) {
    case db::Outcome::kWrong:
      ++report->rejected_wrong;
      break;
    case db::Outcome::kCrashed:
      ++report->crashed;
      break;
    case db::Outcome::kRefused:
    case db::Outcome::kMeasured:
      ++report->refused;
      break;
  }
}

Result<TuneReport> tune(const op::Problem& problem, const TuneOptions& options, const TuneContext& context) {
  return guarded([&] { return Tuning(problem, options, context).run(); });
}

}  // namespace hone::autotune
