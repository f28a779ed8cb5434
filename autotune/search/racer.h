// The seam between deciding and doing: a search sees numbered candidates that can be prepared and timed. What is behind
// it may be this process, a child process, stored samples, or a simulation.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "db/store.h"
#include "engine/base/status.h"

namespace hone::autotune {

struct Prepared {
  db::Outcome outcome = db::Outcome::kMeasured;  // kMeasured: ready to be timed
  std::string detail;                            // why not
};

// What came of one run of a candidate in a round.
struct Timing {
  int64_t ns = 0;       // one call, > 0 when measured
  int64_t wall_ns = 0;  // with all that surrounds it: flushing, repeating
  // kRefused: this sample must not count (a time of 0, above the machine's peak, no memory), another may. kWrong and
  // kCrashed: the candidate has no business in the race.
  db::Outcome outcome = db::Outcome::kMeasured;
  std::string detail;
};

class Racer {
 public:
  virtual ~Racer() = default;
  // Compiles the candidate, checks its results and warms it up. Idempotent.
  virtual Prepared prepare(int candidate) = 0;
  // Times each of `arms` once, in this order, the same one twice if it is named twice; answers arm for arm. Arms that
  // are not prepared (any more) are prepared first. Whole rounds cross the seam, not samples: a racer in another
  // process is told once a round.
  virtual std::vector<Timing> round(std::span<const int> arms) = 0;
  // Frees what prepare made; a later prepare makes it again.
  virtual void release(int candidate) = 0;
};

}  // namespace hone::autotune
