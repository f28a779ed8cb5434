// See region_threshold.h.
#include "autotune/measure/region_threshold.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <random>

#include "autotune/measure/kernel_racer.h"
#include "kernels/matmul/blocking.h"

namespace hone::autotune {
namespace {

// 2^9 times the first rung is 80 us and more of one core's work: beyond any wake-up worth having.
constexpr int kRungs = 10;
constexpr int64_t kFirstDepth = 16;
// k doubles up to here, then n: with 64 columns more of B still in L2 on the last rung.
constexpr int kDeepenings = 4;
constexpr int kMostRounds = 61;

// A problem and the program that both sides run: one block of rows a thread, so that there is a task for each.
struct Problem {
  matmul::MatmulProblem problem;
  matmul::TransformProgram program;
};

Problem rung_of(const Machine& machine, Isa isa, int threads, int rung) {
  const BlockingCaches caches = blocking_caches(machine);
  const matmul::MatmulProblem square{.m = 64, .n = 64, .k = 64, .epilogue = {}};
  Problem p{.problem = {.epilogue = {}},
            .program = matmul::default_program(square, {.isa = isa, .caches = caches, .threads = 1})};
  p.problem.m = p.program.mr * threads;
  p.problem.n = p.program.nr << std::max(0, rung - kDeepenings);
  p.problem.k = kFirstDepth << std::min(rung, kDeepenings);
  p.problem.b = matmul::BLayout::kNn;
  p.program.mc = p.program.mr;
  p.program.nc = p.problem.n;
  p.program.kc = p.problem.k;
  p.program.pack_a = matmul::PackA::kNone;
  p.program.pack_b = matmul::PackB::kNone;
  p.program.prefetch_b = 0;  // all is in L2
  p.program.parallel = matmul::ParallelDim::kM;
  p.program = matmul::canonical(p.problem, p.program);
  return p;
}

Result<std::string> generator_for(Isa isa) {
  for (const jit::CodeGenerator* g : jit::compiling_generators())
    if (g->targets(isa)) return std::string(g->name());
  return unsupported("no code generator of this build emits machine code for this CPU");
}

Result<Rung> measure_rung(const Problem& p, const std::string& codegen, const runtime::ScheduleRequest& schedule,
                          double seconds, std::mt19937_64& random, Clock& clock, const std::atomic<bool>* stop) {
  const std::vector<Candidate> ways = {{p.program, codegen, 1}, {p.program, codegen, schedule.threads}};
  const RacerOptions options{.cache = CacheMode::kWarm, .seed = random(), .peak = {}, .schedule = schedule.kind};
  HONE_ASSIGN_OR_RETURN(const std::unique_ptr<KernelRacer> racer, KernelRacer::create(p.problem, ways, clock, options));
  for (int way : {0, 1})
    if (const Prepared ready = racer->prepare(way); ready.outcome != db::Outcome::kMeasured)
      return unsupported(fmt::format("{}: {}", matmul::to_string(p.problem), ready.detail));
  std::vector<double> gains;
  std::array<int, 2> arms = {0, 1};
  const int64_t end = clock.now_ns() + static_cast<int64_t>(seconds * 1e9);
  for (int round = 0; round < kMostRounds && (round < 9 || clock.now_ns() < end); ++round) {
    if (stop != nullptr && stop->load()) return unavailable("interrupted");
    std::shuffle(arms.begin(), arms.end(), random);
    const std::vector<Timing> timings = racer->round(arms);
    if (timings[0].ns <= 0 || timings[1].ns <= 0) continue;
    const double log_ratio = std::log(static_cast<double>(timings[0].ns) / static_cast<double>(timings[1].ns));
    gains.push_back(arms[0] == 0 ? log_ratio : -log_ratio);
  }
  return Rung{.work = matmul::region_work(p.problem), .gain = order_interval(gains, 0.025)};
}

}  // namespace

bool is_won(const Rung& rung) { return rung.gain.lo > std::log1p(kNoiseFloor); }

bool is_decided(std::span<const Rung> rungs) {
  return rungs.size() >= 2 && is_won(rungs[rungs.size() - 1]) && is_won(rungs[rungs.size() - 2]);
}

std::optional<int64_t> min_work(std::span<const Rung> rungs) {
  for (size_t i = 0; i + 1 < rungs.size(); ++i) {
    if (!is_won(rungs[i]) || !is_won(rungs[i + 1])) continue;
    if (i == 0 || rungs[i - 1].gain.mid >= 0) return std::llround(rungs[i].work);
    const Rung &lost = rungs[i - 1], &won = rungs[i];
    const double part = -lost.gain.mid / (won.gain.mid - lost.gain.mid);
    return std::llround(lost.work * std::pow(won.work / lost.work, part));
  }
  return {};
}

matmul::MatmulProblem rung_problem(const Machine& machine, Isa isa, int threads, int rung) {
  return rung_of(machine, isa, threads, rung).problem;
}

Result<std::vector<Rung>> climb(const Machine& machine, const runtime::ScheduleRequest& schedule, double seconds,
                                uint64_t seed, Clock& clock, const std::atomic<bool>* stop) {
  HONE_ASSIGN_OR_RETURN(const Isa isa, machine.best_isa());
  HONE_ASSIGN_OR_RETURN(const std::string codegen, generator_for(isa));
  std::mt19937_64 random(seed);
  std::vector<Rung> rungs;
  while (rungs.size() < kRungs && !is_decided(rungs)) {
    const Problem p = rung_of(machine, isa, schedule.threads, static_cast<int>(rungs.size()));
    HONE_ASSIGN_OR_RETURN(const Rung rung, measure_rung(p, codegen, schedule, seconds / kRungs, random, clock, stop));
    rungs.push_back(rung);
  }
  return rungs;
}

}  // namespace hone::autotune
