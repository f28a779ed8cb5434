// Several processes on one database: the promises that only hold if the file, not this process, keeps order.
#include <gmock/gmock.h>
#include <signal.h>

#include <cstdio>
#include <random>

#include "tests/db/db_testing.h"

namespace hone::db {
namespace {

using testing::Each;
using testing::HasSubstr;
using testing::IsEmpty;

constexpr int kProcesses = 8;
constexpr int kRuns = 3, kRounds = 10, kCandidates = 5;
const MachineLabel kMachine{.key = "x86-64:avx2", .label = "{}"};
const BuildLabel kBuild{.engine = "hone test", .codegens = "asmjit=1"};

// What a tuner does: a session, a run for each problem, rounds of several candidates, failures and a decision, while it
// reads what others decided. 0 when every call succeeded; failures are printed, as nobody may ever see "locked".
int tune(const std::string& path, int process) {
  const auto fail = [&](const Status& s) {
    std::fprintf(stderr, "process %d: %s\n", process, s.to_string().c_str());
    return 1;
  };
  auto store = open({.path = path});
  if (!store.ok()) return fail(store.status());
  if ((*store)->mode() != OpenMode::kReadWrite || !(*store)->message().empty())
    return fail(internal_error((*store)->message()));
  auto session = (*store)->claim_session(kMachine, kBuild, "{}", false);
  if (!session.ok()) return fail(session.status());
  for (int p = 0; p < kRuns; ++p) {
    auto run =
        (*store)->begin_run(kMachine, kBuild, {.cache_mode = "cold", .session_id = session->id, .problem = problem(p)});
    if (!run.ok()) return fail(run.status());
    for (int round = 0; round < kRounds; ++round) {
      std::vector<SampleGroup> groups;
      for (int c = 0; c < kCandidates; ++c)
        groups.push_back({candidate("program " + std::to_string(c)), {{.round = round, .order = c, .ns = 10 + c}}});
      if (Status s = (*store)->add_round(*run, problem(p), groups, 0.1 * round); !s.ok()) return fail(s);
      if (auto found = (*store)->decisions_for_family(problem(1).family); !found.ok()) return fail(found.status());
    }
    Status noted = (*store)->add_outcome(*run, problem(p), candidate("bad"), Outcome::kCrashed, "SIGILL", "hone");
    if (!noted.ok()) return fail(noted);
    auto decided = (*store)->add_decision(*run, decision(problem(p), "program 0"));
    if (!decided.ok()) return fail(decided.status());
  }
  Status closed = (*store)->close_session(session->id);
  return closed.ok() ? 0 : fail(closed);
}

// Case d7, with the first creation of the file in the race.
TEST(DbProcesses, D7EightWritersLoseNothing) {
  Folder folder;
  const std::string path = folder.file("new/hone.db");
  EXPECT_THAT(in_processes(kProcesses, [&](int i) { return tune(path, i); }), Each(0));
  auto store = must_open(path);
  EXPECT_EQ(rows(*store, "sessions"), kProcesses);
  EXPECT_EQ(rows(*store, "runs"), kProcesses * kRuns);
  EXPECT_EQ(rows(*store, "samples"), kProcesses * kRuns * kRounds * kCandidates);
  EXPECT_EQ(rows(*store, "outcomes"), kProcesses * kRuns);
  EXPECT_EQ(rows(*store, "decisions"), kProcesses * kRuns);
  EXPECT_EQ(rows(*store, "programs"), kCandidates + 2) << "the bad one and the default: texts are stored once";
  EXPECT_EQ(rows(*store, "problems"), kRuns);
}

TEST(DbProcesses, ConcurrentFirstCreation) {
  for (int repeat = 0; repeat < 10; ++repeat) {
    Folder folder;
    const std::string path = folder.file("hone.db");
    const auto codes = in_processes(6, [&](int) {
      auto store = open({.path = path});
      return store.ok() && (*store)->mode() == OpenMode::kReadWrite && (*store)->message().empty() &&
                     begin(**store).ok()
                 ? 0
                 : 1;
    });
    EXPECT_THAT(codes, Each(0));
    EXPECT_EQ(must_open(path)->runs()->size(), 6u);
  }
}

// Everybody finds the damage; one moves the file, and nobody moves the new one.
TEST(DbProcesses, ConcurrentQuarantine) {
  for (int repeat = 0; repeat < 10; ++repeat) {
    Folder folder;
    const std::string path = folder.file("hone.db");
    spit(path, std::string(9000, '\x07'));
    const auto codes = in_processes(6, [&](int) {
      auto store = open({.path = path});
      return store.ok() && (*store)->mode() == OpenMode::kReadWrite && begin(**store).ok() ? 0 : 1;
    });
    EXPECT_THAT(codes, Each(0));
    EXPECT_EQ(must_open(path)->runs()->size(), 6u);
    EXPECT_EQ(folder.names().size(), 2u) << testing::PrintToString(folder.names());
  }
}

// A writer that tells the number of each round after it was stored, until it is killed.
[[noreturn]] void write_rounds(const std::string& path, int acknowledge) {
  auto store = open({.path = path});
  auto run = begin(**store);
  for (int64_t i = 0;; ++i) {
    std::vector<SampleGroup> groups;
    for (int c = 0; c < kCandidates; ++c)
      groups.push_back({candidate("p" + std::to_string(c)), {{.round = i, .order = c, .ns = 5}}});
    if (!(*store)->add_round(*run, problem(1), groups, 0).ok()) _exit(1);
    if (write(acknowledge, &i, sizeof i) != sizeof i) _exit(1);
  }
}

// Case d3: killed with SIGKILL, twenty times at random moments, into one file that each next writer finds as it was
// left. Each acknowledged round is whole, at most the one under way is there without, and the file is sound.
TEST(DbProcesses, D3KilledProcessKeepsWhatWasAcknowledged) {
  Folder folder;
  const std::string path = folder.file("hone.db");
  std::mt19937 random(1);
  for (int kill_number = 0; kill_number < 20; ++kill_number) {
    SCOPED_TRACE(kill_number);
    int pipes[2];
    ASSERT_EQ(pipe(pipes), 0);
    const pid_t child = fork();
    if (child == 0) write_rounds(path, pipes[1]);
    close(pipes[1]);
    int64_t last = -1;
    const int64_t enough = random() % 20;  // sometimes before, sometimes long after the first checkpoint of the log
    while (last < enough && read(pipes[0], &last, sizeof last) == sizeof last) continue;
    usleep(random() % 20'000);
    kill(child, SIGKILL);
    waitpid(child, nullptr, 0);
    while (read(pipes[0], &last, sizeof last) == sizeof last) continue;
    close(pipes[0]);
    ASSERT_GE(last, enough);
    auto store = must_open(path);
    ASSERT_EQ(store->message(), "");
    const int64_t run = store->runs()->front().id;
    auto samples = store->samples(run, problem(1).text);
    ASSERT_TRUE(samples.ok());
    ASSERT_EQ(samples->size(), static_cast<size_t>(kCandidates));
    const auto stored = static_cast<int64_t>(samples->front().second.size());
    for (const auto& [c, list] : *samples) EXPECT_EQ(static_cast<int64_t>(list.size()), stored) << "a round is whole";
    EXPECT_GE(stored, last + 1);
    EXPECT_LE(stored, last + 2);
    EXPECT_THAT(*store->verify(), IsEmpty());
  }
  EXPECT_EQ(folder.names().front(), "hone.db");
  EXPECT_EQ(must_open(path)->runs()->size(), 20u);
}

TEST(DbProcesses, ChildMustOpenItsOwnStore) {
  Folder folder;
  auto store = must_open(folder.file("a.db"));
  fill(*store);
  const auto codes = in_processes(1, [&](int) {
    const bool refused = begin(*store).status().code() == Code::kFailedPrecondition && !store->runs().ok();
    store.reset();  // must not close the parent's file
    auto own = open({.path = folder.file("a.db")});
    return refused && own.ok() && begin(**own).ok() ? 0 : 1;
  });
  EXPECT_THAT(codes, Each(0));
  EXPECT_TRUE(begin(*store).ok());
  EXPECT_EQ(store->runs()->size(), 3u);
}

}  // namespace
}  // namespace hone::db
