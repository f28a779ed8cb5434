// See matmul_racer.h.
//
// A sample is the time of one call. Short kernels are repeated until the sample takes kSampleNs, as the clock and the
// opening of a region cost tens of ns to microseconds; cold, each repetition is timed by itself, with the caches
// emptied in between and outside the time.
#include "autotune/measure/matmul_racer.h"

#include <fmt/format.h>

#include <algorithm>

#include "autotune/measure/flush.h"
#include "autotune/measure/gather.h"
#include "engine/base/guarded_buffer.h"
#include "engine/base/math.h"
#include "kernels/matmul/bind.h"

namespace hone::autotune {
namespace {

using matmul::BLayout;
using matmul::MatmulProblem;

constexpr int64_t kSampleNs = 20'000;
// Checking a call that was repeated would take less than this.
constexpr int64_t kLongCallNs = 10'000'000;
constexpr int64_t kMostRepeats = 10'000;
// Cold repetitions each pay for a flush.
constexpr int64_t kMostColdRepeats = 8;
// B is copied to guarded memory up to this size: touching more takes longer than the candidate.
constexpr int64_t kGuardedB = int64_t{4} << 20;
// Copies are kept, one a panel width, as touching fresh memory is what costs.
constexpr int64_t kGuardedBTotal = int64_t{256} << 20;
// The peak is a 95th percentile, the clock of a core may rise after it was measured, and a busy moment may have lowered
// it. What this is to catch, a clock that stood still or a kernel that did not run, is off by far more.
constexpr double kAbovePeak = 1.25;

Result<GuardedBuffer> guarded(int64_t elements) {
  return GuardedBuffer::create(elements * static_cast<int64_t>(sizeof(float)));
}

// Packed operands are shared by all candidates of a width, so none of them may have packed them with its own generator:
// a wrong one would make the others look wrong.
jit::CodeGenerator& packing_generator(Isa isa) {
  const std::span<jit::CodeGenerator* const> all = jit::code_generators();
  return **std::find_if(all.begin(), all.end(), [isa](const jit::CodeGenerator* g) { return g->targets(isa); });
}

}  // namespace

Result<std::unique_ptr<MatmulRacer>> MatmulRacer::create(const MatmulProblem& problem,
                                                         const std::vector<Candidate>& candidates, Clock& clock,
                                                         const RacerOptions& options) {
  HONE_ASSIGN_OR_RETURN(Operands operands, Operands::create(problem, options.seed, options.weights));
  std::unique_ptr<MatmulRacer> racer(new MatmulRacer(problem, candidates, clock, options, std::move(operands)));
  racer->check_ = std::make_unique<OutputCheck>(racer->operands_, options.seed);
  return racer;
}

Result<runtime::Schedule*> MatmulRacer::schedule(int threads) {
  std::unique_ptr<runtime::Schedule>& slot = schedules_[threads];
  if (slot == nullptr) {
    HONE_ASSIGN_OR_RETURN(slot, runtime::make_schedule({options_.schedule, threads}));
  }
  return slot.get();
}

Prepared MatmulRacer::prepare(int index) {
  if (ready_.contains(index)) return {};
  const Candidate& candidate = candidates_[static_cast<size_t>(index)];
  Ready ready;
  auto refused = [](const Status& s) { return Prepared{db::Outcome::kRefused, s.message()}; };
  auto failed = [&](const Status& s) {
    return s.code() == Code::kDataLoss ? Prepared{db::Outcome::kWrong, s.message()} : refused(s);
  };
  stage(index, Stage::kCompile);
  if (Status s = compile(candidate, ready); !s.ok()) return refused(s);
  stage(index, Stage::kGuardedCheck);
  if (Status s = check_guarded(candidate, ready); !s.ok()) return failed(s);
  stage(index, Stage::kCheck);
  const int64_t begin = clock_.now_ns();
  if (Status s = check_real(ready); !s.ok()) return failed(s);
  // How often does a sample repeat? Where the first call was long the answer is known.
  if (clock_.now_ns() - begin < kLongCallNs) {
    stage(index, Stage::kTime);
    const Result<int64_t> once = time_once(ready);
    if (!once.ok()) return refused(once.status());
    const int64_t most = options_.cache == CacheMode::kCold ? kMostColdRepeats : kMostRepeats;
    ready.repeat = std::clamp<int64_t>(ceil_div(kSampleNs, std::max<int64_t>(*once, 1)), 1, most);
  }
  ready_.emplace(index, std::move(ready));
  return {};
}

Status MatmulRacer::compile(const Candidate& candidate, Ready& ready) {
  HONE_ASSIGN_OR_RETURN(jit::CodeGenerator* const generator, jit::find_code_generator(candidate.codegen));
  HONE_ASSIGN_OR_RETURN(const ir::Kernel kernel, matmul::lower(problem_, candidate.program));
  HONE_ASSIGN_OR_RETURN(ready.executable, jit::make_executable(kernel, *generator, candidate.program.isa));
  HONE_ASSIGN_OR_RETURN(ready.schedule, schedule(candidate.threads));
  HONE_RETURN_IF_ERROR(workspaces_.reserve(ready.executable.workspace_bytes, candidate.threads));
  if (problem_.b != BLayout::kPacked) return {};
  ready.width = candidate.program.panel;
  return operands_.pack(ready.width, packing_generator(candidate.program.isa), candidate.program.isa);
}

Status MatmulRacer::call(Ready& ready, runtime::Schedule& schedule, const MatmulProblem& shape,
                         const matmul::MatmulOperands& operands) {
  const int64_t stride = problem_.b == BLayout::kPacked ? operands_.packed_stride(ready.width) : 0;
  const matmul::Arguments args = matmul::bind(shape, operands, stride);
  jit::Launch launch(ready.executable, args.buffers.data(), args.params.data(), &workspaces_);
  schedule.for_range({"matmul", node_}, launch.tasks(), 1, {jit::Launch::run_range, &launch});
  if (launch.out_of_memory()) return resource_exhausted("no memory for a workspace");
  return {};
}

Status MatmulRacer::judge(const MatmulProblem& shape, std::span<const float> c) {
  bool refuted = false;
  HONE_RETURN_IF_ERROR(check_->check(shape, c, &refuted));
  // Whoever agreed with the refuted output is wrong; its samples stop here and it is gated again when next prepared.
  if (refuted) ready_.clear();
  return {};
}

Result<const float*> MatmulRacer::guarded_b(int64_t width) {
  const std::span<const float> real = operands_.b(width);
  const auto bytes = static_cast<int64_t>(real.size_bytes());
  if (bytes > kGuardedB) return real.data();
  const auto at = guarded_b_.find(width);
  if (at != guarded_b_.end()) return at->second.as<float>().data();
  if (static_cast<int64_t>(guarded_b_.size() + 1) * bytes > kGuardedBTotal) guarded_b_.clear();
  HONE_ASSIGN_OR_RETURN(GuardedBuffer copy, guarded(static_cast<int64_t>(real.size())));
  std::copy(real.begin(), real.end(), copy.as<float>().begin());
  return guarded_b_.emplace(width, std::move(copy)).first->second.as<float>().data();
}

Status MatmulRacer::check_guarded(const Candidate& candidate, Ready& ready) {
  MatmulProblem shape = problem_;
  const int64_t mr = candidate.program.mr;
  shape.m = std::min(problem_.m, mr + problem_.m % mr);
  HONE_ASSIGN_OR_RETURN(GuardedBuffer a, guarded(elements_a(shape)));
  operands_.copy_a(shape, a.as<float>());
  HONE_ASSIGN_OR_RETURN(GuardedBuffer c, guarded(elements_c(shape)));
  operands_.reset_c(shape, c.as<float>());
  matmul::MatmulOperands operands = operands_.view(ready.width);
  auto like_c = [&](const float*& operand) -> Result<GuardedBuffer> {
    HONE_ASSIGN_OR_RETURN(GuardedBuffer copy, guarded(operand == nullptr ? 0 : elements_c(shape)));
    if (operand != nullptr) {
      operands_.copy_like_c(shape, operand, copy.as<float>());
      operand = copy.as<float>().data();
    }
    return copy;
  };
  HONE_ASSIGN_OR_RETURN(const GuardedBuffer gate, like_c(operands.gate));
  HONE_ASSIGN_OR_RETURN(const GuardedBuffer residual, like_c(operands.residual));
  HONE_ASSIGN_OR_RETURN(GuardedBuffer bias, guarded(operands.bias == nullptr ? 0 : problem_.n));
  if (operands.bias != nullptr) {
    std::copy_n(operands.bias, problem_.n, bias.as<float>().data());
    operands.bias = bias.as<float>().data();
  }
  HONE_ASSIGN_OR_RETURN(operands.b, guarded_b(ready.width));
  operands.a = a.as<float>().data();
  operands.c = c.as<float>().data();
  HONE_ASSIGN_OR_RETURN(const std::unique_ptr<runtime::Schedule> sequential, runtime::make_schedule({}));
  HONE_RETURN_IF_ERROR(call(ready, *sequential, shape, operands));
  if (!c.slack_intact()) return data_loss("the kernel wrote before the first element of C");
  return judge(shape, c.as<float>());
}

Status MatmulRacer::check_real(Ready& ready) {
  operands_.reset_c();
  HONE_RETURN_IF_ERROR(call(ready, *ready.schedule, problem_, operands_.view(ready.width)));
  return judge(problem_, operands_.c());
}

Result<int64_t> MatmulRacer::time_once(Ready& ready) {
  const matmul::MatmulOperands operands = operands_.view(ready.width);
  if (options_.cache == CacheMode::kCold) {
    flush_caches(operands_.ranges(ready.width));
    gather(*ready.schedule);
  }
  const int64_t begin = clock_.now_ns();
  HONE_RETURN_IF_ERROR(call(ready, *ready.schedule, problem_, operands));
  return clock_.now_ns() - begin;
}

std::vector<Timing> MatmulRacer::round(std::span<const int> arms) {
  std::vector<Timing> timings;
  for (int arm : arms) {
    const int64_t begin = clock_.now_ns();
    // A candidate that passed may have been refuted since, by one that the reference sided with.
    const Prepared again = prepare(arm);
    Timing timing{.outcome = again.outcome, .detail = again.detail};
    if (again.outcome == db::Outcome::kMeasured) {
      const Result<int64_t> ns = sample(arm);
      if (ns.ok()) timing.ns = *ns;
      if (!ns.ok()) timing.outcome = db::Outcome::kRefused, timing.detail = ns.status().message();
    }
    timing.wall_ns = clock_.now_ns() - begin;
    timings.push_back(std::move(timing));
  }
  return timings;
}

Result<int64_t> MatmulRacer::sample(int index) {
  Ready& ready = ready_.at(index);
  stage(index, Stage::kTime);
  int64_t total = 0;
  if (options_.cache == CacheMode::kCold) {
    for (int64_t i = 0; i < ready.repeat; ++i) {
      HONE_ASSIGN_OR_RETURN(const int64_t ns, time_once(ready));
      total += ns;
    }
  } else {
    const matmul::MatmulOperands operands = operands_.view(ready.width);
    // One untimed call: the candidates before this one have left their own data in the caches.
    gather(*ready.schedule);
    HONE_RETURN_IF_ERROR(call(ready, *ready.schedule, problem_, operands));
    const int64_t begin = clock_.now_ns();
    for (int64_t i = 0; i < ready.repeat; ++i) HONE_RETURN_IF_ERROR(call(ready, *ready.schedule, problem_, operands));
    total = clock_.now_ns() - begin;
  }
  const double ns = static_cast<double>(total) / static_cast<double>(ready.repeat);
  HONE_RETURN_IF_ERROR(plausible(ns, candidates_[static_cast<size_t>(index)].threads));
  return std::max<int64_t>(static_cast<int64_t>(ns + 0.5), 1);
}

Status MatmulRacer::plausible(double ns, int threads) const {
  if (ns <= 0) return failed_precondition("a time of 0");
  const double peak = options_.peak.gflops(threads, options_.cpus);
  const double gflops = problem_.flops() / ns;
  if (peak > 0 && gflops > kAbovePeak * peak)
    return failed_precondition(
        fmt::format("{:.1f} GFLOP/s is above this machine's peak of {:.1f} with {} threads", gflops, peak, threads));
  return {};
}

void MatmulRacer::release(int index) { ready_.erase(index); }

}  // namespace hone::autotune
