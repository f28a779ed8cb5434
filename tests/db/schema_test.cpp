#include <gmock/gmock.h>

#include <sstream>

#include "db/store_internal.h"
#include "tests/db/db_testing.h"

namespace hone::db {
namespace {

using testing::HasSubstr;
using testing::IsEmpty;

std::string fixture(int version) {
  return slurp(std::string(HONE_DB_FIXTURES) + "/v" + std::to_string(version) + ".sql");
}

// Tables and indices as SQLite remembers their text, white space apart.
std::string schema_of(const std::string& path) {
  std::string text;
  SQLite::Database database(path);
  SQLite::Statement q(database, "SELECT sql FROM sqlite_schema WHERE sql IS NOT NULL ORDER BY name");
  while (q.executeStep()) {
    std::istringstream words(q.getColumn("sql").getString());
    for (std::string word; words >> word;) text += word + ' ';
  }
  return text;
}

void expect_fixture_content(Store& store) {
  auto found = store.decisions_for_problem("matmul:f32:m=4,n=64,k=32,b=packed");
  ASSERT_TRUE(found.ok()) << found.status().to_string();
  ASSERT_EQ(found->size(), 1u);
  EXPECT_EQ(found->front().machine.key, "x86-64:avx,avx2,fma");
  EXPECT_EQ(found->front().decision.winner.program, "program 6x16");
  EXPECT_EQ(found->front().decision.winner.codegen, "llvm");
  EXPECT_EQ(found->front().decision.fallback.threads, 1);
  EXPECT_EQ(found->front().decision.speedup, 2.0);
  EXPECT_EQ(store.samples(1, "matmul:f32:m=4,n=64,k=32,b=packed")->size(), 2u);
  EXPECT_EQ(store.outcomes(1)->front().outcome, Outcome::kWrong);
  EXPECT_EQ(store.runs()->front().info.seed, 42);
  EXPECT_THAT(*store.verify(), IsEmpty());
}

TEST(DbSchema, EveryOldVersionOpensWithItsContent) {
  for (int version = 1; version <= migrations().back().version; ++version) {
    SCOPED_TRACE(version);
    for (OpenMode mode : {OpenMode::kReadOnly, OpenMode::kReadWrite}) {
      Folder folder;
      run_sql(folder.file("old.db"), fixture(version));
      auto store = must_open(folder.file("old.db"), mode);
      EXPECT_EQ(store->mode(), mode);
      EXPECT_EQ(store->message(), "");
      expect_fixture_content(*store);
      ASSERT_EQ(store->codes()->size(), version >= 4 ? 2u : 0u);
      if (version < 4) continue;
      EXPECT_EQ(store->codes()->front().candidate.codegen, "llvm");
      EXPECT_FALSE(store->codes()->front().loop.has_value());
      EXPECT_EQ(store->codes()->back().loop->fma, 16);
    }
  }
}

// A released migration is never edited: the fixtures hold the schemas as they were released.
TEST(DbSchema, MigrationsAreWhatTheFixturesRecorded) {
  for (int version = 1; version <= migrations().back().version; ++version) {
    Folder folder;
    run_sql(folder.file("fixture.db"), fixture(version));
    ASSERT_TRUE(open_with({.path = folder.file("new.db")}, migrations().first(static_cast<size_t>(version))).ok());
    EXPECT_EQ(schema_of(folder.file("new.db")), schema_of(folder.file("fixture.db"))) << version;
  }
}

// Version 2: old runs get an identity that two copies of a file agree on, and the problem that they were about.
TEST(DbSchema, OldRunsGetTheirIdentityAndProblem) {
  Folder folder;
  std::vector<std::string> uids;
  for (const char* name : {"a.db", "b.db"}) {
    run_sql(folder.file(name), fixture(1) +
                                   "INSERT INTO runs VALUES(2, 1, 1, 1796000000, 42, 'warm', 0.012, '');"
                                   "INSERT INTO problems VALUES(2, 'q', 'q', 1);"
                                   "INSERT INTO samples VALUES(2, 1, 1, 0, 0, 0, 5), (2, 2, 1, 0, 0, 0, 5);");
    auto runs = must_open(folder.file(name))->runs();
    ASSERT_TRUE(runs.ok());
    ASSERT_EQ(runs->size(), 2u);
    EXPECT_EQ(runs->front().info.problem.text, "") << "two problems";
    EXPECT_EQ(runs->back().info.problem.text, "matmul:f32:m=4,n=64,k=32,b=packed");
    EXPECT_TRUE(runs->back().decided);
    EXPECT_EQ(runs->back().spent_seconds, 0);
    for (const StoredRun& run : *runs) uids.push_back(run.uid);
  }
  EXPECT_NE(uids[0], uids[1]);
  EXPECT_EQ(uids[0], uids[2]);
  EXPECT_EQ(uids[1], uids[3]);
}

// What people query by hand.
TEST(DbSchema, ViewsJoinTheTexts) {
  Folder folder;
  fill(*must_open(folder.file("a.db")));
  SQLite::Database database(folder.file("a.db"));
  SQLite::Statement plans(database,
                          "SELECT problem, verdict, speedup, program, default_program, engine, decided_at "
                          "FROM plans ORDER BY decision");
  ASSERT_TRUE(plans.executeStep());
  EXPECT_EQ(plans.getColumn("problem").getString(), problem(1).text);
  EXPECT_EQ(plans.getColumn("program").getString(), "tuned");
  EXPECT_EQ(plans.getColumn("default_program").getString(), "default");
  EXPECT_EQ(plans.getColumn("decided_at").getString().substr(0, 2), "20");
  EXPECT_FALSE(plans.executeStep());
  EXPECT_EQ(database.execAndGet("SELECT sum(ns) FROM timings WHERE phase = 'confirm'").getInt64(), 2500);
}

TEST(DbSchema, VersionsAscendFromOne) {
  int expected = 1;
  for (const Migration& step : migrations()) EXPECT_EQ(step.version, expected++);
}

std::vector<Migration> with_next(const char* sql) {
  std::vector<Migration> steps(migrations().begin(), migrations().end());
  steps.push_back({steps.back().version + 1, sql});
  return steps;
}

TEST(DbSchema, NextVersionMigratesInPlace) {
  const auto steps =
      with_next("ALTER TABLE runs ADD COLUMN host TEXT NOT NULL DEFAULT 'unknown'; CREATE TABLE jobs(id INTEGER);");
  Folder folder;
  run_sql(folder.file("old.db"), fixture(1));
  auto store = open_with({.path = folder.file("old.db")}, steps);
  ASSERT_TRUE(store.ok());
  EXPECT_EQ((*store)->schema_version(), steps.back().version);
  expect_fixture_content(**store);
  EXPECT_THAT(schema_of(folder.file("old.db")), HasSubstr("host TEXT"));
}

TEST(DbSchema, OlderFileIsReadThroughAMigratedCopy) {
  const auto steps = with_next("ALTER TABLE runs ADD COLUMN host TEXT NOT NULL DEFAULT 'unknown'");
  Folder folder;
  run_sql(folder.file("old.db"), fixture(1));
  const std::string before = slurp(folder.file("old.db"));
  auto store = open_with({.path = folder.file("old.db"), .mode = OpenMode::kReadOnly}, steps);
  ASSERT_TRUE(store.ok());
  EXPECT_EQ((*store)->mode(), OpenMode::kReadOnly);
  expect_fixture_content(**store);
  EXPECT_EQ(begin(**store).status().code(), Code::kFailedPrecondition);
  EXPECT_EQ(slurp(folder.file("old.db")), before);
}

TEST(DbSchema, FailedMigrationChangesNothing) {
  const auto steps = with_next("CREATE TABLE jobs(id INTEGER); INSERT INTO nowhere VALUES(1);");
  Folder folder;
  run_sql(folder.file("old.db"), fixture(1));
  const std::string before = schema_of(folder.file("old.db"));
  auto store = open_with({.path = folder.file("old.db")}, steps);
  EXPECT_EQ(schema_of(folder.file("old.db")), before);
  EXPECT_TRUE(!store.ok() || (*store)->mode() != OpenMode::kReadWrite);
  expect_fixture_content(*must_open(folder.file("old.db")));
}

// Case d5.
TEST(DbSchema, D5NewerVersionIsReadOnlyAndSaysSo) {
  Folder folder;
  const std::string path = folder.file("a.db");
  fill(*must_open(path));
  run_sql(path,
          "ALTER TABLE decisions ADD COLUMN energy REAL; CREATE TABLE fleet(id INTEGER); PRAGMA user_version = 99");
  for (OpenMode mode : {OpenMode::kReadWrite, OpenMode::kReadOnly}) {
    auto store = must_open(path, mode);
    EXPECT_EQ(store->mode(), OpenMode::kReadOnly);
    EXPECT_EQ(store->schema_version(), 99);
    EXPECT_THAT(store->message(), HasSubstr("newer version (schema 99"));
    EXPECT_THAT(store->message(), HasSubstr(path));
    EXPECT_EQ(store->decisions_for_problem(problem(1).text)->size(), 1u);
    EXPECT_EQ(begin(*store).status().code(), Code::kFailedPrecondition);
  }
}

TEST(DbSchema, NewerVersionWithoutAColumnWeNeedIsAStatus) {
  Folder folder;
  const std::string path = folder.file("a.db");
  fill(*must_open(path));
  run_sql(path, "ALTER TABLE decisions RENAME COLUMN ns TO time; PRAGMA user_version = 99");
  auto store = must_open(path);
  auto found = store->decisions_for_problem(problem(1).text);
  EXPECT_EQ(found.status().code(), Code::kUnsupported);
  EXPECT_THAT(found.status().message(), HasSubstr("newer version"));
  EXPECT_EQ(store->runs()->size(), 1u) << "what can be read is read";
}

}  // namespace
}  // namespace hone::db
