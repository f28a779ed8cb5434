// A database with decisions as the tuner of this machine and build would have stored them.
#pragma once

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdio>
#include <string>

#include "db/store.h"
#include "engine/base/machine.h"
#include "engine/plan/resolver.h"
#include "hone/engine.hpp"
#include "kernels/op/op.h"

namespace hone::testing_api {

class DatabaseTest : public ::testing::Test {
 protected:
  void SetUp() override {
    target_ = plan::make_target(detect_machine().value(), 2, jit::compiling_generators());
    if (target_.codegens.empty()) GTEST_SKIP() << "no code generator can run here";
  }
  void TearDown() override {
    for (const char* suffix : {"", "-wal", "-shm"}) std::remove((path_ + suffix).c_str());
  }

  void store(const std::string& problem_text, const std::string& program_text, int threads = 1,
             const std::string& numerics = "ordered", double ns = 1000) {
    const op::Problem p = op::parse_problem(problem_text).value();
    Result<std::unique_ptr<db::Store>> db = db::open({.path = path_});
    ASSERT_TRUE(db.ok()) << db.status().to_string();
    Result<int64_t> run = (*db)->begin_run({.key = target_.key, .label = machine_to_json(detect_machine().value())},
                                           {.engine = target_.engine, .codegens = ""},
                                           {.seed = 1, .cache_mode = "warm", .noise_bound = 0.01, .settings = "{}"});
    ASSERT_TRUE(run.ok()) << run.status().to_string();
    db::Decision d;
    d.problem = {.text = op::to_string(p), .family = op::family(p), .m = op::rows(p)};
    d.winner = {.program = program_text,
                .codegen = target_.codegens[0].name,
                .codegen_version = target_.codegens[0].version,
                .threads = threads,
                .numerics = numerics};
    d.fallback = d.winner;
    d.ns = d.default_ns = ns;
    ASSERT_TRUE((*db)->add_decision(*run, d).ok());
  }

  // How regions of 2 threads were found to run best on this machine.
  void store_schedule(const std::string& kind, int64_t min_work) {
    const db::ScheduleChoice choice{
        .machine = {.key = target_.key, .label = machine_to_json(detect_machine().value())},
        .build = {.engine = target_.engine, .codegens = ""},
        .threads = 2,
        .schedule = kind,
        .min_work = min_work,
        .fork_joins = {{kind, 1, 2, 3, 4}},
    };
    ASSERT_TRUE((*db::open({.path = path_}))->save_schedule(choice).ok());
  }

  Engine engine() const { return Engine::create({.database = path_, .threads = 2}).value(); }

  plan::Target target_;
  std::string path_ = ::testing::TempDir() + "hone_engine_" + std::to_string(getpid()) + ".db";
};

}  // namespace hone::testing_api
