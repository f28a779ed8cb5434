// Dropping entry by entry: what goes and why, what never goes, and that nothing else changes.
#include "db/gc.h"

#include <gmock/gmock.h>

#include <map>

#include "db/gc_internal.h"
#include "tests/db/db_testing.h"

namespace hone::db {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

constexpr int64_t kNow = 2'000'000'000, kDay = 86'400;

// A run with one decision of `program`; its times say when.
int64_t decide(Store& store, const std::string& program, int64_t decided_at, const std::string& engine = "hone 1",
               const std::string& machine = "x86-64:avx2", int64_t m = 1) {
  const auto run = store.begin_run({.key = machine, .label = "{}"}, {.engine = engine, .codegens = "asmjit=1"},
                                   {.seed = 7, .cache_mode = "warm", .settings = "{}", .problem = problem(m)});
  const Sample tuned{.order = 0, .ns = 1000, .phase = Phase::kConfirm},
      other{.order = 1, .ns = 1500, .phase = tuned.phase};
  EXPECT_TRUE(add_samples(store, *run, problem(m), candidate(program), {tuned}).ok());
  EXPECT_TRUE(add_samples(store, *run, problem(m), candidate("default"), {other}).ok());
  const auto id = store.add_decision(*run, decision(problem(m), program, decided_at));
  EXPECT_TRUE(id.ok());
  return *id;
}

// "hone 1" is this build, "hone 0" an older one; a program that begins with "bad" cannot be read.
Worth judge(const StoredDecision& d) {
  Worth w{.age = d.build.engine == "hone 1" ? Age::kThisBuild : d.build.engine == "hone 0" ? Age::kOlder : Age::kOther};
  if (d.decision.winner.program.starts_with("bad")) {
    w.why_not = "unreadable";
    w.hopeless = w.age != Age::kOther;
  }
  return w;
}

std::map<int64_t, std::string> dropped(const GcReport& report, const std::string& what = "decision") {
  std::map<int64_t, std::string> found;
  for (const GcDrop& d : report.dropped)
    if (d.what == what) found[d.id] = d.reason;
  return found;
}

std::vector<int64_t> left(Store& store) {
  std::vector<int64_t> ids;
  const auto all = store.all_decisions();
  for (const StoredDecision& d : *all) ids.push_back(d.id);
  std::sort(ids.begin(), ids.end());
  return ids;
}

GcReport collect(Store& store, GcOptions options = {}) {
  options.judge = judge;
  options.now = kNow;
  Result<GcReport> report = collect_garbage(store, options);
  EXPECT_TRUE(report.ok()) << report.status().to_string();
  return report.ok() ? *report : GcReport{};
}

TEST(DbGc, SupersededGoButForTheNextBest) {
  const auto store = must_open(":memory:");
  for (int i = 0; i < 4; ++i) decide(*store, "p" + std::to_string(i), 100 + i);
  const GcReport report = collect(*store);
  EXPECT_THAT(left(*store), ElementsAre(3, 4));
  EXPECT_EQ(dropped(report).at(1), "superseded by 3 newer ones");
  EXPECT_EQ(rows(*store, "runs"), 2);
  EXPECT_EQ(rows(*store, "samples"), 4);
  EXPECT_EQ(rows(*store, "programs"), 3) << "p2, p3 and the default";
  EXPECT_THAT(*store->verify(), IsEmpty());
  EXPECT_THAT(collect(*store).dropped, IsEmpty()) << "once is enough";
}

TEST(DbGc, OfSchedulesTheNewestOfMachineBuildAndThreadsStays) {
  const auto store = must_open(":memory:");
  ASSERT_TRUE(store->save_schedule(schedule_choice(2, 100)).ok());
  ASSERT_TRUE(store->save_schedule(schedule_choice(2, 200)).ok());
  ASSERT_TRUE(store->save_schedule(schedule_choice(4, 100)).ok());
  ASSERT_TRUE(store->save_schedule(schedule_choice(2, 100, "hone other")).ok());
  EXPECT_THAT(dropped(collect(*store), "schedule"), ElementsAre(testing::Pair(1, "a newer one was measured")));
  EXPECT_EQ(rows(*store, "schedules"), 3);
  EXPECT_EQ(rows(*store, "fork_joins"), 6);
  EXPECT_EQ(rows(*store, "builds"), 2);
  EXPECT_THAT(*store->verify(), IsEmpty());
}

TEST(DbGc, OfCodesTheNewestOfProblemProgramAndGeneratorStays) {
  const auto store = must_open(":memory:");
  for (const int64_t at : {100, 200, 300})
    ASSERT_TRUE(store->save_codes({code_record("asmjit", at), code_record("llvm", at)}).ok());
  ASSERT_TRUE(store->save_codes({code_record("asmjit", 50, 2)}).ok());
  CodeRecord other = code_record("asmjit", 50);
  other.candidate.program = "other";
  CodeRecord cold = code_record("asmjit", 50);
  cold.cache_mode = "cold";
  ASSERT_TRUE(store->save_codes({other, cold}).ok());
  EXPECT_EQ(dropped(collect(*store), "code").size(), 4u);
  EXPECT_EQ(rows(*store, "codes"), 5);
  EXPECT_EQ(rows(*store, "code_parts"), 10);
  EXPECT_EQ(rows(*store, "code_models"), 10);
  EXPECT_EQ(rows(*store, "code_samples"), 15);
  EXPECT_EQ(rows(*store, "candidates"), 3) << "what codes refer to stays";
  EXPECT_EQ(rows(*store, "problems"), 2);
  EXPECT_THAT(*store->verify(), IsEmpty());
  EXPECT_THAT(collect(*store).dropped, IsEmpty()) << "once is enough";
}

TEST(DbGc, GroupsAreByThreadsMachineAndProblem) {
  const auto store = must_open(":memory:");
  for (int64_t i = 0; i < 3; ++i) {
    decide(*store, "p", 100 + i, "hone 1", "machine " + std::to_string(i));
    decide(*store, "p", 100 + i, "hone 1", "m", 1 + i);
  }
  EXPECT_THAT(collect(*store).dropped, IsEmpty());
}

TEST(DbGc, UselessGoesAlsoWhenItIsTheLast) {
  const auto store = must_open(":memory:");
  decide(*store, "bad", 100);
  decide(*store, "bad by a newer", 100, "hone 2", "other", 2);
  const GcReport report = collect(*store);
  EXPECT_EQ(dropped(report).at(1), "no build can use it: unreadable");
  EXPECT_THAT(left(*store), ElementsAre(2)) << "a newer version can read what this one cannot";
}

// It supersedes what is behind it: without it another decision would come to the front, and plans would change.
TEST(DbGc, UselessThatCoversOthersStays) {
  const auto store = must_open(":memory:");
  for (int i = 0; i < 4; ++i) decide(*store, "p" + std::to_string(i), 100 + i);
  decide(*store, "bad", 200);
  EXPECT_THAT(collect(*store).dropped, IsEmpty());
  decide(*store, "p5", 300);
  EXPECT_EQ(dropped(collect(*store)).count(5), 1u) << "the newer one covers them";
}

TEST(DbGc, OlderBuildsGoWhenThisOneMeasuredAgain) {
  const auto store = must_open(":memory:");
  decide(*store, "old", 100, "hone 0");
  decide(*store, "new", 200);
  decide(*store, "old", 100, "hone 0", "x86-64:avx2", 2);
  decide(*store, "newer", 100, "hone 2");
  const GcReport report = collect(*store);
  EXPECT_THAT(left(*store), ElementsAre(2, 3, 4));
  EXPECT_THAT(dropped(report).at(1), HasSubstr("measured by hone 0 with asmjit 1.10+1; this build measured it again"));
  (void)collect(*store, {.other_builds = true});
  EXPECT_THAT(left(*store), ElementsAre(2, 3)) << "3 is the last of its problem and machine";
}

TEST(DbGc, OldGoWhenAskedButNeverTheLastOrTheOneInUse) {
  const auto store = must_open(":memory:");
  decide(*store, "a", kNow - 100 * kDay);
  decide(*store, "b", kNow - 99 * kDay);
  decide(*store, "c", kNow - 10 * kDay);
  decide(*store, "d", kNow - 300 * kDay, "hone 1", "x86-64:avx2", 2);
  const GcReport report = collect(*store, {.older_than = 90 * kDay});
  EXPECT_THAT(left(*store), ElementsAre(3, 4));
  EXPECT_EQ(dropped(report).size(), 2u);

  const auto again = must_open(":memory:");
  for (int i = 0; i < 4; ++i) decide(*again, "p" + std::to_string(i), kNow - (100 - i) * kDay);
  GcOptions options{.judge =
                        [](const StoredDecision& d) {
                          Worth w = judge(d);
                          w.in_use = d.id == 1;
                          return w;
                        },
                    .older_than = kDay,
                    .now = kNow};
  ASSERT_TRUE(collect_garbage(*again, options).ok());
  EXPECT_THAT(left(*again), ElementsAre(1));
}

TEST(DbGc, SessionsRunsAndRankersThatAreOver) {
  Folder folder;
  const std::string path = folder.file("a.db");
  auto store = must_open(path);
  const MachineLabel machine{.key = "k", .label = "{}"};
  const BuildLabel build{.engine = "hone 1", .codegens = "c"};
  for (int i = 0; i < 2; ++i) {
    const auto claim = store->claim_session(machine, build, "s" + std::to_string(i), true);
    const auto run = store->begin_run(machine, build, {.cache_mode = "warm", .session_id = claim->id});
    ASSERT_TRUE(add_samples(*store, *run, problem(1), candidate("p"), {{.round = 0, .order = 0, .ns = 9}}).ok());
  }
  ASSERT_TRUE(store->begin_run({.key = "nobody's", .label = "{}"}, build, {.cache_mode = "warm"}).ok());
  ASSERT_TRUE(begin(*store).ok());
  for (int64_t t : {1, 2})
    ASSERT_TRUE(store->save_ranker({.machine_key = "k", .features = "f", .trained_at = t, .model = "m"}).ok());
  store.reset();
  run_sql(path,
          "UPDATE sessions SET seen_at = 2000000000 - 86400 * (CASE id WHEN 1 THEN 31 ELSE 29 END);"
          "UPDATE runs SET started_at = 2000000000 - 86400 * 2; UPDATE runs SET started_at = 2000000000 WHERE id = 4");
  store = must_open(path);
  const GcReport report = collect(*store);
  EXPECT_EQ(dropped(report, "session").at(1), "not taken up again for 30 days");
  EXPECT_EQ(dropped(report, "run").at(3), "nothing was measured");
  EXPECT_EQ(dropped(report, "ranker").at(1), "a newer one was learned");
  EXPECT_EQ(report.dropped.size(), 3u) << "not the run that may just have begun";
  EXPECT_EQ(rows(*store, "sessions"), 1);
  EXPECT_EQ(rows(*store, "runs"), 3);
  EXPECT_EQ(rows(*store, "machines"), 2);
  EXPECT_EQ(rows(*store, "samples"), 2) << "undecided runs are kept to learn from";
  EXPECT_EQ(dropped(collect(*store, {.older_than = kDay}), "run").count(1), 1u);
  EXPECT_EQ(rows(*store, "samples"), 1) << "but not the one of a session that may be resumed";
}

TEST(DbGc, DryRunSaysTheSameAndChangesNothing) {
  Folder folder;
  const std::string path = folder.file("a.db");
  auto store = must_open(path);
  for (int i = 0; i < 30; ++i) decide(*store, "p" + std::to_string(i), 100 + i);
  store.reset();
  const std::string before = slurp(path);
  const GcReport dry = collect(*must_open(path, OpenMode::kReadOnly), {.dry_run = true});
  EXPECT_EQ(slurp(path), before);
  store = must_open(path);
  const GcReport wet = collect(*store);
  EXPECT_EQ(dropped(dry), dropped(wet));
  ASSERT_EQ(dry.rows.size(), wet.rows.size());
  for (size_t i = 0; i < dry.rows.size(); ++i) EXPECT_EQ(dry.rows[i].rows, wet.rows[i].rows) << dry.rows[i].table;
  EXPECT_EQ(wet.not_compacted, "");
  EXPECT_LE(wet.bytes_after, wet.bytes_before);
  EXPECT_THAT(*store->verify(), IsEmpty());
  decide(*store, "p0", 500);  // row numbers that were looked up before are not used again
  EXPECT_THAT(*store->verify(), IsEmpty());
}

TEST(DbGc, FileShrinks) {
  Folder folder;
  const std::string path = folder.file("a.db");
  auto store = must_open(path);
  for (int i = 0; i < 3; ++i) {
    decide(*store, "p" + std::to_string(i), 100 + i);
    std::vector<Sample> many;
    for (int r = 1; r < 20'000; ++r) many.push_back({.round = r, .order = 0, .ns = 1000});
    ASSERT_TRUE(add_samples(*store, i + 1, problem(1), candidate("p" + std::to_string(i)), many).ok());
  }
  const GcReport report = collect(*store);
  EXPECT_LT(report.bytes_after, report.bytes_before * 3 / 4);
  store.reset();
  EXPECT_EQ(static_cast<int64_t>(std::filesystem::file_size(path)), report.bytes_after);
}

TEST(DbGc, ReadOnlyAndNewerAreRefused) {
  Folder folder;
  const std::string path = folder.file("a.db");
  fill(*must_open(path));
  EXPECT_EQ(collect_garbage(*must_open(path, OpenMode::kReadOnly), {.judge = judge}).status().code(),
            Code::kFailedPrecondition);
  run_sql(path, "PRAGMA user_version = 99");
  EXPECT_EQ(collect_garbage(*must_open(path), {.judge = judge, .dry_run = true}).status().code(), Code::kUnsupported);
}

TEST(DbGc, DanglingReferenceStopsIt) {
  Folder folder;
  const std::string path = folder.file("a.db");
  auto store = must_open(path);
  for (int i = 0; i < 4; ++i) decide(*store, "p" + std::to_string(i), 100 + i);
  store.reset();
  run_sql(path, "PRAGMA foreign_keys = off; UPDATE runs SET build_id = 77 WHERE id = 4");
  store = must_open(path);
  const auto report = collect_garbage(*store, {.judge = judge, .now = kNow});
  EXPECT_EQ(report.status().code(), Code::kDataLoss);
  EXPECT_EQ(rows(*store, "samples"), 8);
}

}  // namespace
}  // namespace hone::db
