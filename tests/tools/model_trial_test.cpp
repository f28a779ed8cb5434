// A plan that costs in the whole is taken back: stored, explained, and open to a later tune.
#include "tools/hone/model_trial.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <csignal>
#include <map>
#include <nlohmann/json.hpp>

#include "autotune/recorder.h"
#include "engine/model/model.h"
#include "jit/codegen.h"
#include "kernels/op/op.h"
#include "tests/tools/needs_code.h"

namespace hone::cli_test {
namespace {

using testing::HasSubstr;

class ModelTrial : public NeedsCode {
 protected:
  void SetUp() override {
    NeedsCode::SetUp();
    if (IsSkipped()) return;
    const Outcome synth = hone({"synth", "tiny", "-o", model_, "--dtype", "f32"});
    ASSERT_EQ(synth.code, 0) << synth.err;
    Result<Machine> machine = detect_machine();
    ASSERT_TRUE(machine.ok()) << machine.status().to_string();
    machine_ = *std::move(machine);
    Result<std::unique_ptr<db::Store>> store = db::open({.path = database_});
    ASSERT_TRUE(store.ok()) << store.status().to_string();
    store_ = std::move(store).value();
  }

  // A matmul of the prompt, as it runs by default.
  executable::StepReport a_step_of_the_prompt() { return steps_of_the_prompt().at(0); }

  std::vector<executable::StepReport> steps_of_the_prompt() {
    std::map<std::string, executable::StepReport> found;
    const Result<cli::ModelSpeed> speed = cli::ModelSpeed::create(model_, {{1, false}}, options_.speed);
    EXPECT_TRUE(speed.ok()) << speed.status().to_string();
    const auto steps = ModelAccess::plan(speed->model(0)).report(options_.works[0].prompt, 0);
    EXPECT_TRUE(steps.ok());
    for (const executable::StepReport& step : *steps) {
      const Result<op::Problem> problem = op::parse_problem(step.kernel);
      const auto* matmul = problem.ok() ? std::get_if<matmul::MatmulProblem>(&*problem) : nullptr;
      if (matmul != nullptr && matmul->m == options_.works[0].prompt && !matmul->swiglu())
        found.emplace(step.kernel, step);
    }
    EXPECT_GE(found.size(), 2u) << "the prompt has too few matmuls";
    std::vector<executable::StepReport> all;
    for (auto& [kernel, step] : found) all.push_back(std::move(step));
    return all;
  }

  // The same tiles, a row and a k-step at a time: sums wait in memory. Many times slower, whatever else is running.
  static std::string slow_program(const matmul::MatmulProblem& problem, const std::string& program) {
    Result<matmul::TransformProgram> t = matmul::parse_program(program);
    EXPECT_TRUE(t.ok()) << t.status().to_string();
    t->mr = t->mc = 1;
    t->nr = t->nc = t->panel;
    t->kc = t->unroll_k = 1;
    t->prefetch_b = 0;
    t->prefetch_next = false;
    t->pack_a = matmul::PackA::kNone;
    EXPECT_TRUE(matmul::legal(problem, *t).ok()) << matmul::legal(problem, *t).message();
    return matmul::to_string(matmul::canonical(problem, *t));
  }

  // As if it had won alone.
  void store_decision(const executable::StepReport& step, const std::string& program) {
    const Result<op::Problem> problem = op::parse_problem(step.kernel);
    const db::ProblemKey key = autotune::problem_record(*problem);
    const db::Candidate fallback = candidate(step, step.plan), winner = candidate(step, program);
    const Result<int64_t> run = store_->begin_run(autotune::machine_record(machine_), autotune::build_record(),
                                                  {.cache_mode = "cold", .settings = "{}", .problem = key});
    ASSERT_TRUE(run.ok()) << run.status().to_string();
    const db::Sample slow{.order = 0, .ns = 1000, .phase = db::Phase::kConfirm},
        fast{.order = 1, .ns = 500, .phase = db::Phase::kConfirm};
    ASSERT_TRUE(store_->add_round(*run, key, {{fallback, {slow}}, {winner, {fast}}}, 0).ok());
    const db::Decision decision{.problem = key,
                                .winner = winner,
                                .fallback = fallback,
                                .ns = 500,
                                .default_ns = 1000,
                                .speedup = 2,
                                .speedup_lo = 1.9,
                                .speedup_hi = 2.1};
    ASSERT_TRUE(store_->add_decision(*run, decision).ok());
  }

  static db::Candidate candidate(const executable::StepReport& step, const std::string& program) {
    const Result<jit::CodeGenerator*> generator = jit::find_code_generator(step.codegen);
    EXPECT_TRUE(generator.ok());
    return {.program = program,
            .codegen = step.codegen,
            .codegen_version = (*generator)->version(),
            .threads = 1,
            .numerics = "ordered"};
  }

  nlohmann::json explain(const std::string& problem) const {
    const Outcome out = hone({"explain", problem, "--threads", "1", "--json"});
    EXPECT_EQ(out.code, 0) << out.err;
    return nlohmann::json::parse(out.out);
  }

  const std::string model_ = file("tiny.gguf"), database_ = file("plans.db");
  const cli::TrialOptions options_{.file = model_,
                                   .threads = 1,
                                   .speed = {.database = database_, .max_batch = 64, .context = 72},
                                   .works = {{.prompt = 64}, {.generate = 8, .depth = 64}}};
  Machine machine_;
  std::unique_ptr<db::Store> store_;
};

TEST_F(ModelTrial, APlanThatCostsIsTakenBackAndALaterTuneDecidesAnew) {
  const executable::StepReport step = a_step_of_the_prompt();
  const Result<matmul::MatmulProblem> problem = matmul::parse_problem(step.kernel);
  ASSERT_TRUE(problem.ok()) << problem.status().to_string();
  const std::string slow = slow_program(*problem, step.plan);
  store_decision(step, slow);
  ASSERT_EQ(explain(step.kernel)["plan"]["program"], slow);

  const Result<cli::TrialReport> trial = cli::try_whole(options_, *store_, machine_);
  ASSERT_TRUE(trial.ok()) << trial.status().to_string();
  ASSERT_EQ(trial->taken_back.size(), 1u);
  const cli::PlanInWhole& taken = trial->taken_back[0];
  EXPECT_EQ(taken.problem, step.kernel);
  EXPECT_EQ(taken.work, 0u);
  EXPECT_EQ(taken.program, slow);
  EXPECT_LT(taken.speedup.hi, 1);
  EXPECT_GT(taken.ns, taken.default_ns);
  EXPECT_THAT(taken.why, HasSubstr("in the whole of " + model_ + " (pp64, 1 thread(s)) the default plan is faster by"));
  ASSERT_EQ(trial->works.size(), 2u);
  EXPECT_GE(trial->works[1].tuned.size(), 3u);
  EXPECT_TRUE(trial->kept.empty());

  const nlohmann::json explained = explain(step.kernel);
  EXPECT_EQ(explained["plan"]["program"], step.plan);
  EXPECT_EQ(explained["reason"], "exact");
  EXPECT_EQ(explained["from"]["why"], taken.why);
  EXPECT_THAT(hone({"explain", step.kernel, "--threads", "1"}).out, HasSubstr("taken back: " + taken.why));
  const nlohmann::json shown = nlohmann::json::parse(hone({"db", "show", step.kernel}).out);
  ASSERT_EQ(shown.size(), 2u);  // newest first
  EXPECT_EQ(shown[0]["verdict"], "kept");
  EXPECT_EQ(shown[0]["why"], taken.why);
  EXPECT_EQ(shown[0]["candidates_measured"], 2);  // the evidence
  EXPECT_TRUE(shown[1]["why"].is_null());
  const Result<std::vector<std::string>> faults = store_->verify();
  ASSERT_TRUE(faults.ok());
  EXPECT_THAT(*faults, testing::IsEmpty());

  store_decision(step, slow);  // alone again, and newer
  EXPECT_EQ(explain(step.kernel)["plan"]["program"], slow);
}

// The problems are decided by then: the same command goes on with the whole, and measures none of them again.
TEST_F(ModelTrial, AnInterruptLosesTheRaceUnderWayAndNothingElse) {
  const std::vector<std::string> command = {"tune", "--model", model_,      "-p", "64",       "-n",   "8",
                                            "-b",   "64",      "--threads", "1",  "--budget", "1.5s", "--json"};
  const Outcome cut = hone(command, {.signal = SIGINT, .signal_at = "the whole model"});
  if (cut.code == 0) GTEST_SKIP() << "it was through before the signal came";
  ASSERT_EQ(cut.code, 130) << cut.err;
  const Outcome rest = hone(command);
  ASSERT_EQ(rest.code, 0) << rest.err;
  EXPECT_THAT(rest.err, HasSubstr("taking up the tune of"));
  std::map<std::string, nlohmann::json> decided;
  for (const std::string& line : lines_of(cut.out))
    if (const nlohmann::json row = nlohmann::json::parse(line); row.contains("problem") && row["decision"].is_string())
      decided[row["problem"]] = row["run"];
  EXPECT_FALSE(decided.empty());
  int resumed = 0, works = 0;
  for (const std::string& line : lines_of(rest.out)) {
    const nlohmann::json row = nlohmann::json::parse(line);
    works += row.contains("model") ? 1 : 0;
    if (!row.contains("problem") || !decided.contains(row["problem"])) continue;
    EXPECT_TRUE(row["resumed"].get<bool>()) << line;
    EXPECT_EQ(row["run"], decided[row["problem"]]) << line;
    ++resumed;
  }
  EXPECT_EQ(static_cast<size_t>(resumed), decided.size());
  EXPECT_EQ(works, 2);
}

TEST_F(ModelTrial, ARaceIsChargedOnce) {
  const std::vector<executable::StepReport> steps = steps_of_the_prompt();
  for (size_t i = 0; i < 2; ++i)
    store_decision(steps[i], slow_program(*matmul::parse_problem(steps[i].kernel), steps[i].plan));
  const Result<cli::TrialReport> trial = cli::try_whole(options_, *store_, machine_);
  ASSERT_TRUE(trial.ok()) << trial.status().to_string();
  EXPECT_EQ(trial->taken_back.size(), 2u);
  const Result<std::vector<db::StoredRun>> runs = store_->runs();
  ASSERT_TRUE(runs.ok());
  // Both were many times slower in the first race.
  EXPECT_EQ(std::ranges::count_if(*runs, [](const db::StoredRun& run) { return run.spent_seconds > 0; }), 1);
}

// A default plan that runs with other threads because a database says from how much work on regions pay.
TEST_F(ModelTrial, WhatRegionsChangeIsNoTunedPlan) {
  ASSERT_TRUE(store_
                  ->save_schedule({.machine = autotune::machine_record(machine_),
                                   .build = autotune::build_record(),
                                   .threads = 2,
                                   .schedule = "tbb",
                                   .min_work = 1,
                                   .fork_joins = {{"tbb", 1000, 2000, 1000, 2000}}})
                  .ok());
  cli::TrialOptions options = options_;
  options.threads = 2;
  options.works = {{.prompt = 8}, {.generate = 4, .depth = 8}};
  const Result<cli::ModelSpeed> speed = cli::ModelSpeed::create(model_, {{2, false}, {2, true}}, options.speed);
  ASSERT_TRUE(speed.ok()) << speed.status().to_string();
  const auto by_default = ModelAccess::plan(speed->model(0)).report(1, 8),
             stored = ModelAccess::plan(speed->model(1)).report(1, 8);
  ASSERT_TRUE(by_default.ok() && stored.ok());
  int other_threads = 0;
  for (size_t i = 0; i < stored->size(); ++i) {
    const executable::StepReport& was = (*by_default)[i];
    executable::StepReport is = (*stored)[i];
    const Result<op::Problem> problem = op::parse_problem(is.kernel);
    if (!problem.ok() || is.threads == was.threads) continue;
    ++other_threads;
    EXPECT_FALSE(cli::change_of(*problem, was, is).tuned) << is.kernel;
    is.reason = "exact";  // the same from a decision is one that may be taken back
    EXPECT_TRUE(cli::change_of(*problem, was, is).tuned) << is.kernel;
  }
  ASSERT_GT(other_threads, 0);

  const Result<cli::TrialReport> trial = cli::try_whole(options, *store_, machine_);
  ASSERT_TRUE(trial.ok()) << trial.status().to_string();
  EXPECT_TRUE(trial->kept.empty());
  EXPECT_TRUE(trial->taken_back.empty());
  EXPECT_TRUE(store_->all_decisions()->empty());
}

TEST_F(ModelTrial, AStoreThatForgetsGetsNoTrial) {
  const Result<std::unique_ptr<db::Store>> memory = db::open({.path = ":memory:"});
  ASSERT_TRUE(memory.ok());
  testing::internal::CaptureStderr();
  const Result<cli::TrialReport> trial = cli::try_whole(options_, **memory, machine_);
  EXPECT_THAT(testing::internal::GetCapturedStderr(), HasSubstr("is in memory"));
  ASSERT_TRUE(trial.ok()) << trial.status().to_string();
  ASSERT_EQ(trial->works.size(), 2u);
  EXPECT_TRUE(trial->works[0].tuned.empty() && trial->works[1].tuned.empty());
}

TEST(ModelTrialNote, NamesWhatIsKeptThoughItCosts) {
  autotune::PairedTimes slower{.by_default = std::vector<double>(16, 100), .tuned = std::vector<double>(16, 120)};
  autotune::PairedTimes equal{.by_default = slower.by_default, .tuned = slower.by_default};
  cli::TrialReport report{.works = {slower, equal}, .kept = {}, .taken_back = {}, .tail = 0.001};
  const cli::ModelWork work{.prompt = 64};
  EXPECT_THAT(cli::cost_note(report, 0, work), HasSubstr("pp64: the whole is slower"));
  EXPECT_THAT(cli::cost_note(report, 0, work), HasSubstr("no tuned plan of it is left"));
  EXPECT_EQ(cli::cost_note(report, 1, work), "");
  const auto kept = [](const char* problem, size_t w, double speedup) {
    cli::PlanInWhole p{.problem = problem, .work = w, .program = {}, .speedup = {}, .why = {}};
    p.speedup.mid = speedup;
    return p;
  };
  report.kept = {kept("elsewhere", 1, 0.5)};
  EXPECT_THAT(cli::cost_note(report, 0, work), HasSubstr("no tuned plan of it is left"));
  report.kept = {kept("costs", 0, 0.8), kept("gains", 0, 1.2), kept("elsewhere", 1, 0.5)};
  const std::string note = cli::cost_note(report, 0, work);
  EXPECT_THAT(note, HasSubstr("keeps 2 tuned plan(s) of it, of which these look slower: costs (0.800);"));
  EXPECT_THAT(note, testing::Not(HasSubstr("left")));
}

TEST_F(ModelTrial, WithoutTunedPlansThereIsNothingToTakeBack) {
  const Result<cli::TrialReport> trial = cli::try_whole(options_, *store_, machine_);
  ASSERT_TRUE(trial.ok()) << trial.status().to_string();
  EXPECT_TRUE(trial->taken_back.empty());
  EXPECT_EQ(trial->works.size(), 2u);
  EXPECT_TRUE(store_->all_decisions()->empty());
}

}  // namespace
}  // namespace hone::cli_test
