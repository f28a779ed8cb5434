// What the interface of an op is made of, apart from the op's own types.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "engine/base/isa.h"
#include "engine/base/machine.h"
#include "kernels/numeric/comparison.h"

namespace hone {
class GuardedBuffer;
}

namespace hone::op {

// A size in which problems of one family may differ.
struct Size {
  std::string_view name;
  int64_t value = 0;
};

// A program made for other sizes, as it fits these. Never of another numerics class.
template <typename Program>
struct AdaptedOf {
  Program program;
  std::string difference;  // what was changed: "panel 32 -> 16"; "" when nothing
};

// What a default program is chosen for.
struct DefaultTarget {
  Isa isa = Isa::kAvx2;
  BlockingCaches caches;
  int threads = 1;
  int64_t panel = 0;     // > 0: constant weights are packed already, in panels of this width
  std::string numerics;  // what classes may be chosen, as check_numerics takes it
  FeatureSet features;   // of the CPU: some classes need more than an ISA has
};

// Calls of one program in memory that shows every access which is not theirs (guard pages, NaN), on random values, and
// what they must leave there: the bits of the program's numerics class, from its naive reference.
class Trial {
 public:
  virtual ~Trial() = default;

  struct Call {
    void* const* buffers;
    const int64_t* params;
  };
  // Of kernel `index` in the order of op::lower(), each over all its tasks.
  virtual std::vector<Call> calls(size_t index) = 0;
  // All memory as before the first call.
  virtual void reset() = 0;
  // After all kernels.
  virtual numeric::Comparison compare() const = 0;
  // All that the calls may read or write, for who runs them elsewhere.
  virtual std::vector<const GuardedBuffer*> memory() const = 0;
};

}  // namespace hone::op
