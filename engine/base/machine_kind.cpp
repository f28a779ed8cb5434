#include "engine/base/machine_kind.h"

#include <fmt/format.h>

#include <array>
#include <tuple>

namespace hone {
namespace {

struct MicroarchRow {
  std::string_view name, vendor;
  int family, first_model, last_model, first_stepping, last_stepping;
  FeatureSet never;
};

const auto& microarch_rows() {
  static const std::array kRows = {
#define HONE_MICROARCH(name, vendor, family, first, last, first_stepping, last_stepping, ...) \
  MicroarchRow{name, vendor, family, first, last, first_stepping, last_stepping, FeatureSet{__VA_ARGS__}},
#include "engine/base/microarch.inc"
#undef HONE_MICROARCH
  };
  return kRows;
}

auto identity(const MachineKind& k) { return std::tie(k.vendor, k.family, k.model); }

std::string describe(const MachineKind& k) {
  if (k.vendor.empty()) return "a machine that does not say what it is";
  const std::string numbers = fmt::format("{} family {} model {}", k.vendor, k.family, k.model);
  return k.microarch.empty() ? numbers : fmt::format("{} ({})", k.microarch, numbers);
}

}  // namespace

std::string_view Machine::microarch() const {
  for (const MicroarchRow& row : microarch_rows()) {
    if (vendor != row.vendor || family != row.family || model < row.first_model || model > row.last_model) continue;
    if (stepping < row.first_stepping || stepping > row.last_stepping) continue;
    return features.intersects(row.never) || masked.intersects(row.never) ? std::string_view() : row.name;
  }
  return {};
}

bool MachineKind::operator==(const MachineKind& other) const {
  return identity(*this) == identity(other) && l1d == other.l1d && l2 == other.l2;
}

MachineKind kind_of(const Machine& machine) {
  const BlockingCaches caches = blocking_caches(machine);
  return {.vendor = machine.vendor,
          .family = machine.family,
          .model = machine.model,
          .l1d = caches.l1d,
          .l2 = caches.l2,
          .microarch = std::string(machine.microarch())};
}

std::string kind_difference(const MachineKind& there, const MachineKind& here) {
  if (there == here) return "";
  std::string difference;
  auto add = [&](const std::string& what) { difference += (difference.empty() ? "" : "; ") + what; };
  if (identity(there) != identity(here))
    add(fmt::format("measured on {}, this is {}", describe(there), describe(here)));
  if (there.l1d != here.l1d) add(fmt::format("measured with {} KiB of L1d, here {}", there.l1d >> 10, here.l1d >> 10));
  if (there.l2 != here.l2) add(fmt::format("measured with {} KiB of L2, here {}", there.l2 >> 10, here.l2 >> 10));
  return difference;
}

}  // namespace hone
