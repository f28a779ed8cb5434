// See tune_graph.h. Each number of tokens is a contest of its own: policies that suit a prompt of 128 tokens need not
// suit one token, and the database is asked by tokens. One token stands at --position, as when decoding; more are a
// prompt and begin at 0.
#include "tools/hone/tune_graph.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

#include "autotune/contest.h"
#include "engine/base/env.h"
#include "engine/executable/stored_policy.h"
#include "engine/passes/pass.h"
#include "engine/passes/policy_space.h"
#include "tools/hone/json.h"
#include "tools/hone/plan_racer.h"
#include "tools/hone/status_line.h"
#include "tools/hone/table.h"

namespace hone::cli {
namespace {

using autotune::ContestReport;
using passes::PlanPolicy;

constexpr double kDefaultSecondsPerCall = 30;
constexpr int64_t kDefaultPrompt = 128, kDefaultPosition = 512;

// One number of tokens, and what came of it.
struct GraphTune {
  plan::GraphCall call;
  std::vector<PlanPolicy> policies;
  std::vector<db::Candidate> names;  // of policies
  std::vector<std::string> inert;
  int incumbent = 0;
  ContestReport report;
  double seconds = 0;
};

struct Setup {
  graph::Graph source;  // as it was read: what databases know it by
  graph::Graph graph;   // with a decoder's ops, its caches states: what plans are held to, bit for bit
  std::vector<int64_t> tokens;
  int64_t position = 0;
  std::vector<int> threads;
  double budget = 0;
  uint64_t seed = 0;
  Format format = Format::kMd;
  std::optional<PlanPolicy> only;
  Machine machine;
  std::unique_ptr<db::Store> store;
  std::optional<Engine> engine;
};

// ---- what was asked for ----

const graph::Symbol* symbol_of(const graph::Graph& g, const std::optional<std::string>& name) {
  return name ? g.find_symbol(*name) : nullptr;
}

Status choose_tokens(const TuneGraphArgs& args, Setup& s) {
  const graph::Graph& g = s.graph;
  const graph::Symbol* tokens = symbol_of(g, g.tokens.as_symbol());
  const graph::Symbol* position = g.find_symbol(g.position);
  if (args.tokens.empty()) {
    s.tokens = {1};
    if (tokens != nullptr && tokens->max > 1) s.tokens.push_back(std::min(kDefaultPrompt, tokens->max));
  } else {
    for (const std::string& word : split(args.tokens, ',')) {
      int64_t number = 0;
      const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), number);
      if (error != std::errc() || end != word.data() + word.size() || number < 1)
        return invalid_argument(
            fmt::format("--tokens takes numbers from 1 on with commas, got '{}'", printable(args.tokens)));
      s.tokens.push_back(number);
    }
  }
  if (args.position > 0 && position == nullptr)
    return invalid_argument("--position: the graph keeps nothing between calls, so it has none");
  if (position == nullptr) return {};
  s.position = args.position >= 0 ? args.position : std::min(kDefaultPosition, position->max - 1);
  return {};
}

Result<Setup> prepare(const TuneGraphArgs& args, const TuneCommonArgs& common) {
  Setup s;
  autotune::SteadyClock clock;
  s.seed = common.seed != 0 ? common.seed : static_cast<uint64_t>(clock.now_ns());
  Result<graph::Graph> graph = read_invented(args.file, s.seed);
  if (!graph.ok()) return typed(graph.status());
  s.source = *std::move(graph);
  passes::Compilation canonical;
  canonical.graph = s.source;
  HONE_RETURN_IF_ERROR(passes::run_passes(canonical, {.last = "canonicalize"}).status());
  s.graph = std::move(canonical.graph);
  HONE_RETURN_IF_ERROR(choose_tokens(args, s));
  HONE_ASSIGN_OR_RETURN(s.format, parse_format(common.output));
  HONE_ASSIGN_OR_RETURN(s.threads, parse_threads(common.threads));
  s.budget = kDefaultSecondsPerCall * static_cast<double>(s.tokens.size());
  if (!common.budget.empty()) {
    HONE_ASSIGN_OR_RETURN(s.budget, parse_duration(common.budget));
  }
  if (!args.policy.empty()) {
    Result<PlanPolicy> only = passes::parse_policy(args.policy);
    if (!only.ok()) return invalid_argument("--policy: " + only.status().message());
    s.only = *std::move(only);
  }
  HONE_ASSIGN_OR_RETURN(s.machine, executing_machine());
  HONE_ASSIGN_OR_RETURN(s.store, open_store(common.db, db::OpenMode::kReadWrite));
  const int most = s.threads.empty() ? 0 : *std::max_element(s.threads.begin(), s.threads.end());
  const bool in_memory = s.store->mode() == db::OpenMode::kInMemory;
  HONE_ASSIGN_OR_RETURN(
      s.engine,
      Engine::create({.database = in_memory ? "" : s.store->path(), .use_database = !in_memory, .threads = most}));
  // Counts to try, when none were named: those of a tune of kernels.
  if (s.threads.empty())
    for (int t = 1; t < s.engine->info().threads; t *= 2) s.threads.push_back(t);
  return s;
}

// ---- one number of tokens ----

// Classes of attention, and of matmuls that have a norm folded into them.
std::string numerics_of(const PlanPolicy& policy) {
  const std::string attention = policy.attention.empty() ? std::string(plan::kPlanNumerics) : policy.attention;
  return policy.norm == passes::NormPolicy::kFolded ? attention + ", norm folded" : attention;
}

db::Candidate name_of(const PlanPolicy& policy, int engine_threads) {
  return {.program = passes::to_string(policy),
          .codegen = std::string(plan::kPlanCodegen),
          .codegen_version = std::string(plan::kPlanVersion),
          .threads = policy.threads > 0 ? policy.threads : engine_threads,
          .numerics = numerics_of(policy)};
}

class Contestants {
 public:
  Contestants(const Setup& setup, const TuneCommonArgs& common) : s_(setup), common_(common) {}

  // The policies, the one to beat among them.
  Result<GraphTune> of(int64_t tokens) const {
    const int64_t position = tokens == 1 ? s_.position : 0;
    GraphTune tune{.call = executable::graph_call(s_.source, tokens, position)};
    if (s_.only) {
      tune.policies = {PlanPolicy{}, *s_.only};
    } else {
      HONE_ASSIGN_OR_RETURN(passes::PolicySpace space, passes::policy_space(s_.graph, options(tokens, position)));
      for (passes::PolicyCandidate& c : space.candidates) tune.policies.push_back(std::move(c.policy));
      tune.inert = std::move(space.inert);
      if (!common_.fresh) add_incumbent(tune);
    }
    for (const PlanPolicy& p : tune.policies) tune.names.push_back(name_of(p, s_.engine->info().threads));
    return tune;
  }

 private:
  passes::SpaceOptions options(int64_t tokens, int64_t position) const {
    passes::SpaceOptions o{.threads = s_.threads, .attention = {}, .tokens = tokens, .position = position};
    if (!common_.numerics.empty() && common_.numerics != "default") o.attention = {common_.numerics};
    o.machine.threads = s_.engine->info().threads;
    o.machine.l2_bytes = blocking_caches(s_.machine).l2;
    return o;
  }

  void add_incumbent(GraphTune& tune) const {
    const executable::StoredPolicy stored = executable::stored_policy(
        *s_.engine, s_.source,
        {.tokens = tune.call.tokens, .position = tune.call.position, .attention = common_.numerics});
    if (stored.from.reason != plan::PolicyReason::kExact) return;
    const auto at = std::find(tune.policies.begin(), tune.policies.end(), stored.policy);
    tune.incumbent = static_cast<int>(at - tune.policies.begin());
    if (at == tune.policies.end()) tune.policies.push_back(stored.policy);
  }

  const Setup& s_;
  const TuneCommonArgs& common_;
};

Status race(const Setup& s, const TuneGraphArgs& args, double seconds, GraphTune& tune) {
  autotune::SteadyClock clock;
  const int64_t begin = clock.now_ns();
  PlanRacer racer(s.graph, *s.engine, tune.policies, clock,
                  {.tokens = tune.call.tokens, .position = tune.call.position, .seed = s.seed});
  StatusLine line;
  const db::ProblemKey problem = plan::graph_problem(tune.call);
  autotune::ContestOptions options{.problem = problem, .candidates = tune.names, .incumbent = tune.incumbent};
  options.budget_seconds = seconds;
  options.seed = s.seed;
  options.stop = &interrupted();
  options.settings = dump(Json{{"budget", seconds}, {"file", args.file}, {"enumerated", tune.policies.size()}});
  options.command = [&](int c) {
    return fmt::format("hone tune --graph '{}' --tokens {} --position {} --policy '{}' --seed {}", args.file,
                       tune.call.tokens, tune.call.position, tune.names[static_cast<size_t>(c)].program, s.seed);
  };
  options.on_progress = [&](std::string_view phase, int left, double ratio) {
    const double spent = static_cast<double>(clock.now_ns() - begin) * 1e-9;
    line.show([&] {
      return fmt::format("{}: {}, {} left, best {:+.1f}% against the incumbent, ETA {:.0f} s", problem.text, phase,
                         left, (1 / ratio - 1) * 100, std::max(seconds - spent, 0.0));
    });
  };
  HONE_ASSIGN_OR_RETURN(tune.report, autotune::contest(racer, clock, *s.store, s.machine, options));
  tune.seconds = static_cast<double>(clock.now_ns() - begin) * 1e-9;
  return {};
}

// ---- what is said of it ----

std::string text_of(const GraphTune& t) { return plan::graph_problem(t.call).text; }
std::string decision_of(const GraphTune& t) {
  return t.report.decided ? std::string(db::verdict_name(t.report.verdict)) : "none";
}

Table table_of(const std::vector<GraphTune>& tunes) {
  Table table{"tune_graph",
              {{"problem"},
               {"decision"},
               {"default_ns", For::kMachines},
               {"default_us", For::kPeople, "default us"},
               {"ns", For::kMachines},
               {"us", For::kPeople, "tuned us"},
               {"speedup"},
               {"speedup_ci95", For::kAll, "95% interval"},
               {"noise_bound", For::kMachines},
               {"noise_pct", For::kPeople, "noise %"},
               {"measured_of", For::kPeople, "measured"},
               {"measured", For::kMachines},
               {"enumerated", For::kMachines},
               {"threads"},
               {"policy"},
               {"challenger"},
               {"gain", For::kMachines},
               {"gain_ci95", For::kAll, "its gain, 95%"}},
              {}};
  for (const GraphTune& t : tunes) {
    const ContestReport& r = t.report;
    const db::Candidate& winner = t.names[static_cast<size_t>(r.winner)];
    const auto timed = [&](double value) { return r.ns > 0 ? Cell(value) : Cell(); };
    table.add({text_of(t), decision_of(t), timed(r.default_ns), timed(r.default_ns / 1e3), timed(r.ns),
               timed(r.ns / 1e3), timed(r.speedup.mid), r.ns > 0 ? Cell(Range{r.speedup.lo, r.speedup.hi}) : Cell(),
               r.noise_bound, r.noise_bound * 100, fmt::format("{} of {}", r.measured, t.policies.size()),
               int64_t{r.measured}, static_cast<int64_t>(t.policies.size()), int64_t{winner.threads}, winner.program,
               // Who met the incumbent in the end, whatever was decided.
               t.names[static_cast<size_t>(r.challenger)].program, timed(r.gain.mid),
               r.ns > 0 ? Cell(Range{r.gain.lo, r.gain.hi}) : Cell()});
  }
  return table;
}

Json json_of(const GraphTune& t) {
  const ContestReport& r = t.report;
  const auto timed = [&](double value) { return r.ns > 0 ? Json(value) : Json(nullptr); };
  const auto policy = [&](int c) { return t.names[static_cast<size_t>(c)].program; };
  Json outcomes = Json::array();
  for (const autotune::ContestOutcome& o : r.outcomes)
    outcomes.push_back({{"policy", policy(o.candidate)}, {"outcome", db::outcome_name(o.outcome)}, {"why", o.detail}});
  return {{"problem", text_of(t)},
          {"decision", r.decided ? Json(db::verdict_name(r.verdict)) : Json(nullptr)},
          {"policy", policy(r.winner)},
          {"threads", t.names[static_cast<size_t>(r.winner)].threads},
          {"incumbent", policy(r.incumbent)},
          {"challenger", policy(r.challenger)},
          {"ns", timed(r.ns)},
          {"default_ns", timed(r.default_ns)},
          {"speedup", r.speedup.mid},
          {"speedup_ci95", {r.speedup.lo, r.speedup.hi}},
          {"gain", r.gain.mid},
          {"gain_ci95", {r.gain.lo, r.gain.hi}},
          {"noise_bound", r.noise_bound},
          {"enumerated", t.policies.size()},
          {"measured", r.measured},
          {"rounds", r.rounds},
          {"inert", t.inert},
          {"outcomes", outcomes},
          {"seconds", t.seconds},
          {"run", r.run_id},
          {"interrupted", r.interrupted}};
}

void note_outcomes(const GraphTune& t) {
  for (const autotune::ContestOutcome& o : t.report.outcomes)
    note(fmt::format("{}: {} is {}: {}", text_of(t), t.names[static_cast<size_t>(o.candidate)].program,
                     db::outcome_name(o.outcome), o.detail));
  if (!t.report.decided && !t.report.interrupted && t.report.not_stored.empty())
    note(fmt::format("{}: too few rounds for a decision within the budget; the samples are kept", text_of(t)));
}

int summary(const Setup& s, const std::vector<GraphTune>& tunes, const Status& failure) {
  if (interrupted()) {
    const auto decided = std::count_if(tunes.begin(), tunes.end(), [](const GraphTune& t) { return t.report.decided; });
    note(fmt::format("interrupted: {} of {} call(s) decided; the samples of the others are kept in {}", decided,
                     s.tokens.size(), s.store->path()));
    return kInterrupted;
  }
  if (!failure.ok()) return fail(failure);
  if (s.store->mode() != db::OpenMode::kReadWrite)
    return fail(failed_precondition(fmt::format("tuned, but nothing is kept: {}", s.store->message())));
  for (const GraphTune& t : tunes)
    if (!t.report.not_stored.empty())
      return fail(resource_exhausted(fmt::format("{}: not all is kept: {}", text_of(t), t.report.not_stored)));
  return kDone;
}

}  // namespace

void TuneGraphArgs::add_to(CLI::App& command) {
  CLI::Option* graph = command
                           .add_option("--graph", file,
                                       "tune the plan of this whole graph (graph text or StableHLO) instead of single "
                                       "kernels; constants that are not in the text are invented")
                           ->check(not_empty());
  command.add_option("--tokens", tokens, "with --graph: numbers of tokens a call, such as 1,128 (default: 1 and 128)")
      ->needs(graph)
      ->check(not_empty());
  command
      .add_option("--position", position,
                  "with --graph: tokens before the one of a call of one token (default: 512); prompts begin at 0")
      ->needs(graph)
      ->check(CLI::NonNegativeNumber);
  command.add_option("--policy", policy, "with --graph: race this policy alone against the default one")
      ->needs(graph)
      ->check(not_empty());
  for (const char* option :
       {"problem", "--shapes", "--codegen", "--cache", "--remeasure", "--exhaustive", "--replay", "--isolation"})
    graph->excludes(command.get_option(option));
}

int run_tune_graph(const TuneGraphArgs& args, const TuneCommonArgs& common) {
  Result<Setup> setup = prepare(args, common);
  if (!setup.ok()) return fail(setup.status());
  const Setup& s = *setup;
  const bool json = s.format == Format::kJson || s.format == Format::kJsonl;
  std::vector<GraphTune> tunes;
  Status failure;
  double left = s.budget;
  for (size_t i = 0; i < s.tokens.size() && !interrupted(); ++i) {
    Result<GraphTune> tune = Contestants(s, common).of(s.tokens[i]);
    Status raced = tune.status();
    if (tune.ok()) raced = race(s, args, std::max(left / static_cast<double>(s.tokens.size() - i), 0.05), *tune);
    if (!raced.ok()) {
      failure = Status(raced.code(), fmt::format("{}, {} token(s): {}", args.file, s.tokens[i], raced.message()));
      continue;
    }
    left -= tune->seconds;
    note_outcomes(*tune);
    if (json) print("{}\n", dump(json_of(*tune)));
    tunes.push_back(std::move(*tune));
  }
  if (!json) write_results(render(table_of(tunes), s.format));
  return summary(s, tunes, failure);
}

}  // namespace hone::cli
