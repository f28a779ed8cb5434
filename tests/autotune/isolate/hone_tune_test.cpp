// `hone tune` as a user runs it: what is recorded of a crash, and that no worker outlives the command, however it ends.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>
#include <thread>

#include "db/store.h"
#include "engine/base/machine.h"
#include "jit/codegen.h"

namespace hone::autotune {
namespace {

namespace fs = std::filesystem;
using testing::AllOf;
using testing::HasSubstr;

constexpr const char* kProblem = "matmul:f32:m=64,n=256,k=256";
constexpr auto kLongEnough = std::chrono::seconds(60);

std::string content(const fs::path& path) {
  std::ifstream in(path);
  std::ostringstream out;
  out << in.rdbuf();
  return out.str();
}

// Parent and state of a process; state 0 when it is gone.
struct Stat {
  pid_t parent = 0;
  char state = 0;
};
Stat stat_of(pid_t pid) {
  const std::string text = content(fs::path("/proc") / std::to_string(pid) / "stat");
  const size_t name_end = text.rfind(')');
  Stat s;
  if (name_end == std::string::npos) return s;
  std::istringstream(text.substr(name_end + 1)) >> s.state >> s.parent;
  return s;
}

// A zombie that nobody reaps (a container without an init) is gone, too.
bool is_gone(pid_t pid) {
  const char state = stat_of(pid).state;
  return state == 0 || state == 'Z' || state == 'X';
}

pid_t child_of(pid_t parent) {
  for (const fs::directory_entry& entry : fs::directory_iterator("/proc")) {
    const pid_t pid = std::atoi(entry.path().filename().c_str());
    if (pid > 0 && stat_of(pid).parent == parent &&
        content(entry.path() / "cmdline").find("tune-worker") != std::string::npos)
      return pid;
  }
  return 0;
}

template <typename Condition>
bool eventually(Condition condition) {
  const auto end = std::chrono::steady_clock::now() + kLongEnough;
  while (!condition()) {
    if (std::chrono::steady_clock::now() > end) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  return true;
}

class HoneTune : public testing::Test {
 protected:
  void SetUp() override {
    const Result<Machine> machine = detect_machine();
    ASSERT_TRUE(machine.ok());
    if (!machine->best_isa().ok()) GTEST_SKIP() << machine->best_isa().status().message();
    scratch_ = fs::path(testing::TempDir()) / ("hone_isolate_" + std::to_string(getpid()) + "_" +
                                               testing::UnitTest::GetInstance()->current_test_info()->name());
    fs::create_directories(scratch_);
  }
  void TearDown() override {
    for (pid_t pid : std::set(running_)) kill(-pid, SIGKILL), wait_for(pid);
    fs::remove_all(scratch_);
  }

  // In a process group of its own, as a shell starts it.
  pid_t start(const std::string& command) {
    const std::string line = "export PATH='" + fs::path(HONE_BINARY).parent_path().string() + "':$PATH HONE_DB='" +
                             (scratch_ / "plans.db").string() + "'; " + command;
    const pid_t pid = fork();
    if (pid != 0) {
      setpgid(pid, pid);  // both do, as either may be first
      return *running_.insert(pid).first;
    }
    setpgid(0, 0);
    dup2(open((scratch_ / "out").c_str(), O_CREAT | O_TRUNC | O_WRONLY, 0600), STDOUT_FILENO);
    dup2(open((scratch_ / "err").c_str(), O_CREAT | O_TRUNC | O_WRONLY, 0600), STDERR_FILENO);
    execl("/bin/sh", "sh", "-c", line.c_str(), nullptr);
    _exit(127);
  }

  int wait_for(pid_t pid) {
    int status = 0;
    running_.erase(pid);
    waitpid(pid, &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  }
  int run(const std::string& command) { return wait_for(start(command)); }
  std::string out() const { return content(scratch_ / "out"); }
  std::string err() const { return content(scratch_ / "err"); }

  // A tune that lasts, with its worker at work.
  void start_long(pid_t* tuner, pid_t* worker, const std::string& more = "--budget 600s") {
    *tuner = start(std::string("exec hone tune '") + kProblem + "' " + more);
    ASSERT_TRUE(eventually([&] { return err().find(": search") != std::string::npos; })) << err();
    *worker = child_of(*tuner);
    ASSERT_GT(*worker, 0);
  }

  fs::path scratch_;
  std::set<pid_t> running_;
};

TEST_F(HoneTune, CrashesAreRecordedWithACommandThatRepeatsThem) {
  const std::string good(jit::code_generators().front()->name());
  ASSERT_EQ(run(std::string("hone tune '") + kProblem + "' --budget 4s --threads 1 --cache warm --json --codegen " +
                good + ",fault-sigsegv,fault-wrong,fault-sigill"),
            0)
      << err();
  const auto report = nlohmann::json::parse(out());
  // One each, more when the budget reaches to all programs of the preferred generator.
  EXPECT_GE(report["crashed"], 2);
  EXPECT_GE(report["rejected_wrong"], 1);
  EXPECT_TRUE(report["decision"].is_string());
  EXPECT_EQ(report["winner"]["codegen"], good);
  EXPECT_THAT(err(), AllOf(HasSubstr("a candidate crashed: SIGSEGV (invalid memory access) while being checked"),
                           HasSubstr("repeat: hone bench '")));

  const Result<std::unique_ptr<db::Store>> store = db::open({.path = (scratch_ / "plans.db").string()});
  ASSERT_TRUE(store.ok());
  const Result<std::vector<db::StoredOutcome>> outcomes = (*store)->outcomes(report["run"].get<int64_t>());
  ASSERT_TRUE(outcomes.ok());
  std::set<std::string> seen;
  for (const db::StoredOutcome& o : *outcomes) {
    if (o.outcome != db::Outcome::kCrashed || !seen.insert(o.candidate.codegen).second) continue;
    EXPECT_THAT(o.detail, HasSubstr(o.candidate.codegen == "fault-sigill" ? "SIGILL" : "SIGSEGV"));
    // In one process: the crash is that process's, or a sanitizer's report of it.
    EXPECT_NE(run(o.command), 0) << o.command;
    EXPECT_EQ(out(), "") << o.command;
    EXPECT_EQ(err().find("error:"), std::string::npos) << err();
  }
  EXPECT_EQ(seen, (std::set<std::string>{"fault-sigill", "fault-sigsegv"}));
}

TEST_F(HoneTune, HiddenNamesStayHidden) {
  ASSERT_EQ(run("hone --help; hone tune --help; hone info --json; hone bench --codegen nonsense"), 2);
  for (const std::string& text : {out(), err()}) {
    EXPECT_EQ(text.find("fault-sig"), std::string::npos) << text;
    EXPECT_EQ(text.find("tune-worker"), std::string::npos) << text;
  }
  EXPECT_EQ(run("hone tune-worker"), 2);
  EXPECT_THAT(err(), HasSubstr("`hone tune` starts its workers itself"));
}

TEST_F(HoneTune, TheWorkerDiesWithATunerThatIsKilled) {
  pid_t tuner = 0, worker = 0;
  ASSERT_NO_FATAL_FAILURE(start_long(&tuner, &worker));
  kill(tuner, SIGKILL);
  EXPECT_EQ(wait_for(tuner), 128 + SIGKILL);
  EXPECT_TRUE(eventually([&] { return is_gone(worker); }));
}

TEST_F(HoneTune, CtrlCEndsBothInOrder) {
  pid_t tuner = 0, worker = 0;
  ASSERT_NO_FATAL_FAILURE(start_long(&tuner, &worker));
  kill(-tuner, SIGINT);  // as a terminal does: to all of the group
  EXPECT_EQ(wait_for(tuner), 130);
  EXPECT_TRUE(is_gone(worker));
  EXPECT_THAT(err(), AllOf(HasSubstr("hone: interrupted: "), testing::Not(HasSubstr("crashed"))));
}

TEST_F(HoneTune, CtrlCDoesNotWaitForAHangNorRecordIt) {
  const pid_t tuner = start(std::string("exec hone tune '") + kProblem + "' --budget 600s --codegen fault-hang");
  pid_t worker = 0;
  ASSERT_TRUE(eventually([&] { return (worker = child_of(tuner)) > 0; })) << err();
  std::this_thread::sleep_for(std::chrono::milliseconds(300));  // most likely it hangs by now
  kill(-tuner, SIGINT);
  EXPECT_EQ(wait_for(tuner), 130);
  EXPECT_TRUE(is_gone(worker));
  EXPECT_THAT(err(), AllOf(HasSubstr("hone: interrupted: "), testing::Not(HasSubstr("crashed"))));
}

TEST_F(HoneTune, AWorkerThatIsKilledIsReplaced) {
  pid_t tuner = 0, worker = 0;
  ASSERT_NO_FATAL_FAILURE(start_long(&tuner, &worker, "--budget 4s --json"));
  kill(worker, SIGKILL);
  EXPECT_EQ(wait_for(tuner), 0) << err();
  EXPECT_LE(nlohmann::json::parse(out())["crashed"], 1) << "at most whoever was running";
}

}  // namespace
}  // namespace hone::autotune
