// Which machines are of one kind? A compatibility key says that a plan is legal; only on the same kind of CPU is it
// also the plan that was measured to be best. A kind is what decides speed within one core: the CPU model, and L1d and
// L2 as blocking sees them. CPU counts, quota, a hypervisor and what it says of L3, stepping and microcode are no part
// of it: they change from boot to boot or from guest to guest, and a plan outlives them.
#pragma once

#include <cstdint>
#include <string>

#include "engine/base/machine.h"

namespace hone {

struct MachineKind {
  std::string vendor;
  int family = 0;
  int model = 0;
  int64_t l1d = BlockingCaches{}.l1d;
  int64_t l2 = BlockingCaches{}.l2;
  std::string microarch;  // for words only: it follows from the numbers above, as far as a hypervisor tells the truth

  bool operator==(const MachineKind& other) const;
};

MachineKind kind_of(const Machine& machine);

// In which way `there` is another kind of machine than `here`: "measured on zen4 (AuthenticAMD family 25 model 97),
// this is zen5 (...); measured with 1024 KiB of L2, here 2048". "" when both are of one kind. A machine that does not
// say who it is, is of another kind than one that does.
std::string kind_difference(const MachineKind& there, const MachineKind& here);

}  // namespace hone
