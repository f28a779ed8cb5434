// The seam between deciding and doing: a search sees numbered candidates that can be prepared and sampled. What is
// behind it may be this process, a child process, stored samples, or a simulation.
#pragma once

#include <cstdint>
#include <string>

#include "db/store.h"
#include "engine/base/status.h"

namespace hone::autotune {

struct Prepared {
  db::Outcome outcome = db::Outcome::kMeasured;  // kMeasured: ready to be sampled
  std::string detail;                            // why not
};

class Racer {
 public:
  virtual ~Racer() = default;
  // Compiles the candidate, checks its results and warms it up. Idempotent.
  virtual Prepared prepare(int candidate) = 0;
  // ns of one call, > 0. An error says why the sample must not count (a time of 0, above the machine's peak, no
  // memory).
  virtual Result<int64_t> sample(int candidate) = 0;
  // Frees what prepare made; a later prepare makes it again.
  virtual void release(int candidate) = 0;
};

}  // namespace hone::autotune
