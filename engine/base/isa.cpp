#include "engine/base/isa.h"

#include <array>

namespace hone {
namespace {

struct FeatureRow {
  std::string_view name;
  Arch arch;
};

constexpr std::array kFeatures = {
#define HONE_FEATURE(id, name, arch) FeatureRow{name, arch},
#include "engine/base/isa.inc"
#undef HONE_FEATURE
};
static_assert(kFeatures.size() <= 64, "FeatureSet holds 64 bits");

constexpr std::array kIsas = {
#define HONE_ISA(id, ...) Isa::id,
#include "engine/base/isa.inc"
#undef HONE_ISA
};

}  // namespace

std::string_view arch_name(Arch arch) {
  switch (arch) {
    case Arch::kX86_64:
      return "x86-64";
    case Arch::kAarch64:
      return "aarch64";
    case Arch::kOther:
      return "other";
  }
  return "?";
}

std::string_view feature_name(Feature f) { return kFeatures.at(static_cast<size_t>(f)).name; }
Arch feature_arch(Feature f) { return kFeatures.at(static_cast<size_t>(f)).arch; }

std::optional<Feature> parse_feature(std::string_view name) {
  for (size_t i = 0; i < kFeatures.size(); ++i) {
    if (kFeatures[i].name == name) return static_cast<Feature>(i);
  }
  return std::nullopt;
}

std::vector<std::string> FeatureSet::names() const {
  std::vector<std::string> names;
  for (size_t i = 0; i < kFeatures.size(); ++i) {
    if (has(static_cast<Feature>(i))) names.emplace_back(kFeatures[i].name);
  }
  return names;
}

FeatureSet features_of(Arch arch) {
  FeatureSet features;
  for (size_t i = 0; i < kFeatures.size(); ++i) {
    if (kFeatures[i].arch == arch) features.add(static_cast<Feature>(i));
  }
  return features;
}

const IsaInfo& isa_info(Isa isa) {
  static const std::array kInfos = {
#define HONE_ISA(id, name, arch, bits, registers, masks, ...) \
  IsaInfo{Isa::id, name, Arch::arch, bits, registers, masks, FeatureSet{__VA_ARGS__}},
#include "engine/base/isa.inc"
#undef HONE_ISA
  };
  return kInfos.at(static_cast<size_t>(isa));
}

std::optional<Isa> parse_isa(std::string_view name) {
  for (Isa isa : kIsas) {
    if (isa_info(isa).name == name) return isa;
  }
  return std::nullopt;
}

std::span<const Isa> all_isas() { return kIsas; }

std::vector<Isa> isas_of(Arch arch) {
  std::vector<Isa> isas;
  for (Isa isa : kIsas) {
    if (isa_info(isa).arch == arch) isas.push_back(isa);
  }
  return isas;
}

}  // namespace hone
