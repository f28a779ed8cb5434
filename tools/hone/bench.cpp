// hone bench: plans of hone and other libraries, interleaved in one run, checked before they are timed.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "autotune/measure/peak.h"
#include "autotune/search/race.h"
#include "autotune/search/stats.h"
#include "bench/peers/settle.h"
#include "engine/base/env.h"
#include "engine/plan/resolver.h"
#include "kernels/attention/blocking.h"
#include "kernels/op/op.h"
#include "tools/hone/bench_model.h"
#include "tools/hone/bench_racer.h"
#include "tools/hone/bench_report.h"
#include "tools/hone/cli.h"
#include "tools/hone/peers.h"
#include "tools/hone/regions.h"
#include "tools/hone/rounds.h"
#include "tools/hone/table.h"

namespace hone::cli {
namespace {

struct BenchArgs {
  ProblemArgs problems;
  std::string plan = "both", codegen, numerics, threads, compare, db, output = "md", cache = "cold";
  int repetitions = 0;  // 0: as RoundBudget says
  double seconds = 5;
  uint64_t seed = 1;
  bool json = false;
  BenchModelArgs model;
};

struct Setup {
  std::vector<op::Shape> shapes;
  std::vector<int> threads;
  std::map<int, plan::RegionPolicy> regions;  // by number of threads
  Format format = Format::kMd;
  Machine machine;
  std::vector<jit::CodeGenerator*> generators;
  bool line_per_codegen = false;
  plan::Decisions decisions;
  std::vector<const HonePeer*> peers;
  bool all_peers = false;     // --compare all: those that have nothing to say are left out
  bool materialised = false;  // compare with kMaterialised
  std::string numerics;
  autotune::Peak peak;
};

// Ours without a fused kernel, of attention.
constexpr std::string_view kMaterialised = "hone-materialised";

const attention::AttentionProblem* of_attention(const op::Problem& problem) {
  return std::get_if<attention::AttentionProblem>(&problem);
}

bool names_a_program(const std::string& plan) { return plan != "tuned" && plan != "default" && plan != "both"; }

// Whom --compare names.
Status find_peers(const std::string& compare, Setup& s) {
  s.all_peers = compare == "all";
  if (s.all_peers) {
    s.materialised = true;
    for (const std::string& name : peer_names())
      if (const Result<const HonePeer*> peer = load_peer(name); peer.ok()) s.peers.push_back(*peer);
    if (s.peers.empty()) note("no peer is built here: install their -dev packages and build bench (bench/README.md)");
    return {};
  }
  if (compare.empty()) return {};
  for (const std::string& name : CLI::detail::split(compare, ',')) {
    if (name == kMaterialised) {
      if (std::none_of(s.shapes.begin(), s.shapes.end(),
                       [](const op::Shape& shape) { return of_attention(shape.problem); }))
        return invalid_argument(fmt::format("--compare {} is for attention, and none of the problems is one", name));
      s.materialised = true;
      continue;
    }
    HONE_ASSIGN_OR_RETURN(const HonePeer* peer, load_peer(name));
    s.peers.push_back(peer);
  }
  return {};
}

Result<Setup> prepare(const BenchArgs& args) {
  Setup s;
  HONE_ASSIGN_OR_RETURN(s.shapes, args.problems.resolve());
  HONE_ASSIGN_OR_RETURN(s.format, parse_format(args.json ? "json" : args.output, true));
  if (names_a_program(args.plan)) {
    for (const op::Shape& shape : s.shapes)
      if (const Result<op::Program> program = op::parse_program(shape.problem, args.plan); !program.ok())
        return invalid_argument(fmt::format("--plan takes tuned, default, both or a program: of {}: {}",
                                            op::to_string(shape.problem), program.status().message()));
  }
  HONE_RETURN_IF_ERROR(check_numerics(s.shapes, args.numerics));
  s.numerics = args.numerics;
  HONE_ASSIGN_OR_RETURN(s.machine, executing_machine());
  HONE_ASSIGN_OR_RETURN(s.threads, parse_threads(args.threads));
  if (s.threads.empty()) {
    s.threads = {1};
    if (const int all = threads_in_force(s.machine).threads; all > 1) s.threads.push_back(all);
  }
  s.generators = jit::compiling_generators();
  if (!args.codegen.empty()) {
    s.generators.clear();
    s.line_per_codegen = true;
    HONE_ASSIGN_OR_RETURN(const std::vector<std::string> names, parse_codegens(args.codegen));
    for (const std::string& name : names) {
      HONE_ASSIGN_OR_RETURN(jit::CodeGenerator * g, jit::find_code_generator(name));
      s.generators.push_back(g);
    }
  }
  HONE_RETURN_IF_ERROR(find_peers(args.compare, s));
  HONE_ASSIGN_OR_RETURN(const std::unique_ptr<db::Store> store, open_store(args.db, db::OpenMode::kReadOnly));
  HONE_ASSIGN_OR_RETURN(s.decisions, plan::Decisions::load(*store));
  for (const int threads : s.threads) {
    HONE_ASSIGN_OR_RETURN(s.regions[threads], region_policy_in_force(store.get(), s.machine, threads));
  }
  // Not longer than the contest that it is the ceiling of.
  const autotune::PeakOptions options;
  HONE_ASSIGN_OR_RETURN(s.peak,
                        autotune::measure_peak(s.machine, {.seconds = std::min(options.seconds, args.seconds)}));
  return s;
}

struct Contest {
  std::vector<Implementation> implementations;
  std::vector<autotune::Candidate> candidates;  // of the first implementations
  bool default_is_first = false;                // what is stored is the default
};

// `name`: "hone tuned", "hone default", where that is not what it is for.
Status add_resolved(const op::Problem& problem, const Setup& s, int threads, bool tuned, const std::string& numerics,
                    std::string_view name, Contest& contest) {
  for (jit::CodeGenerator* g : s.generators) {
    // Each asked-for generator has a line; without --codegen the resolver chooses among all.
    const bool one_line = !s.line_per_codegen;
    const std::vector<jit::CodeGenerator*> only = one_line ? s.generators : std::vector<jit::CodeGenerator*>{g};
    const plan::RegionPolicy& regions = s.regions.at(threads);
    const plan::Target target = plan::make_target(s.machine, regions, only);
    HONE_ASSIGN_OR_RETURN(const plan::Plan plan, plan::resolve(problem, target, tuned ? s.decisions : plan::Decisions(),
                                                               {.codegen = "", .numerics = numerics}));
    const autotune::Candidate candidate{plan.program, plan.codegen, plan.threads};
    // Nothing stored, or the default was found to be the best: it would race against itself under another name.
    if (std::find(contest.candidates.begin(), contest.candidates.end(), candidate) == contest.candidates.end()) {
      const bool stored = plan.reason != plan::Reason::kDefault;
      contest.implementations.push_back(
          {.name = fmt::format("hone {}{}",
                               !name.empty() ? name
                               : stored      ? "tuned"
                                             : "default",
                               one_line ? "" : " " + plan.codegen),
           .plan = fmt::format("{}: {} {}", plan::reason_name(plan.reason), plan.codegen, op::to_string(plan.program)),
           .dots = autotune::by_dot_products(op::numerics(plan.program))});
      contest.candidates.push_back(candidate);
    }
    if (one_line) break;
  }
  return {};
}

// A baseline, not a plan: of whatever numerics class.
void add_materialised(const op::Problem& problem, const Setup& s, int threads, Contest& contest) {
  const attention::AttentionProblem* const p = of_attention(problem);
  const Result<Isa> isa = s.machine.best_isa();
  if (!s.materialised || p == nullptr || !isa.ok() || s.generators.empty()) return;
  const op::Program program = attention::materialised_program(*p, *isa, blocking_caches(s.machine));
  if (const Status fits = op::legal(problem, program); !fits.ok())
    return note(fmt::format("{}: no {}: {}", op::to_string(problem), kMaterialised, fits.message()));
  const std::string codegen(s.generators.front()->name());
  contest.implementations.push_back(
      {std::string(kMaterialised), fmt::format("{} {}", codegen, op::to_string(program))});
  contest.candidates.push_back({program, codegen, threads});
}

Result<Contest> contest_of(const op::Problem& problem, const Setup& s, int threads, const BenchArgs& args) {
  Contest contest;
  if (args.plan == "tuned" || args.plan == "both")
    HONE_RETURN_IF_ERROR(add_resolved(problem, s, threads, true, s.numerics, "", contest));
  if (args.plan == "default" || args.plan == "both")
    HONE_RETURN_IF_ERROR(add_resolved(problem, s, threads, false, s.numerics, "", contest));
  contest.default_is_first =
      args.plan == "both" && contest.candidates.size() == 1 && contest.implementations[0].name == "hone tuned";
  if (names_a_program(args.plan)) {
    HONE_ASSIGN_OR_RETURN(const op::Program program, op::parse_program(problem, args.plan));
    HONE_RETURN_IF_ERROR(op::legal(problem, program));
    if (!s.machine.supports(op::isa(program)))
      return unsupported(fmt::format("this CPU cannot run {}", isa_info(op::isa(program)).name));
    if (const std::string lacks = op::missing(program, s.machine.features); !lacks.empty())
      return unsupported("the program " + lacks);
    for (jit::CodeGenerator* g : s.generators) {
      contest.implementations.push_back({.name = fmt::format("hone {}", g->name()),
                                         .plan = op::to_string(program),
                                         .dots = autotune::by_dot_products(op::numerics(program))});
      contest.candidates.push_back({program, std::string(g->name()), threads});
    }
  }
  // What another class is worth: against the plan that a caller has who asks for none.
  const std::string asked = contest.candidates.empty() ? "" : op::numerics(contest.candidates.front().program);
  if (!s.numerics.empty() && !asked.empty() && !op::numerics_allowed(problem, "", asked))
    HONE_RETURN_IF_ERROR(add_resolved(problem, s, threads, args.plan != "default", "", "default class", contest));
  add_materialised(problem, s, threads, contest);
  return contest;
}

// Memory that outlives a problem, as the next one often differs in m or threads only.
struct Kept {
  std::shared_ptr<autotune::Weights> ours, theirs;
};

struct Results {
  Table table = bench_table();
  Summary summary;
};

Result<autotune::CeilingProbe> probe_for(const op::Problem& problem, const Setup& s, int threads, bool warm,
                                         Ceilings& ceilings) {
  const BlockingCaches caches = blocking_caches(s.machine);
  ceilings.level = warm ? level_of(problem, caches, threads) : Level::kMemory;
  // Not less than half of the L2 of each thread: a shorter window would time the opening of a region.
  const int64_t bytes = std::max(static_cast<int64_t>(op::bytes(problem)), caches.l2 / 2 * threads);
  return autotune::CeilingProbe::create(s.machine, s.regions.at(threads).schedule,
                                        ceilings.level == Level::kMemory ? 0 : bytes);
}

Result<Ceilings> run_rounds(const op::Problem& problem, const Setup& s, int threads, const BenchArgs& args,
                            const Contest& contest, autotune::Clock& clock, autotune::Race& race,
                            const std::vector<int>& arms) {
  Ceilings ceilings;
  HONE_ASSIGN_OR_RETURN(autotune::CeilingProbe probe, probe_for(problem, s, threads, args.cache == "warm", ceilings));
  const bool with_dots = std::ranges::any_of(contest.implementations, [](const auto& impl) { return impl.dots; });
  // The check of a long call has warmed up what there is to warm up.
  if (op::flops(problem) / s.peak.gflops(threads, s.machine.cpus_usable) < kLongCallNs) race.warm_up(arms);
  RoundBudget budget{.seconds = args.seconds};
  if (args.repetitions > 0) budget.repetitions = args.repetitions;
  const int64_t begun = clock.now_ns();
  for (int round = 0; !arms.empty() && !race.stopped(); ++round) {
    if (budget.over(round, static_cast<double>(clock.now_ns() - begun) * 1e-9)) break;
    if (!race.round(db::Phase::kSearch, arms)) break;
    if (!s.peers.empty()) (void)hone::peers::settle();  // the last peer's threads may still spin
    ceilings.gflops.push_back(probe.gflops());
    if (with_dots) ceilings.dot_gflops.push_back(probe.bf16_gflops());
    ceilings.gbs.push_back(probe.read_gbs());
    ceilings.call_ns.push_back(probe.call_ns());
  }
  return ceilings;
}

void add_scores(const op::Problem& problem, int threads, const Contest& contest, const autotune::Race& race,
                Summary& summary) {
  for (size_t i = 1; i < contest.implementations.size(); ++i) {
    const std::vector<double> logs = race.log_ratios(db::Phase::kSearch, static_cast<int>(i), 0);
    if (logs.empty()) continue;
    summary.add(op::to_string(problem), threads, contest.implementations[i].name, i >= contest.candidates.size(),
                autotune::ratio_of(autotune::median_interval(logs, 0.95)).mid);
  }
  // The default plan is the one in use, so its line was left out.
  const bool measured = !race.times(db::Phase::kSearch, 0).empty();
  if (contest.default_is_first && measured) summary.add(op::to_string(problem), threads, "hone default", false, 1);
}

Status bench_problem(const op::Problem& problem, const Setup& s, int threads, const BenchArgs& args, Kept& kept,
                     Results& results) {
  HONE_ASSIGN_OR_RETURN(Contest contest, contest_of(problem, s, threads, args));
  if (op::empty(problem)) {
    for (const Implementation& impl : contest.implementations)
      results.table.add(failed_row(problem, impl, threads, "the output has no elements: there is nothing to time"));
    return {};
  }
  const std::string lack = peers_lack(problem);
  std::vector<const HonePeer*> peers;
  for (const HonePeer* peer : s.peers)
    if (lack.empty() && (!s.all_peers || knows(*peer, problem))) peers.push_back(peer);
  for (const HonePeer* peer : peers) contest.implementations.push_back({peer->name, peer->describe()});
  autotune::SteadyClock clock;
  HONE_ASSIGN_OR_RETURN(
      const std::unique_ptr<BenchRacer> racer,
      BenchRacer::create(problem, contest.candidates, peers, threads, clock,
                         {.cache = args.cache == "warm" ? autotune::CacheMode::kWarm : autotune::CacheMode::kCold,
                          .seed = args.seed,
                          .peak = s.peak,
                          .cpus = s.machine.cpus_usable,
                          .schedule = s.regions.at(threads).schedule.kind,
                          .weights = &kept.ours},
                         &kept.theirs));
  std::vector<std::string> why(contest.implementations.size());
  autotune::Race race(
      *racer, clock, args.seed,
      {.on_round = [](auto) { return Status(); },
       .on_outcome = [&](int i,
                         const autotune::Prepared& p) { return why[static_cast<size_t>(i)] = p.detail, Status(); },
       .stop = &interrupted()});
  std::vector<int> arms;
  for (int i = 0; i < static_cast<int>(contest.implementations.size()); ++i) {
    if (!race.prepare(i)) continue;
    arms.push_back(i);
    if (const std::string setting = racer->setting(i); !setting.empty())
      contest.implementations[static_cast<size_t>(i)].plan += "; here: " + setting;
  }
  HONE_ASSIGN_OR_RETURN(const Ceilings ceilings, run_rounds(problem, s, threads, args, contest, clock, race, arms));
  std::map<int, CounterReading> counted;
  if (threads == 1 && !race.stopped()) counted = racer->count(arms);  // of other threads nothing is counted
  Status failure;
  for (size_t i = 0; i < contest.implementations.size(); ++i) {
    const bool measured = !race.times(db::Phase::kSearch, static_cast<int>(i)).empty();
    results.table.add(measured ? measured_row(problem, contest.implementations[i], static_cast<int>(i), threads, race,
                                              ceilings, counted[static_cast<int>(i)])
                               : failed_row(problem, contest.implementations[i], threads,
                                            race.stopped() && why[i].empty() ? "interrupted" : why[i]));
    if (!measured && i < contest.candidates.size() && !race.stopped())
      failure = internal_error(fmt::format("{} could not be measured: {}", contest.implementations[i].name, why[i]));
  }
  add_scores(problem, threads, contest, race, results.summary);
  if (!lack.empty() && !s.peers.empty()) note(fmt::format("{}: {}", op::to_string(problem), lack));
  return failure;
}

// With the rows, where the format has a place for a second table; else on stderr.
void write(Results& results, Format format) {
  Table& table = results.table;
  if (std::all_of(table.rows.begin(), table.rows.end(),
                  [](const auto& row) { return std::get<std::string>(row.back()).empty(); }))
    table.columns.back().whom = For::kMachines;
  const Table summary = results.summary.table();
  write_results(render(table, format, &summary));
  if (has_place_for_summary(format)) return;
  note_lines(render(summary, Format::kMd));
}

int run_bench(const BenchArgs& args) {
  if (!args.model.file.empty())
    return run_bench_model(args.model, {.plan = args.plan,
                                        .threads = args.threads,
                                        .db = args.db,
                                        .output = args.json ? "json" : args.output,
                                        .numerics = args.numerics,
                                        .repetitions = args.repetitions,
                                        .seed = args.seed});
  const Result<Setup> setup = prepare(args);
  if (!setup.ok()) return fail(setup.status());
  const Setup& s = *setup;
  note(fmt::format("peak {:.1f} GFLOP/s on 1 thread, {:.1f} on all; read {:.1f} and {:.1f} GB/s; caches {}",
                   s.peak.f32_gflops_1t, s.peak.f32_gflops_all, s.peak.read_gbs_1t, s.peak.read_gbs_all, args.cache));
  if (s.peak.bf16_gflops_1t > 0 && !s.numerics.empty())
    note(fmt::format("dot products of bf16: {:.1f} GFLOP/s on 1 thread, {:.1f} on all", s.peak.bf16_gflops_1t,
                     s.peak.bf16_gflops_all));
  Results results;
  Kept kept;
  Status failure;
  for (const op::Shape& shape : s.shapes) {
    for (int threads : s.threads) {
      if (interrupted()) break;
      const Status status = bench_problem(shape.problem, s, threads, args, kept, results);
      if (status.ok()) continue;
      // One problem that is too large for this machine must not cost the others their turn.
      if (!failure.ok()) note(fmt::format("error: {}", failure.message()));
      failure = Status(status.code(), fmt::format("{}: {}", op::to_string(shape.problem), status.message()));
    }
  }
  write(results, s.format);
  if (!failure.ok()) return fail(failure);
  return interrupted() ? kInterrupted : kDone;
}

}  // namespace

void add_bench(CLI::App& app, Run& run) {
  CLI::App* command = app.add_subcommand(
      "bench", "time plans and other libraries in interleaved rounds (default: the shipped decoder shapes)");
  auto args = std::make_shared<BenchArgs>();
  args->problems.add_to(*command);
  command->add_option("--plan", args->plan, "tuned, default, both (the default), or a program's text")
      ->check(not_empty());
  command->add_option("--codegen", args->codegen, "a line for each of these code generators")->check(not_empty());
  add_numerics(*command, args->numerics, "; with --model a list, such as ordered,bf16: each runs in the same rounds");
  command->add_option("--threads", args->threads, "thread counts, such as 1,2 (default: 1 and all)")
      ->check(not_empty());
  command
      ->add_option("--compare", args->compare,
                   "openblas,blis,onednn,eigen,libxsmm,hone-materialised (attention), or all that are here")
      ->check(not_empty());
  command->add_option("-r,--repetitions", args->repetitions, "rounds at most (default: 25; of a model: 5)")
      ->check(CLI::Range(1, 1000000));
  command
      ->add_option(
          "--seconds", args->seconds,
          "per problem and thread count, then rounds stop once there are 5, or 3 that take very long (default: 5)")
      ->check(positive());
  command->add_option("--cache", args->cache, "cold (default): operands come from memory; warm: from cache")
      ->check(CLI::IsMember({"warm", "cold"}));
  command->add_option("--seed", args->seed, "of operands and of the order in rounds")->check(seed());
  command->add_option("--db", args->db, "database file")->check(not_empty());
  args->model.add_to(*command);
  command->add_option("-o,--output", args->output, "md, csv, json, jsonl, sql, or gbench (not with --model)");
  command->add_flag("--json", args->json, "same as -o json");
  command->callback([args, &run] { run = [args] { return run_bench(*args); }; });
}

}  // namespace hone::cli
