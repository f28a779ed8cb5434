// Machine as JSON, both ways. The reader is strict: a description exists to make a test mean something, so a misspelt
// field or feature that was skipped in silence would leave a test that tests nothing.
#include <fmt/format.h>

#include <cstdint>
#include <limits>
#include <nlohmann/json.hpp>

#include "engine/base/machine.h"
#include "engine/base/machine_internal.h"
#include "engine/base/printable.h"

namespace hone {
namespace {

using nlohmann::json;
using nlohmann::ordered_json;

// Of a value in a message. What holds other values is not printed: a hostile text may be nested millions deep, and
// printing recurses.
constexpr size_t kShown = 40;
// The deepest field, core_classes of a machine of `hone info --json`, is at 3.
constexpr int kMaxDepth = 16;

std::string wrong_type(const std::string& field, std::string_view wanted, const json& value) {
  if (value.is_structured()) return fmt::format("field '{}' must be {}, got an {}", field, wanted, value.type_name());
  std::string got = value.dump(-1, ' ', true, json::error_handler_t::replace);
  if (got.size() > kShown) got = got.substr(0, kShown) + "...";
  return fmt::format("field '{}' must be {}, got {}", field, wanted, got);
}

Status read_text(const json& value, const std::string& field, std::string& out) {
  if (!value.is_string()) return invalid_argument(wrong_type(field, "a string", value));
  out = value.get<std::string>();
  return {};
}

template <typename Int>
Status read_integer(const json& value, const std::string& field, int64_t low, Int& out) {
  constexpr auto kMax = static_cast<uint64_t>(std::numeric_limits<Int>::max());
  bool fits = value.is_number_integer() && (value.is_number_unsigned() ? value.get<uint64_t>() <= kMax : true);
  if (!fits || value.get<int64_t>() < low) {
    return invalid_argument(wrong_type(field, fmt::format("an integer from {} to {}", low, kMax), value));
  }
  out = static_cast<Int>(value.get<int64_t>());
  return {};
}

Status read_features(const json& value, const std::string& field, FeatureSet& out) {
  if (!value.is_array()) return invalid_argument(wrong_type(field, "an array of feature names", value));
  FeatureSet features;
  for (const json& entry : value) {
    std::string name;
    HONE_RETURN_IF_ERROR(read_text(entry, field, name));
    std::optional<Feature> feature = parse_feature(name);
    if (!feature) {
      return invalid_argument(fmt::format("field '{}' has the unknown feature '{}'; `hone info` lists the known names",
                                          field, printable(name, kShown)));
    }
    features.add(*feature);
  }
  out = features;
  return {};
}

Status read_cache(const json& value, const std::string& field, CacheInfo& out) {
  if (!value.is_object())
    return invalid_argument(wrong_type(field, "an object {\"bytes\": .., \"source\": ..}", value));
  CacheInfo cache{.source = "description"};
  for (const auto& [key, entry] : value.items()) {
    std::string name = field + "." + key;
    if (key == "bytes") {
      HONE_RETURN_IF_ERROR(read_integer(entry, name, 0, cache.bytes));
    } else if (key == "source") {
      HONE_RETURN_IF_ERROR(read_text(entry, name, cache.source));
    } else if (key == "shared_by") {
      HONE_RETURN_IF_ERROR(read_integer(entry, name, 0, cache.shared_by));
    } else {
      return invalid_argument(fmt::format("unknown field '{}'; known: bytes, source, shared_by", printable(name)));
    }
  }
  out = cache;
  return {};
}

Status read_cores(const json& value, const std::string& field, CoreClasses& out) {
  if (!value.is_object()) return invalid_argument(wrong_type(field, "an object {\"all\": .., \"source\": ..}", value));
  CoreClasses cores{.source = "description"};
  for (const auto& [key, entry] : value.items()) {
    std::string name = field + "." + key;
    if (key == "all") {
      HONE_RETURN_IF_ERROR(read_integer(entry, name, 0, cores.all));
    } else if (key == "performance") {
      HONE_RETURN_IF_ERROR(read_integer(entry, name, 0, cores.performance));
    } else if (key == "efficient") {
      HONE_RETURN_IF_ERROR(read_integer(entry, name, 0, cores.efficient));
    } else if (key == "source") {
      HONE_RETURN_IF_ERROR(read_text(entry, name, cores.source));
    } else {
      return invalid_argument(
          fmt::format("unknown field '{}'; known: all, performance, efficient, source", printable(name)));
    }
  }
  out = cores;
  return {};
}

Status read_field(const std::string& key, const json& value, Machine& m) {
  std::string ignored;
  if (key == "key") return read_text(value, key, ignored);        // follows from isa[]
  if (key == "microarch") return read_text(value, key, ignored);  // follows from vendor, family, model, stepping
  if (key == "source") return read_text(value, key, ignored);     // where a description comes from, for people
  if (key == "vendor") return read_text(value, key, m.vendor);
  if (key == "brand") return read_text(value, key, m.brand);
  if (key == "family") return read_integer(value, key, 0, m.family);
  if (key == "model") return read_integer(value, key, 0, m.model);
  if (key == "stepping") return read_integer(value, key, 0, m.stepping);
  if (key == "isa") return read_features(value, key, m.features);
  if (key == "isa_masked") return read_features(value, key, m.masked);
  if (key == "l1d") return read_cache(value, key, m.l1d);
  if (key == "l2") return read_cache(value, key, m.l2);
  if (key == "l3") return read_cache(value, key, m.l3);
  if (key == "cpus_usable") return read_integer(value, key, 1, m.cpus_usable);
  if (key == "cpus_source") return read_text(value, key, m.cpus_source);
  if (key == "threads_per_core") return read_integer(value, key, 1, m.threads_per_core);
  if (key == "core_classes") return read_cores(value, key, m.cores);
  if (key == "numa_nodes") return read_integer(value, key, 1, m.numa_nodes);
  if (key == "hypervisor") return read_text(value, key, m.hypervisor);
  return invalid_argument(
      fmt::format("unknown field '{}'; the fields are those of `hone info --json`", printable(key)));
}

// No machine has features of two architectures.
Status check_architecture(const Machine& m) {
  const FeatureSet own = features_of(m.arch());
  for (const auto& [field, set] : {std::pair("isa", m.features), std::pair("isa_masked", m.masked)}) {
    const FeatureSet strange = set.without(own);
    if (strange == FeatureSet{}) continue;
    return invalid_argument(fmt::format("field '{}' has '{}', which is no feature of {} machines as the others are",
                                        field, strange.names().front(), arch_name(m.arch())));
  }
  return {};
}

// A label is read for what it is worth; a description has to be right.
enum class Reading : uint8_t { kStrict, kLenient };

Status read_description(std::string_view json_text, Reading reading, Machine& machine) {
  bool too_deep = false;
  const auto keep = [&](int depth, json::parse_event_t, json&) {
    too_deep = too_deep || depth > kMaxDepth;
    return !too_deep;
  };
  json parsed = json::parse(json_text, keep, /*allow_exceptions=*/false);
  if (too_deep) return invalid_argument("machine description is nested too deep");
  if (parsed.is_discarded()) return invalid_argument("machine description is not valid JSON");
  if (!parsed.is_object()) return invalid_argument(wrong_type("(top level)", "an object", parsed));
  // All that `hone info --json` prints is accepted too; the machine is one field of it.
  auto nested = parsed.find("machine");
  const json& object = nested != parsed.end() ? *nested : parsed;
  if (!object.is_object()) return invalid_argument(wrong_type("machine", "an object", object));
  Machine read = machine;
  if (object.contains("cpus_usable") && !object.contains("cpus_source")) read.cpus_source = "description";
  for (const auto& [key, value] : object.items()) {
    Status status = read_field(key, value, read);
    if (!status.ok() && reading == Reading::kStrict) return status;
  }
  // What is masked here says nothing of a machine of another architecture.
  if (object.contains("isa") && !object.contains("isa_masked"))
    read.masked = read.masked.both(features_of(read.arch()));
  if (reading == Reading::kStrict) HONE_RETURN_IF_ERROR(check_architecture(read));
  machine = std::move(read);
  return {};
}

ordered_json cache_to_json(const CacheInfo& cache) {
  ordered_json object = {{"bytes", cache.bytes}, {"source", cache.source}};
  if (cache.shared_by > 0) object["shared_by"] = cache.shared_by;
  return object;
}

}  // namespace

Result<Machine> parse_machine_description(std::string_view json_text) {
  Machine machine;
  HONE_RETURN_IF_ERROR(read_description(json_text, Reading::kStrict, machine));
  return machine;
}

Machine read_machine_label(std::string_view json_text) {
  Machine machine;
  // Text that says nothing leaves a machine that is of no known kind.
  (void)read_description(json_text, Reading::kLenient, machine);
  return machine;
}

Status describe_machine(std::string_view json_text, Machine& machine) {
  return read_description(json_text, Reading::kStrict, machine);
}

std::string machine_to_json(const Machine& m) {
  ordered_json object = {{"key", m.key()},
                         {"vendor", m.vendor},
                         {"brand", m.brand},
                         {"family", m.family},
                         {"model", m.model},
                         {"stepping", m.stepping},
                         {"microarch", m.microarch()},
                         {"isa", m.features.names()},
                         {"isa_masked", m.masked.names()},
                         {"l1d", cache_to_json(m.l1d)},
                         {"l2", cache_to_json(m.l2)},
                         {"l3", cache_to_json(m.l3)},
                         {"cpus_usable", m.cpus_usable},
                         {"cpus_source", m.cpus_source},
                         {"threads_per_core", m.threads_per_core},
                         {"core_classes",
                          {{"all", m.cores.all},
                           {"performance", m.cores.performance},
                           {"efficient", m.cores.efficient},
                           {"source", m.cores.source}}},
                         {"numa_nodes", m.numa_nodes},
                         {"hypervisor", m.hypervisor}};
  return object.dump(2, ' ', false, ordered_json::error_handler_t::replace);
}

}  // namespace hone
