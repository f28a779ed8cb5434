#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <set>

#include "engine/base/machine.h"
#include "tests/engine/base/cpuid_fixture_internal.h"

namespace hone {
namespace {

using testing::HasSubstr;

TEST(MachineJson, RoundTrips) {
  Machine m = decode_cpuid(avx512_guest());
  m.masked.add(Feature::kAmxTile);
  m.features.remove(Feature::kAmxTile);
  m.brand = "Example \"CPU\" @ 2.0GHz";
  m.cpus_usable = 7;
  m.cpus_source = "cgroup2 quota 7.65";
  m.threads_per_core = 2;
  m.numa_nodes = 4;
  m.cores = {.all = 12, .performance = 8, .efficient = 4, .source = "sysfs"};
  Result<Machine> back = parse_machine_description(machine_to_json(m));
  ASSERT_TRUE(back.ok()) << back.status().to_string();
  EXPECT_EQ(*back, m);
}

TEST(MachineJson, HasTheFieldsOfTheContract) {
  nlohmann::json object = nlohmann::json::parse(machine_to_json(decode_cpuid(avx512_guest())));
  std::set<std::string> keys;
  for (const auto& [key, value] : object.items()) keys.insert(key);
  EXPECT_EQ(keys, (std::set<std::string>{"key", "vendor", "brand", "family", "model", "stepping", "isa", "isa_masked",
                                         "microarch", "core_classes", "l1d", "l2", "l3", "cpus_usable", "cpus_source",
                                         "threads_per_core", "numa_nodes", "hypervisor"}));
  EXPECT_EQ(object["l2"]["bytes"], 2 << 20);
  EXPECT_EQ(object["l2"]["source"], "cpuid4");
}

// As the first version of hone stored it, before there were core classes and a microarchitecture.
TEST(MachineJson, OldLabelsStillParse) {
  const char* label =
      R"({"key": "x86-64:avx,avx2", "vendor": "AuthenticAMD", "brand": "Ryzen", "family": 25, "model": 97,
    "stepping": 2, "isa": ["avx", "avx2"], "isa_masked": [], "l1d": {"bytes": 32768, "source": "cpuid8000001d",
    "shared_by": 2}, "l2": {"bytes": 1048576, "source": "hwloc"}, "l3": {"bytes": 0, "source": ""}, "cpus_usable": 4,
    "cpus_source": "affinity", "threads_per_core": 2, "numa_nodes": 1, "hypervisor": ""})";
  Result<Machine> strict = parse_machine_description(label);
  ASSERT_TRUE(strict.ok()) << strict.status().to_string();
  EXPECT_EQ(strict->cores, CoreClasses{});
  EXPECT_EQ(strict->microarch(), "zen4");
  EXPECT_EQ(read_machine_label(label), *strict);
}

// A label may come from a later build; what can be read of it counts.
TEST(MachineJson, LabelsAreReadForWhatTheyAreWorth) {
  Machine m = read_machine_label(
      R"({"vendor": "V", "quantum_units": 3, "family": "six", "model": 7, "isa": ["avx2", "avx9"], "l2": {"bytes": 65536}})");
  EXPECT_EQ(m.vendor, "V");
  EXPECT_EQ(m.family, 0);
  EXPECT_EQ(m.model, 7);
  EXPECT_EQ(m.l2.bytes, 65536);
  for (const char* nothing : {"", "{", "[]", "null", "{}", R"({"machine": 3})", "\xff"})
    EXPECT_EQ(read_machine_label(nothing), Machine{}) << nothing;
}

TEST(MachineJson, ReadsTheWholeOutputOfInfo) {
  Result<Machine> m = parse_machine_description(R"({"machine": {"vendor": "V"}, "peak": {"f32_gflops_1t": 200}})");
  ASSERT_TRUE(m.ok());
  EXPECT_EQ(m->vendor, "V");
}

TEST(MachineJson, ErrorsNameTheField) {
  struct Case {
    const char* text;
    const char* names;
  };
  for (const Case& c : std::initializer_list<Case>{
           {"", "not valid JSON"},
           {"{", "not valid JSON"},
           {"[]", "an object"},
           {R"({"machine": 3})", "'machine'"},
           {R"({"vendor": 3})", "'vendor'"},
           {R"({"family": "6"})", "'family'"},
           {R"({"family": 6.5})", "'family'"},
           {R"({"model": -1})", "'model'"},
           {R"({"model": 99999999999})", "'model'"},
           {R"({"model": 18446744073709551615})", "'model'"},
           {R"({"isa": "avx2"})", "'isa'"},
           {R"({"isa": [1]})", "'isa'"},
           {R"({"isa_masked": ["sse9"]})", "'sse9'"},
           {R"({"l1d": 32768})", "'l1d'"},
           {R"({"l1d": {"bytes": "32K"}})", "'l1d.bytes'"},
           {R"({"l2": {"bytes": -1}})", "'l2.bytes'"},
           {R"({"l2": {"size": 1}})", "'l2.size'"},
           {R"({"cpus_usable": 0})", "'cpus_usable'"},
           {R"({"threads": 2})", "'threads'"},
           {R"({"core_classes": 8})", "'core_classes'"},
           {R"({"core_classes": {"all": -1}})", "'core_classes.all'"},
           {R"({"core_classes": {"big": 1}})", "'core_classes.big'"},
           {R"({"source": 1})", "'source'"},
       }) {
    Result<Machine> m = parse_machine_description(c.text);
    ASSERT_FALSE(m.ok()) << c.text;
    EXPECT_EQ(m.status().code(), Code::kInvalidArgument);
    EXPECT_THAT(m.status().message(), HasSubstr(c.names)) << c.text;
    EXPECT_EQ(m.status().message().find('\n'), std::string::npos);
  }
}

}  // namespace
}  // namespace hone
