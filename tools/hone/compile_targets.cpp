// Which machines hone compile compiles for.
#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "engine/base/cpu_library.h"
#include "tools/hone/compile.h"

namespace hone::cli {
namespace {

// LLVM's names of the CPUs that hone has a description of: where caches and tuned plans of a named CPU are looked up.
struct Described {
  std::string_view mcpu, description;
};
constexpr Described kDescribed[] = {
    {"znver2", "zen2"},
    {"znver3", "zen3"},
    {"znver4", "zen4"},
    {"znver5", "zen5"},
    {"skylake-avx512", "skylake_x"},
    {"icelake-server", "ice_lake"},
    {"sapphirerapids", "sapphire_rapids"},
    {"alderlake", "alder_lake"},
    {"neoverse-n1", "neoverse_n1"},
    {"cortex-a72", "cortex_a72"},
};

Result<std::vector<Isa>> parse_isas(const std::string& text) {
  std::vector<Isa> isas;
  std::string names;
  for (const Isa isa : all_isas()) names += fmt::format("{}{}", names.empty() ? "" : ", ", isa_info(isa).name);
  for (const std::string& name : CLI::detail::split(text, ',')) {
    const std::optional<Isa> isa = parse_isa(name);
    if (!isa) return invalid_argument(fmt::format("--isa: '{}' is none of {}", name, names));
    isas.push_back(*isa);
  }
  return isas;
}

}  // namespace

Result<Machine> machine_of(const jit::AotTarget& target, const Machine& here) {
  Machine machine = here;
  for (const Described& d : kDescribed) {
    if (d.mcpu != target.mcpu) continue;
    HONE_ASSIGN_OR_RETURN(const std::string text, find_cpu_description(std::string(d.description)));
    HONE_ASSIGN_OR_RETURN(machine, parse_machine_description(text));
  }
  const Result<Isa> best = machine.best_isa();
  if (!best.ok() || *best != target.isa) machine.features = isa_info(target.isa).required;
  // Without a description these are the features of the machine that compiles.
  if (!target.optional.has(Feature::kAvx512Bf16)) machine.features.remove(Feature::kAvx512Bf16);
  return machine;
}

Result<std::vector<jit::AotTarget>> targets_of(const CompileArgs& args, const FeatureSet& host) {
  std::vector<jit::AotTarget> targets;
  const auto add = [&](const Result<jit::AotTarget>& target) -> Status {
    HONE_RETURN_IF_ERROR(target.status());
    if (std::find(targets.begin(), targets.end(), *target) == targets.end()) targets.push_back(*target);
    return {};
  };
  for (const std::string& mcpu : CLI::detail::split(args.mcpu, ',')) {
    if (args.isa.empty()) {
      HONE_RETURN_IF_ERROR(add(jit::aot_target(mcpu, host)));
      continue;
    }
    HONE_ASSIGN_OR_RETURN(const std::vector<Isa> isas, parse_isas(args.isa));
    for (const Isa isa : isas) HONE_RETURN_IF_ERROR(add(jit::aot_target(mcpu, host, &isa)));
  }
  return targets;
}

}  // namespace hone::cli
