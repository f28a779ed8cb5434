#include "db/store.h"

#include <gmock/gmock.h>

#include <cmath>
#include <limits>
#include <thread>

#include "db/store_internal.h"
#include "tests/db/db_testing.h"

namespace hone::db {
namespace {

using testing::HasSubstr;
using testing::IsEmpty;

TEST(DbStore, GivesBackWhatWasStored) {
  Folder folder;
  Decision expected = decision(problem(4), "prog\nwith 'quotes' and \xc3\xa9", 1700000000);
  expected.verdict = Verdict::kTie;
  expected.speedup = 1.0 + 1.0 / 3;  // not a short decimal: must come back bit for bit
  {
    auto store = must_open(folder.file("a.db"));
    auto run = store->begin_run({.key = "k", .label = "{\"l3\":0}"}, {.engine = "e", .codegens = "c"},
                                {.seed = -9, .cache_mode = "cold", .noise_bound = 0.5, .settings = "{\"a\":1}"});
    ASSERT_TRUE(run.ok());
    EXPECT_TRUE(store->set_noise_bound(*run, 0.25).ok());
    const std::vector<Sample> samples = {
        {.round = 1, .order = 3, .ns = 1, .phase = Phase::kConfirm},
        {.round = int64_t{1} << 40, .order = 2, .ns = 1'000'000'000'000'000, .phase = Phase::kSearch}};
    EXPECT_TRUE(add_samples(*store, *run, problem(4), candidate("p"), samples).ok());
    EXPECT_TRUE(store->add_outcome(*run, problem(4), candidate("q"), Outcome::kCrashed, "SIGILL", "hone tune x").ok());
    EXPECT_TRUE(store->add_decision(*run, expected).ok());
  }
  auto store = must_open(folder.file("a.db"), OpenMode::kReadOnly);
  auto decisions = store->decisions_for_problem(problem(4).text);
  ASSERT_TRUE(decisions.ok());
  ASSERT_EQ(decisions->size(), 1u);
  const StoredDecision& d = decisions->front();
  EXPECT_EQ(d.machine.key, "k");
  EXPECT_EQ(d.machine.label, "{\"l3\":0}");
  EXPECT_EQ(d.build.codegens, "c");
  EXPECT_EQ(d.decision.winner, expected.winner);
  EXPECT_EQ(d.decision.fallback, expected.fallback);
  EXPECT_EQ(d.decision.verdict, Verdict::kTie);
  EXPECT_EQ(d.decision.speedup, expected.speedup);
  EXPECT_EQ(d.decision.problem.family, problem(4).family);
  EXPECT_EQ(d.decision.problem.m, 4);
  EXPECT_EQ(d.decision.decided_at, 1700000000);

  auto samples = store->samples(d.run_id, problem(4).text);
  ASSERT_TRUE(samples.ok());
  ASSERT_EQ(samples->size(), 1u);
  EXPECT_EQ(samples->front().first, candidate("p"));
  ASSERT_EQ(samples->front().second.size(), 2u);
  EXPECT_EQ(samples->front().second[0].ns, 1'000'000'000'000'000);  // search before confirm
  EXPECT_EQ(samples->front().second[1].phase, Phase::kConfirm);

  auto outcomes = store->outcomes(d.run_id);
  ASSERT_TRUE(outcomes.ok());
  ASSERT_EQ(outcomes->size(), 1u);
  EXPECT_EQ(outcomes->front().outcome, Outcome::kCrashed);
  EXPECT_EQ(outcomes->front().command, "hone tune x");

  auto runs = store->runs();
  ASSERT_TRUE(runs.ok());
  ASSERT_EQ(runs->size(), 1u);
  EXPECT_EQ(runs->front().info.seed, -9);
  EXPECT_EQ(runs->front().info.noise_bound, 0.25);
}

// Case d4, in front of the database ...
TEST(DbStore, D4RefusesATimeThatIsNotPositive) {
  auto store = must_open("", OpenMode::kInMemory);
  auto run = begin(*store);
  for (int64_t ns : {int64_t{0}, int64_t{-1}, std::numeric_limits<int64_t>::min()}) {
    Status s = add_samples(*store, *run, problem(1), candidate("p"), {{.round = 0, .ns = 5}, {.round = 1, .ns = ns}});
    EXPECT_EQ(s.code(), Code::kInvalidArgument);
    EXPECT_THAT(s.message(), HasSubstr(problem(1).text));
  }
  EXPECT_EQ(rows(*store, "samples"), 0) << "the whole call is refused";
}

// ... and inside it, for whoever writes past the store.
TEST(DbStore, D4CheckConstraintRefusesATimeOfZero) {
  Folder folder;
  const std::string path = folder.file("a.db");
  fill(*must_open(path));
  for (const char* ns : {"0", "-5", "NULL", "'fast'"}) {
    EXPECT_THROW(run_sql(path, std::string("INSERT INTO samples VALUES(1, 1, 1, 0, 9, 0, ") + ns + ")"),
                 SQLite::Exception)
        << ns;
  }
  EXPECT_NO_THROW(run_sql(path, "INSERT INTO samples VALUES(1, 1, 1, 0, 9, 0, 1)"));
  EXPECT_THROW(run_sql(path, "UPDATE decisions SET ns = 0"), SQLite::Exception);
}

TEST(DbStore, RefusesRecordsThatCannotBeTrue) {
  auto store = must_open("", OpenMode::kInMemory);
  auto run = begin(*store);
  const std::vector<Sample> one = {{.round = 0, .order = 0, .ns = 5}};
  const auto code = [](const Status& s) { return s.code(); };
  EXPECT_EQ(code(add_samples(*store, *run + 1, problem(1), candidate("p"), one)), Code::kInvalidArgument);
  EXPECT_EQ(code(add_samples(*store, *run, {.text = "", .family = "f"}, candidate("p"), one)), Code::kInvalidArgument);
  EXPECT_EQ(code(add_samples(*store, *run, problem(1), candidate(""), one)), Code::kInvalidArgument);
  EXPECT_EQ(code(add_samples(*store, *run, problem(1), candidate("p", 0), one)), Code::kInvalidArgument);
  EXPECT_EQ(code(add_samples(*store, *run, problem(1), candidate("p"), {{.round = -1, .ns = 5}})),
            Code::kInvalidArgument);
  EXPECT_EQ(code(store->set_noise_bound(*run, std::nan(""))), Code::kInvalidArgument);
  EXPECT_EQ(code(store->set_noise_bound(99, 0.1)), Code::kInvalidArgument);
  for (double bad : {0.0, -1.0, std::nan(""), std::numeric_limits<double>::infinity()}) {
    Decision d = decision(problem(1), "p");
    d.ns = bad;
    EXPECT_EQ(code(store->add_decision(*run, d).status()), Code::kInvalidArgument) << bad;
  }
  EXPECT_EQ(rows(*store, "problems"), 0) << "a refused call leaves nothing";
  ASSERT_TRUE(add_samples(*store, *run, problem(1), candidate("p"), one).ok());
  ProblemKey moved = problem(1);
  moved.family = "other";
  EXPECT_THAT(add_samples(*store, *run, moved, candidate("p"), one).message(), HasSubstr("stored with family"));
}

// What is written can be exported and imported again: the ranges are the same.
TEST(DbStore, RangesAreThoseOfAnImport) {
  const auto store = must_open(":memory:");
  const auto run = begin(*store);
  ASSERT_TRUE(run.ok());
  const int64_t most = 1'000'000'000'000'000;
  EXPECT_TRUE(add_samples(*store, *run, problem(1), candidate("a"), {{.round = 0, .order = 0, .ns = most}}).ok());
  EXPECT_FALSE(add_samples(*store, *run, problem(1), candidate("a"), {{.round = 1, .order = 0, .ns = most + 1}}).ok());
  for (const int64_t date : {int64_t{-1}, int64_t{253'402'300'800}, std::numeric_limits<int64_t>::min()})
    EXPECT_FALSE(store->add_decision(*run, decision(problem(1), "a", date)).ok()) << date;
  EXPECT_TRUE(store->add_decision(*run, decision(problem(1), "a", 253'402'300'799)).ok());
  Decision slow = decision(problem(1), "a");
  slow.default_ns = 2e15;
  EXPECT_FALSE(store->add_decision(*run, slow).ok());
  EXPECT_FALSE(store->begin_run({.key = "k", .label = std::string(100, '[')}, {}, {}).ok());
}

TEST(DbStore, OneSlotHoldsOneSample) {
  auto store = must_open("", OpenMode::kInMemory);
  auto run = begin(*store);
  ASSERT_TRUE(add_samples(*store, *run, problem(1), candidate("p"), {{.round = 0, .order = 0, .ns = 5}}).ok());
  Status twice = add_samples(*store, *run, problem(1), candidate("p"),
                             {{.round = 1, .order = 0, .ns = 6}, {.round = 0, .order = 0, .ns = 7}});
  EXPECT_EQ(twice.code(), Code::kInvalidArgument);
  EXPECT_THAT(twice.message(), HasSubstr("round 0, order 0"));
  EXPECT_EQ(rows(*store, "samples"), 1) << "all or none";
  EXPECT_TRUE(add_samples(*store, *run, problem(1), candidate("p"), {{.ns = 5, .phase = Phase::kConfirm}}).ok());
  EXPECT_TRUE(add_samples(*store, *run, problem(1), candidate("p", 2), {{.ns = 5}}).ok());
}

TEST(DbStore, NewestDecisionFirst) {
  auto store = must_open("", OpenMode::kInMemory);
  auto run = begin(*store);
  ASSERT_TRUE(store->add_decision(*run, decision(problem(8), "new", 300)).ok());
  ASSERT_TRUE(store->add_decision(*run, decision(problem(8), "old", 100)).ok());
  ASSERT_TRUE(store->add_decision(*run, decision(problem(2), "two", 200)).ok());
  ASSERT_TRUE(store->add_decision(*run, decision(problem(8), "same second, later", 300)).ok());
  ASSERT_TRUE(store->add_decision(*run, decision(problem(8, 128), "other family", 400)).ok());
  const auto programs = [](const Result<std::vector<StoredDecision>>& found) {
    std::vector<std::string> names;
    for (const StoredDecision& d : *found) names.push_back(d.decision.winner.program);
    return names;
  };
  using testing::ElementsAre;
  EXPECT_THAT(programs(store->decisions_for_problem(problem(8).text)), ElementsAre("same second, later", "new", "old"));
  EXPECT_THAT(programs(store->decisions_for_family(problem(8).family)),
              ElementsAre("two", "same second, later", "new", "old"));
  EXPECT_EQ(programs(store->all_decisions()).size(), 5u);
  EXPECT_THAT(programs(store->decisions_for_problem("matmul:f32:m=1' OR 1=1 --")), IsEmpty());
}

TEST(DbStore, ADecisionOfAWholeSaysSo) {
  const Folder folder;
  const std::unique_ptr<Store> store = must_open(folder.file("w.db"));
  const Whole whole{.why = "in the whole of \"m\" the default is faster by 5%", .threads = 2};
  const Result<int64_t> alone = begin(*store);
  ASSERT_TRUE(alone.ok() && store->add_decision(*alone, decision(problem(1), "p1", 100)).ok());
  const Result<int64_t> inside =
      store->begin_run({.key = "x86-64:avx2", .label = "{}"}, {.engine = "hone test", .codegens = "asmjit=1"},
                       {.cache_mode = std::string(kInWhole), .settings = whole_settings(whole)});
  ASSERT_TRUE(inside.ok() && store->add_decision(*inside, decision(problem(1), "p0", 101)).ok());
  const auto read = store->decisions_for_problem(problem(1).text);
  ASSERT_TRUE(read.ok());
  ASSERT_EQ(read->size(), 2u);
  ASSERT_TRUE((*read)[0].whole);
  EXPECT_EQ((*read)[0].whole->why, whole.why);
  EXPECT_EQ((*read)[0].whole->threads, 2);
  EXPECT_FALSE((*read)[1].whole);
}

TEST(DbStore, SettingsOfAWholeMayBeAnything) {
  for (const char* settings : {"", "{}", "[1]", "not json", R"({"why":7,"threads":"two"})", R"({"threads":-3})"}) {
    const Whole whole = read_whole_settings(settings);
    EXPECT_EQ(whole.why, "") << settings;
    EXPECT_EQ(whole.threads, 0) << settings;
  }
  EXPECT_GT(read_whole_settings(R"({"threads":99999999999})").threads, 4096);
  EXPECT_NO_THROW(EXPECT_NE(whole_settings({.why = "\xff", .threads = 1}), ""));
}

// Case d2, d1: machines are told apart by key; a label is only remembered.
TEST(DbStore, MachinesKeepTheirLabels) {
  auto store = must_open("", OpenMode::kInMemory);
  for (const char* label : {"{\"l3\":1}", "{\"l3\":2}", "{\"l3\":1}"}) {
    ASSERT_TRUE(store->begin_run({.key = "k", .label = label}, {.engine = "e", .codegens = "c"}, {}).ok());
  }
  EXPECT_EQ(rows(*store, "machines"), 2);
  EXPECT_EQ(rows(*store, "builds"), 1);
  EXPECT_EQ(store->begin_run({}, {}, {}).status().code(), Code::kInvalidArgument);
}

TEST(DbStore, ThreadsShareOneStore) {
  Folder folder;
  auto store = must_open(folder.file("a.db"));
  auto run = begin(*store);
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < 50; ++i) {
        EXPECT_TRUE(
            add_samples(*store, *run, problem(i % 5), candidate("p" + std::to_string(t)), {{.round = i, .ns = 1 + i}})
                .ok());
        EXPECT_TRUE(store->samples(*run, problem(i % 5).text).ok());
      }
    });
  }
  for (std::thread& t : threads) t.join();
  EXPECT_EQ(rows(*store, "samples"), 200);
}

TEST(DbStore, TwoStoresOfOneProcessDoNotDisturbEachOther) {
  Folder folder;
  auto a = must_open(folder.file("a.db"));
  auto run = begin(*a);
  for (int i = 0; i < 20; ++i) {
    auto b = must_open(folder.file("a.db"));
    auto other = begin(*b);
    ASSERT_TRUE(other.ok());
    EXPECT_TRUE(add_samples(*b, *other, problem(1), candidate("p"), {{.ns = 2}}).ok());
    EXPECT_TRUE(add_samples(*a, *run, problem(1), candidate("p"), {{.round = i, .ns = 2}}).ok());
  }
  EXPECT_EQ(rows(*a, "samples"), 40);
}

TEST(DbStore, ReadOnlyRefusesWritesAndSaysWhy) {
  Folder folder;
  fill(*must_open(folder.file("a.db")));
  auto store = must_open(folder.file("a.db"), OpenMode::kReadOnly);
  EXPECT_EQ(store->mode(), OpenMode::kReadOnly);
  EXPECT_EQ(store->message(), "");
  const Status s = begin(*store).status();
  EXPECT_EQ(s.code(), Code::kFailedPrecondition);
  EXPECT_THAT(s.message(), HasSubstr(folder.file("a.db")));
  EXPECT_EQ(store->decisions_for_problem(problem(1).text)->size(), 1u);
}

// A full disk as SQLite reports it, on machines that cannot mount a small file system (DbOpen.D9FullDisk).
TEST(DbStore, FullDatabaseIsAStatusAndStaysSound) {
  Folder folder;
  fill(*must_open(folder.file("a.db")));
  auto connection = std::make_unique<Connection>(folder.file("a.db"), folder.file("a.db"),
                                                 SQLite::OPEN_READWRITE | SQLite::OPEN_CREATE);
  configure_writer(connection->database());
  connection->database().execAndGet("PRAGMA max_page_count = 1");  // means: not larger than it is
  SqliteStore store(std::move(connection), {.mode = OpenMode::kReadWrite, .message = "", .schema_version = 1});
  auto run = begin(store);
  ASSERT_TRUE(run.ok()) << run.status().to_string();
  Status status;
  size_t stored = 0;
  for (int i = 0; status.ok() && i < 1000; ++i) {
    std::vector<Sample> samples;
    for (int r = 0; r < 50; ++r) samples.push_back({.round = r, .order = i, .ns = 1000});
    status = add_samples(store, *run, problem(1), candidate("p"), samples);
    if (status.ok()) stored += samples.size();
  }
  EXPECT_EQ(status.code(), Code::kResourceExhausted) << status.to_string();
  EXPECT_THAT(status.message(), HasSubstr(folder.file("a.db")));
  EXPECT_THAT(*store.verify(), IsEmpty());
  auto samples = store.samples(*run, problem(1).text);
  ASSERT_TRUE(samples.ok());
  EXPECT_EQ(samples->empty() ? 0 : samples->front().second.size(), stored);
}

TEST(DbStore, NamesAreStable) {
  EXPECT_EQ(outcome_name(Outcome::kRefused), "refused");
  EXPECT_EQ(verdict_name(Verdict::kKept), "kept");
  EXPECT_EQ(phase_name(Phase::kNoise), "noise");
}

}  // namespace
}  // namespace hone::db
