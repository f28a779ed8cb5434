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
  Result<Machine> back = parse_machine_description(machine_to_json(m));
  ASSERT_TRUE(back.ok()) << back.status().to_string();
  EXPECT_EQ(*back, m);
}

TEST(MachineJson, HasTheFieldsOfTheContract) {
  nlohmann::json object = nlohmann::json::parse(machine_to_json(decode_cpuid(avx512_guest())));
  std::set<std::string> keys;
  for (const auto& [key, value] : object.items()) keys.insert(key);
  EXPECT_EQ(keys, (std::set<std::string>{"key", "vendor", "brand", "family", "model", "stepping", "isa", "isa_masked",
                                         "l1d", "l2", "l3", "cpus_usable", "cpus_source", "threads_per_core",
                                         "numa_nodes", "hypervisor"}));
  EXPECT_EQ(object["l2"]["bytes"], 2 << 20);
  EXPECT_EQ(object["l2"]["source"], "cpuid4");
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
