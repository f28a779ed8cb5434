// Detection in order of trust: what the CPU says (CPUID), or what the kernel says of it (HWCAP on AArch64), first: it
// is what the code will run on, and VMs often hide sysfs. Then the OS through hwloc, then an assumption that says it is
// one. What a hypervisor reports is kept as reported; blocking_caches() is the one place that judges it.
#include "engine/base/machine.h"

#include <fmt/format.h>
#include <hwloc.h>

#include <algorithm>

#include "engine/base/core_classes.h"
#include "engine/base/cpu_library.h"
#include "engine/base/cpu_quota.h"
#include "engine/base/cpuid.h"
#include "engine/base/env.h"
#include "engine/base/hwcap.h"
#include "engine/base/log.h"
#include "engine/base/machine_internal.h"

namespace hone {
namespace {

std::string join(const std::vector<std::string>& names) {
  std::string text;
  for (const std::string& name : names) text += (text.empty() ? "" : ",") + name;
  return text;
}

void fill_cache_from_os(hwloc_topology_t topology, hwloc_obj_type_t type, CacheInfo& cache) {
  if (cache.bytes != 0) return;
  hwloc_obj_t object = hwloc_get_obj_by_type(topology, type, 0);
  if (object == nullptr || object->attr == nullptr || object->attr->cache.size == 0) return;
  cache = {.bytes = static_cast<int64_t>(object->attr->cache.size),
           .source = "hwloc",
           .shared_by = object->cpuset != nullptr ? std::max(0, hwloc_bitmap_weight(object->cpuset)) : 0};
}

// Classes by the type that the kernel or CPUID leaf 1A gives a CPU. hwloc also makes kinds of different maximum
// frequencies, which a CPU of one class has as well.
void fill_core_classes_from_os(hwloc_topology_t topology, CoreClasses& cores) {
  if (cores.all == 0) {
    cores.all = std::max(0, hwloc_bitmap_weight(hwloc_topology_get_complete_cpuset(topology)));
    cores.source = "hwloc";
  }
  if (cores.performance > 0) return;
  int performance = 0, efficient = 0;
  hwloc_bitmap_t cpus = hwloc_bitmap_alloc();
  const int kinds = hwloc_cpukinds_get_nr(topology, 0);
  for (int i = 0; cpus != nullptr && i < kinds; ++i) {
    unsigned count = 0;
    hwloc_info_s* infos = nullptr;
    if (hwloc_cpukinds_get_info(topology, static_cast<unsigned>(i), cpus, nullptr, &count, &infos, 0) != 0) continue;
    for (unsigned k = 0; k < count; ++k) {
      if (std::string_view(infos[k].name) != "CoreType") continue;
      const std::string_view type = infos[k].value;
      if (type == "IntelCore") performance += std::max(0, hwloc_bitmap_weight(cpus));
      if (type == "IntelAtom") efficient += std::max(0, hwloc_bitmap_weight(cpus));
    }
  }
  hwloc_bitmap_free(cpus);
  if (performance == 0 || efficient == 0) return;
  cores.performance = performance;
  cores.efficient = efficient;
  cores.source = "hwloc";
}

// What the OS knows: caches that CPUID left out, threads per core, NUMA nodes. Silent when hwloc cannot tell; the
// defaults of Machine (one thread, one node) are then the right reading.
void fill_from_os(Machine& machine) {
  hwloc_topology_t topology;
  if (hwloc_topology_init(&topology) != 0) return;
  if (hwloc_topology_load(topology) == 0) {
    fill_cache_from_os(topology, HWLOC_OBJ_L1CACHE, machine.l1d);
    fill_cache_from_os(topology, HWLOC_OBJ_L2CACHE, machine.l2);
    fill_cache_from_os(topology, HWLOC_OBJ_L3CACHE, machine.l3);
    if (hwloc_obj_t core = hwloc_get_obj_by_type(topology, HWLOC_OBJ_CORE, 0);
        core != nullptr && core->cpuset != nullptr) {
      machine.threads_per_core = std::max(1, hwloc_bitmap_weight(core->cpuset));
    }
    machine.numa_nodes = std::max(1, hwloc_get_nbobjs_by_type(topology, HWLOC_OBJ_NUMANODE));
    fill_core_classes_from_os(topology, machine.cores);
  }
  hwloc_topology_destroy(topology);
}

// An L1 and an L2 exist on every CPU that runs this, so a missing size is assumed; an L3 may really be absent.
void assume_missing_caches(Machine& machine) {
  const BlockingCaches assumed;
  if (machine.l1d.bytes == 0) machine.l1d = {.bytes = assumed.l1d, .source = "assumed"};
  if (machine.l2.bytes == 0) machine.l2 = {.bytes = assumed.l2, .source = "assumed"};
}

Machine read_machine() {
  Machine machine = host_arch() == Arch::kAarch64 ? decode_hwcap(read_hwcap()) : decode_cpuid(read_cpuid());
  machine.cores = read_core_classes("");
  fill_from_os(machine);
  assume_missing_caches(machine);
  UsableCpus cpus = usable_cpus(affinity_cpus(), read_cpu_quota(""));
  machine.cpus_usable = cpus.count;
  machine.cpus_source = cpus.source;
  return machine;
}

// `machine` as HONE_CPU=`name` says that it is.
Status apply_description(const std::string& name, Machine& machine) {
  const Result<std::string> text = find_cpu_description(name);
  Status status = text.status();
  if (text.ok()) status = describe_machine(*text, machine);
  if (!status.ok()) return Status(status.code(), fmt::format("HONE_CPU={}: {}", name, status.message()));
  return {};
}

struct Clamped {
  int64_t bytes;
  std::string source;
};

Clamped clamp_cache(const CacheInfo& cache, int64_t low, int64_t high, int64_t assumed) {
  if (cache.bytes <= 0) return {assumed, "assumed"};
  if (cache.bytes >= low && cache.bytes <= high) return {cache.bytes, cache.source};
  return {std::clamp(cache.bytes, low, high), fmt::format("{} clamped from {}", cache.source, cache.bytes)};
}

}  // namespace

Arch Machine::arch() const {
  for (const FeatureSet& set : {features, masked}) {
    for (const Arch arch : {Arch::kX86_64, Arch::kAarch64}) {
      if (set.intersects(features_of(arch))) return arch;
    }
  }
  return host_arch();
}

Result<Isa> Machine::best_isa() const {
  const std::vector<Isa> isas = isas_of(arch());
  if (isas.empty()) return not_found(fmt::format("hone has no instruction set for {} machines", arch_name(arch())));
  for (auto isa = isas.rbegin(); isa != isas.rend(); ++isa) {
    if (supports(*isa)) return *isa;
  }
  FeatureSet missing;
  for (const std::string& name : isa_info(isas.front()).required.names()) {
    Feature feature = *parse_feature(name);
    if (!features.has(feature)) missing.add(feature);
  }
  return not_found(fmt::format("this CPU has none of hone's instruction sets; the weakest, {}, lacks {}",
                               isa_info(isas.front()).name, join(missing.names())));
}

std::string Machine::key() const { return fmt::format("{}:{}", arch_name(arch()), join(features.names())); }

// The bounds: no core that runs AVX2 has an L1d below 16 KiB or above 128 KiB, nor an L2 outside 128 KiB .. 4 MiB. L3
// is shared, also with strangers when we are a guest (480 MiB "of ours" on a two-CPU VM), so a core relies on at most 8
// MiB.
BlockingCaches blocking_caches(const Machine& machine) {
  BlockingCaches caches;
  Clamped l1d = clamp_cache(machine.l1d, 16 << 10, 128 << 10, caches.l1d);
  Clamped l2 = clamp_cache(machine.l2, 128 << 10, 4 << 20, caches.l2);
  caches.l1d = l1d.bytes;
  caches.l1d_source = l1d.source;
  caches.l2 = l2.bytes;
  caches.l2_source = l2.source;
  if (machine.l3.bytes <= 0) {
    caches.l3_source = "none";
    return caches;
  }
  constexpr int64_t kMaxShare = 8 << 20;
  int sharers = std::max(
      1, machine.l3.shared_by > 0 ? machine.l3.shared_by / std::max(1, machine.threads_per_core) : machine.cpus_usable);
  int64_t share = machine.l3.bytes / sharers;
  caches.l3_share = std::min(share, kMaxShare);
  caches.l3_source =
      share <= kMaxShare ? machine.l3.source : fmt::format("{} clamped from {}", machine.l3.source, share);
  return caches;
}

Machine restrict_machine(const Machine& described, const Machine& real) {
  Machine machine = described;
  machine.vendor = real.vendor;
  machine.brand = real.brand;
  machine.family = real.family;
  machine.model = real.model;
  machine.stepping = real.stepping;
  machine.hypervisor = real.hypervisor;
  machine.features = real.features.both(described.features);
  machine.masked = real.masked;
  for (const std::string& name : real.features.without(described.features).names())
    machine.masked.add(*parse_feature(name));
  if (real.cpus_usable < described.cpus_usable) {
    machine.cpus_usable = real.cpus_usable;
    machine.cpus_source = real.cpus_source;
  }
  return machine;
}

Result<Machine> detect_machine() {
  const Machine real = read_machine();
  const std::optional<std::string> description = env("HONE_CPU");
  if (!description) return real;
  Machine described = real;
  HONE_RETURN_IF_ERROR(apply_description(*description, described));
  Machine machine = restrict_machine(described, real);
  HONE_LOG_EVENT(LogTopic::kDispatch, "cpu_override",
                 {{"cpu", *description},
                  {"key", machine.key()},
                  {"lacking", join(described.features.without(machine.features).names())}});
  return machine;
}

Result<Machine> described_machine() {
  Machine machine = read_machine();
  if (const std::optional<std::string> description = env("HONE_CPU"))
    HONE_RETURN_IF_ERROR(apply_description(*description, machine));
  return machine;
}

}  // namespace hone
