// Races plans of hone against each other and against other libraries, in one process and in the same rounds.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "autotune/measure/kernel_racer.h"
#include "engine/base/perf_counters.h"
#include "tools/hone/bench_peers.h"

namespace hone::cli {

// Candidates first, then peers: implementation i < candidates.size() is a plan, the others are peers.
class BenchRacer final : public autotune::Racer {
 public:
  // `candidates`, `peers`, `clock` and `peer_weights` (see make_peer_work) must outlive the racer. Threads of the
  // peers: `threads`.
  static Result<std::unique_ptr<BenchRacer>> create(const op::Problem& problem,
                                                    const std::vector<autotune::Candidate>& candidates,
                                                    std::span<const HonePeer* const> peers, int threads,
                                                    autotune::Clock& clock, const autotune::RacerOptions& options,
                                                    std::shared_ptr<autotune::Weights>* peer_weights);
  ~BenchRacer() override;

  autotune::Prepared prepare(int implementation) override;
  std::vector<autotune::Timing> round(std::span<const int> implementations) override;
  void release(int implementation) override;
  // What the hardware counts on this thread in one call of each, with the caches as for a sample; empty readings where
  // it counts nothing. For what runs on one thread.
  std::map<int, CounterReading> count(std::span<const int> implementations);
  // How a prepared peer computes the problem; "" for plans, whose text says it.
  std::string setting(int implementation) const;

 private:
  struct Ready {
    void* handle = nullptr;
    int64_t repeat = 1;
  };

  BenchRacer(const op::Problem& problem, size_t candidates, std::span<const HonePeer* const> peers, int threads,
             autotune::Clock& clock, const autotune::RacerOptions& options,
             std::shared_ptr<autotune::Weights>* peer_weights)
      : problem_(problem),
        candidates_(candidates),
        peers_(peers),
        threads_(threads),
        clock_(clock),
        options_(options),
        peer_weights_(peer_weights) {}

  bool is_peer(int i) const { return static_cast<size_t>(i) >= candidates_; }
  const HonePeer& peer(int i) const { return *peers_[static_cast<size_t>(i) - candidates_]; }
  autotune::Prepared prepare_peer(int i);
  autotune::Timing time_peer(int i);
  Result<int64_t> sample_peer(int i);
  Result<CounterReading> count_peer(int i, PerfCounters& counters);
  void flush(int i);

  op::Problem problem_;
  size_t candidates_;
  std::span<const HonePeer* const> peers_;
  int threads_;
  autotune::Clock& clock_;
  autotune::RacerOptions options_;
  std::shared_ptr<autotune::Weights>* peer_weights_;
  std::unique_ptr<autotune::KernelRacer> plans_;
  std::unique_ptr<PeerWork> work_;  // made when the first peer is prepared
  std::map<int, Ready> ready_;
};

}  // namespace hone::cli
