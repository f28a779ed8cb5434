// hone db learn: trains on what is stored, keeps what is better, and says why when there is nothing to keep.
#include <gmock/gmock.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "autotune/learn/features.h"
#include "autotune/learn/ranker.h"
#include "tests/autotune/learn/learn_testing.h"
#include "tests/tools/run_hone.h"
#include "tests/tools/scratch.h"

namespace hone::cli_test {
namespace {

namespace fs = std::filesystem;
using autotune::MeasuredGroup;
using Json = nlohmann::json;
using testing::HasSubstr;

class Learn : public Scratch {
 protected:
  Outcome learn(const std::vector<std::string>& more = {}) {
    std::vector<std::string> args = {"db", "learn", "--db", file("a.db")};
    args.insert(args.end(), more.begin(), more.end());
    return run_hone(args);
  }

  // One round of each group, as a run of this machine.
  void store(const std::vector<MeasuredGroup>& groups) {
    const Result<Machine> machine = detect_machine();
    ASSERT_TRUE(machine.ok()) << machine.status().message();
    const auto store = db::open({.path = file("a.db")}).value();
    for (const MeasuredGroup& g : groups) {
      const db::ProblemKey key{.text = matmul::to_string(g.problem), .family = "f", .m = g.problem.m};
      const int64_t run = store
                              ->begin_run({.key = machine->key(), .label = "{}"}, {.engine = "hone", .codegens = "x=1"},
                                          {.cache_mode = "cold", .settings = "{}", .problem = key})
                              .value();
      std::vector<db::SampleGroup> samples;
      for (const autotune::MeasuredCandidate& m : g.candidates) {
        const db::Candidate c{
            .program = op::to_string(m.candidate.program), .codegen = "asmjit", .codegen_version = "1"};
        samples.push_back({c,
                           {{.round = 0,
                             .order = static_cast<int>(samples.size()),
                             .ns = static_cast<int64_t>(1e6 * std::exp(m.log_ratio)) + 1}}});
      }
      const Status s = store->add_round(run, key, samples, 0);
      ASSERT_TRUE(s.ok()) << s.message();
    }
  }

  bool has_library() {
    if (autotune::ranker_available().ok()) return true;
    const Outcome outcome = learn();
    EXPECT_EQ(outcome.code, 1);
    EXPECT_THAT(outcome.err, HasSubstr("this build has no learned ranker: install libxgboost-dev and build again"));
    return false;
  }
};

TEST_F(Learn, KeepsAModelThatIsBetterOnHeldOutProblems) {
  if (!has_library()) return;
  store(autotune::law_groups(4));
  const Outcome outcome = learn({"--json"});
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_THAT(outcome.err, HasSubstr("stored: ranker 1"));
  const Json json = Json::parse(outcome.out);
  EXPECT_EQ(json["held_out"].size(), 5u);
  EXPECT_TRUE(json["stored"].get<bool>());
  EXPECT_GT(json["learned"]["correlation"].get<double>(), json["analytical"]["correlation"].get<double>());
  for (const Json& p : json["held_out"]) EXPECT_GE(p["candidates"].get<int>(), 16) << p;
  const auto store = db::open({.path = file("a.db")}).value();
  const auto ranker = store->newest_ranker(json["machine_key"], autotune::features_version());
  ASSERT_TRUE(ranker.ok() && ranker->has_value());
  EXPECT_EQ((*ranker)->problems, 5);
  EXPECT_EQ((*ranker)->correlation, json["learned"]["correlation"].get<double>());
  const Outcome people = learn();
  EXPECT_THAT(people.out, HasSubstr("| matmul:f32:m=64,n=512,k=512 "));
  EXPECT_THAT(people.out, HasSubstr("| all "));
}

TEST_F(Learn, KeepsNothingWhereTheAnalyticalOrderIsRight) {
  if (!has_library()) return;
  std::vector<MeasuredGroup> groups = autotune::law_groups(10);
  for (MeasuredGroup& g : groups) {
    // As read back: the machine of an empty label, with the default rates.
    g.machine = autotune::cost_machine({}, {}, true);
    double first = 0;
    for (autotune::MeasuredCandidate& m : g.candidates) {
      const double ns = estimate(g.problem, matmul_of(m.candidate), m.candidate.threads, g.machine).total;
      if (first == 0) first = ns;
      m.log_ratio = std::log(ns / first);
    }
  }
  store(groups);
  const Outcome outcome = learn();
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_THAT(outcome.err, HasSubstr("kept: "));
  const auto store = db::open({.path = file("a.db")}).value();
  EXPECT_FALSE(store->newest_ranker(detect_machine()->key(), autotune::features_version())->has_value());
}

TEST_F(Learn, TooLittleIsOneLineAndMakesNoFile) {
  if (!has_library()) return;
  Outcome outcome = learn();
  EXPECT_EQ(outcome.code, 1);
  EXPECT_THAT(outcome.err, HasSubstr("0 problem(s) with at least 16 measured candidates, 3 are needed"));
  EXPECT_FALSE(fs::exists(file("a.db")));
  store({autotune::law_group("matmul:f32:m=64,n=512,k=512", 10)});
  outcome = learn();
  EXPECT_EQ(outcome.code, 1);
  EXPECT_THAT(outcome.err, HasSubstr("1 problem(s)"));
  EXPECT_EQ(outcome.out, "");
}

// As a file of a newer hone is, which opens for reading only, for root too.
TEST_F(Learn, ReadOnlyIsRefusedBeforeTheWork) {
  if (!has_library()) return;
  store(autotune::law_groups(20));
  {
    std::fstream f(file("a.db"), std::ios::in | std::ios::out | std::ios::binary);
    const char version[] = {0, 0, 0, 99};
    f.seekp(60);  // user_version in the header of SQLite
    f.write(version, sizeof version);
  }
  const Outcome outcome = learn();
  EXPECT_EQ(outcome.code, 1);
  EXPECT_THAT(outcome.err, HasSubstr("a model cannot be kept"));
}

TEST_F(Learn, BadOptionsAndFiles) {
  if (!has_library()) return;
  EXPECT_EQ(learn({"--output", "xml"}).code, 2);
  EXPECT_EQ(run_hone({"db", "learn", "--db", ""}).code, 2);
  std::ofstream(file("a.db")) << "SQLite format 3 and then nonsense";
  EXPECT_EQ(learn().code, 1);
}

// A model that is damaged costs nobody a tune: the analytical order takes its place, and the log says why.
TEST_F(Learn, TuneIgnoresADamagedModel) {
  if (!has_library()) return;
  const Result<Machine> machine = detect_machine();
  ASSERT_TRUE(machine.ok());
  if (!machine->best_isa().ok()) GTEST_SKIP() << machine->best_isa().status().message();
  ASSERT_TRUE(db::open({.path = file("a.db")})
                  .value()
                  ->save_ranker({.machine_key = machine->key(),
                                 .features = autotune::features_version(),
                                 .model = "hone ranker 1 47 0000000000000000\nxx"})
                  .ok());
  const Outcome outcome = run_hone({"tune", "matmul:f32:m=1,n=8,k=8", "--budget", "200ms", "--threads", "1",
                                    "--codegen", "interp", "--db", file("a.db"), "--json"},
                                   {.env = {{"HONE_LOG", "tune"}}});
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_THAT(outcome.err, HasSubstr("order=analytical"));
  EXPECT_THAT(outcome.err, HasSubstr("the model is damaged"));
  EXPECT_EQ(Json::parse(outcome.out.substr(0, outcome.out.find('\n')))["order"], "analytical");
}

}  // namespace
}  // namespace hone::cli_test
