// Races plans of hone against each other and against other libraries, in one process and in the same rounds.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "autotune/measure/kernel_racer.h"
#include "autotune/measure/operands.h"
#include "bench/peers/peer.h"

namespace hone::cli {

// Candidates first, then peers: implementation i < candidates.size() is a plan, the others are peers.
class BenchRacer final : public autotune::Racer {
 public:
  // `candidates`, `peers`, `clock` and `peer_weights` must outlive the racer. Threads of the peers: `threads`. B as the
  // peers get it is left in `peer_weights` for the next racer, as in Operands::create.
  static Result<std::unique_ptr<BenchRacer>> create(const op::Problem& problem,
                                                    const std::vector<autotune::Candidate>& candidates,
                                                    std::span<const HonePeer* const> peers, int threads,
                                                    autotune::Clock& clock, const autotune::RacerOptions& options,
                                                    std::shared_ptr<autotune::Weights>* peer_weights);
  ~BenchRacer() override;

  autotune::Prepared prepare(int implementation) override;
  std::vector<autotune::Timing> round(std::span<const int> implementations) override;
  void release(int implementation) override;
  // How a prepared peer computes the problem; "" for plans, whose text says it.
  std::string setting(int implementation) const;

 private:
  struct Ready {
    void* handle = nullptr;
    int64_t repeat = 1;
  };

  BenchRacer(const matmul::MatmulProblem& peer_problem, bool b_constant, size_t candidates,
             std::span<const HonePeer* const> peers, int threads, autotune::Clock& clock,
             const autotune::RacerOptions& options, std::shared_ptr<autotune::Weights>* peer_weights)
      : problem_(peer_problem),
        candidates_(candidates),
        peers_(peers),
        threads_(threads),
        b_constant_(b_constant),
        clock_(clock),
        options_(options),
        peer_weights_(peer_weights) {}

  bool is_peer(int i) const { return static_cast<size_t>(i) >= candidates_; }
  const HonePeer& peer(int i) const { return *peers_[static_cast<size_t>(i) - candidates_]; }
  autotune::Prepared prepare_peer(int i);
  Status check(const HonePeer& peer);
  autotune::Timing time_peer(int i);
  Result<int64_t> sample_peer(int i);
  void flush(int i);

  matmul::MatmulProblem problem_;  // as the peers see it: B in rows
  size_t candidates_;
  std::span<const HonePeer* const> peers_;
  int threads_;
  bool b_constant_;  // the problem lets B be packed beforehand, so peers may as well
  autotune::Clock& clock_;
  autotune::RacerOptions options_;
  std::shared_ptr<autotune::Weights>* peer_weights_;
  std::unique_ptr<autotune::KernelRacer> plans_;
  std::unique_ptr<autotune::Operands> operands_;  // of the peers, made when the first one is prepared
  std::map<int, Ready> ready_;
};

// Why no peer can run the problem ("" when they can): they have matmul only, no epilogues, no batches, no empty sizes.
std::string peers_lack(const op::Problem& problem);

}  // namespace hone::cli
