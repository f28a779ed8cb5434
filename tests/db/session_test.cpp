#include <gmock/gmock.h>

#include <set>

#include "db/owner.h"
#include "tests/db/db_testing.h"

namespace hone::db {
namespace {

using testing::Each;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;

const MachineLabel kMachine{.key = "x86-64:avx2", .label = "{}"};
const BuildLabel kBuild{.engine = "hone test", .codegens = "asmjit=1"};

SessionClaim claim(Store& store, const std::string& settings = "{}", bool fresh = false) {
  auto got = store.claim_session(kMachine, kBuild, settings, fresh);
  EXPECT_TRUE(got.ok()) << got.status().to_string();
  return got.ok() ? *got : SessionClaim{};
}

Result<int64_t> begin_in(Store& store, int64_t session, const ProblemKey& p) {
  return store.begin_run(kMachine, kBuild, {.cache_mode = "cold", .session_id = session, .problem = p});
}

// Case d3 in small: one problem is decided, one is under way, and the process is gone.
TEST(DbSession, WhatAKilledProcessBeganIsTakenUpAgain) {
  Folder folder;
  const std::string path = folder.file("a.db");
  const auto codes = in_processes(1, [&](int) {
    auto store = must_open(path);
    const SessionClaim mine = claim(*store);
    auto first = begin_in(*store, mine.id, problem(1));
    if (!add_samples(*store, *first, problem(1), candidate("tuned"), {{.ns = 1000, .phase = Phase::kConfirm}}, 2.5)
             .ok())
      return 1;
    if (!add_samples(*store, *first, problem(1), candidate("default"), {{.ns = 1500, .phase = Phase::kConfirm}}, 9.5)
             .ok())
      return 1;
    if (!store->add_decision(*first, decision(problem(1), "tuned")).ok()) return 1;
    auto second = begin_in(*store, mine.id, problem(2));
    return add_samples(*store, *second, problem(2), candidate("tuned"), {{.ns = 10}}, 1.25).ok() ? 0 : 1;
  });
  ASSERT_THAT(codes, Each(0));
  auto store = must_open(path);
  const SessionClaim mine = claim(*store);
  EXPECT_TRUE(mine.resumed);
  EXPECT_GT(mine.started_at, 0);
  auto runs = store->session_runs(mine.id);
  ASSERT_TRUE(runs.ok());
  ASSERT_THAT(*runs, SizeIs(2));
  EXPECT_EQ((*runs)[0].info.problem, problem(1));
  EXPECT_TRUE((*runs)[0].decided);
  EXPECT_EQ((*runs)[0].spent_seconds, 9.5);
  EXPECT_EQ((*runs)[1].info.problem.text, problem(2).text);
  EXPECT_FALSE((*runs)[1].decided);
  EXPECT_EQ((*runs)[1].spent_seconds, 1.25);
  EXPECT_NE((*runs)[0].uid, (*runs)[1].uid);
  EXPECT_EQ(store->decisions_of_run((*runs)[0].id)->front().decision.winner.program, "tuned");
  EXPECT_THAT(*store->decisions_of_run((*runs)[1].id), IsEmpty());
  EXPECT_THAT(*store->samples((*runs)[1].id, problem(2).text), SizeIs(1));
  EXPECT_THAT(*store->verify(), IsEmpty());
}

TEST(DbSession, OfALivingProcessIsLeftToIt) {
  Folder folder;
  auto a = must_open(folder.file("a.db")), b = must_open(folder.file("a.db"));
  const SessionClaim first = claim(*a), second = claim(*b);
  EXPECT_FALSE(first.resumed || second.resumed);
  EXPECT_NE(first.id, second.id);
  ASSERT_TRUE(a->release_session(first.id).ok());
  EXPECT_EQ(claim(*b).id, first.id) << "released after Ctrl-C";
  ASSERT_TRUE(b->release_session(first.id).ok());
  ASSERT_TRUE(b->close_session(second.id).ok());
  EXPECT_EQ(claim(*a).id, first.id) << "the newest is done";
}

TEST(DbSession, OnlyTheSameMachineBuildAndSettings) {
  auto store = must_open("", OpenMode::kInMemory);
  const SessionClaim first = claim(*store, "{\"budget\":1}");
  ASSERT_TRUE(store->release_session(first.id).ok());
  EXPECT_FALSE(claim(*store, "{\"budget\":2}").resumed);
  EXPECT_FALSE(claim(*store, "{\"budget\":1}", true).resumed) << "fresh";
  EXPECT_FALSE(
      store->claim_session({.key = kMachine.key, .label = "{\"l3\":1}"}, kBuild, "{\"budget\":1}", false)->resumed);
  EXPECT_FALSE(
      store->claim_session(kMachine, {.engine = "other", .codegens = "asmjit=1"}, "{\"budget\":1}", false)->resumed);
  EXPECT_EQ(claim(*store, "{\"budget\":1}").id, first.id);
}

// Eight processes start at once after a crash: each abandoned session goes to one of them.
TEST(DbSession, NoTwoProcessesGetTheSame) {
  Folder folder;
  const std::string path = folder.file("a.db");
  in_processes(4, [&](int) { return claim(*must_open(path)).id > 0 ? 0 : 1; });
  const auto codes = in_processes(8, [&](int) {
    auto store = must_open(path);
    const int64_t mine = claim(*store).id;
    usleep(300'000);  // all alive while they claim
    return static_cast<int>(mine);
  });
  EXPECT_EQ(std::set<int>(codes.begin(), codes.end()).size(), 8u) << testing::PrintToString(codes);
}

TEST(DbSession, UnknownNumbersAreRefused) {
  auto store = must_open("", OpenMode::kInMemory);
  EXPECT_THAT(store->close_session(7).message(), HasSubstr("no session 7"));
  EXPECT_THAT(begin_in(*store, 7, problem(1)).status().message(), HasSubstr("no session 7"));
  EXPECT_THAT(store->claim_session({}, kBuild, "", false).status().message(), HasSubstr("machine key"));
  EXPECT_THAT(*store->session_runs(7), IsEmpty());
  EXPECT_EQ(rows(*store, "problems"), 0) << "a refused call leaves nothing";
}

}  // namespace
}  // namespace hone::db
