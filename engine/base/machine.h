// What machine is this? Legality (feature bits that CPUID reports AND the OS enables) is kept apart from preference
// (model, cache sizes, core count): two machines with one compatibility key may exchange plans, whatever their caches.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "engine/base/isa.h"
#include "engine/base/status.h"

namespace hone {

// A cache level as seen by one core. bytes == 0: absent or unknown.
struct CacheInfo {
  int64_t bytes = 0;
  std::string source;  // "cpuid4", "cpuid8000001d", "cpuid80000006", "hwloc", "description", "assumed"; "" when absent
  int shared_by = 0;   // logical CPUs that share one such cache; 0: unknown

  bool operator==(const CacheInfo&) const = default;
};

// Logical CPUs that are online in the machine, usable by this process or not. Hybrid CPUs have two classes; otherwise,
// and where nobody says, both counts are 0.
struct CoreClasses {
  int all = 0;  // 0: unknown
  int performance = 0;
  int efficient = 0;
  std::string source;  // "sysfs", "hwloc", "description"; "" when nothing is known

  bool operator==(const CoreClasses&) const = default;
};

struct Machine {
  std::string vendor;  // CPUID vendor string, "GenuineIntel"; of AArch64 the implementer, "ARM"
  int family = 0;
  int model = 0;
  int stepping = 0;
  std::string brand;        // CPUID brand string, trimmed
  std::string hypervisor;   // "" on bare metal
  FeatureSet features;      // usable: CPUID AND XCR0, or HWCAP
  FeatureSet masked;        // CPUID reports them, the OS does not enable them (or HONE_CPU took them away)
  CacheInfo l1d, l2, l3;    // as reported
  int cpus_usable = 1;      // floor(min(affinity mask, cgroup quota)), at least 1
  std::string cpus_source;  // "affinity", "cgroup2 quota 7.65", "description"
  int threads_per_core = 1;
  int numa_nodes = 1;
  CoreClasses cores;

  bool operator==(const Machine&) const = default;
  bool supports(Isa isa) const { return features.contains(isa_info(isa).required); }
  // That of its features, usable or masked; of a machine that has none, this process's.
  Arch arch() const;
  // "zen4", "sapphire_rapids": the row of microarch.inc; "" when unknown, or when the features say that the numbers of
  // family and model are not true.
  std::string_view microarch() const;
  // Strongest supported ISA; not_found with the missing features when not even its architecture's weakest is there.
  Result<Isa> best_isa() const;
  // Compatibility key: changes exactly when the set of legal programs changes ("x86-64:avx,avx2,fma,..."). Never
  // contains caches, model or core counts.
  std::string key() const;
};

// Cache sizes that blocking may rely on: reported sizes clamped to what hardware has (L1 16..128 KiB, L2 128 KiB..4 MiB
// a core, L3 a share per core of at most 8 MiB); zeros and absurd values are replaced, and the source says so.
struct BlockingCaches {
  int64_t l1d = 32 << 10;
  int64_t l2 = 512 << 10;
  int64_t l3_share = 0;                          // this core's fair share; 0: no L3
  std::string l1d_source, l2_source, l3_source;  // "cpuid4", "cpuid4 clamped from 532676608", "assumed", "none"
};
BlockingCaches blocking_caches(const Machine& machine);

// HONE_CPU, when set, names a description: one of the library (cpu_library.h) or a JSON file. Its fields replace what
// is detected. Two questions, two answers; without HONE_CPU they are the same:
//
// The machine that code is about to run on. A description can only take away here: features and usable CPUs are those
// that both have, and what it is (vendor .. brand, hypervisor) stays the truth, as measurements are labelled with it.
Result<Machine> detect_machine();
// The machine that a question is about ("what would you choose there?"): as described, even with features that this CPU
// lacks. Nothing made for it may be executed.
Result<Machine> described_machine();
// Error of both: invalid_argument naming the description and the field.

// Parses a machine description (the JSON object that `hone info --json` prints under "machine").
// Fields that are absent keep the defaults of Machine. Error: invalid_argument naming the field.
Result<Machine> parse_machine_description(std::string_view json_text);

// The same for the label of a stored measurement, which another build may have written: fields that are unknown or of
// the wrong type are passed over, and text that is no JSON gives a Machine that says nothing.
Machine read_machine_label(std::string_view json_text);

// The "machine" object of `hone info --json`; parse_machine_description reads it back.
std::string machine_to_json(const Machine& machine);

}  // namespace hone
