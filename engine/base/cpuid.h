// Reading the CPU's own description is apart from understanding it: read_cpuid() executes CPUID and XGETBV,
// decode_cpuid() is a pure function of what they returned. So a hypervisor's odd answers are test data, not machines to
// be found.
#pragma once

#include <cstdint>
#include <map>
#include <utility>

#include "engine/base/machine.h"

namespace hone {

struct CpuidRegisters {
  uint32_t eax = 0, ebx = 0, ecx = 0, edx = 0;
};

struct RawCpuid {
  std::map<std::pair<uint32_t, uint32_t>, CpuidRegisters> leaves;  // (leaf, subleaf); empty on a CPU that is not x86
  uint64_t xcr0 = 0;                                               // 0 when the OS does not use XSAVE

  // Zeros for a leaf that the CPU does not have, as "absent" and "all clear" mean the same in every leaf read here.
  CpuidRegisters leaf(uint32_t leaf, uint32_t subleaf = 0) const;
};

// Which extra registers an instruction touches; XCR0 tells whether the OS saves them.
enum class RegisterState : uint8_t { kNone, kYmm, kZmm, kTile };
constexpr uint64_t xcr0_bits(RegisterState state) {
  switch (state) {
    case RegisterState::kNone:
      return 0;
    case RegisterState::kYmm:
      return 0x6;  // SSE, AVX
    case RegisterState::kZmm:
      return 0xe6;  // the above, opmask, upper halves of ZMM0-15, ZMM16-31
    case RegisterState::kTile:
      return 0x60000;  // TILECFG, TILEDATA
  }
  return ~uint64_t{0};
}

RawCpuid read_cpuid();

// Fills identity, features, masked and those caches that CPUID describes (the rest keep bytes == 0); CPU counts are not
// its business.
Machine decode_cpuid(const RawCpuid& raw);

}  // namespace hone
