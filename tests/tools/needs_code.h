// For tests of commands that compile: skipped where hone emits code for nothing that this CPU, or the one that HONE_CPU
// describes (for trying the tests as if on another CPU), has.
#pragma once

#include <cstdlib>
#include <nlohmann/json.hpp>

#include "tests/tools/run_hone.h"
#include "tests/tools/scratch.h"

namespace hone::cli_test {

class NeedsCode : public Scratch {
 protected:
  void SetUp() override {
    const Outcome info = hone({"info", "--json"});
    ASSERT_EQ(info.code, 0) << info.err;
    const nlohmann::json parsed = nlohmann::json::parse(info.out);
    for (const nlohmann::json& codegen : parsed["codegens"])
      if (!codegen["isa"].empty()) return;
    GTEST_SKIP() << "hone has no code for this CPU: it needs AVX2 and FMA";
  }

  // With a database in the test's folder, unless `setting` names one.
  Outcome hone(const std::vector<std::string>& args, Setting setting = {}) const {
    setting.env.try_emplace("HONE_DB", file("plans.db"));
    if (const char* cpu = std::getenv("HONE_CPU")) setting.env.try_emplace("HONE_CPU", cpu);
    return run_hone(args, setting);
  }
};

}  // namespace hone::cli_test
