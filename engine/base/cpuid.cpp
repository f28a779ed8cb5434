#include "engine/base/cpuid.h"

#include <array>
#include <cstring>
#include <string>

#if defined(__x86_64__)
#include <cpuid.h>
#endif

namespace hone {
namespace {

enum class Register : uint8_t { kEax, kEbx, kEcx, kEdx };

struct FeatureRow {
  Feature feature;
  uint32_t leaf, subleaf;
  Register reg;
  int bit;
  RegisterState state;
};

constexpr std::array kFeatureRows = {
#define HONE_CPUID_FEATURE(id, name, leaf, subleaf, reg, bit, state) \
  FeatureRow{Feature::id, leaf, subleaf, Register::reg, bit, RegisterState::state},
#include "engine/base/isa.inc"
#undef HONE_CPUID_FEATURE
};

uint32_t select(const CpuidRegisters& r, Register reg) {
  switch (reg) {
    case Register::kEax:
      return r.eax;
    case Register::kEbx:
      return r.ebx;
    case Register::kEcx:
      return r.ecx;
    case Register::kEdx:
      return r.edx;
  }
  return 0;
}

// Characters packed into registers, NULs and outer blanks removed (brand strings are padded on either side).
std::string text_of(std::initializer_list<uint32_t> words) {
  std::string text;
  for (uint32_t word : words) {
    for (int i = 0; i < 4; ++i) {
      char c = static_cast<char>(word >> (8 * i));
      if (c >= ' ' && c <= '~') text += c;
    }
  }
  size_t first = text.find_first_not_of(' ');
  if (first == std::string::npos) return "";
  return text.substr(first, text.find_last_not_of(' ') - first + 1);
}

void decode_identity(const RawCpuid& raw, Machine& machine) {
  CpuidRegisters l0 = raw.leaf(0);
  machine.vendor = text_of({l0.ebx, l0.edx, l0.ecx});
  uint32_t signature = raw.leaf(1).eax;
  int family = (signature >> 8) & 0xf;
  int model = (signature >> 4) & 0xf;
  machine.stepping = signature & 0xf;
  // The extended fields count only for these families (Intel SDM vol. 2, CPUID; AMD APM vol. 3, appendix E).
  if (family == 6 || family == 15) model |= (signature >> 12) & 0xf0;
  if (family == 15) family += (signature >> 20) & 0xff;
  machine.family = family;
  machine.model = model;

  CpuidRegisters b0 = raw.leaf(0x80000002), b1 = raw.leaf(0x80000003), b2 = raw.leaf(0x80000004);
  machine.brand =
      text_of({b0.eax, b0.ebx, b0.ecx, b0.edx, b1.eax, b1.ebx, b1.ecx, b1.edx, b2.eax, b2.ebx, b2.ecx, b2.edx});

  bool hypervisor_bit = (raw.leaf(1).ecx >> 31) & 1;
  if (hypervisor_bit) {
    CpuidRegisters h = raw.leaf(0x40000000);
    machine.hypervisor = text_of({h.ebx, h.ecx, h.edx});
    if (machine.hypervisor.empty()) machine.hypervisor = "unknown";
  }
}

void decode_features(const RawCpuid& raw, Machine& machine) {
  bool osxsave = (raw.leaf(1).ecx >> 27) & 1;
  uint64_t enabled = osxsave ? raw.xcr0 : 0;
  for (const FeatureRow& row : kFeatureRows) {
    bool reported = (select(raw.leaf(row.leaf, row.subleaf), row.reg) >> row.bit) & 1;
    if (!reported) continue;
    uint64_t needed = xcr0_bits(row.state);
    ((enabled & needed) == needed ? machine.features : machine.masked).add(row.feature);
  }
}

CacheInfo* cache_of_level(Machine& machine, uint32_t level) {
  switch (level) {
    case 1:
      return &machine.l1d;
    case 2:
      return &machine.l2;
    case 3:
      return &machine.l3;
    default:
      return nullptr;
  }
}

// Leaf 4 (Intel) and leaf 8000001D (AMD) share one format: a list of caches that ends at type 0. A cache that an
// earlier, more trusted leaf described is kept.
void decode_cache_list(const RawCpuid& raw, uint32_t leaf, const char* source, Machine& machine) {
  constexpr uint32_t kInstruction = 2;
  constexpr uint32_t kMaxCaches = 16;  // a hypervisor that answers every subleaf alike must not hang us
  for (uint32_t i = 0; i < kMaxCaches; ++i) {
    CpuidRegisters r = raw.leaf(leaf, i);
    uint32_t type = r.eax & 0x1f;
    if (type == 0) return;
    if (type == kInstruction) continue;
    CacheInfo* cache = cache_of_level(machine, (r.eax >> 5) & 7);
    if (cache == nullptr || cache->bytes != 0) continue;
    int64_t ways = (r.ebx >> 22) + 1, partitions = ((r.ebx >> 12) & 0x3ff) + 1, line = (r.ebx & 0xfff) + 1;
    int64_t sets = int64_t{r.ecx} + 1;
    if (r.ebx == 0 && r.ecx == 0) continue;  // a level without a size: 1 byte would be the literal reading
    *cache = {.bytes = ways * partitions * line * sets,
              .source = source,
              .shared_by = static_cast<int>((r.eax >> 14) & 0xfff) + 1};
  }
}

// The old AMD leaves: sizes only. L2 and L3 sit in 80000006, which Intel fills for L2 alone.
void decode_cache_sizes(const RawCpuid& raw, Machine& machine) {
  auto fill = [](CacheInfo& cache, int64_t bytes, const char* source) {
    if (cache.bytes == 0 && bytes > 0) cache = {.bytes = bytes, .source = source};
  };
  fill(machine.l1d, int64_t{raw.leaf(0x80000005).ecx >> 24} << 10, "cpuid80000005");
  fill(machine.l2, int64_t{raw.leaf(0x80000006).ecx >> 16} << 10, "cpuid80000006");
  fill(machine.l3, int64_t{raw.leaf(0x80000006).edx >> 18} << 19, "cpuid80000006");
}

#if defined(__x86_64__)
void read_leaf(RawCpuid& raw, uint32_t leaf, uint32_t subleaf = 0) {
  CpuidRegisters r;
  __cpuid_count(leaf, subleaf, r.eax, r.ebx, r.ecx, r.edx);
  raw.leaves[{leaf, subleaf}] = r;
}

uint64_t xgetbv0() {
  uint32_t low, high;
  __asm__ volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
  return (uint64_t{high} << 32) | low;
}
#endif

}  // namespace

CpuidRegisters RawCpuid::leaf(uint32_t leaf, uint32_t subleaf) const {
  auto it = leaves.find({leaf, subleaf});
  return it == leaves.end() ? CpuidRegisters{} : it->second;
}

RawCpuid read_cpuid() {
  RawCpuid raw;
#if defined(__x86_64__)
  read_leaf(raw, 0);
  uint32_t max_basic = raw.leaf(0).eax;
  if (max_basic >= 1) read_leaf(raw, 1);
  for (uint32_t i = 0; max_basic >= 4 && i < 16; ++i) read_leaf(raw, 4, i);
  for (uint32_t i = 0; max_basic >= 7 && i < 2; ++i) read_leaf(raw, 7, i);
  if (raw.leaf(1).ecx >> 31) read_leaf(raw, 0x40000000);
  read_leaf(raw, 0x80000000);
  uint32_t max_extended = raw.leaf(0x80000000).eax;
  for (uint32_t leaf = 0x80000001; leaf <= 0x80000006 && leaf <= max_extended; ++leaf) read_leaf(raw, leaf);
  // Only AMD and Hygon define 8000001D, and only with TopologyExtensions; others may answer anything.
  bool topology_extensions = (raw.leaf(0x80000001).ecx >> 22) & 1;
  for (uint32_t i = 0; topology_extensions && max_extended >= 0x8000001d && i < 16; ++i) read_leaf(raw, 0x8000001d, i);
  bool osxsave = (raw.leaf(1).ecx >> 27) & 1;
  if (osxsave) raw.xcr0 = xgetbv0();
#endif
  return raw;
}

Machine decode_cpuid(const RawCpuid& raw) {
  Machine machine;
  decode_identity(raw, machine);
  decode_features(raw, machine);
  decode_cache_list(raw, 4, "cpuid4", machine);
  decode_cache_list(raw, 0x8000001d, "cpuid8000001d", machine);
  decode_cache_sizes(raw, machine);
  return machine;
}

}  // namespace hone
