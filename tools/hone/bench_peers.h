// What other libraries are measured and checked on: operands as they get them, one call, whether the answer is right.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "autotune/measure/operands.h"
#include "bench/peers/peer.h"
#include "engine/base/status.h"
#include "kernels/op/op.h"

namespace hone::cli {

// One problem, for all peers one after the other.
class PeerWork {
 public:
  virtual ~PeerWork() = default;

  // A handle of the peer. Error: unsupported with its reason.
  virtual Result<void*> prepare(const HonePeer& peer, int threads) = 0;
  // Output as before a call.
  virtual void reset() = 0;
  virtual bool run(const HonePeer& peer, void* handle) = 0;
  // Error: data_loss naming an element, when the last run gave something else than it should.
  virtual Status check(const HonePeer& peer) const = 0;
  // Bytes that a call reads and writes, beside what the peer has packed.
  virtual std::vector<std::span<const std::byte>> ranges() const = 0;
};

// Why no peer can run the problem; "" when they can.
std::string peers_lack(const op::Problem& problem);

// Has the peer anything for the problem's op?
bool knows(const HonePeer& peer, const op::Problem& problem);

// Of a problem that they can run. B as the peers get it is left in `weights` for the next problem, as in
// Operands::create.
Result<std::unique_ptr<PeerWork>> make_peer_work(const op::Problem& problem, uint64_t seed,
                                                 std::shared_ptr<autotune::Weights>* weights);

}  // namespace hone::cli
