// Faults of every kind in a real worker: the culprit is named, the others go on, and nothing is left behind.
#include "autotune/isolate/isolated_racer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>

#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <thread>

#include "engine/base/version.h"

#include "jit/fault.h"

namespace hone::autotune {
namespace {

using testing::AllOf;
using testing::AnyOf;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::StartsWith;

#if defined(__SANITIZE_ADDRESS__)
constexpr bool kSanitized = true;
#else
constexpr bool kSanitized = false;
#endif

// A second is the shortest limit there is.
constexpr double kShortBudget = 4;

matmul::MatmulProblem problem(std::string_view text) { return matmul::parse_problem(text).value(); }

// A worker that measures nothing, started as this very executable (see fake_command). Who it is asked about decides
// what it does: 1 ends the process whenever it is timed, without a word on the page, and 2 whenever it is prepared.
int fake_worker() {
  auto say = [](const Message& message) {
    const std::string bytes = encode(message);
    (void)!write(kSocketDescriptor, bytes.data(), bytes.size());
  };
  say(HelloMessage{std::string(engine_label())});
  std::string buffer(kMostMessageBytes, '\0');
  for (ssize_t got = 0; (got = read(kSocketDescriptor, buffer.data(), buffer.size())) > 0;) {
    const std::optional<Message> message = decode(std::string_view(buffer).substr(0, static_cast<size_t>(got)));
    if (!message) return 1;
    if (std::holds_alternative<ProblemMessage>(*message)) say(SetUpAnswer{});
    if (const auto* prepare = std::get_if<PrepareMessage>(&*message)) {
      if (prepare->candidate == 2) return 5;
      say(PrepareAnswer{});
    }
    if (const auto* round = std::get_if<RoundMessage>(&*message)) {
      if (std::find(round->arms.begin(), round->arms.end(), 1) != round->arms.end()) return 6;
      say(RoundAnswer{1, std::vector<Timing>(round->arms.size(), Timing{.ns = 7, .wall_ns = 8})});
    }
  }
  return 0;
}
[[maybe_unused]] const bool is_fake_worker = [] {
  if (std::getenv("HONE_FAKE_WORKER") != nullptr) _exit(fake_worker());
  return false;
}();

WorkerCommand fake_command() {
  const std::string self = std::filesystem::read_symlink("/proc/self/exe").string();
  return {"/bin/sh", {"-c", "HONE_FAKE_WORKER=1 exec '" + self + "'"}};
}

std::string octal(const std::string& bytes) {
  std::string out;
  for (char c : bytes) {
    const auto b = static_cast<unsigned char>(c);
    out += {'\\', static_cast<char>('0' + b / 64), static_cast<char>('0' + b / 8 % 8), static_cast<char>('0' + b % 8)};
  }
  return out;
}

class Isolated : public testing::Test {
 protected:
  void SetUp() override {
    const Result<Machine> machine = detect_machine();
    ASSERT_TRUE(machine.ok());
    const Result<Isa> isa = machine->best_isa();
    if (!isa.ok()) GTEST_SKIP() << isa.status().message();
    good_ = default_candidate(problem_, {.isas = {*isa},
                                         .caches = blocking_caches(*machine),
                                         .threads = {1},
                                         .codegens = {std::string(jit::code_generators().front()->name())}});
  }

  void TearDown() override {
    racer_.reset();
    isolation_.reset();
    std::filesystem::remove(once_mark());
    // No child, no zombie.
    EXPECT_EQ(waitpid(-1, nullptr, WNOHANG), -1);
    EXPECT_EQ(errno, ECHILD);
  }

  Candidate with(std::string codegen) const {
    Candidate c = good_;
    c.codegen = std::move(codegen);
    return c;
  }

  void race(std::vector<Candidate> candidates, const WorkerCommand& command = {HONE_BINARY, {"tune-worker"}},
            double budget = kShortBudget) {
    candidates_ = std::move(candidates);
    racer_.reset();
    isolation_ = std::make_unique<Isolation>(command, [this](const std::string& note) { notes_.push_back(note); });
    Result<std::unique_ptr<Racer>> racer = make_racer(isolation_.get(), problem_, candidates_, clock_,
                                                      {.cache = CacheMode::kWarm, .seed = 2}, budget, &stop_);
    ASSERT_TRUE(racer.ok()) << racer.status().message();
    racer_ = std::move(*racer);
  }

  static std::string once_mark() { return testing::TempDir() + "/hone_once_" + std::to_string(getpid()); }
  // A worker the first time, `then` every other time.
  WorkerCommand once_and(const std::string& then) const {
    const std::string mark = once_mark();
    const std::string worker = std::string("exec '") + HONE_BINARY + "' tune-worker";
    return {"/bin/sh", {"-c", "mkdir '" + mark + "' 2>/dev/null && " + worker + "; " + then + worker}};
  }

  void expect_measured(std::span<const int> arms) {
    const std::vector<Timing> timings = racer_->round(arms);
    ASSERT_EQ(timings.size(), arms.size());
    for (const Timing& t : timings) {
      EXPECT_EQ(t.outcome, db::Outcome::kMeasured) << t.detail;
      EXPECT_GT(t.ns, 0);
      EXPECT_GE(t.wall_ns, t.ns);
    }
  }

  matmul::MatmulProblem problem_ = problem("matmul:f32:m=4,n=64,k=32");
  Candidate good_;
  SteadyClock clock_;
  std::vector<Candidate> candidates_;
  std::vector<std::string> notes_;
  std::atomic<bool> stop_ = false;
  std::unique_ptr<Isolation> isolation_;
  std::unique_ptr<Racer> racer_;
};

struct Fault {
  std::string codegen;
  db::Outcome outcome;
  std::string begins;
  std::string contains;
};

class IsolatedFault : public Isolated, public testing::WithParamInterface<Fault> {};

TEST_P(IsolatedFault, TheOthersGoOn) {
  // Touching all the memory that may be had takes seconds on a busy machine: it gets the first limit, of a minute.
  const bool slow = GetParam().codegen == "fault-oom";
  race({good_, with(GetParam().codegen), good_}, {HONE_BINARY, {"tune-worker"}}, slow ? 600 : kShortBudget);
  if (!slow) {
    ASSERT_EQ(racer_->prepare(0).outcome, db::Outcome::kMeasured);
  }
  const Prepared prepared = racer_->prepare(1);
  EXPECT_EQ(prepared.outcome, GetParam().outcome);
  EXPECT_THAT(prepared.detail, AllOf(StartsWith(GetParam().begins), HasSubstr(GetParam().contains)));
  EXPECT_EQ(racer_->prepare(2).outcome, db::Outcome::kMeasured);
  expect_measured(std::vector{0, 2, 0});
  EXPECT_THAT(notes_, IsEmpty());
}

std::vector<Fault> faults() {
  using enum db::Outcome;
  const std::string memory = kSanitized ? "" : "out of memory";  // the sanitizer's allocator has an end of its own
  return {{"fault-sigill", kCrashed, "SIGILL (illegal instruction)", "while being checked on guarded memory"},
          {"fault-sigsegv", kCrashed, "SIGSEGV (invalid memory access)", "while being checked on guarded memory"},
          {"fault-sigbus", kCrashed, "SIGBUS", "while being checked on guarded memory"},
          {"fault-hang", kCrashed, "hung: no answer within ", "while being checked on guarded memory"},
          {"fault-deadlock", kCrashed, "hung: no answer within ", "while being checked on guarded memory"},
          {"fault-oom", kCrashed, memory, "while being checked on guarded memory"},
          {"fault-exit", kCrashed, "exited with code 3", "while being checked on guarded memory"},
          {"fault-wrong", kWrong, "C[0, 0, 0] is 12345.67", ""},
          {"fault-compile-segv", kCrashed, "SIGSEGV", "while being compiled"},
          {"fault-compile-hang", kCrashed, "hung", "while being compiled"}};
}

INSTANTIATE_TEST_SUITE_P(Kinds, IsolatedFault, testing::ValuesIn(faults()), [](const auto& fault) {
  std::string name = fault.param.codegen;
  std::replace(name.begin(), name.end(), '-', '_');
  return name;
});

TEST_F(Isolated, EveryKindOfFaultIsTested) {
  std::vector<std::string_view> tested;
  const std::vector<Fault> all = faults();
  for (const Fault& f : all) tested.push_back(f.codegen);
  EXPECT_THAT(tested, testing::UnorderedElementsAreArray(jit::fault_generator_names()));
  for (jit::CodeGenerator* g : jit::code_generators()) EXPECT_EQ(g->name().find("fault"), std::string_view::npos);
}

TEST_F(Isolated, WhoeverEndsARoundIsOutOfItAndTheOthersAreTimed) {
  race({good_, with("fault-sigsegv@3000"), good_});
  for (int c : {0, 1, 2}) ASSERT_EQ(racer_->prepare(c).outcome, db::Outcome::kMeasured);
  for (int round = 0; round < 3000; ++round) {
    const std::vector<Timing> timings = racer_->round(std::vector{0, 1, 2});
    ASSERT_EQ(timings.size(), 3u);
    EXPECT_EQ(timings[0].outcome, db::Outcome::kMeasured);
    EXPECT_EQ(timings[2].outcome, db::Outcome::kMeasured);
    if (timings[1].outcome == db::Outcome::kMeasured) continue;
    EXPECT_EQ(timings[1].outcome, db::Outcome::kCrashed);
    EXPECT_EQ(timings[1].detail, "SIGSEGV (invalid memory access) while being timed");
    racer_->release(1);
    expect_measured(std::vector{2, 0});
    return;
  }
  FAIL() << "3000 rounds have at least 3000 calls";
}

TEST_F(Isolated, TwoOfThemInOneRound) {
  race({good_, with("fault-sigill@40"), with("fault-exit@40"), good_});
  const std::vector<int> all = {0, 1, 2, 3};
  std::set<int> out;
  for (int round = 0; round < 100 && out.size() < 2; ++round) {
    const std::vector<Timing> timings = racer_->round(all);
    for (int c : all)
      if (timings[static_cast<size_t>(c)].outcome == db::Outcome::kCrashed) out.insert(c);
  }
  EXPECT_EQ(out, (std::set<int>{1, 2}));
}

TEST_F(Isolated, AWorkerKilledWhileIdleIsReplacedAndNobodyIsBlamed) {
  race({good_, good_});
  ASSERT_EQ(racer_->prepare(0).outcome, db::Outcome::kMeasured);
  for (int i = 0; i < 5; ++i) {
    kill(isolation_->child()->pid(), SIGKILL);
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    expect_measured(std::vector{0, 1});
  }
  EXPECT_THAT(notes_, IsEmpty());
}

TEST_F(Isolated, OneProblemAfterTheOtherInOneWorker) {
  race({good_});
  expect_measured(std::vector{0});
  const pid_t pid = isolation_->child()->pid();
  Result<std::unique_ptr<Racer>> second = make_racer(isolation_.get(), problem("matmul:f32:m=8,n=64,k=16"), candidates_,
                                                     clock_, {.cache = CacheMode::kCold}, kShortBudget);
  ASSERT_TRUE(second.ok());
  EXPECT_EQ((*second)->round(std::vector{0})[0].outcome, db::Outcome::kMeasured);
  expect_measured(std::vector{0});  // and back again
  EXPECT_EQ(isolation_->child()->pid(), pid);
}

TEST_F(Isolated, OperandsThatDoNotFitAreAnErrorOfTheProblem) {
  race({good_});
  const Result<std::unique_ptr<Racer>> racer = make_racer(
      isolation_.get(), problem("matmul:f32:m=1,n=2000000,k=2000000"), candidates_, clock_, {}, kShortBudget);
  ASSERT_FALSE(racer.ok());
  EXPECT_EQ(racer.status().code(), Code::kResourceExhausted);
  EXPECT_THAT(racer.status().message(), HasSubstr("cannot allocate 16000000000000 bytes"));
}

TEST_F(Isolated, WithoutAWorkerCandidatesRunHere) {
  const std::string hello = octal(encode(HelloMessage{std::string("hone of another age")}));
  const std::vector<std::pair<WorkerCommand, std::string>> commands = {
      {{"/nonexistent/hone", {}}, "/nonexistent/hone: No such file or directory"},
      {{"/bin/false", {}}, "/bin/false is no worker: exited with code 1"},
      {{"/proc/self/exe", {"--gtest_list_tests", "--gtest_filter=-*"}},
       "autotune_isolate_test is no worker: exited with code 0"},
      {{"/bin/sh", {"-c", "printf garbage >&3; sleep 20"}}, "does not answer as a worker does"},
      {{"/bin/sh", {"-c", "printf '" + hello + "' >&3; sleep 20"}}, "is a worker of hone of another age"}};
  for (const auto& [command, why] : commands) {
    notes_.clear();
    race({good_, good_}, command);
    expect_measured(std::vector{0, 1});
    EXPECT_EQ(racer_->prepare(1).outcome, db::Outcome::kMeasured);
    racer_->release(1);
    ASSERT_EQ(notes_.size(), 1u) << command.executable;
    EXPECT_THAT(notes_[0], AllOf(StartsWith("candidates run in this process"), HasSubstr(why)));
  }
}

TEST_F(Isolated, WhoEndedTheLastWorkerIsNotRunHere) {
  race({good_, with("fault-sigsegv@3000"), good_}, once_and("exit 1; "));
  for (int c : {0, 1, 2}) ASSERT_EQ(racer_->prepare(c).outcome, db::Outcome::kMeasured);
  for (int round = 0; round < 3000 && notes_.empty(); ++round) {
    const std::vector<Timing> timings = racer_->round(std::vector{0, 1, 2});
    ASSERT_EQ(timings.size(), 3u);
    EXPECT_EQ(timings[0].outcome, db::Outcome::kMeasured);
    EXPECT_EQ(timings[2].outcome, db::Outcome::kMeasured);
    // The round that has ended isolation.
    if (!notes_.empty()) {
      EXPECT_EQ(timings[1].outcome, db::Outcome::kCrashed) << timings[1].ns;
    }
  }
  ASSERT_EQ(notes_.size(), 1u);
  EXPECT_THAT(notes_[0], HasSubstr("is no worker: exited with code 1"));
}

TEST_F(Isolated, WhoeverEndsWorkersWithoutATraceIsFound) {
  race({good_, good_, good_, good_}, fake_command());
  const Prepared prepared = racer_->prepare(2);
  EXPECT_EQ(prepared.outcome, db::Outcome::kCrashed);
  EXPECT_EQ(prepared.detail, "3 workers in a row ended when it was to be prepared, the last: exited with code 5");
  const std::vector<Timing> timings = racer_->round(std::vector{0, 1, 3, 1});
  ASSERT_EQ(timings.size(), 4u);
  for (size_t i : {0u, 2u}) EXPECT_EQ(timings[i].ns, 7) << timings[i].detail;
  for (size_t i : {1u, 3u}) {
    EXPECT_EQ(timings[i].outcome, db::Outcome::kCrashed);
    EXPECT_EQ(timings[i].detail, "3 workers in a row ended when it was to be timed, the last: exited with code 6");
  }
  EXPECT_THAT(notes_, IsEmpty());
  EXPECT_NE(isolation_->child(), nullptr);
}

// The first limit is a minute here: without the stop token this would be "hung".
TEST_F(Isolated, StoppingDoesNotWaitForAHangAndBlamesNobody) {
  race({with("fault-hang"), good_}, {HONE_BINARY, {"tune-worker"}}, 600);
  const Child* child = isolation_->child();
  std::thread ctrl_c([this, child] {
    while (child->step().stage != Stage::kGuardedCheck) std::this_thread::sleep_for(std::chrono::milliseconds(5));
    stop_ = true;
  });
  const Prepared prepared = racer_->prepare(0);
  ctrl_c.join();
  EXPECT_EQ(prepared.outcome, db::Outcome::kRefused);
  EXPECT_EQ(prepared.detail, "interrupted");
  EXPECT_EQ(racer_->round(std::vector{1})[0].detail, "interrupted");
  EXPECT_EQ(isolation_->child(&stop_), nullptr) << "no worker is started any more";
  EXPECT_THAT(notes_, IsEmpty());
}

// Whose crash made a new worker necessary, and how long that took, must not lengthen the limit of the others.
TEST_F(Isolated, StartingAWorkerIsNotPartOfPreparing) {
  race({with("fault-sigsegv"), good_, with("fault-hang")}, once_and("sleep 3; "));
  ASSERT_EQ(racer_->prepare(0).outcome, db::Outcome::kCrashed);
  ASSERT_EQ(racer_->prepare(1).outcome, db::Outcome::kMeasured);
  const std::string hung = racer_->prepare(2).detail;
  double limit = 0;
  ASSERT_EQ(std::sscanf(hung.c_str(), "hung: no answer within %lf s", &limit), 1) << hung;
  EXPECT_LT(limit, 8 * 3) << "8 times what the first has taken";
}

TEST_F(Isolated, AWorkerThatTalksNonsenseBringsNoCandidateHere) {
  const std::string hello = octal(encode(HelloMessage{std::string("hone " HONE_VERSION)}));
  const std::string ready = octal(encode(SetUpAnswer{}));
  // Says that it is ready, and answers the first question with rubbish.
  race({good_, good_}, {"/bin/sh",
                        {"-c", "printf '" + hello + "' >&3; head -c 1 <&3 >/dev/null; printf '" + ready +
                                   "' >&3; head -c 1 <&3 >/dev/null; printf rubbish >&3; sleep 20"}});
  for (const Timing& t : racer_->round(std::vector{0, 1})) {
    EXPECT_EQ(t.outcome, db::Outcome::kCrashed);
    EXPECT_EQ(t.detail, "3 workers in a row ended when it was to be prepared, the last: talked nonsense");
  }
  EXPECT_THAT(notes_, IsEmpty());
}

TEST_F(Isolated, WorkersThatCannotSetUpAreGivenUp) {
  const std::string hello = octal(encode(HelloMessage{std::string(engine_label())}));
  race({good_, good_}, {"/bin/sh", {"-c", "printf '" + hello + "' >&3; head -c 1 <&3 >/dev/null; exit 9"}});
  expect_measured(std::vector{0, 1});
  ASSERT_EQ(notes_.size(), 1u);
  EXPECT_THAT(notes_[0], HasSubstr("3 workers in a row ended while they were set up, the last: exited with code 9"));
}

TEST(IsolatedChild, AQuestionOutOfTurnEndsTheWorkerInOrder) {
  for (const Message& message :
       std::vector<Message>{RoundMessage{{0}}, PrepareMessage{-1, "", "", 1}, ReleaseMessage{3}, HelloMessage{}}) {
    Result<std::unique_ptr<Child>> child = Child::start({HONE_BINARY, {"tune-worker"}});
    ASSERT_TRUE(child.ok()) << child.status().message();
    Message got;
    ASSERT_EQ((*child)->receive(60, &got), Child::Got::kMessage);
    ASSERT_TRUE(std::holds_alternative<HelloMessage>(got));
    ASSERT_TRUE((*child)->send(message));
    EXPECT_EQ((*child)->receive(60, &got), Child::Got::kDeath);
    EXPECT_EQ((*child)->end(), "exited with code 1");
  }
}

TEST(IsolatedChild, SilenceIsNotWaitedFor) {
  Result<std::unique_ptr<Child>> child = Child::start({"/bin/sh", {"-c", "sleep 60"}});
  ASSERT_TRUE(child.ok());
  Message got;
  EXPECT_EQ((*child)->receive(0.05, &got), Child::Got::kSilence);
  EXPECT_EQ((*child)->end(), "killed");
}

TEST(IsolatedWatch, EndsWithAMessageOrWhenThereIsNothingToWaitFor) {
  SharedPage page;
  page.more_to_come = false;
  watch(page.questions, 0, std::chrono::hours(1), &page.more_to_come);
  page.more_to_come = true;
  page.questions = 1;
  watch(page.questions, 0, std::chrono::hours(1), &page.more_to_come);
  std::thread tuner([&] { page.more_to_come = false; });
  watch(page.questions, 1, std::chrono::hours(1), &page.more_to_come);
  tuner.join();
}

TEST(IsolatedWatch, OnlyWhereACpuIsLeftAndAnswersAreQuick) {
  EXPECT_TRUE(worth_watching(2, 1, 20'000));
  EXPECT_FALSE(worth_watching(2, 2, 20'000));
  EXPECT_FALSE(worth_watching(1, 0, 20'000));
  EXPECT_FALSE(worth_watching(8, 0, 5'000'000));
}

TEST(IsolatedLimit, ShareOfTheBudgetButNeverShorterThanALegalCandidateMayTake) {
  EXPECT_EQ(step_limit(10, 0), 5);
  EXPECT_EQ(step_limit(60, 0), 30);
  EXPECT_EQ(step_limit(86400, 0), 60);
  EXPECT_EQ(step_limit(10, 0.001), 2);  // a hang costs a fifth
  EXPECT_EQ(step_limit(1, 0.001), 1);
  EXPECT_EQ(step_limit(600, 0.2), 4);  // 20 x
  EXPECT_EQ(step_limit(40, 1), 8);     // not 20 x: half of the budget
}

// A candidate that agreed with a wrong output passes, until somebody right comes along: then it is wrong, and not
// merely to be timed once more.
TEST_F(Isolated, WhoIsRefutedLaterIsWrong) {
  problem_ = problem("matmul:f32:m=64,n=2000,k=1200");
  for (int j = 300; j < 340; ++j) {
    candidates_ = {with("fault-wrong@" + std::to_string(40 * 2000 + j)), good_};
    Result<std::unique_ptr<Racer>> racer =
        make_racer(nullptr, problem_, candidates_, clock_, {.seed = 2}, kShortBudget);
    ASSERT_TRUE(racer.ok());
    if ((*racer)->prepare(0).outcome != db::Outcome::kMeasured) continue;  // in the sample
    EXPECT_EQ((*racer)->round(std::vector{0})[0].outcome, db::Outcome::kMeasured);
    EXPECT_EQ((*racer)->prepare(1).outcome, db::Outcome::kMeasured);
    const std::vector<Timing> timings = (*racer)->round(std::vector{0, 1});
    EXPECT_EQ(timings[0].outcome, db::Outcome::kWrong);
    EXPECT_THAT(timings[0].detail, HasSubstr("12345.67"));
    EXPECT_EQ(timings[1].outcome, db::Outcome::kMeasured);
    return;
  }
  FAIL() << "the sample should leave out something";
}

}  // namespace
}  // namespace hone::autotune
