// What the interface of an op is made of, apart from the op's own types.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "engine/base/isa.h"
#include "engine/base/machine.h"

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
};

}  // namespace hone::op
