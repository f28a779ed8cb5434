// Damage is done to files whose content is known, and what comes back is compared with it: a row is true or absent.
#include "db/salvage.h"

#include <gmock/gmock.h>
#include <sys/mount.h>

#include <map>
#include <random>
#include <set>

#include "db/store_internal.h"
#include "tests/db/db_testing.h"

namespace hone::db {
namespace {

using testing::HasSubstr;

constexpr int kProblems = 40;

// A database of every kind of record, large enough that every table has several pages.
void populate(const std::string& path) {
  auto store = must_open(path);
  const MachineLabel machine{.key = "x86-64:avx2", .label = "{\"model\":\"" + std::string(3000, 'm') + "\"}"};
  auto session = store->claim_session(machine, {.engine = "hone test", .codegens = "asmjit=1"}, "{}", false);
  ASSERT_TRUE(session.ok());
  for (int m = 1; m <= kProblems; ++m) {
    auto run =
        store->begin_run(machine, {.engine = "hone test", .codegens = "asmjit=1"},
                         {.cache_mode = "cold", .settings = "{}", .session_id = session->id, .problem = problem(m)});
    ASSERT_TRUE(run.ok());
    std::vector<SampleGroup> groups;
    for (int c = 0; c < 9; ++c) {
      const std::string text = c == 0 ? "default"
                               : c == 1
                                   ? "tuned"
                                   : std::string(100, 'a' + m % 26) + " " + std::to_string(m) + " " + std::to_string(c);
      SampleGroup group{.candidate = candidate(text)};
      for (int r = 0; r < 12; ++r)
        group.samples.push_back({.round = r, .order = c, .ns = 1'000'000 + m * 999 + r, .phase = Phase::kConfirm});
      groups.push_back(std::move(group));
    }
    ASSERT_TRUE(store->add_round(*run, problem(m), groups, 1.5).ok());
    Decision decided = decision(problem(m), "tuned", 1'700'000'000 + m);
    decided.ns = decided.default_ns = static_cast<double>(1'000'000 + m * 999) + 5.5;
    decided.speedup = decided.speedup_lo = decided.speedup_hi = 1;
    ASSERT_TRUE(store->add_decision(*run, decided).ok());
    ASSERT_TRUE(store->add_outcome(*run, problem(m), candidate("wrong one"), Outcome::kWrong, "element 3", "x").ok());
  }
  ASSERT_TRUE(
      store->save_ranker({.machine_key = "k", .features = "f", .trained_at = 1, .model = std::string(9000, 'z')}).ok());
  ASSERT_TRUE(store->save_schedule(schedule_choice(2, 1)).ok());
  ASSERT_TRUE(store->save_codes({code_record("asmjit", 1), code_record("llvm", 1)}).ok());
}

using Rows = std::set<std::string>;

// Every row of every table as text.
std::map<std::string, Rows> content(SQLite::Database& database) {
  std::map<std::string, Rows> all;
  for (const Table& table : tables()) {
    SQLite::Statement q(database, std::string("SELECT * FROM ") + table.name);
    while (q.executeStep()) {
      std::string row;
      for (int i = 0; i < q.getColumnCount(); ++i) row += q.getColumn(i).getString() + "|";
      all[table.name].insert(std::move(row));
    }
  }
  return all;
}

size_t size_of(const std::map<std::string, Rows>& all) {
  size_t count = 0;
  for (const auto& [table, rows] : all) count += rows.size();
  return count;
}

class DbSalvage : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    whole_ = new Folder;
    populate(whole_->file("a.db"));
    SQLite::Database database(whole_->file("a.db"));
    content_ = new std::map<std::string, Rows>(content(database));
    for (const char* made_again :
         {"rankers", "schedules", "fork_joins", "codes", "code_parts", "code_models", "code_samples"})
      content_->erase(made_again);
  }
  static void TearDownTestSuite() {
    delete whole_;
    delete content_;
  }
  static std::string bytes() { return slurp(whole_->file("a.db")); }

  // Salvages `damaged`; each row is one of the original. The number of rows, -1 for nothing.
  static int64_t salvage_true_rows(const std::string& damaged, const std::string& log = "") {
    Folder folder;
    spit(folder.file("a.db"), damaged);
    if (!log.empty()) spit(folder.file("a.db-wal"), log);
    std::optional<Salvaged> saved = salvage(folder.file("a.db"), migrations());
    EXPECT_EQ(slurp(folder.file("a.db")), damaged);
    if (!saved) return -1;
    SQLite::Database& database = saved->connection->database();
    EXPECT_EQ(database.execAndGet("PRAGMA integrity_check").getString(), "ok");
    SQLite::Statement keys(database, "PRAGMA foreign_key_check");
    EXPECT_FALSE(keys.executeStep());
    const auto found = content(database);
    for (const auto& [table, rows] : found) {
      for (const std::string& row : rows) {
        // A run whose session or problem is lost stays, without it.
        if (!(*content_)[table].contains(row) && table != "runs") ADD_FAILURE() << table << ": " << row;
      }
      EXPECT_LE(rows.size(), (*content_)[table].size());
    }
    EXPECT_EQ(saved->records, static_cast<int64_t>(size_of(found)));
    EXPECT_THAT(find_faults(*saved->connection), testing::IsEmpty());
    decisions_dropped_ = saved->dropped_decisions;
    decisions_saved_ = static_cast<int64_t>(found.contains("decisions") ? found.at("decisions").size() : 0);
    runs_saved_ = static_cast<int64_t>(found.contains("runs") ? found.at("runs").size() : 0);
    return saved->records;
  }

  static inline int64_t runs_saved_ = 0, decisions_saved_ = 0, decisions_dropped_ = 0;
  static Folder* whole_;
  static std::map<std::string, Rows>* content_;
};
Folder* DbSalvage::whole_ = nullptr;
std::map<std::string, Rows>* DbSalvage::content_ = nullptr;

std::string noise(size_t count, unsigned seed) {
  std::mt19937 random(seed);
  std::string bytes(count, '\0');
  for (char& c : bytes) c = static_cast<char>(random());
  return bytes;
}

TEST_F(DbSalvage, ASoundFileComesBackWhole) {
  EXPECT_EQ(salvage_true_rows(bytes()), static_cast<int64_t>(size_of(*content_)));
}

// What a disk does: sectors of noise or zeros.
TEST_F(DbSalvage, LosesLittleMoreThanTheDamagedSectors) {
  const std::string sound = bytes();
  const auto all = static_cast<int64_t>(size_of(*content_));
  for (unsigned seed = 0; seed < 50; ++seed) {
    SCOPED_TRACE(seed);
    std::mt19937 random(seed);
    const size_t sectors = sound.size() / 512, count = 1 + random() % 8, at = random() % (sectors - count);
    std::string damaged = sound;
    damaged.replace(at * 512, count * 512, seed % 2 ? noise(count * 512, seed) : std::string(count * 512, '\0'));
    const int64_t saved = salvage_true_rows(damaged);
    if (at == 0) continue;  // the first sector says whose file it is
    // Two pages; with a run go its samples, as nothing else tells on which machine they were taken.
    EXPECT_GE(saved, all / 2 * runs_saved_ / kProblems) << "of " << all << ", damage at sector " << at;
  }
}

// The tables stand where they stand in every file that was made at once.
TEST_F(DbSalvage, TheSchemaItselfIsLost) {
  std::string damaged = bytes();
  damaged.replace(104, 4096 - 104, noise(4096 - 104, 3));
  EXPECT_EQ(salvage_true_rows(damaged), static_cast<int64_t>(size_of(*content_)));
}

// Bytes of noise anywhere: values inside a page that stays well formed cannot be told from true ones, but whatever
// happens the result is a sound database.
TEST_F(DbSalvage, NoiseAnywhereGivesASoundDatabaseOrNothing) {
  const std::string sound = bytes();
  for (unsigned seed = 100; seed < 150; ++seed) {
    SCOPED_TRACE(seed);
    std::mt19937 random(seed);
    std::string damaged = sound;
    const size_t length = size_t{1} << (random() % 14), at = random() % (damaged.size() - length);
    damaged.replace(at, length, noise(length, seed));
    Folder folder;
    spit(folder.file("a.db"), damaged);
    std::optional<Salvaged> saved = salvage(folder.file("a.db"), migrations());
    if (!saved) continue;
    EXPECT_EQ(saved->connection->database().execAndGet("PRAGMA integrity_check").getString(), "ok");
    EXPECT_EQ(saved->connection->database().execAndGet("SELECT count(*) FROM pragma_foreign_key_check").getInt(), 0);
  }
}

TEST_F(DbSalvage, TruncatedAnywhere) {
  const std::string sound = bytes();
  for (unsigned seed = 0; seed < 40; ++seed) {
    std::mt19937 random(seed);
    const size_t size = random() % sound.size();
    SCOPED_TRACE(size);
    (void)salvage_true_rows(sound.substr(0, size));
  }
  EXPECT_GT(salvage_true_rows(sound.substr(0, sound.size() / 2)), 0);
}

// Texts that everything refers to stand in the table and in its index; one of the two is enough.
TEST_F(DbSalvage, ALostPageOfTextsIsRebuiltFromItsIndex) {
  Folder folder;
  SQLite::Database database(whole_->file("a.db"));
  for (const char* table : {"machines", "builds", "problems", "programs", "candidates"}) {
    SCOPED_TRACE(table);
    const auto root = static_cast<size_t>(
        database.execAndGet(std::string("SELECT rootpage FROM sqlite_schema WHERE name = '") + table + "'").getInt());
    std::string damaged = bytes();
    damaged.replace((root - 1) * 4096, 4096, std::string(4096, '\0'));
    EXPECT_EQ(salvage_true_rows(damaged), static_cast<int64_t>(size_of(*content_)));
  }
}

// Number of `bytes` bytes, the first one the highest.
uint32_t number(const std::string& file, size_t at, size_t bytes) {
  uint32_t value = 0;
  for (size_t i = 0; i < bytes; ++i) value = value << 8 | static_cast<unsigned char>(file[at + i]);
  return value;
}

// A page of samples is more than those of one problem: decisions that lost theirs go too, or half of theirs.
TEST_F(DbSalvage, WithTheirSamplesGoDecisions) {
  SQLite::Database database(whole_->file("a.db"));
  const auto root =
      static_cast<size_t>(database.execAndGet("SELECT rootpage FROM sqlite_schema WHERE name = 'samples'").getInt());
  const std::string sound = bytes();
  const size_t page = (root - 1) * 4096, children = number(sound, page + 3, 2);
  ASSERT_EQ(sound[page], 2) << "a page of what leads to pages";
  ASSERT_GT(children, 10u);
  for (size_t i = 0; i < children; ++i) {
    SCOPED_TRACE(i);
    const size_t leaf = number(sound, page + number(sound, page + 12 + 2 * i, 2), 4);
    std::string damaged = sound;
    damaged.replace((leaf - 1) * 4096, 4096, std::string(4096, '\0'));
    EXPECT_GT(salvage_true_rows(damaged), 0);
    EXPECT_GE(decisions_dropped_, 1);
    EXPECT_LE(decisions_dropped_, 3);
    EXPECT_EQ(decisions_saved_ + decisions_dropped_, kProblems);
  }
}

TEST(DbSalvaged, SaysWhatItIs) {
  Salvaged saved;
  saved.records = 812;
  saved.damaged_tables = 1;
  EXPECT_EQ(saved.summary(), "saved 812 records, 1 table was damaged");
  saved.dropped_decisions = 2;
  EXPECT_EQ(saved.summary(), "saved 812 records, 1 table was damaged, 2 decisions were dropped whose samples are lost");
}

// A process was killed before its log was copied into the file, and then the file was damaged.
TEST_F(DbSalvage, WhatOnlyTheLogHoldsIsSavedToo) {
  Folder folder;
  const std::string path = folder.file("a.db");
  const auto codes = in_processes(1, [&](int) {
    auto store = must_open(path);
    fill(*store);
    const std::string file = slurp(path), log = slurp(path + "-wal");
    spit(folder.file("copy.db"), file);
    spit(folder.file("copy.db-wal"), log.substr(0, log.size() - 100) + std::string(100, '\0'));  // torn at its end
    return 0;
  });
  ASSERT_EQ(codes.front(), 0);
  std::optional<Salvaged> saved = salvage(folder.file("copy.db"), migrations());
  ASSERT_TRUE(saved.has_value());
  EXPECT_EQ(saved->connection->database().execAndGet("SELECT count(*) FROM samples").getInt(), 2);
}

// The store takes any text, so no text makes a sound page a bad one.
TEST_F(DbSalvage, OddTextsComeBack) {
  Folder folder;
  const std::string path = folder.file("a.db");
  {
    auto store = must_open(path);
    auto run = begin(*store);
    for (const std::string odd : {"bell \x07 \x1b[31m", "latin \xe9\xe8\xea\xe0", "cut \xe2\x82", "\x7f"}) {
      ASSERT_TRUE(
          store->add_outcome(*run, problem(1), candidate("p " + odd), Outcome::kRefused, odd, "hone " + odd).ok());
    }
  }
  std::optional<Salvaged> saved = salvage(path, migrations());
  ASSERT_TRUE(saved.has_value());
  EXPECT_EQ(saved->damaged_tables, 0);
  EXPECT_EQ(saved->connection->database().execAndGet("SELECT count(*) FROM outcomes").getInt(), 4);
}

TEST_F(DbSalvage, OldVersionsAreMigrated) {
  for (int version = 1; version < migrations().back().version; ++version) {
    Folder folder;
    run_sql(folder.file("a.db"), slurp(std::string(HONE_DB_FIXTURES) + "/v" + std::to_string(version) + ".sql"));
    std::optional<Salvaged> saved = salvage(folder.file("a.db"), migrations());
    ASSERT_TRUE(saved.has_value());
    EXPECT_EQ(saved->damaged_tables, 0);
    EXPECT_EQ(read_schema(saved->connection->database()).version, migrations().back().version);
    EXPECT_EQ(saved->connection->database().execAndGet("SELECT count(*) FROM plans").getInt(), 1);
  }
}

TEST_F(DbSalvage, NothingIsTakenFromFilesThatAreNotOurs) {
  Folder folder;
  run_sql(folder.file("notes.db"),
          "CREATE TABLE machines(id INTEGER PRIMARY KEY, key TEXT, label TEXT);"
          "INSERT INTO machines VALUES(1, 'k', 'l')");
  EXPECT_FALSE(salvage(folder.file("notes.db"), migrations()).has_value());
  spit(folder.file("noise.db"), noise(50'000, 1));
  EXPECT_FALSE(salvage(folder.file("noise.db"), migrations()).has_value());
  EXPECT_FALSE(salvage(folder.file("absent.db"), migrations()).has_value());
}

// The whole way: a damaged file is opened, and the store has what was readable and says so.
TEST_F(DbSalvage, OpeningADamagedFileKeepsWhatIsReadable) {
  SQLite::Database database(whole_->file("a.db"));
  const auto root =
      static_cast<size_t>(database.execAndGet("SELECT rootpage FROM sqlite_schema WHERE name = 'candidates'").getInt());
  std::string damaged = bytes();
  damaged.replace((root - 1) * 4096, 4096, noise(4096, 5));
  Folder folder;
  const std::string path = folder.file("a.db");
  spit(path, damaged);
  auto reading = must_open(path, OpenMode::kReadOnly);
  EXPECT_EQ(reading->mode(), OpenMode::kReadOnly);
  EXPECT_EQ(reading->path(), path);
  EXPECT_THAT(reading->message(), HasSubstr("is damaged (table candidates: "));
  EXPECT_THAT(reading->message(), HasSubstr("read as far as it can be (saved "));
  EXPECT_EQ(reading->message().find('\n'), std::string::npos) << reading->message();
  EXPECT_THAT(reading->verify()->front(), testing::StartsWith("file: table candidates: "));
  EXPECT_EQ(reading->all_decisions()->size(), static_cast<size_t>(kProblems)) << reading->message();
  EXPECT_EQ(slurp(path), damaged) << "reading moves nothing";
  auto store = must_open(path);
  EXPECT_EQ(store->mode(), OpenMode::kReadWrite);
  EXPECT_THAT(store->message(), HasSubstr("moved to " + path + ".corrupt-"));
  EXPECT_THAT(store->message(), HasSubstr("saved " + std::to_string(size_of(*content_)) + " records, 1 table was"));
  EXPECT_EQ(store->all_decisions()->size(), static_cast<size_t>(kProblems));
  EXPECT_THAT(*store->verify(), testing::IsEmpty());
  fill(*store, 77);
  store.reset();
  EXPECT_EQ(folder.names().size(), 2u) << testing::PrintToString(folder.names());
  EXPECT_EQ(must_open(path)->message(), "");
}

// Damage among the samples is not looked for at each opening; who wants it mended asks.
TEST_F(DbSalvage, DamageAmongSamplesIsMendedOnRequest) {
  SQLite::Database database(whole_->file("a.db"));
  const auto root =
      static_cast<size_t>(database.execAndGet("SELECT rootpage FROM sqlite_schema WHERE name = 'samples'").getInt());
  std::string damaged = bytes();
  damaged.replace((root - 1) * 4096, 4096, noise(4096, 9));
  Folder folder;
  const std::string path = folder.file("a.db");
  spit(path, damaged);
  {
    auto store = must_open(path);
    EXPECT_EQ(store->message(), "");
    EXPECT_THAT(store->samples(1, problem(1).text).status().message(),
                HasSubstr("`hone db gc` saves what can be read"));
  }
  auto store = open({.path = path, .check_all = true});
  ASSERT_TRUE(store.ok());
  EXPECT_THAT((*store)->message(), HasSubstr("1 table was damaged"));
  EXPECT_EQ((*store)->samples(1, problem(1).text)->size(), 9u);
  EXPECT_EQ((*store)->all_decisions()->size(), static_cast<size_t>(kProblems));
}

// Without room for what can be read the damaged file stays where it is, and is mended when there is some.
TEST_F(DbSalvage, AFullDiskKeepsTheDamagedFileInPlace) {
  Folder folder;
  const std::string options = "size=" + std::to_string(bytes().size() + 64 * 1024);
  if (mount("tmpfs", folder.path().c_str(), "tmpfs", 0, options.c_str()) != 0)
    GTEST_SKIP() << "mounting a tmpfs is not permitted here";
  std::string damaged = bytes();
  damaged.replace(3 * 4096, 4096, noise(4096, 9));  // builds
  const std::string path = folder.file("a.db");
  spit(path, damaged);
  {
    auto store = must_open(path);
    EXPECT_EQ(store->mode(), OpenMode::kInMemory);
    EXPECT_THAT(store->message(), HasSubstr("no room beside it"));
    EXPECT_EQ(store->all_decisions()->size(), static_cast<size_t>(kProblems));
    EXPECT_EQ(slurp(path), damaged);
    for (const std::string& name : folder.names()) EXPECT_EQ(name.find(".salvage-"), std::string::npos);
    EXPECT_EQ(mount("tmpfs", folder.path().c_str(), "tmpfs", MS_REMOUNT, "size=8m"), 0);
    EXPECT_EQ(must_open(path)->mode(), OpenMode::kReadWrite);
    EXPECT_EQ(must_open(path)->all_decisions()->size(), static_cast<size_t>(kProblems));
  }
  umount2(folder.path().c_str(), MNT_DETACH);
}

}  // namespace
}  // namespace hone::db
