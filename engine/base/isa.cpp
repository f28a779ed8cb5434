#include "engine/base/isa.h"

#include <array>

namespace hone {
namespace {

constexpr std::array kFeatureNames = {
#define HONE_FEATURE(id, name, ...) std::string_view(name),
#include "engine/base/isa.inc"
#undef HONE_FEATURE
};
static_assert(kFeatureNames.size() <= 64, "FeatureSet holds 64 bits");

constexpr std::array kIsas = {
#define HONE_ISA(id, ...) Isa::id,
#include "engine/base/isa.inc"
#undef HONE_ISA
};

}  // namespace

std::string_view feature_name(Feature f) { return kFeatureNames.at(static_cast<size_t>(f)); }

std::optional<Feature> parse_feature(std::string_view name) {
  for (size_t i = 0; i < kFeatureNames.size(); ++i) {
    if (kFeatureNames[i] == name) return static_cast<Feature>(i);
  }
  return std::nullopt;
}

std::vector<std::string> FeatureSet::names() const {
  std::vector<std::string> names;
  for (size_t i = 0; i < kFeatureNames.size(); ++i) {
    if (has(static_cast<Feature>(i))) names.emplace_back(kFeatureNames[i]);
  }
  return names;
}

const IsaInfo& isa_info(Isa isa) {
  static const std::array kInfos = {
#define HONE_ISA(id, name, bits, registers, masks, ...) \
  IsaInfo{Isa::id, name, bits, registers, masks, FeatureSet{__VA_ARGS__}},
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

}  // namespace hone
