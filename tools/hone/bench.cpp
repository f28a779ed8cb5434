// hone bench: plans of hone and other libraries, interleaved in one run, checked before they are timed.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <optional>

#include "autotune/measure/peak.h"
#include "autotune/search/race.h"
#include "autotune/search/stats.h"
#include "engine/base/env.h"
#include "engine/plan/resolver.h"
#include "tools/hone/bench_racer.h"
#include "tools/hone/cli.h"
#include "tools/hone/peers.h"
#include "tools/hone/table.h"

namespace hone::cli {
namespace {

struct BenchArgs {
  ProblemArgs problems;
  std::string plan = "both", codegen, threads, compare, db, output = "md", cache = "cold";
  int repetitions = 25;
  double seconds = 5;
  uint64_t seed = 1;
  bool json = false;
};

constexpr int kFewestRounds = 5;

// One line of the result, before it is measured.
struct Implementation {
  std::string name;  // "hone tuned", "openblas"
  std::string plan;  // how it came about
};

struct Setup {
  std::vector<matmul::Shape> shapes;
  std::vector<int> threads;
  Format format = Format::kMd;
  Machine machine;
  std::vector<jit::CodeGenerator*> generators;
  plan::Decisions decisions;
  std::vector<const HonePeer*> peers;
  std::optional<matmul::TransformProgram> program;  // --plan TEXT
  autotune::Peak peak;
};

Result<Setup> prepare(const BenchArgs& args) {
  Setup s;
  HONE_ASSIGN_OR_RETURN(s.shapes, args.problems.resolve());
  HONE_ASSIGN_OR_RETURN(s.format, parse_format(args.json ? "json" : args.output, true));
  if (args.plan != "tuned" && args.plan != "default" && args.plan != "both") {
    const Result<matmul::TransformProgram> program = matmul::parse_program(args.plan);
    if (!program.ok())
      return invalid_argument(
          fmt::format("--plan takes tuned, default, both or a program: {}", program.status().message()));
    s.program = *program;
  }
  HONE_ASSIGN_OR_RETURN(s.machine, executing_machine());
  HONE_ASSIGN_OR_RETURN(s.threads, parse_threads(args.threads));
  if (s.threads.empty()) {
    s.threads = {1};
    if (const int all = threads_in_force(s.machine).threads; all > 1) s.threads.push_back(all);
  }
  s.generators = jit::compiling_generators();
  if (!args.codegen.empty()) {
    s.generators.clear();
    HONE_ASSIGN_OR_RETURN(const std::vector<std::string> names, parse_codegens(args.codegen));
    for (const std::string& name : names) {
      HONE_ASSIGN_OR_RETURN(jit::CodeGenerator * g, jit::find_code_generator(name));
      s.generators.push_back(g);
    }
  }
  if (args.compare == "all") {
    for (const std::string& name : peer_names())
      if (const Result<const HonePeer*> peer = load_peer(name); peer.ok()) s.peers.push_back(*peer);
    if (s.peers.empty()) note("no peer is built here: install their -dev packages and build bench (bench/README.md)");
  } else if (!args.compare.empty()) {
    for (const std::string& name : CLI::detail::split(args.compare, ',')) {
      HONE_ASSIGN_OR_RETURN(const HonePeer* peer, load_peer(name));
      s.peers.push_back(peer);
    }
  }
  HONE_ASSIGN_OR_RETURN(const std::unique_ptr<db::Store> store, open_store(args.db, db::OpenMode::kReadOnly));
  HONE_ASSIGN_OR_RETURN(s.decisions, plan::Decisions::load(*store));
  // Not longer than the contest that it is the ceiling of.
  const autotune::PeakOptions options;
  HONE_ASSIGN_OR_RETURN(s.peak,
                        autotune::measure_peak(s.machine, {.seconds = std::min(options.seconds, args.seconds)}));
  return s;
}

struct Contest {
  std::vector<Implementation> implementations;
  std::vector<autotune::Candidate> candidates;  // of the first implementations
};

Status add_resolved(const matmul::MatmulProblem& problem, const Setup& s, int threads, bool tuned, Contest& contest) {
  for (jit::CodeGenerator* g : s.generators) {
    // Each asked-for generator has a line; without --codegen the resolver chooses among all.
    const bool one_line = s.generators.size() == jit::compiling_generators().size();
    const std::vector<jit::CodeGenerator*> only = one_line ? s.generators : std::vector<jit::CodeGenerator*>{g};
    const plan::Target target = plan::make_target(s.machine, threads, only);
    HONE_ASSIGN_OR_RETURN(const plan::MatmulPlan plan,
                          plan::resolve(problem, target, tuned ? s.decisions : plan::Decisions()));
    const autotune::Candidate candidate{plan.program, plan.codegen, plan.threads};
    // Nothing stored, or the default was found to be the best: it would race against itself under another name.
    if (std::find(contest.candidates.begin(), contest.candidates.end(), candidate) == contest.candidates.end()) {
      const bool stored = plan.reason != plan::Reason::kDefault;
      contest.implementations.push_back(
          {fmt::format("hone {}{}", stored ? "tuned" : "default", one_line ? "" : " " + plan.codegen),
           fmt::format("{}: {} {}", plan::reason_name(plan.reason), plan.codegen, matmul::to_string(plan.program))});
      contest.candidates.push_back(candidate);
    }
    if (one_line) break;
  }
  return {};
}

Result<Contest> contest_of(const matmul::MatmulProblem& problem, const Setup& s, int threads, const BenchArgs& args) {
  Contest contest;
  if (args.plan == "tuned" || args.plan == "both")
    HONE_RETURN_IF_ERROR(add_resolved(problem, s, threads, true, contest));
  if (args.plan == "default" || args.plan == "both")
    HONE_RETURN_IF_ERROR(add_resolved(problem, s, threads, false, contest));
  if (s.program) {
    const matmul::TransformProgram& program = *s.program;
    HONE_RETURN_IF_ERROR(matmul::legal(problem, program));
    if (!s.machine.supports(program.isa))
      return unsupported(fmt::format("this CPU cannot run {}", isa_info(program.isa).name));
    for (jit::CodeGenerator* g : s.generators) {
      contest.implementations.push_back({fmt::format("hone {}", g->name()), matmul::to_string(program)});
      contest.candidates.push_back({program, std::string(g->name()), threads});
    }
  }
  return contest;
}

Table bench_table() {
  return {"bench",
          {{"problem"},
           {"impl"},
           {"threads"},
           {"ns", For::kMachines},
           {"us", For::kPeople},
           {"ns_lo", For::kMachines},
           {"ns_hi", For::kMachines},
           {"gflops"},
           {"gbs"},
           {"pct_peak"},
           {"pct_read"},
           {"ratio"},
           {"ratio_ci95"},
           {"plan"},
           {"why_not"}},
          {}};
}

// Bytes that have to move at least once: A, B and what is read and written of C.
double bytes_of(const matmul::MatmulProblem& p) {
  const double m = static_cast<double>(p.m), n = static_cast<double>(p.n), k = static_cast<double>(p.k);
  return 4.0 * static_cast<double>(p.batch) * (m * k + n * k + m * n);
}

// What one thread count could do at most, round by round.
struct Ceilings {
  std::vector<double> gflops, gbs;
};

// Median over rounds of work / time as a percentage of the ceiling of the same round. A round in which a sample was
// refused leaves the two lists unequal; then the medians are compared.
Cell percent_of(const std::vector<double>& ceiling, const std::vector<double>& times, double work) {
  if (ceiling.empty() || times.empty()) return {};
  if (ceiling.size() != times.size()) return 100 * work / autotune::median(times) / autotune::median(ceiling);
  std::vector<double> percent;
  for (size_t i = 0; i < times.size(); ++i) percent.push_back(100 * work / times[i] / ceiling[i]);
  return autotune::median(percent);
}

std::vector<Cell> measured_row(const matmul::MatmulProblem& p, const Implementation& impl, int index, int threads,
                               const autotune::Race& race, const Ceilings& ceilings) {
  const std::vector<double> times = race.times(db::Phase::kSearch, index);
  const autotune::Interval t = autotune::median_interval(times, 0.95);
  const std::vector<double> logs = race.log_ratios(db::Phase::kSearch, index, 0);
  const autotune::Interval r = autotune::median_interval(logs, 0.95);
  const double gflops = p.flops() / t.mid, gbs = bytes_of(p) / t.mid;
  std::vector<Cell> row = {matmul::to_string(p),
                           impl.name,
                           int64_t{threads},
                           t.mid,
                           t.mid / 1e3,
                           t.lo,
                           t.hi,
                           gflops,
                           gbs,
                           percent_of(ceilings.gflops, times, p.flops()),
                           percent_of(ceilings.gbs, times, bytes_of(p))};
  if (index == 0) {
    row.insert(row.end(), {Cell(1.0), Range{1, 1}});
  } else {
    row.insert(row.end(), {std::exp(r.mid), Range{std::exp(r.lo), std::exp(r.hi)}});
  }
  row.insert(row.end(), {impl.plan, std::string()});
  return row;
}

std::vector<Cell> failed_row(const matmul::MatmulProblem& p, const Implementation& impl, int threads,
                             const std::string& why) {
  std::vector<Cell> row(bench_table().columns.size());
  row[0] = matmul::to_string(p), row[1] = impl.name, row[2] = int64_t{threads};
  row[row.size() - 2] = impl.plan, row.back() = why;
  return row;
}

Status bench_problem(const matmul::MatmulProblem& problem, const Setup& s, int threads, const BenchArgs& args,
                     Table& table) {
  HONE_ASSIGN_OR_RETURN(Contest contest, contest_of(problem, s, threads, args));
  if (problem.m == 0 || problem.n == 0) {
    for (const Implementation& impl : contest.implementations)
      table.add(failed_row(problem, impl, threads, "C has no elements: there is nothing to time"));
    return {};
  }
  const std::string lack = peers_lack(problem);
  if (lack.empty())
    for (const HonePeer* peer : s.peers) contest.implementations.push_back({peer->name, peer->describe()});
  const std::span<const HonePeer* const> peers = lack.empty() ? std::span(s.peers) : std::span<const HonePeer* const>();
  autotune::SteadyClock clock;
  HONE_ASSIGN_OR_RETURN(
      const std::unique_ptr<BenchRacer> racer,
      BenchRacer::create(problem, contest.candidates, peers, threads, clock,
                         {.cache = args.cache == "warm" ? autotune::CacheMode::kWarm : autotune::CacheMode::kCold,
                          .seed = args.seed,
                          .peak = s.peak,
                          .cpus = s.machine.cpus_usable}));
  std::vector<std::string> why(contest.implementations.size());
  autotune::Race race(
      *racer, clock, args.seed,
      {.on_round = [](auto) { return Status(); },
       .on_outcome = [&](int i,
                         const autotune::Prepared& p) { return why[static_cast<size_t>(i)] = p.detail, Status(); },
       .stop = &interrupted()});
  std::vector<int> arms;
  for (int i = 0; i < static_cast<int>(contest.implementations.size()); ++i)
    if (race.prepare(i)) arms.push_back(i);
  HONE_ASSIGN_OR_RETURN(autotune::CeilingProbe probe, autotune::CeilingProbe::create(s.machine, threads));
  Ceilings ceilings;
  race.warm_up(arms);
  const int64_t begun = clock.now_ns();
  for (int round = 0; round < args.repetitions && !arms.empty() && !race.stopped(); ++round) {
    if (round >= kFewestRounds && static_cast<double>(clock.now_ns() - begun) * 1e-9 > args.seconds) break;
    if (!race.round(db::Phase::kSearch, arms)) break;
    ceilings.gflops.push_back(probe.gflops());
    ceilings.gbs.push_back(probe.read_gbs());
  }
  Status failure;
  for (size_t i = 0; i < contest.implementations.size(); ++i) {
    const bool measured = !race.times(db::Phase::kSearch, static_cast<int>(i)).empty();
    table.add(measured ? measured_row(problem, contest.implementations[i], static_cast<int>(i), threads, race, ceilings)
                       : failed_row(problem, contest.implementations[i], threads,
                                    race.stopped() && why[i].empty() ? "interrupted" : why[i]));
    if (!measured && i < contest.candidates.size() && !race.stopped())
      failure = internal_error(fmt::format("{} could not be measured: {}", contest.implementations[i].name, why[i]));
  }
  if (!lack.empty() && !s.peers.empty()) note(fmt::format("{}: {}", matmul::to_string(problem), lack));
  return failure;
}

int run_bench(const BenchArgs& args) {
  const Result<Setup> setup = prepare(args);
  if (!setup.ok()) return fail(setup.status());
  const Setup& s = *setup;
  note(fmt::format("peak {:.1f} GFLOP/s on 1 thread, {:.1f} on all; read {:.1f} and {:.1f} GB/s; caches {}",
                   s.peak.f32_gflops_1t, s.peak.f32_gflops_all, s.peak.read_gbs_1t, s.peak.read_gbs_all, args.cache));
  Table table = bench_table();
  Status failure;
  for (const matmul::Shape& shape : s.shapes) {
    for (int threads : s.threads) {
      if (interrupted()) break;
      const Status status = bench_problem(shape.problem, s, threads, args, table);
      if (status.ok()) continue;
      // One problem that is too large for this machine must not cost the others their turn.
      if (!failure.ok()) note(fmt::format("error: {}", failure.message()));
      failure = Status(status.code(), fmt::format("{}: {}", matmul::to_string(shape.problem), status.message()));
    }
  }
  if (std::all_of(table.rows.begin(), table.rows.end(),
                  [](const auto& row) { return std::get<std::string>(row.back()).empty(); }))
    table.columns.back().whom = For::kMachines;
  write_results(render(table, s.format));
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
  command->add_option("--threads", args->threads, "thread counts, such as 1,2 (default: 1 and all)")
      ->check(not_empty());
  command->add_option("--compare", args->compare, "openblas,blis,onednn,eigen,libxsmm, or all that are here")
      ->check(not_empty());
  command->add_option("-r,--repetitions", args->repetitions, "rounds at most (default: 25)")
      ->check(CLI::Range(1, 1000000));
  command->add_option("--seconds", args->seconds, "per problem and thread count, then rounds stop (default: 5)")
      ->check(positive());
  command->add_option("--cache", args->cache, "cold (default): operands come from memory; warm: from cache")
      ->check(CLI::IsMember({"warm", "cold"}));
  command->add_option("--seed", args->seed, "of operands and of the order in rounds")->check(seed());
  command->add_option("--db", args->db, "database file")->check(not_empty());
  command->add_option("-o,--output", args->output, "md, csv, json, jsonl, sql or gbench");
  command->add_flag("--json", args->json, "same as -o json");
  command->callback([args, &run] { run = [args] { return run_bench(*args); }; });
}

}  // namespace hone::cli
