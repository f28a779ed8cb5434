#include "engine/base/hwcap.h"

#include <fmt/format.h>

#include <array>
#include <string>

#if defined(__aarch64__)
#include <sys/auxv.h>
#endif

namespace hone {
namespace {

enum class Word : uint8_t { kHwcap, kHwcap2 };

struct FeatureRow {
  Feature feature;
  Word word;
  int bit;
};

constexpr std::array kFeatureRows = {
#define HONE_HWCAP_FEATURE(id, name, word, bit) FeatureRow{Feature::id, Word::word, bit},
#include "engine/base/isa.inc"
#undef HONE_HWCAP_FEATURE
};

// Arm Architecture Reference Manual, MIDR_EL1.
constexpr int kFamily = 8;

std::string implementer(uint64_t code) {
  switch (code) {
    case 0x41:
      return "ARM";
    case 0x46:
      return "Fujitsu";
    case 0x48:
      return "HiSilicon";
    case 0x4e:
      return "NVIDIA";
    case 0x51:
      return "Qualcomm";
    case 0x61:
      return "Apple";
    case 0xc0:
      return "Ampere";
    default:
      return fmt::format("implementer {:#04x}", code);
  }
}

void decode_identity(uint64_t midr, Machine& machine) {
  if (midr == 0) return;
  const auto field = [&](int low, int bits) { return static_cast<int>((midr >> low) & ((1U << bits) - 1)); };
  const int variant = field(20, 4), revision = field(0, 4);
  machine.vendor = implementer(midr >> 24 & 0xff);
  machine.family = kFamily;
  machine.model = field(4, 12);
  machine.stepping = variant * 16 + revision;
  machine.brand = fmt::format("{} part {:#05x} r{}p{}", machine.vendor, machine.model, variant, revision);
}

}  // namespace

RawHwcap read_hwcap() {
  RawHwcap raw;
#if defined(__aarch64__)
  raw.hwcap = getauxval(AT_HWCAP);
  raw.hwcap2 = getauxval(AT_HWCAP2);
  constexpr uint64_t kCpuid = uint64_t{1} << 11;  // the kernel emulates reads of ID registers
  if (raw.hwcap & kCpuid) __asm__("mrs %0, midr_el1" : "=r"(raw.midr));
#endif
  return raw;
}

Machine decode_hwcap(const RawHwcap& raw) {
  Machine machine;
  decode_identity(raw.midr, machine);
  for (const FeatureRow& row : kFeatureRows) {
    const uint64_t word = row.word == Word::kHwcap ? raw.hwcap : raw.hwcap2;
    if (word >> row.bit & 1) machine.features.add(row.feature);
  }
  return machine;
}

}  // namespace hone
