// What it costs that candidates run in a worker process, `hone tune-worker` of this build.
//
//   round/ARMS   a round of so many candidates as tune() does it: timed in the worker, then made durable in a database
//                file. The worker says how long it took for its part; what passes between asking and having its answer
//                beyond that is the price.
//   prepare      compiling, checking and warming up one candidate; the price is that of a message and its answer, as
//                it is measured with a question about a candidate that is ready already.
//
// Not the same tune with and without a worker: a sample repeats its call as often as one call's time demands, and that
// single time differs between two processes by more than isolation costs.
#include <benchmark/benchmark.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <set>
#include <vector>

#include "autotune/isolate/isolated_racer.h"
#include "autotune/recorder.h"
#include "autotune/search/stats.h"
#include "bench/bench_internal.h"
#include "jit/codegen.h"

namespace hone::bench {
namespace {

using autotune::Candidate;
using autotune::Child;
using autotune::Message;

// A worker that has a problem set up, and a store.
struct Bench {
  matmul::MatmulProblem problem;
  std::vector<Candidate> candidates;
  autotune::SteadyClock clock;
  std::unique_ptr<Child> child;
  std::filesystem::path file;
  std::unique_ptr<db::Store> store;
  std::unique_ptr<autotune::Recorder> recorder;
  int threads = 1;  // of every candidate
  int64_t last_ns[2] = {0, 0};

  ~Bench() {
    for (const char* suffix : {"", "-wal", "-shm"}) std::filesystem::remove(file.string() + suffix);
  }

  template <typename Expected>
  Result<Expected> ask(const Message& question) {
    constexpr bool kRound = std::is_same_v<Expected, autotune::RoundAnswer>;
    const bool watching = autotune::worth_watching(this_machine().cpus_usable, kRound ? threads : 0, last_ns[kRound]);
    Message answer;
    const int64_t begin = clock.now_ns();
    if (!child->send(question) || child->receive(60, &answer, watching) != Child::Got::kMessage ||
        !std::holds_alternative<Expected>(answer))
      return unavailable("the worker does not answer: " + child->end());
    last_ns[kRound] = clock.now_ns() - begin;
    return std::get<Expected>(answer);
  }

  Status make(const std::string& text, bool cold, int count) {
    threads = count;
    HONE_ASSIGN_OR_RETURN(problem, matmul::parse_problem(text));
    HONE_ASSIGN_OR_RETURN(const Isa isa, this_machine().best_isa());
    candidates = autotune::enumerate(problem, {.isas = {isa},
                                               .caches = blocking_caches(this_machine()),
                                               .threads = {threads},
                                               .codegens = {std::string(jit::code_generators().front()->name())}})
                     .candidates;
    file = std::filesystem::temp_directory_path() / ("hone_isolation_bench_" + std::to_string(getpid()) + ".db");
    HONE_ASSIGN_OR_RETURN(store, db::open({.path = file.string()}));
    recorder = std::make_unique<autotune::Recorder>(
        *store, autotune::problem_record(problem),
        autotune::Recorder::Naming{
            .record = [this](int c) { return autotune::record(candidates[static_cast<size_t>(c)]); },
            .command = [](int, const db::RunInfo&) { return std::string(); }});
    recorder->begin(this_machine(), {.seed = 1, .cache_mode = cold ? "cold" : "warm", .settings = "{}"});
    HONE_ASSIGN_OR_RETURN(child, Child::start({HONE_BINARY, {"tune-worker"}}));
    Message hello;
    if (child->receive(60, &hello) != Child::Got::kMessage) return unavailable("no worker: " + child->end());
    HONE_ASSIGN_OR_RETURN(const autotune::SetUpAnswer up,
                          ask<autotune::SetUpAnswer>(autotune::ProblemMessage{
                              .text = text, .cold = cold, .cpus = this_machine().cpus_usable}));
    return up.status;
  }

  Status prepare(int candidate) {
    const Candidate& c = candidates[static_cast<size_t>(candidate)];
    HONE_ASSIGN_OR_RETURN(const autotune::PrepareAnswer answer,
                          ask<autotune::PrepareAnswer>(
                              autotune::PrepareMessage{candidate, op::to_string(c.program), c.codegen, c.threads}));
    return answer.prepared.outcome == db::Outcome::kMeasured ? Status() : internal_error(answer.prepared.detail);
  }

  // Of one round: what the worker needed, what came on top, what the store needed.
  struct Times {
    double work = 0, price = 0, store = 0;
  };
  Result<Times> round(const std::vector<int>& arms, int64_t number) {
    const int64_t begin = clock.now_ns();
    HONE_ASSIGN_OR_RETURN(const autotune::RoundAnswer answer, ask<autotune::RoundAnswer>(autotune::RoundMessage{arms}));
    const int64_t answered = clock.now_ns();
    std::vector<autotune::RoundSample> samples;
    for (size_t i = 0; i < arms.size(); ++i)
      samples.push_back({arms[i], {.round = number, .order = static_cast<int>(i), .ns = answer.timings[i].ns}});
    recorder->round(samples, 1);
    return Times{static_cast<double>(answer.wall_ns), static_cast<double>(answered - begin - answer.wall_ns),
                 static_cast<double>(clock.now_ns() - answered)};
  }
};

void report(benchmark::State& state, std::vector<double> work, std::vector<double> price, std::vector<double> rest) {
  const double w = autotune::median(std::move(work)), p = autotune::median(std::move(price)),
               r = autotune::median(std::move(rest));
  state.counters["work_us"] = w / 1e3;
  state.counters["store_us"] = r / 1e3;
  state.counters["price_us"] = p / 1e3;
  state.counters["price_pct"] = 100 * p / (w + r);
}

void rounds(benchmark::State& state, const std::string& text, bool cold, int threads) {
  Bench bench;
  Status s = bench.make(text, cold, threads);
  std::vector<int> arms;
  for (int i = 0; i < state.range(0) && s.ok(); ++i) {
    arms.push_back(i);
    s = bench.prepare(i);
  }
  if (!s.ok()) return state.SkipWithError(s.message().c_str());
  std::vector<double> work, price, store;
  for (auto _ : state) {
    const Result<Bench::Times> t = bench.round(arms, static_cast<int64_t>(work.size()));
    if (!t.ok()) return state.SkipWithError(t.status().message().c_str());
    work.push_back(t->work), price.push_back(t->price), store.push_back(t->store);
  }
  report(state, work, price, store);
}

void prepare(benchmark::State& state, const std::string& text, bool cold, int threads) {
  Bench bench;
  if (Status s = bench.make(text, cold, threads); !s.ok()) return state.SkipWithError(s.message().c_str());
  std::vector<double> work, price;
  int next = 0;
  for (auto _ : state) {
    const int candidate = next++ % static_cast<int>(bench.candidates.size());
    const int64_t begin = bench.clock.now_ns();
    Status s = bench.prepare(candidate);
    const int64_t prepared = bench.clock.now_ns();
    if (s.ok()) s = bench.prepare(candidate);
    const int64_t known = bench.clock.now_ns();
    if (!s.ok()) return state.SkipWithError(s.message().c_str());
    (void)bench.child->send(autotune::ReleaseMessage{candidate});
    work.push_back(static_cast<double>(2 * prepared - begin - known));
    price.push_back(static_cast<double>(known - prepared));
  }
  report(state, work, price, {0});
}

const bool registered = [] {
  const std::pair<std::string, bool> problems[] = {{"matmul:f32:m=1,n=256,k=256", false},
                                                   {"matmul:f32:m=1,n=256,k=256", true},
                                                   {"matmul:f32:m=16,n=2048,k=2048", true},
                                                   {"matmul:f32:m=512,n=512,k=512", true}};
  for (const auto& [text, cold] : problems) {
    for (int threads : std::set<int>{1, this_machine().cpus_usable}) {
      const std::string name = text + (cold ? " cold" : " warm") + " threads=" + std::to_string(threads);
      auto all_rounds = [t = text, c = cold, threads](benchmark::State& s) { rounds(s, t, c, threads); };
      auto preparing = [t = text, c = cold, threads](benchmark::State& s) { prepare(s, t, c, threads); };
      benchmark::RegisterBenchmark((name + " round").c_str(), all_rounds)->Arg(3)->Arg(9)->UseRealTime();
      benchmark::RegisterBenchmark((name + " prepare").c_str(), preparing)->UseRealTime();
    }
  }
  return true;
}();

}  // namespace
}  // namespace hone::bench
