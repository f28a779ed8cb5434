// Several processes on one database: the promises that only hold if the file, not this process, keeps order.
#include <gmock/gmock.h>
#include <signal.h>

#include "tests/db/db_testing.h"

namespace hone::db {
namespace {

using testing::Each;
using testing::HasSubstr;
using testing::IsEmpty;

constexpr int kProcesses = 8;
constexpr int kCalls = 40;

// What a tuner does; 0 when every call succeeded.
int tune(const std::string& path, int process) {
  auto store = open({.path = path});
  if (!store.ok() || (*store)->mode() != OpenMode::kReadWrite) return 2;
  auto run = begin(**store);
  if (!run.ok()) return 3;
  for (int i = 0; i < kCalls; ++i) {
    const Candidate c = candidate("program " + std::to_string(i % 7));
    if (!add_samples(**store, *run, problem(i % 5), c, {{.round = i, .order = process, .ns = 10 + i}}).ok()) return 4;
    if (!(*store)->decisions_for_family(problem(1).family).ok()) return 5;
    if (i % 10 == 0 && !(*store)->add_decision(*run, decision(problem(i % 5), "program 0")).ok()) return 6;
  }
  return 0;
}

// Case d7, with the first creation of the file in the race.
TEST(DbProcesses, D7EightWritersLoseNothing) {
  Folder folder;
  const std::string path = folder.file("new/hone.db");
  EXPECT_THAT(in_processes(kProcesses, [&](int i) { return tune(path, i); }), Each(0));
  auto store = must_open(path);
  EXPECT_EQ(rows(*store, "runs"), kProcesses);
  EXPECT_EQ(rows(*store, "samples"), kProcesses * kCalls);
  EXPECT_EQ(rows(*store, "decisions"), kProcesses * 4);
  EXPECT_EQ(rows(*store, "programs"), 8) << "seven and the default: texts are stored once";
  EXPECT_EQ(rows(*store, "problems"), 5);
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

// Case d3: killed with SIGKILL. Each acknowledged call is in the file, and the file is sound.
TEST(DbProcesses, D3KilledProcessKeepsWhatWasAcknowledged) {
  Folder folder;
  const std::string path = folder.file("hone.db");
  int pipes[2];
  ASSERT_EQ(pipe(pipes), 0);
  const pid_t child = fork();
  if (child == 0) {
    auto store = open({.path = path});
    auto run = begin(**store);
    for (int i = 0;; ++i) {
      if (!add_samples(**store, *run, problem(1), candidate("p"), {{.round = i, .ns = 5}}).ok()) _exit(1);
      if (write(pipes[1], "x", 1) != 1) _exit(1);
    }
  }
  close(pipes[1]);
  int64_t acknowledged = 0;
  char c = 0;
  while (acknowledged < 200 && read(pipes[0], &c, 1) == 1) ++acknowledged;
  kill(child, SIGKILL);
  waitpid(child, nullptr, 0);
  while (read(pipes[0], &c, 1) == 1) ++acknowledged;
  close(pipes[0]);
  ASSERT_GE(acknowledged, 200);
  auto store = must_open(path);
  EXPECT_EQ(store->message(), "");
  const int64_t stored = rows(*store, "samples");
  EXPECT_GE(stored, acknowledged);
  EXPECT_LE(stored, acknowledged + 1) << "only the call under way may be there without an acknowledgement";
  EXPECT_THAT(*store->verify(), IsEmpty());
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
