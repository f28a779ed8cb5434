// Recorded CPUID answers, for tests on machines that are something else.
#pragma once

#include "engine/base/cpuid.h"

namespace hone {

// A server CPU with AVX-512 and AMX as a KVM guest sees it: 48 KiB L1d, 2 MiB L2, 480 MiB "L3" shared by two.
inline RawCpuid avx512_guest() {
  RawCpuid raw;
  raw.leaves[{0, 0}] = {0x24, 0x756e6547, 0x6c65746e, 0x49656e69};
  raw.leaves[{1, 0}] = {0x000a0671, 0x01020800, 0xfffa3203, 0x1f8bfbff};
  raw.leaves[{7, 0}] = {0x2, 0xf1bf2ffb, 0x1a415f46, 0x23c14010};
  raw.leaves[{7, 1}] = {0x1c30, 0, 0, 0x84000};
  raw.leaves[{4, 0}] = {0x04000121, 0x02c0003f, 0x3f, 0};
  raw.leaves[{4, 1}] = {0x04000122, 0x03c0003f, 0x3f, 0};
  raw.leaves[{4, 2}] = {0x04000143, 0x03c0003f, 0x7ff, 0};
  raw.leaves[{4, 3}] = {0x04004163, 0x03c0003f, 0x77fff, 0};
  raw.leaves[{0x40000000, 0}] = {0x40000001, 0x4b4d564b, 0x564b4d56, 0x4d};
  raw.leaves[{0x80000006, 0}] = {0, 0, 0x08007040, 0};
  raw.xcr0 = 0x600e7;
  return raw;
}

}  // namespace hone
