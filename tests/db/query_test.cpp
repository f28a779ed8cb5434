// SQL that reads, and nothing that does not.
#include "db/query.h"

#include <gmock/gmock.h>

#include "tests/db/db_testing.h"

namespace hone::db {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

struct Answer {
  Status status;
  std::vector<std::string> columns;
  std::vector<std::vector<Value>> rows;
};

Answer ask(Store& store, const std::string& sql, const std::function<bool()>& stop = {}) {
  Answer a;
  a.status = query(store, sql,
                   {.columns =
                        [&](const std::vector<std::string>& names) {
                          a.columns = names;
                          return Status{};
                        },
                    .row =
                        [&](const std::vector<Value>& row) {
                          a.rows.push_back(row);
                          return Status{};
                        }},
                   stop);
  return a;
}

class DbQuery : public testing::Test {
 protected:
  DbQuery() : path_(folder_.file("q.db")) { fill(*must_open(path_)); }
  void SetUp() override {
    store_ = must_open(path_, OpenMode::kReadOnly);
    ASSERT_NE(store_, nullptr);
  }
  Folder folder_;
  std::string path_;
  std::unique_ptr<Store> store_;
};

TEST_F(DbQuery, ValuesKeepTheirTypes) {
  const Answer a = ask(*store_, "SELECT problem, ns, m, NULL AS x, '' AS x, x'00ff' AS b FROM plans; -- one");
  ASSERT_TRUE(a.status.ok()) << a.status.to_string();
  EXPECT_THAT(a.columns, ElementsAre("problem", "ns", "m", "x", "x_2", "b"));
  ASSERT_EQ(a.rows.size(), 1u);
  EXPECT_EQ(std::get<std::string>(a.rows[0][0]), problem(1).text);
  EXPECT_EQ(std::get<double>(a.rows[0][1]), 1000.0);
  EXPECT_EQ(std::get<int64_t>(a.rows[0][2]), 1);
  EXPECT_TRUE(std::holds_alternative<std::monostate>(a.rows[0][3]));
  EXPECT_EQ(std::get<std::string>(a.rows[0][4]), "");
  EXPECT_EQ(std::get<Blob>(a.rows[0][5]).bytes, std::string("\0\xff", 2));
}

TEST_F(DbQuery, TablesViewsAndTableFunctionsCanBeRead) {
  EXPECT_GE(ask(*store_, kListTables).rows.size(), 10u);
  for (const char* sql : {"SELECT * FROM timings", "SELECT name FROM pragma_table_info('runs')", "PRAGMA user_version",
                          "SELECT value FROM json_each('[1,2]')", "EXPLAIN QUERY PLAN SELECT * FROM plans",
                          "WITH RECURSIVE t(a) AS (SELECT 1 UNION ALL SELECT a+1 FROM t LIMIT 3) SELECT a FROM t"}) {
    const Answer a = ask(*store_, sql);
    EXPECT_TRUE(a.status.ok()) << sql << ": " << a.status.message();
    EXPECT_FALSE(a.rows.empty()) << sql;
  }
}

// On a store that could be written: the refusal is the query's, not the file's.
TEST_F(DbQuery, WhateverWritesOrReachesOutIsRefused) {
  store_.reset();
  for (const OpenMode mode : {OpenMode::kReadWrite, OpenMode::kReadOnly}) {
    const auto store = must_open(path_, mode);
    for (const std::string sql : {"DELETE FROM runs",
                                  "UPDATE runs SET seed = 1",
                                  "INSERT INTO programs(text) VALUES('x')",
                                  "DROP TABLE runs",
                                  "CREATE TABLE t(a)",
                                  "CREATE TEMP TABLE t(a)",
                                  "CREATE VIEW v AS SELECT 1",
                                  "ALTER TABLE runs ADD COLUMN x",
                                  "ATTACH 'other.db' AS o",
                                  "DETACH main",
                                  "BEGIN",
                                  "COMMIT",
                                  "SAVEPOINT s",
                                  "VACUUM",
                                  "VACUUM INTO 'x.db'",
                                  "REINDEX",
                                  "ANALYZE",
                                  "PRAGMA user_version = 9",
                                  "PRAGMA journal_mode = delete",
                                  "PRAGMA writable_schema = 1",
                                  "PRAGMA wal_checkpoint",
                                  "PRAGMA query_only = 0",
                                  "SELECT load_extension('x')",
                                  "UPDATE sqlite_master SET name = 'x'",
                                  "EXPLAIN DELETE FROM runs",
                                  "WITH t AS (SELECT 1) DELETE FROM runs",
                                  "INSERT INTO programs(text) VALUES('x') RETURNING id",
                                  "REPLACE INTO programs(text) VALUES('x')"}) {
      const Answer a = ask(*store, sql);
      EXPECT_EQ(a.status.code(), Code::kInvalidArgument) << sql << ": " << a.status.message();
      EXPECT_FALSE(a.status.message().empty());
      EXPECT_TRUE(a.rows.empty()) << sql;
    }
    EXPECT_EQ(rows(*store, "runs"), 1);
    EXPECT_EQ(rows(*store, "programs"), 2);
    EXPECT_EQ(ask(*store, "PRAGMA user_version").rows.size(), 1u);
    const auto run = begin(*store);  // the store is as it was before the queries
    EXPECT_EQ(run.ok(), mode == OpenMode::kReadWrite);
    if (run.ok()) run_sql(path_, "DELETE FROM runs WHERE id = " + std::to_string(*run));
  }
  EXPECT_FALSE(std::filesystem::exists("other.db"));
  EXPECT_FALSE(std::filesystem::exists("x.db"));
}

TEST_F(DbQuery, FaultsAreOneLineThatHelps) {
  const std::pair<std::string, std::string> cases[] = {
      {"SELEC 1", "near \"SELEC\": syntax error, at column 1"},
      {"SELECT nope FROM plans", "no such column: nope"},
      {"SELECT *\nFROM nope", "tables: builds, candidates"},
      {"SELECT * FROM nope", "views: code_quality, plans, timings"},
      {"", "no statement"},
      {" -- only\n/* comments */ ;;", "no statement"},
      {"SELECT 1; SELECT 2", "more than one statement"},
      {"SELECT 1; nonsense", "more than one statement"},
      {"SELECT ?", "parameters"},
      {"SELECT :a", "parameters"},
      {"SELECT 'a", "unrecognized token"},
      {"SELECT json_extract('{', '$')", "malformed JSON"},
      {"SELECT abs(-9223372036854775808)", "integer overflow"},
      {std::string("SELECT 1\0", 9), "NUL byte"},
      {"PRAGMA user_version = 4", "PRAGMA user_version with a value is refused"},
      {"ATTACH 'a.db' AS b", "attaching a.db is refused"},
      {"SELECT load_extension('a')", "load_extension is refused"}};
  for (const auto& [sql, what] : cases) {
    const Status s = ask(*store_, sql).status;
    EXPECT_EQ(s.code(), Code::kInvalidArgument) << sql;
    EXPECT_THAT(s.message(), HasSubstr(what));
    EXPECT_EQ(s.message().find('\n'), std::string::npos);
  }
}

TEST_F(DbQuery, StopsWhenTold) {
  int asked = 0;
  const Answer a = ask(*store_, "WITH RECURSIVE t(a) AS (SELECT 1 UNION ALL SELECT a+1 FROM t) SELECT count(*) FROM t",
                       [&] { return ++asked > 3; });
  EXPECT_EQ(a.status.code(), Code::kUnavailable);
  EXPECT_THAT(a.status.message(), HasSubstr("interrupted"));
  EXPECT_TRUE(ask(*store_, "SELECT 1").status.ok()) << "the next query is not stopped";
}

TEST_F(DbQuery, SinkThatFailsEndsTheQuery) {
  int seen = 0;
  const Status s = query(*store_, "SELECT 1 UNION ALL SELECT 2",
                         {.columns = [](const std::vector<std::string>&) { return Status{}; },
                          .row =
                              [&](const std::vector<Value>&) {
                                ++seen;
                                return data_loss("full");
                              }});
  EXPECT_EQ(s.message(), "full");
  EXPECT_EQ(seen, 1);
}

TEST_F(DbQuery, OlderSchemaIsReadAsTheNewestAndLeftAlone) {
  const std::string old = folder_.file("v1.db");
  run_sql(old, slurp(std::string(HONE_DB_FIXTURES) + "/v1.sql"));
  const std::string before = slurp(old);
  const auto store = must_open(old, OpenMode::kReadOnly);
  EXPECT_FALSE(ask(*store, "SELECT uid FROM runs").rows.empty());
  EXPECT_EQ(slurp(old), before);
}

}  // namespace
}  // namespace hone::db
