// See tune.h. What the protocol is told of kernels, and what the store is told of the protocol.
#include "autotune/tune.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "autotune/cost/cost.h"
#include "autotune/search/protocol.h"
#include "engine/base/guarded.h"
#include "engine/base/log.h"
#include "engine/base/version.h"
#include "jit/codegen.h"
#include "kernels/matmul/blocking.h"

namespace hone::autotune {
namespace {

db::BuildLabel build_label() {
  db::BuildLabel label{.engine = std::string(engine_label()), .codegens = ""};
  for (const jit::CodeGenerator* g : jit::code_generators())
    label.codegens += fmt::format("{}{}={}", label.codegens.empty() ? "" : ";", g->name(), g->version());
  return label;
}

template <typename T>
bool contains(const std::vector<T>& list, const T& value) {
  return std::find(list.begin(), list.end(), value) != list.end();
}

std::string cache_name(CacheMode mode) { return mode == CacheMode::kCold ? "cold" : "warm"; }

std::string settings_json(const TuneOptions& options, const Target& target) {
  nlohmann::json j = {{"budget", options.budget_seconds}, {"strategy", options.strategy}, {"threads", target.threads},
                      {"codegens", target.codegens},      {"panel", options.panel},       {"fresh", options.fresh}};
  return j.dump();
}

class Tuning {
 public:
  Tuning(const matmul::MatmulProblem& problem, const TuneOptions& options, const TuneContext& context)
      : problem_(problem), options_(options), context_(context), text_(to_string(problem)) {}

  Result<TuneReport> run() {
    begin_ = clock_.now_ns();
    HONE_RETURN_IF_ERROR(matmul::validate(problem_));
    HONE_ASSIGN_OR_RETURN(strategy_, find_strategy(options_.strategy));
    HONE_ASSIGN_OR_RETURN(target_, tune_target(context_.machine, options_));
    // The default plan's own count is a candidate too, also where it is no power of two.
    if (options_.threads.empty()) add_threads(matmul::default_threads(problem_, target_.threads.back()));
    progress("prepare", 0, 1);
    peak();
    space_ = enumerate(problem_, target_);
    if (space_.candidates.empty())
      return unsupported(fmt::format("{}: no candidate is legal here, among them: {}", text_,
                                     space_.rejected.empty() ? "none" : space_.rejected.front().why));
    add_incumbent();
    begin_run();
    HONE_ASSIGN_OR_RETURN(
        const std::unique_ptr<MatmulRacer> racer,
        MatmulRacer::create(
            problem_, space_.candidates, clock_,
            {.cache = options_.cache, .seed = options_.seed, .peak = peak_, .cpus = context_.machine.cpus_usable}));
    Race race(*racer, clock_, options_.seed, hooks());
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

  // The newest earlier decision of a machine like this that can still run joins the candidates.
  void add_incumbent() {
    incumbent_ = fallback_ = 0;
    if (options_.fresh) return;
    Result<std::vector<db::StoredDecision>> earlier = context_.store.decisions_for_problem(text_);
    if (!earlier.ok()) return;  // a store that cannot be read leaves the default as incumbent
    for (const db::StoredDecision& stored : *earlier) {
      if (stored.machine.key != context_.machine.key()) continue;
      const db::Candidate& winner = stored.decision.winner;
      const Result<matmul::TransformProgram> program = matmul::parse_program(winner.program);
      if (!program.ok() || !context_.machine.supports(program->isa) || !matmul::legal(problem_, *program).ok())
        continue;
      if (options_.panel > 0 && program->panel != options_.panel) continue;
      // Only what this run may choose: a decision is made among the thread counts and code generators that were asked
      // for.
      if (winner.numerics != "ordered" || !contains(target_.codegens, winner.codegen)) continue;
      if (!contains(target_.threads, winner.threads)) continue;
      const Candidate candidate{matmul::canonical(problem_, *program), winner.codegen, winner.threads};
      const auto at = std::find(space_.candidates.begin(), space_.candidates.end(), candidate);
      incumbent_ = static_cast<int>(at - space_.candidates.begin());
      if (at == space_.candidates.end()) space_.candidates.push_back(candidate);
      return;
    }
  }

  std::vector<int> ordered() const {
    CostMachine machine{.cpus = context_.machine.cpus_usable,
                        .caches = blocking_caches(context_.machine),
                        .cold = options_.cache == CacheMode::kCold};
    if (peak_.f32_gflops_1t > 0) {
      machine.gflops_1t = peak_.f32_gflops_1t;
      machine.l2_gbs = peak_.l2_gbs_1t;
      machine.dram_gbs_1t = peak_.read_gbs_1t;
      machine.dram_gbs_all = peak_.read_gbs_all;
    }
    const Result<Isa> best = context_.machine.best_isa();
    if (best.ok()) machine.widest_lanes = isa_info(*best).lanes_f32();
    return measuring_order(problem_, space_.candidates, machine);
  }

  // ---- the protocol ----

  Result<ProtocolResult> decide(Race& race) {
    Result<ProtocolResult> result = run_protocol(
        race, {.fallback = fallback_,
               .incumbent = incumbent_,
               .order = search_order(),
               .siblings = [this](int winner) { return siblings(winner); },
               .substitutes = ordered(),
               .strategy = strategy_,
               .begin_ns = begin_,
               .budget_ns = static_cast<int64_t>(options_.budget_seconds * 1e9),
               .on_progress = [this](std::string_view phase, int left, double ratio) { progress(phase, left, ratio); },
               .on_noise =
                   [this](double bound) {
                     if (run_id_ > 0) keep(context_.store.set_noise_bound(run_id_, bound));
                   }});
    if (result.ok()) return result;
    return internal_error(fmt::format("{}: {} (of {} candidates); the last: {}", text_, result.status().message(),
                                      space_.candidates.size(), last_failure_));
  }

  // The order of measuring: code generators agree within a few percent on one program, programs do not agree with each
  // other, so all programs come first with the preferred generator; the winner meets its siblings afterwards.
  std::vector<int> search_order() const {
    std::vector<int> order = ordered();
    std::stable_partition(order.begin(), order.end(), [&](int c) { return codegen_of(c) == target_.codegens.front(); });
    return order;
  }

  const std::string& codegen_of(int c) const { return space_.candidates[static_cast<size_t>(c)].codegen; }

  // The winner's program through the other code generators.
  std::vector<int> siblings(int winner) const {
    const Candidate& best = space_.candidates[static_cast<size_t>(winner)];
    std::vector<int> family;
    for (int c = 0; c < static_cast<int>(space_.candidates.size()); ++c) {
      const Candidate& other = space_.candidates[static_cast<size_t>(c)];
      if (other.codegen != best.codegen && other.threads == best.threads && other.program == best.program)
        family.push_back(c);
    }
    return family;
  }

  // ---- records ----

  db::ProblemKey key() const { return {.text = text_, .family = matmul::family(problem_), .m = problem_.m}; }

  db::Candidate record(int index) const {
    const Candidate& c = space_.candidates[static_cast<size_t>(index)];
    const Result<jit::CodeGenerator*> generator = jit::find_code_generator(c.codegen);
    return {.program = to_string(c.program),
            .codegen = c.codegen,
            .codegen_version = generator.ok() ? (*generator)->version() : "",
            .threads = c.threads};
  }

  void begin_run() {
    const db::RunInfo info{.seed = static_cast<int64_t>(options_.seed),
                           .cache_mode = cache_name(options_.cache),
                           .settings = settings_json(options_, target_)};
    const Result<int64_t> id = context_.store.begin_run(
        {.key = context_.machine.key(), .label = machine_to_json(context_.machine)}, build_label(), info);
    if (id.ok()) run_id_ = *id;
    if (!id.ok()) keep(id.status());
  }

  // A store that cannot be written must not cost the user the measurement: the first failure is reported with it.
  void keep(const Status& s) {
    if (s.ok() || store_failed_) return;
    if (report_.not_stored.empty()) report_.not_stored = s.message();
    // A busy store may answer the next round.
    store_failed_ = s.code() != Code::kUnavailable;
    HONE_LOG_EVENT(LogTopic::kTune, "store_failed", {{"problem", text_}, {"why", s.message()}});
  }

  Race::Hooks hooks() {
    return {.on_round = [this](std::span<const RoundSample> samples) { return store_round(samples); },
            .on_outcome = [this](int c, const Prepared& p) { return store_outcome(c, p); },
            .on_step = [this] { tick(); },
            .stop = context_.stop};
  }

  Status store_round(std::span<const RoundSample> samples) {
    if (run_id_ == 0 || store_failed_) return {};
    std::map<int, std::vector<db::Sample>> by_candidate;
    for (const RoundSample& s : samples) by_candidate[s.candidate].push_back(s.sample);
    std::vector<db::SampleGroup> groups;
    for (auto& [candidate, list] : by_candidate) groups.push_back({record(candidate), std::move(list)});
    keep(context_.store.add_round(run_id_, key(), groups, static_cast<double>(clock_.now_ns() - begin_) * 1e-9));
    return {};
  }

  Status store_outcome(int candidate, const Prepared& prepared) {
    const Candidate& c = space_.candidates[static_cast<size_t>(candidate)];
    last_failure_ = prepared.detail;
    switch (prepared.outcome) {
      case db::Outcome::kWrong:
        ++report_.rejected_wrong;
        break;
      case db::Outcome::kCrashed:
        ++report_.crashed;
        break;
      case db::Outcome::kRefused:
      case db::Outcome::kMeasured:
        ++report_.refused;
        break;
    }
    HONE_LOG_EVENT(LogTopic::kTune, "outcome",
                   {{"problem", text_},
                    {"program", to_string(c.program)},
                    {"codegen", c.codegen},
                    {"threads", c.threads},
                    {"outcome", db::outcome_name(prepared.outcome)},
                    {"why", prepared.detail}});
    if (run_id_ == 0 || store_failed_) return {};
    const std::string command = fmt::format("hone bench '{}' --plan '{}' --codegen {} --threads {}", text_,
                                            to_string(c.program), c.codegen, c.threads);
    keep(context_.store.add_outcome(run_id_, key(), record(candidate), prepared.outcome, prepared.detail, command));
    return {};
  }

  TunedPlan plan(int index, double ns) const {
    const Candidate& c = space_.candidates[static_cast<size_t>(index)];
    return {.program = to_string(c.program),
            .codegen = c.codegen,
            .threads = c.threads,
            .ns = ns,
            .gflops = ns > 0 ? problem_.flops() / ns : 0};
  }

  void store_decision(const ProtocolResult& result) {
    const Confirmed& confirmed = result.confirmed;
    if (run_id_ == 0 || store_failed_ || confirmed.ns <= 0 || confirmed.fallback_ns <= 0) return;
    const Result<int64_t> id = context_.store.add_decision(run_id_, {.problem = key(),
                                                                     .winner = record(confirmed.winner),
                                                                     .fallback = record(result.fallback),
                                                                     .verdict = confirmed.verdict,
                                                                     .ns = confirmed.ns,
                                                                     .default_ns = confirmed.fallback_ns,
                                                                     .speedup = confirmed.speedup.mid,
                                                                     .speedup_lo = confirmed.speedup.lo,
                                                                     .speedup_hi = confirmed.speedup.hi,
                                                                     .noise_bound = result.noise_bound});
    if (id.ok()) report_.decided = true;
    if (!id.ok()) keep(id.status());
  }

  TuneReport report(Race& race, const ProtocolResult& result) {
    const Confirmed& confirmed = result.confirmed;
    // Fewer rounds than the protocol asks for decide nothing.
    if (confirmed.rounds >= kFewestConfirmRounds) store_decision(result);
    report_.problem = text_;
    report_.decision = confirmed.verdict;
    report_.winner = plan(confirmed.winner, confirmed.ns);
    report_.fallback = plan(result.fallback, confirmed.fallback_ns);
    report_.speedup = confirmed.speedup.mid;
    report_.speedup_lo = confirmed.speedup.lo;
    report_.speedup_hi = confirmed.speedup.hi;
    report_.noise_bound = result.noise_bound;
    report_.enumerated = static_cast<int>(space_.candidates.size());
    report_.measured = race.measured();
    report_.rounds = race.rounds(db::Phase::kSearch) + race.rounds(db::Phase::kConfirm);
    report_.run_id = run_id_;
    report_.interrupted = stopped();
    report_.seconds = elapsed();
    return report_;
  }

  matmul::MatmulProblem problem_;
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
  int64_t run_id_ = 0;  // 0: the store takes nothing
  bool store_failed_ = false;
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
  for (Isa isa : all_isas())
    if (machine.supports(isa)) target.isas.push_back(isa);
  if (target.isas.empty()) return machine.best_isa().status();
  target.threads = options.threads;
  if (target.threads.empty()) {
    const int all = std::max(1, options.max_threads > 0 ? options.max_threads : machine.cpus_usable);
    for (int t = 1; t < all; t *= 2) target.threads.push_back(t);
    target.threads.push_back(all);
  }
  std::sort(target.threads.begin(), target.threads.end());
  target.threads.erase(std::unique(target.threads.begin(), target.threads.end()), target.threads.end());
  if (target.threads.front() < 1)
    return invalid_argument(fmt::format("threads={} must be at least 1", target.threads.front()));
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

Result<TuneReport> tune(const matmul::MatmulProblem& problem, const TuneOptions& options, const TuneContext& context) {
  return guarded([&] { return Tuning(problem, options, context).run(); });
}

}  // namespace hone::autotune
