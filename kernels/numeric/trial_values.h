// Values that operands of a trial have: ordinary ones, and among them, as often as the trial says, those that a kernel
// may treat unlike its reference.
#pragma once

#include <bit>
#include <cstdint>

#include "engine/base/random.h"

namespace hone::numeric {

class TrialValues {
 public:
  // Of each 1000 values about `specials` are NaN, infinite, denormal, a zero or huge.
  TrialValues(Random& random, int specials) : random_(random), specials_(specials) {}

  // In [-1, 1) but for those.
  float next() {
    constexpr uint32_t kSpecials[] = {0x7fc00000, 0x7f800000, 0xff800000, 0x00000000, 0x80000000, 0x00000001,
                                      0x807fffff, 0x7f7fffff, 0xff61b1e6, 0x00800000, 0x1e3ce508, 0x5e0ac723};
    if (specials_ > 0 && random_.below(1000) < specials_) return std::bit_cast<float>(random_.element(kSpecials));
    return random_.uniform(-1, 1);
  }

 private:
  Random& random_;
  int specials_;
};

}  // namespace hone::numeric
