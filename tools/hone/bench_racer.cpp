// See bench_racer.h.
#include "tools/hone/bench_racer.h"

#include <fmt/format.h>

#include <cmath>

#include "autotune/measure/flush.h"
#include "bench/peers/settle.h"

namespace hone::cli {
namespace {

// A sample shorter than this is repeated: below it the clock's own cost shows.
constexpr double kSampleNs = 20e3;

// Peers add in orders of their own, so their results differ from ours by rounding: at |a|, |b| < 1 a difference is
// below 1e-5 sqrt(k) unless an element is wrong, which shows as an error near sqrt(k) / 3.
double tolerance(int64_t k) { return 1e-5 * std::sqrt(static_cast<double>(std::max<int64_t>(k, 1))); }

// Of another op there are none to see it.
matmul::MatmulProblem as_peers_see_it(const op::Problem& problem) {
  const auto* of_matmul = std::get_if<matmul::MatmulProblem>(&problem);
  matmul::MatmulProblem p = of_matmul != nullptr ? *of_matmul : matmul::MatmulProblem();
  // Where B may be packed, [k, n] is the layout that every peer documents first.
  if (p.b == matmul::BLayout::kPacked) p.b = matmul::BLayout::kNn;
  return p;
}

}  // namespace

std::string peers_lack(const op::Problem& problem) {
  const auto* of_matmul = std::get_if<matmul::MatmulProblem>(&problem);
  if (of_matmul == nullptr) return fmt::format("peers do not know {}", op::name(problem));
  const matmul::MatmulProblem& p = *of_matmul;
  // Not every peer checks for an empty matrix before it reads one.
  if (p.m == 0 || p.n == 0 || p.k == 0) return "peers are compared where m, n and k are at least 1";
  if (!p.epilogue.empty()) return "peers have no epilogue: compare the problem without it";
  if (p.batch != 1) return "peers are compared without batch";
  if (p.alpha != 1 || p.beta != 0) return "peers are compared with alpha=1, beta=0";
  return "";
}

Result<std::unique_ptr<BenchRacer>> BenchRacer::create(const op::Problem& problem,
                                                       const std::vector<autotune::Candidate>& candidates,
                                                       std::span<const HonePeer* const> peers, int threads,
                                                       autotune::Clock& clock, const autotune::RacerOptions& options,
                                                       std::shared_ptr<autotune::Weights>* peer_weights) {
  const auto* of_matmul = std::get_if<matmul::MatmulProblem>(&problem);
  const bool b_constant = of_matmul != nullptr && of_matmul->b == matmul::BLayout::kPacked;
  std::unique_ptr<BenchRacer> racer(new BenchRacer(as_peers_see_it(problem), b_constant, candidates.size(), peers,
                                                   threads, clock, options, peer_weights));
  HONE_ASSIGN_OR_RETURN(racer->plans_, autotune::KernelRacer::create(problem, candidates, clock, options));
  return racer;
}

BenchRacer::~BenchRacer() {
  for (auto& [i, ready] : ready_)
    if (ready.handle != nullptr) peer(i).release(ready.handle);
}

autotune::Prepared BenchRacer::prepare(int i) { return is_peer(i) ? prepare_peer(i) : plans_->prepare(i); }

std::vector<autotune::Timing> BenchRacer::round(std::span<const int> implementations) {
  std::vector<autotune::Timing> timings;
  for (int i : implementations) {
    // A thread of the previous library that never sleeps is measured along with the next one: no reason to stop.
    if (!peers_.empty()) (void)hone::peers::settle();
    timings.push_back(is_peer(i) ? time_peer(i) : plans_->round(std::span(&i, 1)).front());
  }
  return timings;
}

std::string BenchRacer::setting(int i) const {
  const auto at = ready_.find(i);
  return at == ready_.end() ? "" : peer(i).setting(at->second.handle);
}

autotune::Timing BenchRacer::time_peer(int i) {
  const int64_t begin = clock_.now_ns();
  const Result<int64_t> ns = sample_peer(i);
  autotune::Timing timing{.wall_ns = clock_.now_ns() - begin};
  if (ns.ok()) timing.ns = *ns;
  if (!ns.ok()) timing.outcome = db::Outcome::kRefused, timing.detail = ns.status().message();
  return timing;
}

void BenchRacer::release(int i) {
  if (!is_peer(i)) return plans_->release(i);
  const auto at = ready_.find(i);
  if (at == ready_.end()) return;
  peer(i).release(at->second.handle);
  ready_.erase(at);
}

autotune::Prepared BenchRacer::prepare_peer(int i) {
  if (ready_.contains(i)) return {};
  if (operands_ == nullptr) {
    Result<autotune::Operands> made = autotune::Operands::create(problem_, options_.seed, peer_weights_);
    if (!made.ok()) return {db::Outcome::kRefused, made.status().message()};
    operands_ = std::make_unique<autotune::Operands>(std::move(*made));
  }
  const HonePeerProblem wanted{problem_.m,
                               problem_.n,
                               problem_.k,
                               problem_.row_stride_a(),
                               problem_.row_stride_b(),
                               problem_.row_stride_c(),
                               problem_.b == matmul::BLayout::kNt,
                               b_constant_ ? 1 : 0,
                               threads_};
  char error[256] = "";
  void* handle = peer(i).prepare(&wanted, operands_->view().b, error, sizeof error);
  if (handle == nullptr) return {db::Outcome::kRefused, error};
  ready_[i] = {handle, 1};
  operands_->reset_c();
  const matmul::MatmulOperands operands = operands_->view();
  if (peer(i).run(handle, operands.a, operands.b, operands.c) != 0)
    return {db::Outcome::kRefused, fmt::format("{} failed", peer(i).name)};
  if (Status s = check(peer(i)); !s.ok()) {
    release(i);
    return {db::Outcome::kWrong, s.message()};
  }
  if (options_.cache == autotune::CacheMode::kWarm) {
    const Result<int64_t> once = sample_peer(i);
    if (once.ok()) ready_[i].repeat = std::max<int64_t>(1, std::llround(kSampleNs / static_cast<double>(*once)));
  }
  return {};
}

Status BenchRacer::check(const HonePeer& p) {
  autotune::Cells cells;
  for (int64_t i : {int64_t{0}, problem_.m / 2, problem_.m - 1})
    if (i >= 0 && (cells.rows.empty() || cells.rows.back() != i)) cells.rows.push_back(i);
  for (int64_t j = 0; j < problem_.n; j += std::max<int64_t>(1, problem_.n / 37)) cells.cols.push_back(j);
  const std::vector<float> expected = operands_->reference(cells);
  const float* c = operands_->view().c;
  size_t at = 0;
  for (int64_t i : cells.rows) {
    for (int64_t j : cells.cols) {
      const float got = c[i * problem_.row_stride_c() + j];
      const float want = expected[at++];
      if (!(std::abs(got - want) <= tolerance(problem_.k)))
        return data_loss(fmt::format("{}: C[{}, {}] is {}, should be {}", p.name, i, j, got, want));
    }
  }
  return {};
}

void BenchRacer::flush(int i) {
  std::vector<std::span<const std::byte>> ranges = operands_->ranges();
  size_t bytes = 0;
  if (const void* packed = peer(i).packed(ready_[i].handle, &bytes); packed != nullptr)
    ranges.emplace_back(static_cast<const std::byte*>(packed), bytes);
  autotune::flush_caches(ranges);
}

Result<int64_t> BenchRacer::sample_peer(int i) {
  const Ready& ready = ready_[i];
  if (options_.cache == autotune::CacheMode::kCold) {
    flush(i);
    peer(i).wake(ready.handle);
  }
  const matmul::MatmulOperands operands = operands_->view();
  // Warm means after a call of its own, as for the plans: it fetches the operands and wakes the threads.
  if (options_.cache == autotune::CacheMode::kWarm &&
      peer(i).run(ready.handle, operands.a, operands.b, operands.c) != 0)
    return internal_error(fmt::format("{} failed", peer(i).name));
  const int64_t begin = clock_.now_ns();
  for (int64_t r = 0; r < ready.repeat; ++r)
    if (peer(i).run(ready.handle, operands.a, operands.b, operands.c) != 0)
      return internal_error(fmt::format("{} failed", peer(i).name));
  const int64_t ns = (clock_.now_ns() - begin) / ready.repeat;
  if (ns <= 0) return internal_error("a time of 0 was measured");
  return ns;
}

}  // namespace hone::cli
