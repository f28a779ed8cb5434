// What Linux says of an AArch64 CPU: user code may not read the ID registers, so the kernel passes each process the
// features that both CPU and OS have, and emulates reading MIDR_EL1, which says who made it. As in cpuid.h, reading is
// apart from understanding.
#pragma once

#include <cstdint>

#include "engine/base/machine.h"

namespace hone {

struct RawHwcap {
  uint64_t hwcap = 0, hwcap2 = 0;  // AT_HWCAP, AT_HWCAP2 of the auxiliary vector; 0 on a CPU that is not AArch64
  uint64_t midr = 0;               // MIDR_EL1; 0 where the kernel does not emulate reading it
};

RawHwcap read_hwcap();

// Fills identity and features. Family is the architecture version, model the part number, stepping variant * 16 +
// revision: r3p1 is 49. Caches are not told.
Machine decode_hwcap(const RawHwcap& raw);

}  // namespace hone
