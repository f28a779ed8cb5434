// Whole plans: what the plan costs beyond its kernels, what a tuned policy gains over the default one, and what reusing
// memory saves. Everything that is compared runs in the same rounds, in a fresh random order, after one untimed run.
//
//   graph_bench [--graphs layer,moe] [--threads 1,2] [--seconds 4] [--tune 8] [--db FILE] [-o md|csv|json|jsonl]
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <ctime>
#include <map>
#include <random>
#include <sstream>

#include "autotune/contest.h"
#include "bench/graph/kernels.h"
#include "engine/base/machine.h"
#include "engine/executable/stored_policy.h"
#include "engine/passes/pass.h"
#include "engine/passes/policy_space.h"
#include "tools/hone/plan_racer.h"
#include "tools/hone/table.h"

namespace hone::bench {
namespace {

constexpr uint64_t kSeed = 1;
constexpr int kFewestRounds = 9, kMostRounds = 201;

struct Options {
  std::vector<std::string> graphs = {"layer", "moe"};
  std::vector<int> threads = {1, 2};
  double seconds = 4, tune = 8;
  std::string db;
  cli::Format format = cli::Format::kMd;
};

struct Call {
  int64_t tokens = 1, position = 0;
};

Result<passes::Compilation> compiled(const graph::Graph& graph, const passes::PlanPolicy& policy) {
  passes::Compilation c;
  c.graph = graph;
  c.policy = policy;
  HONE_RETURN_IF_ERROR(passes::run_passes(c).status());
  return c;
}

// ---- the plan against its kernels ----

struct Compared {
  double a_ns = 0, b_ns = 0;  // medians
  autotune::Interval ratio;   // a over b
  int rounds = 0;
};

using Run = std::function<Status()>;
struct Arm {
  Run run, forget;
};

// On one thread the time is that of the CPU, from which whoever else runs here takes less than from the wall's.
int64_t now_ns(bool of_thread) {
  timespec t{};
  clock_gettime(of_thread ? CLOCK_THREAD_CPUTIME_ID : CLOCK_MONOTONIC, &t);
  return int64_t{t.tv_sec} * 1'000'000'000 + t.tv_nsec;
}

Result<Compared> compare(const Arm& a, const Arm& b, double seconds, bool of_thread) {
  autotune::SteadyClock clock;
  std::mt19937_64 random(kSeed);
  const Arm* const arms[] = {&a, &b};
  std::vector<double> times[2], logs;
  const int64_t begin = clock.now_ns();
  for (int round = 0; round < kMostRounds; ++round) {
    if (round >= kFewestRounds && static_cast<double>(clock.now_ns() - begin) > seconds * 1e9) break;
    const size_t first = random() % 2;
    for (const size_t i : {first, 1 - first}) {
      for (const bool timed : {false, true}) {
        const int64_t start = now_ns(of_thread);
        HONE_RETURN_IF_ERROR(arms[i]->run());
        if (timed) times[i].push_back(static_cast<double>(now_ns(of_thread) - start));
        HONE_RETURN_IF_ERROR(arms[i]->forget());
      }
    }
    logs.push_back(std::log(times[0].back() / times[1].back()));
  }
  return Compared{.a_ns = autotune::median(times[0]),
                  .b_ns = autotune::median(times[1]),
                  .ratio = autotune::ratio_of(autotune::order_interval(logs, 0.025)),
                  .rounds = static_cast<int>(logs.size())};
}

// Only from a state that both can have: what they find in their caches differs.
Status same_outputs(const cli::PlanCall& plan, const Kernels& kernels, const Call& call) {
  if (call.position > 0) return {};
  for (size_t i = 0; i < plan.outputs().size(); ++i) {
    const graph::Tensor& t = plan.outputs()[i];
    if (std::memcmp(t.data.data(), kernels.output(i), t.data.size()) != 0)
      return data_loss("the kernels alone compute something else than the plan");
  }
  return {};
}

class Bench {
 public:
  explicit Bench(const Options& options) : options_(options) {
    table_ = {"graph",
              {{"graph"},
               {"tokens"},
               {"position"},
               {"threads"},
               {"what"},
               {"a_ns", cli::For::kMachines},
               {"a_us", cli::For::kPeople, "us"},
               {"b_ns", cli::For::kMachines},
               {"b_us", cli::For::kPeople, "against us"},
               {"pct", cli::For::kAll, "%"},
               {"pct_ci95", cli::For::kAll, "95% interval"},
               {"rounds"},
               {"detail"}},
              {}};
  }

  Status run() {
    HONE_ASSIGN_OR_RETURN(machine_, detect_machine());
    for (const std::string& name : options_.graphs) {
      HONE_ASSIGN_OR_RETURN(const graph::Graph graph,
                            cli::read_invented(fmt::format("{}/{}.graph", HONE_BENCH_GRAPHS, name), kSeed));
      const bool keeps = !graph.position.empty();
      for (const int threads : options_.threads) {
        HONE_ASSIGN_OR_RETURN(
            const Engine engine,
            Engine::create({.database = options_.db, .use_database = !options_.db.empty(), .threads = threads}));
        for (const Call& call : {Call{128, 0}, Call{1, keeps ? 512 : 0}}) {
          HONE_RETURN_IF_ERROR(overhead(name, graph, engine, threads, call));
          if (options_.tune > 0) HONE_RETURN_IF_ERROR(tuned(name, graph, engine, threads, call));
        }
      }
      HONE_RETURN_IF_ERROR(memory(name, graph));
    }
    return {};
  }

  const cli::Table& table() const { return table_; }

 private:
  void row(const std::string& graph, int threads, const Call& call, const char* what, const Compared& c,
           const std::string& detail) {
    const auto pct = [](double ratio) { return (ratio - 1) * 100; };
    table_.add({graph, call.tokens, call.position, int64_t{threads}, std::string(what), c.a_ns, c.a_ns / 1e3, c.b_ns,
                c.b_ns / 1e3, pct(c.ratio.mid), cli::Range{pct(c.ratio.lo), pct(c.ratio.hi)}, int64_t{c.rounds},
                detail});
    std::fprintf(
        stderr, "%s\n",
        fmt::format("{} tokens={} threads={} {}: {:+.2f}%", graph, call.tokens, threads, what, pct(c.ratio.mid))
            .c_str());
  }

  Status overhead(const std::string& name, const graph::Graph& graph, const Engine& engine, int threads,
                  const Call& call) {
    HONE_ASSIGN_OR_RETURN(passes::Compilation a, compiled(graph, {}));
    HONE_ASSIGN_OR_RETURN(passes::Compilation b, compiled(graph, {}));
    HONE_ASSIGN_OR_RETURN(
        const executable::ExecutablePlan plan,
        executable::ExecutablePlan::create(engine, std::move(a), {.expected_tokens = {call.tokens}, .warm_up = false}));
    HONE_ASSIGN_OR_RETURN(cli::PlanCall planned,
                          cli::PlanCall::create(plan, graph, {call.tokens, call.position, kSeed}));
    HONE_ASSIGN_OR_RETURN(const std::vector<graph::Tensor> inputs,
                          cli::invented_inputs(graph, call.tokens, call.position, kSeed));
    HONE_ASSIGN_OR_RETURN(const std::unique_ptr<Kernels> kernels,
                          Kernels::create(engine, std::move(b), call.tokens, call.position, inputs));
    HONE_ASSIGN_OR_RETURN(const Compared c, compare({[&] { return planned.run(); }, [&] { return planned.forget(); }},
                                                    {[&] { return kernels->run(); }, [&] { return kernels->forget(); }},
                                                    options_.seconds, threads == 1));
    HONE_RETURN_IF_ERROR(same_outputs(planned, *kernels, call));
    row(name, threads, call, "plan over its kernels", c,
        fmt::format("{} kernels, {} time", kernels->size(), threads == 1 ? "CPU" : "wall"));
    return {};
  }

  // The tuner's own protocol, in memory: the figure is that of its confirmation rounds.
  Status tuned(const std::string& name, const graph::Graph& graph, const Engine& engine, int threads,
               const Call& call) {
    passes::SpaceOptions space_options{
        .threads = {1}, .attention = {}, .tokens = call.tokens, .position = call.position};
    space_options.machine.threads = threads;
    space_options.machine.l2_bytes = blocking_caches(machine_).l2;
    HONE_ASSIGN_OR_RETURN(const passes::PolicySpace space, passes::policy_space(graph, space_options));
    std::vector<passes::PlanPolicy> policies;
    autotune::ContestOptions contest{
        .problem = plan::graph_problem(executable::graph_call(graph, call.tokens, call.position)), .candidates = {}};
    for (const passes::PolicyCandidate& c : space.candidates) {
      policies.push_back(c.policy);
      contest.candidates.push_back({.program = passes::to_string(c.policy),
                                    .codegen = std::string(plan::kPlanCodegen),
                                    .codegen_version = std::string(plan::kPlanVersion)});
    }
    contest.budget_seconds = options_.tune;
    autotune::SteadyClock clock;
    cli::PlanRacer racer(graph, engine, policies, clock, {call.tokens, call.position, kSeed});
    HONE_ASSIGN_OR_RETURN(const std::unique_ptr<db::Store> store, db::open({.mode = db::OpenMode::kInMemory}));
    HONE_ASSIGN_OR_RETURN(const autotune::ContestReport r, autotune::contest(racer, clock, *store, machine_, contest));
    const auto& winner = contest.candidates[static_cast<size_t>(r.winner)].program;
    row(name, threads, call, "default over tuned",
        {.a_ns = r.default_ns, .b_ns = r.ns, .ratio = r.speedup, .rounds = r.rounds},
        fmt::format("{}: {}; met {}, whose gain is [{:.3f}, {:.3f}]; {} of {} measured, noise {:.1f}%",
                    db::verdict_name(r.verdict), winner, contest.candidates[static_cast<size_t>(r.challenger)].program,
                    r.gain.lo, r.gain.hi, r.measured, policies.size(), r.noise_bound * 100));
    for (const autotune::ContestOutcome& o : r.outcomes)
      return data_loss(fmt::format("{}: {}", contest.candidates[static_cast<size_t>(o.candidate)].program, o.detail));
    return {};
  }

  Status memory(const std::string& name, const graph::Graph& graph) {
    HONE_ASSIGN_OR_RETURN(const passes::Compilation c, compiled(graph, {}));
    const auto mib = [](int64_t bytes) { return static_cast<double>(bytes) / (1 << 20); };
    table_.add({name,
                {},
                {},
                {},
                std::string("arena against no reuse"),
                {},
                {},
                {},
                {},
                100.0 * static_cast<double>(c.memory.arena_bytes) /
                        static_cast<double>(std::max<int64_t>(1, c.memory.without_reuse)) -
                    100,
                {},
                {},
                fmt::format("{:.2f} MiB instead of {:.2f}, at the largest sizes", mib(c.memory.arena_bytes),
                            mib(c.memory.without_reuse))});
    return {};
  }

  const Options& options_;
  Machine machine_;
  cli::Table table_;
};

std::vector<std::string> words(const std::string& text) {
  std::vector<std::string> all;
  std::stringstream in(text);
  for (std::string word; std::getline(in, word, ',');) all.push_back(word);
  return all;
}

Result<Options> parse(int argc, char** argv) {
  Options o;
  for (int i = 1; i < argc; i += 2) {
    const std::string key = argv[i], value = i + 1 < argc ? argv[i + 1] : "";
    if (value.empty()) return invalid_argument(key + " needs a value");
    if (key == "--graphs") {
      o.graphs = words(value);
    } else if (key == "--threads") {
      o.threads.clear();
      for (const std::string& w : words(value)) o.threads.push_back(std::atoi(w.c_str()));
    } else if (key == "--seconds") {
      o.seconds = std::atof(value.c_str());
    } else if (key == "--tune") {
      o.tune = std::atof(value.c_str());
    } else if (key == "--db") {
      o.db = value;
    } else if (key == "-o") {
      HONE_ASSIGN_OR_RETURN(o.format, cli::parse_format(value));
    } else {
      return invalid_argument(key + " is unknown; there are --graphs --threads --seconds --tune --db -o");
    }
  }
  return o;
}

int run(int argc, char** argv) {
  const Result<Options> options = parse(argc, argv);
  Status status = options.status();
  if (options.ok()) {
    Bench bench(*options);
    status = bench.run();
    std::fputs(cli::render(bench.table(), options->format).c_str(), stdout);
  }
  if (status.ok()) return 0;
  std::fprintf(stderr, "graph_bench: %s\n", status.message().c_str());
  return 1;
}

}  // namespace
}  // namespace hone::bench

int main(int argc, char** argv) { return hone::bench::run(argc, argv); }
