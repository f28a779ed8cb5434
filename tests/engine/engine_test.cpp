// The public C++ API: specs, plans with their reasons, databases.
#include <gmock/gmock.h>
#include <sys/resource.h>

#include <algorithm>
#include <cstdio>
#include <fstream>

#include "db/store.h"
#include "engine/base/log.h"
#include "engine/base/machine.h"
#include "engine/plan/resolver.h"
#include "engine/ready_plan_internal.h"
#include "engine/runtime/trace.h"
#include "kernels/matmul/program.h"
#include "tests/engine/api_util.h"
#include "tests/engine/database_util.h"

namespace hone {
namespace {

using ::testing::HasSubstr;
using testing_api::check;
using testing_api::Operands;

class EngineWithDatabase : public testing_api::DatabaseTest {
 protected:
  std::string program(int64_t mr, int64_t nr, int64_t unroll_k = 1) const {
    const Isa isa = Isa::kAvx2;
    matmul::TransformProgram p{.isa = isa, .lanes = 8, .mr = mr, .nr = nr, .mc = mr * 8, .nc = nr * 4, .kc = 64};
    p.panel = 16;
    p.unroll_k = static_cast<int>(unroll_k);
    return matmul::to_string(p);
  }
};

TEST_F(EngineWithDatabase, RunsWhatWasTunedAndSaysWhy) {
  store("matmul:f32:m=16,n=200,k=70,b=packed:+bias", program(4, 16, 2));
  const Engine e = engine();
  EXPECT_EQ(e.info().decisions, 1);
  EXPECT_EQ(e.info().database, path_);
  const MatmulSpec spec{.n = 200, .k = 70, .epilogue = {Epilogue::kBias}, .expected_m = {16, 12}};
  const Operands operands(spec, 16);
  Result<Matmul> matmul = e.prepare(spec, operands.b.data());
  ASSERT_TRUE(matmul.ok()) << matmul.status().to_string();

  const PlanInfo exact = matmul->plan(16).value();
  EXPECT_EQ(exact.reason, "exact");
  EXPECT_THAT(exact.program, HasSubstr("register_tile(4,16)"));
  EXPECT_THAT(exact.program, HasSubstr("unroll_k(2)"));
  EXPECT_EQ(exact.codegen, target_.codegens[0].name);
  ASSERT_TRUE(exact.from);
  EXPECT_EQ(exact.from->m, 16);
  EXPECT_EQ(exact.from->difference, "");

  const PlanInfo near = matmul->plan(12).value();
  EXPECT_EQ(near.reason, "near_shape");
  EXPECT_THAT(near.from->difference, HasSubstr("tuned for m=16, asked for m=12"));
  const PlanInfo far = matmul->plan(4096).value();
  EXPECT_EQ(far.reason, "default");
  EXPECT_THAT(far.rejected.at(0).why, HasSubstr("too far"));

  check(e, spec, operands, true);
  check(e, spec, Operands(spec, 12), true);
}

TEST_F(EngineWithDatabase, m13_unbounded_unrolling_is_refused_and_a_legal_program_runs) {
  store("matmul:f32:m=100,n=64,k=1000", program(4, 16, 1000));
  const MatmulSpec spec{.n = 64, .k = 1000, .b = Layout::kNn, .expected_m = {100}};
  const Engine e = engine();
  Result<Matmul> matmul = e.prepare(spec);
  ASSERT_TRUE(matmul.ok()) << matmul.status().to_string();
  const PlanInfo plan = matmul->plan(100).value();
  EXPECT_EQ(plan.reason, "default");
  ASSERT_FALSE(plan.rejected.empty());
  EXPECT_THAT(plan.rejected[0].why, HasSubstr("unroll_k=1000"));
  check(e, spec, Operands(spec, 100), false);
}

TEST_F(EngineWithDatabase, RunsRegionsAsWasMeasured) {
  const std::string tuned = "matmul:f32:m=16,n=200,k=70";
  store(tuned, program(4, 16), 2);
  store_schedule("dedicated", 500'000'000);
  const Engine e = engine();
  EXPECT_EQ(e.info().schedule_requested, "dedicated(2)");
  EXPECT_THAT(e.info().schedule, testing::AnyOf("dedicated(2)", "tbb(2)")) << "tbb where there is one CPU";
  EXPECT_EQ(e.info().schedule_source, "measured");
  EXPECT_EQ(e.info().min_work, 500'000'000);

  const MatmulSpec spec{.n = 200, .k = 70, .b = Layout::kNn, .expected_m = {16}};
  Result<Matmul> matmul = e.prepare(spec);
  ASSERT_TRUE(matmul.ok()) << matmul.status().to_string();
  EXPECT_EQ(matmul->plan(16)->threads, 2) << "was measured to be best, whatever the threshold";
  EXPECT_EQ(matmul->plan(16)->schedule, e.info().schedule);
  const PlanInfo far = matmul->plan(4096).value();
  EXPECT_EQ(far.reason, "default");
  EXPECT_EQ(far.threads, 1) << "57 million multiply-adds are below the threshold";
  EXPECT_EQ(far.schedule, "sequential");
  for (int64_t m : {1, 12, 16, 4096}) check(e, spec, Operands(spec, m), false);

  EXPECT_EQ(Engine::create({.database = path_, .threads = 2, .schedule = "tbb"})->info().schedule, "tbb(2)");
  const EngineInfo one = Engine::create({.database = path_, .threads = 2, .schedule = "sequential"})->info();
  EXPECT_EQ(one.threads, 1);
  EXPECT_EQ(one.schedule, "sequential");
  EXPECT_EQ(one.schedule_source, "EngineOptions::schedule");
}

// Neither the threshold nor a time with threads says anything of a kind of schedule on which they were not measured.
TEST_F(EngineWithDatabase, AnotherKindThanWasMeasuredHasToGuess) {
  store("matmul:f32:m=64,n=200,k=70", program(4, 16), 2);
  store_schedule("dedicated", 500'000'000);
  const MatmulSpec spec{.n = 200, .k = 70, .b = Layout::kNn, .expected_m = {64}};
  auto regions = [&](const std::string& schedule) {
    const Engine e = Engine::create({.database = path_, .threads = 2, .schedule = schedule}).value();
    EXPECT_EQ(e.info().min_work.has_value(), schedule != "tbb");
    EXPECT_EQ(e.prepare(spec)->plan(64)->reason, "exact");
    auto sink = std::make_shared<runtime::RecordingSink>();
    runtime::set_trace_sink(sink);
    check(e, spec, Operands(spec, 64), false);
    runtime::set_trace_sink(nullptr);
    return sink->regions().size();
  };
  EXPECT_GE(regions("auto"), 1u) << "was measured to be best, whatever the threshold";
  EXPECT_GE(regions("dedicated"), 1u);
  EXPECT_EQ(regions("tbb"), 0u) << "896 000 multiply-adds are not worth a wake-up";
}

// What decides where a call runs: its own work, unless it is what was tuned.
TEST_F(EngineWithDatabase, SmallCallsOfALargePlanStayOnTheCaller) {
  const std::unique_ptr<runtime::Schedule> threads = runtime::make_schedule({runtime::ScheduleKind::kTbb, 2}).value();
  ReadyPlan ready{.problem = matmul::parse_problem("matmul:f32:m=128,n=64,k=64").value()};
  ready.schedule = threads.get();
  ready.min_work = 100 * 64 * 64;
  matmul::MatmulProblem call = ready.problem;
  EXPECT_EQ(ready.schedule_for(call), threads.get());
  call.m = 99;
  EXPECT_EQ(ready.schedule_for(call), nullptr);
  ready.min_work.reset();
  EXPECT_EQ(ready.schedule_for(call), nullptr) << "not worth a wake-up, at a guess";
  call.m = 1000;
  EXPECT_EQ(ready.schedule_for(call), threads.get());
  ready.min_work = 1'000'000'000'000;
  ready.measured = true;
  EXPECT_EQ(ready.schedule_for(call), nullptr);
  EXPECT_EQ(ready.schedule_for(ready.problem), threads.get());
}

TEST_F(EngineWithDatabase, ProblemsWithoutADecisionGetDefaults) {
  store("matmul:f32:m=16,n=200,k=70", program(4, 16));
  const Engine e = engine();
  const MatmulSpec spec{.n = 201, .k = 70, .expected_m = {16}};
  EXPECT_EQ(e.prepare(spec)->plan(16)->reason, "default");
}

#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
// What this process may map beyond what it has mapped already, as long as this lives.
class AddressSpaceLeft {
 public:
  explicit AddressSpaceLeft(int64_t bytes) {
    int64_t pages = 0;
    std::ifstream("/proc/self/statm") >> pages;
    getrlimit(RLIMIT_AS, &before_);
    rlimit limit = before_;
    limit.rlim_cur = std::min(limit.rlim_cur, static_cast<rlim_t>(pages * sysconf(_SC_PAGESIZE) + bytes));
    setrlimit(RLIMIT_AS, &limit);
  }
  ~AddressSpaceLeft() { setrlimit(RLIMIT_AS, &before_); }

 private:
  rlimit before_{};
};

TEST_F(EngineWithDatabase, ABucketThatNobodyAskedForMayFail) {
  // Its plan packs a block of B of 128 MiB.
  matmul::TransformProgram large = matmul::parse_program(program(4, 16)).value();
  large.pack_b = matmul::PackB::kBlock;
  large.nc = 8192;
  large.kc = 4096;
  large.parallel = matmul::ParallelDim::kN;
  store("matmul:f32:m=4096,n=8192,k=4096,b=nt", matmul::to_string(large));
  std::vector<std::string> missing;
  const auto log = [&](std::string_view line) {
    if (line.find("event=not_prepared") != line.npos) missing.emplace_back(line);
  };
  const Engine e = Engine::create({.database = path_, .threads = 1, .log = log}).value();
  set_log_topics(parse_log_topics("dispatch").topics);
  MatmulSpec spec{.n = 8192, .k = 4096};
  const AddressSpaceLeft little(int64_t{96} << 20);
  const Result<Matmul> matmul = e.prepare(spec);
  ASSERT_TRUE(matmul.ok()) << matmul.status().to_string();
  EXPECT_EQ(missing.size(), 1u);
  EXPECT_TRUE(matmul->plan(1).ok());
  EXPECT_EQ(matmul->plan(4096).status().code(), Code::kResourceExhausted);
  spec.expected_m = {4096};
  EXPECT_EQ(e.prepare(spec).status().code(), Code::kResourceExhausted);
  set_log_topics(0);
  set_log_sink({});
}
#endif

TEST(Engine, ABrokenDatabaseLeavesAWorkingEngine) {
  const std::string path = ::testing::TempDir() + "hone_broken_" + std::to_string(getpid()) + ".db";
  std::FILE* f = std::fopen(path.c_str(), "w");
  ASSERT_NE(f, nullptr);
  std::fputs(
      "this is not a database, but it is called like one, and long enough to have a header of 100 bytes at the start",
      f);
  std::fclose(f);
  Result<Engine> engine = Engine::create({.database = path, .threads = 1});
  ASSERT_TRUE(engine.ok()) << engine.status().to_string();
  EXPECT_NE(engine->info().database_message, "");
  const MatmulSpec spec{.n = 10, .k = 10};
  check(*engine, spec, Operands(spec, 3), false);
  std::remove(path.c_str());
}

TEST(Engine, AMissingDatabaseIsEmpty) {
  Result<Engine> engine = Engine::create({.database = ::testing::TempDir() + "no/such/place/hone.db", .threads = 1});
  ASSERT_TRUE(engine.ok()) << engine.status().to_string();
  EXPECT_EQ(engine->info().decisions, 0);
}

TEST(Engine, BadOptionsAreNamed) {
  EXPECT_THAT(Engine::create({.use_database = false, .threads = -1}).status().message(), HasSubstr("threads"));
  EXPECT_THAT(Engine::create({.use_database = false, .codegen = "gcc"}).status().message(), HasSubstr("gcc"));
  EXPECT_THAT(Engine::create({.use_database = false, .schedule = "gpu"}).status().message(),
              HasSubstr("EngineOptions::schedule=gpu: unknown schedule 'gpu'"));
  EXPECT_EQ(Engine::create({.database = ::testing::TempDir()}).status().code(), Code::kInvalidArgument);
}

TEST(Engine, SpecsParseAndBadOnesSayWhere) {
  const MatmulSpec spec =
      MatmulSpec::parse("matmul:f32:m=1-3+1,n=4096,k=64,b=packed,lda=80:+bias*gate+gelu_erf").value();
  EXPECT_EQ(spec.n, 4096);
  EXPECT_EQ(spec.lda, 80);
  EXPECT_EQ(spec.b, Layout::kNt);
  EXPECT_EQ(spec.expected_m, (std::vector<int64_t>{1, 2, 3}));
  EXPECT_EQ(spec.epilogue, (std::vector<Epilogue>{Epilogue::kBias, Epilogue::kGate, Epilogue::kGeluErf}));
  EXPECT_EQ(MatmulSpec::parse("matmul:f32:m=1,n=2").status().code(), Code::kInvalidArgument);
  EXPECT_THAT(MatmulSpec::parse("matmul:f32:m=1,n={2,3},k=4").status().message(), HasSubstr("one number each"));
}

TEST(Engine, BadSpecsAndCallsAreNamed) {
  const Engine engine = Engine::create({.use_database = false, .threads = 1}).value();
  EXPECT_THAT(engine.prepare({.n = -1, .k = 4}).status().message(), HasSubstr("n=-1"));
  EXPECT_THAT(engine.prepare({.n = 4, .k = 4, .lda = 3}).status().message(), HasSubstr("lda=3"));
  EXPECT_THAT(engine.prepare({.n = 4, .k = 4, .expected_m = {-2}}).status().message(), HasSubstr("expected_m has -2"));
  EXPECT_THAT(engine.prepare({.n = 4, .k = 4}, nullptr).status().message(), HasSubstr("weights are null"));
  EXPECT_THAT(engine.prepare({.n = 4, .k = 4, .epilogue = {static_cast<Epilogue>(42)}}).status().message(),
              HasSubstr("epilogue step 42"));
  const Matmul matmul = engine.prepare({.n = 4, .k = 4}).value();
  EXPECT_THAT(matmul.run({.m = -1}).message(), HasSubstr("m=-1"));
  EXPECT_THAT(matmul.plan(0).status().message(), HasSubstr("at least one row"));
  EXPECT_TRUE(matmul.run({.m = 0}).ok());  // nothing to do, nothing needed
}

TEST(Engine, AMatmulOutlivesItsEngine) {
  const MatmulSpec spec{.n = 33, .k = 21, .expected_m = {5}};
  const Operands operands(spec, 5);
  std::optional<Engine> engine = Engine::create({.use_database = false, .threads = 2}).value();
  const Matmul matmul = engine->prepare(spec, operands.b.data()).value();
  engine.reset();
  ASSERT_TRUE(matmul.run(operands.call(true)).ok());
  EXPECT_TRUE(testing_api::same_bits(operands.c.snapshot(), operands.expected()));
  EXPECT_GE(matmul.weight_bytes(), 33 * 21 * 4);
}

TEST(Engine, EventsGoToTheSink) {
  std::vector<std::string> lines;
  Result<Engine> engine = Engine::create(
      {.use_database = false, .threads = 1, .log = [&](std::string_view line) { lines.emplace_back(line); }});
  ASSERT_TRUE(engine.ok());
  set_log_topics(parse_log_topics("dispatch").topics);
  const MatmulSpec spec{.n = 33, .k = 21};
  ASSERT_TRUE(engine->prepare(spec).ok());
  set_log_topics(0);
  set_log_sink({});
  ASSERT_FALSE(lines.empty());
  EXPECT_THAT(lines[0], HasSubstr("event=plan"));
  EXPECT_THAT(lines[0], HasSubstr("reason=default"));
}

}  // namespace
}  // namespace hone
