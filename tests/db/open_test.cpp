// Opening, and every way in which it may do less than was asked.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <sqlite3.h>
#include <sys/mount.h>
#include <sys/stat.h>

#include <cstring>
#include <random>

#include "db/schema_internal.h"
#include "tests/db/db_testing.h"

namespace hone::db {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::StartsWith;

void expect_works(Store& store) {
  fill(store, 77);
  EXPECT_EQ(store.decisions_for_problem(problem(77).text)->size(), 1u);
}

// Sets an environment variable (nullptr: unsets), and puts the old value back.
class Variable {
 public:
  Variable(const char* name, const char* value) : name_(name) {
    if (const char* old = getenv(name)) old_ = old, had_ = true;
    value ? setenv(name, value, 1) : unsetenv(name);
  }
  ~Variable() { had_ ? setenv(name_, old_.c_str(), 1) : unsetenv(name_); }
  Variable(const Variable&) = delete;
  Variable& operator=(const Variable&) = delete;

 private:
  const char* name_;
  std::string old_;
  bool had_ = false;
};

// A file system mounted on a folder for one test; ok() is false where mounting is not allowed.
class Mount {
 public:
  Mount(const std::string& folder, const char* options) : folder_(folder) {
    ok_ = mount("tmpfs", folder.c_str(), "tmpfs", 0, options) == 0;
  }
  ~Mount() {
    if (ok_) umount2(folder_.c_str(), MNT_DETACH);
  }
  Mount(const Mount&) = delete;
  Mount& operator=(const Mount&) = delete;
  bool ok() const { return ok_; }
  bool make_read_only() { return mount("tmpfs", folder_.c_str(), "tmpfs", MS_REMOUNT | MS_RDONLY, nullptr) == 0; }

 private:
  std::string folder_;
  bool ok_ = false;
};

TEST(DbOpen, CreatesParentFolders) {
  Folder folder;
  auto store = must_open(folder.file("a/b c/d?e#%/hone.db"));
  EXPECT_EQ(store->mode(), OpenMode::kReadWrite);
  EXPECT_EQ(store->message(), "");
  EXPECT_EQ(store->path(), folder.file("a/b c/d?e#%/hone.db"));
  expect_works(*store);
  EXPECT_EQ(read_schema(*std::make_unique<SQLite::Database>(store->path())).owner, Owner::kHone);
}

TEST(DbOpen, DefaultPathFollowsXdg) {
  Variable db("HONE_DB", "/x/y.db"), data("XDG_DATA_HOME", "/data"), home("HOME", "/home/u");
  EXPECT_EQ(*default_path(), "/x/y.db");
  Variable no_db("HONE_DB", nullptr);
  EXPECT_EQ(*default_path(), "/data/hone/hone.db");
  Variable relative("XDG_DATA_HOME", "data");
  EXPECT_EQ(*default_path(), "/home/u/.local/share/hone/hone.db");
  Variable no_home("HOME", nullptr);
  EXPECT_EQ(default_path().status().code(), Code::kNotFound);
}

TEST(DbOpen, D9NoHomeMeansMemory) {
  Variable db("HONE_DB", nullptr), data("XDG_DATA_HOME", nullptr), home("HOME", "");
  auto store = must_open("");
  EXPECT_EQ(store->mode(), OpenMode::kInMemory);
  EXPECT_EQ(store->path(), ":memory:");
  EXPECT_THAT(store->message(), HasSubstr("HOME"));
  expect_works(*store);
}

TEST(DbOpen, MemoryOnRequestIsNoDegradation) {
  EXPECT_EQ(must_open("", OpenMode::kInMemory)->message(), "");
  EXPECT_EQ(must_open(":memory:")->mode(), OpenMode::kInMemory);
}

TEST(DbOpen, D9FolderThatCannotBeMadeMeansMemory) {
  Folder folder;
  spit(folder.file("file"), "x");
  for (const std::string& path : {folder.file("file/hone.db"), std::string("/proc/hone/hone.db")}) {
    auto store = must_open(path);
    EXPECT_EQ(store->mode(), OpenMode::kInMemory);
    EXPECT_THAT(store->message(), HasSubstr("HONE_DB or --db"));
    expect_works(*store);
  }
}

TEST(DbOpen, D9ReadOnlyFolder) {
  Folder folder;
  Mount tmpfs(folder.path(), "size=8m");
  if (!tmpfs.ok()) GTEST_SKIP() << "mounting a tmpfs is not permitted here";
  fill(*must_open(folder.file("old.db")));
  ASSERT_TRUE(tmpfs.make_read_only());
  auto old = must_open(folder.file("old.db"));
  EXPECT_EQ(old->mode(), OpenMode::kReadOnly) << old->message();
  EXPECT_THAT(old->message(), HasSubstr("for reading only"));
  EXPECT_EQ(old->decisions_for_problem(problem(1).text)->size(), 1u);
  EXPECT_EQ(begin(*old).status().code(), Code::kFailedPrecondition);
  EXPECT_EQ(must_open(folder.file("old.db"), OpenMode::kReadOnly)->all_decisions()->size(), 1u);

  auto fresh = must_open(folder.file("new.db"));
  EXPECT_EQ(fresh->mode(), OpenMode::kInMemory);
  EXPECT_THAT(fresh->message(), HasSubstr(folder.file("new.db")));
  expect_works(*fresh);
}

TEST(DbOpen, D9WriteProtectedFileOfAnotherUser) {
  if (geteuid() == 0) GTEST_SKIP() << "permission bits do not stop root";
  Folder folder;
  fill(*must_open(folder.file("a.db")));
  chmod(folder.file("a.db").c_str(), 0444);
  auto store = must_open(folder.file("a.db"));
  EXPECT_EQ(store->mode(), OpenMode::kReadOnly);
  EXPECT_EQ(store->all_decisions()->size(), 1u);
}

TEST(DbOpen, D9FullDisk) {
  Folder folder;
  Mount tmpfs(folder.path(), "size=400k");
  if (!tmpfs.ok()) GTEST_SKIP() << "mounting a tmpfs is not permitted here";
  {
    auto store = must_open(folder.file("a.db"));
    ASSERT_EQ(store->mode(), OpenMode::kReadWrite) << store->message();
    fill(*store);
    auto run = begin(*store);
    Status status;
    int64_t stored = 0;
    for (int i = 0; status.ok() && i < 10000; ++i) {
      std::vector<Sample> samples;
      for (int r = 0; r < 50; ++r) samples.push_back({.round = r, .order = i, .ns = 1000});
      status = add_samples(*store, *run, problem(1), candidate("p"), samples);
      if (status.ok()) stored += 50;
    }
    EXPECT_EQ(status.code(), Code::kResourceExhausted) << status.to_string();
    EXPECT_THAT(status.message(), HasSubstr(folder.file("a.db")));
    EXPECT_THAT(*store->verify(), IsEmpty());
    EXPECT_EQ(static_cast<int64_t>(store->samples(*run, problem(1).text)->front().second.size()), stored)
        << "what was acknowledged is there, the refused call is not";
  }
  std::ofstream(folder.file("filler")) << std::string(1 << 20, 'x');
  auto fresh = must_open(folder.file("b.db"));
  EXPECT_EQ(fresh->mode(), OpenMode::kInMemory);
  EXPECT_THAT(fresh->message(), HasSubstr(folder.file("b.db")));
  expect_works(*fresh);
  auto again = must_open(folder.file("a.db"));
  EXPECT_NE(again->mode(), OpenMode::kInMemory) << again->message();
  EXPECT_EQ(again->all_decisions()->size(), 1u);
}

// The locks of SQLite fail as they do on a file system that has none.
int refusal = ENOLCK;
int without_locks(int file, int command, void* argument) {
  if (command != F_SETLK && command != F_SETLKW) return fcntl(file, command, argument);
  errno = refusal;
  return -1;
}

class NoLocks {
 public:
  explicit NoLocks(int why) {
    refusal = why;
    auto* call = reinterpret_cast<sqlite3_syscall_ptr>(&without_locks);
    EXPECT_EQ(vfs_->xSetSystemCall(vfs_, "fcntl", call), SQLITE_OK);
  }
  ~NoLocks() { vfs_->xSetSystemCall(vfs_, "fcntl", nullptr); }
  NoLocks(const NoLocks&) = delete;
  NoLocks& operator=(const NoLocks&) = delete;

 private:
  sqlite3_vfs* vfs_ = sqlite3_vfs_find(nullptr);
};

TEST(DbOpen, FileSystemWithoutLocks) {
  for (int why : {ENOLCK, EOPNOTSUPP, EINVAL}) {
    SCOPED_TRACE(strerror(why));
    Folder folder;
    fill(*must_open(folder.file("old.db")));
    const std::string before = slurp(folder.file("old.db"));
    const NoLocks none(why);
    auto old = must_open(folder.file("old.db"));
    EXPECT_EQ(old->mode(), OpenMode::kReadOnly);
    EXPECT_THAT(old->message(), HasSubstr("cannot write " + folder.file("old.db") + " (its file system has no locks)"));
    EXPECT_THAT(old->message(), HasSubstr("for reading only"));
    EXPECT_EQ(old->all_decisions()->size(), 1u);
    EXPECT_EQ(begin(*old).status().code(), Code::kFailedPrecondition);
    EXPECT_EQ(must_open(folder.file("old.db"), OpenMode::kReadOnly)->all_decisions()->size(), 1u);
    auto fresh = must_open(folder.file("new.db"));
    EXPECT_EQ(fresh->mode(), OpenMode::kInMemory);
    EXPECT_THAT(fresh->message(), HasSubstr("has no locks"));
    expect_works(*fresh);
    EXPECT_EQ(slurp(folder.file("old.db")), before);
    for (const std::string& name : folder.names()) EXPECT_THAT(name, testing::Not(HasSubstr(".locks-")));
  }
}

TEST(DbOpen, EmptyFileIsFine) {
  Folder folder;
  spit(folder.file("a.db"), "");
  EXPECT_EQ(must_open(folder.file("a.db"), OpenMode::kReadOnly)->mode(), OpenMode::kInMemory);
  auto store = must_open(folder.file("a.db"));
  EXPECT_EQ(store->mode(), OpenMode::kReadWrite);
  EXPECT_EQ(store->message(), "");
  expect_works(*store);
}

TEST(DbOpen, ReadOnlyCreatesNothing) {
  Folder folder;
  auto store = must_open(folder.file("x/a.db"), OpenMode::kReadOnly);
  EXPECT_EQ(store->mode(), OpenMode::kInMemory);
  EXPECT_THAT(store->message(), HasSubstr("does not exist"));
  EXPECT_THAT(folder.names(), IsEmpty());
}

TEST(DbOpen, FolderDeviceAndStrangePathsAreErrors) {
  Folder folder;
  mkfifo(folder.file("fifo.db").c_str(), 0600);
  for (const std::string& path : {folder.path(), folder.path() + "/", std::string("/dev/null"), folder.file("fifo.db"),
                                  std::string("a\0b.db", 6)}) {
    for (OpenMode mode : {OpenMode::kReadWrite, OpenMode::kReadOnly}) {
      auto store = open({.path = path, .mode = mode});
      ASSERT_FALSE(store.ok()) << path;
      EXPECT_EQ(store.status().code(), Code::kInvalidArgument);
    }
  }
  EXPECT_EQ(must_open(folder.file(std::string(300, 'n') + ".db"))->mode(), OpenMode::kInMemory);
}

std::string random_bytes(size_t count, unsigned seed) {
  std::mt19937 random(seed);
  std::string bytes(count, '\0');
  for (char& c : bytes) c = static_cast<char>(random());
  return bytes;
}

// Case d8: random bytes. Whatever they are, they are kept under another name.
TEST(DbOpen, D8RandomBytesAreQuarantined) {
  for (size_t size : {1u, 15u, 16u, 100u, 511u, 4096u, 70000u}) {
    SCOPED_TRACE(size);
    Folder folder;
    const std::string path = folder.file("a.db"), bytes = random_bytes(size, static_cast<unsigned>(size));
    spit(path, bytes);
    spit(path + "-wal",
         "stale log");  // SQLite itself may delete it, as it holds no commit; it must not meet the new file
    auto reading = must_open(path, OpenMode::kReadOnly);
    EXPECT_EQ(reading->mode(), OpenMode::kInMemory);
    EXPECT_EQ(slurp(path), bytes) << "reading moves nothing";

    auto store = must_open(path);
    EXPECT_EQ(store->mode(), OpenMode::kReadWrite);
    EXPECT_THAT(store->message(), HasSubstr("moved to " + path + ".corrupt-"));
    expect_works(*store);
    store.reset();
    EXPECT_EQ(must_open(path)->message(), "") << "only once";
    const auto names = folder.names();
    ASSERT_GE(names.size(), 2u);
    EXPECT_EQ(names[0], "a.db");
    EXPECT_THAT(names[1], StartsWith("a.db.corrupt-"));
    EXPECT_EQ(slurp(folder.file(names[1])), bytes);
  }
}

// Case d8: truncated, at every page boundary and between.
TEST(DbOpen, D8TruncatedFileIsQuarantined) {
  Folder whole;
  {
    auto store = must_open(whole.file("a.db"));
    for (int m = 1; m < 30; ++m) fill(*store, m);
    // The table that was made last has the last page; of an empty one nothing would be lost.
    for (int m = 1; m < 30; ++m) ASSERT_TRUE(store->save_codes({code_record("asmjit", m, m)}).ok());
  }
  const std::string bytes = slurp(whole.file("a.db"));
  ASSERT_GE(bytes.size(), 4096u * 5);
  for (size_t size = 1; size < bytes.size(); size += size < 4096 ? 1021 : 3 * 4096 - 7) {
    SCOPED_TRACE(size);
    Folder folder;
    spit(folder.file("a.db"), bytes.substr(0, size));
    auto store = must_open(folder.file("a.db"));
    ASSERT_EQ(store->mode(), OpenMode::kReadWrite) << store->message();
    EXPECT_THAT(store->message(), HasSubstr("a.db.corrupt-"));
    expect_works(*store);
  }
}

// Damage anywhere never crashes and never loses the old file; whatever opens either works or says what is wrong.
TEST(DbOpen, D8DamageAnywhereIsSurvived) {
  Folder whole;
  {
    auto store = must_open(whole.file("a.db"));
    for (int m = 1; m < 30; ++m) fill(*store, m);
  }
  const std::string bytes = slurp(whole.file("a.db"));
  for (unsigned seed = 0; seed < 60; ++seed) {
    SCOPED_TRACE(seed);
    std::mt19937 random(seed);
    std::string damaged = bytes;
    const size_t length = size_t{1} << (random() % 13), at = random() % (damaged.size() - length);
    damaged.replace(at, length, random_bytes(length, seed));
    Folder folder;
    spit(folder.file("a.db"), damaged);
    auto store = open({.path = folder.file("a.db")});
    if (!store.ok()) {  // a header that now names another application
      EXPECT_EQ(store.status().code(), Code::kInvalidArgument) << store.status().to_string();
      EXPECT_EQ(slurp(folder.file("a.db")), damaged);
      continue;
    }
    (void)(*store)->all_decisions();
    (void)(*store)->verify();
    if ((*store)->mode() == OpenMode::kReadWrite) (void)begin(**store);
    if ((*store)->message().find("moved to") != std::string::npos) expect_works(**store);
  }
}

TEST(DbOpen, OtherApplicationsFileIsLeftAlone) {
  for (const char* sql :
       {"CREATE TABLE notes(t TEXT); INSERT INTO notes VALUES('mine')", "PRAGMA application_id = 7; CREATE TABLE t(x)",
        "PRAGMA user_version = 1; CREATE TABLE t(x)"}) {
    Folder folder;
    const std::string path = folder.file("notes.db");
    run_sql(path, sql);
    const std::string before = slurp(path);
    for (OpenMode mode : {OpenMode::kReadWrite, OpenMode::kReadOnly}) {
      auto store = open({.path = path, .mode = mode});
      ASSERT_FALSE(store.ok());
      EXPECT_EQ(store.status().code(), Code::kInvalidArgument);
      EXPECT_THAT(store.status().message(), HasSubstr(path + " is the SQLite database of another application"));
    }
    EXPECT_EQ(slurp(path), before);
    EXPECT_THAT(folder.names(), ElementsAre("notes.db"));
  }
}

// Damage does not make it ours, and few programs set an application id.
TEST(DbOpen, ADamagedDatabaseOfAnotherApplicationIsLeftAlone) {
  for (const char* name : {"places.data", "foreign.db"}) {
    Folder folder;
    const std::string path = folder.file(name);
    run_sql(path, "CREATE TABLE notes(t TEXT); INSERT INTO notes VALUES('mine')");
    std::string bytes = slurp(path);
    bytes.replace(100, 300, random_bytes(300, 5));
    spit(path, bytes);
    auto store = open({.path = path});
    ASSERT_FALSE(store.ok());
    EXPECT_THAT(store.status().message(), HasSubstr("of another application"));
    EXPECT_EQ(slurp(path), bytes);
    EXPECT_THAT(folder.names(), ElementsAre(name));
  }
}

// What a killed writer left in its log, where no -shm can be made to read it with.
TEST(DbOpen, ALogInAReadOnlyFolderIsRead) {
  Folder folder;
  Mount tmpfs(folder.path(), "size=8m");
  if (!tmpfs.ok()) GTEST_SKIP() << "mounting a tmpfs is not permitted here";
  {
    auto store = must_open(folder.file("live.db"));
    fill(*store);
    spit(folder.file("w.db"), slurp(folder.file("live.db")));
    spit(folder.file("w.db-wal"), slurp(folder.file("live.db-wal")));
  }
  ASSERT_TRUE(tmpfs.make_read_only());
  for (OpenMode mode : {OpenMode::kReadOnly, OpenMode::kReadWrite}) {
    auto store = must_open(folder.file("w.db"), mode);
    EXPECT_EQ(store->mode(), OpenMode::kReadOnly);
    EXPECT_THAT(store->message(), HasSubstr("w.db-wal was not merged"));
    EXPECT_EQ(store->all_decisions()->size(), 1u);
    EXPECT_THAT(*store->verify(), IsEmpty());
  }
}

// A log that stays behind would be replayed into the new file.
TEST(DbOpen, QuarantineMovesAllOrNothing) {
  Folder folder;
  const std::string path = folder.file("a.db"), bytes = random_bytes(9000, 4);
  spit(path, bytes);
  const auto now = static_cast<int64_t>(time(nullptr));
  for (int64_t t = now - 1; t < now + 900; ++t)
    std::filesystem::create_directories(path + ".corrupt-" + std::to_string(t) + "-shm/in the way");
  spit(path + "-shm", "shared");
  auto store = must_open(path);
  EXPECT_EQ(store->mode(), OpenMode::kInMemory);
  EXPECT_THAT(store->message(), HasSubstr("a.db-shm away"));
  EXPECT_EQ(slurp(path), bytes);
  EXPECT_TRUE(std::filesystem::exists(path + "-shm"));
  for (const std::string& name : folder.names()) {
    EXPECT_TRUE(name.find(".corrupt-") == std::string::npos || name.ends_with("-shm")) << name;
  }
}

TEST(DbOpen, OtherFilesAreLeftAlone) {
  Folder folder;
  spit(folder.file("model.gguf"), "GGUF" + random_bytes(9000, 3));
  spit(folder.file("notes.txt"), "to do: tune\n");
  for (const char* name : {"model.gguf", "notes.txt"}) {
    auto store = open({.path = folder.file(name)});
    ASSERT_FALSE(store.ok());
    EXPECT_THAT(store.status().message(), HasSubstr("is not a database and is left alone"));
  }
  EXPECT_THAT(folder.names(), ElementsAre("model.gguf", "notes.txt"));
}

TEST(DbOpen, QuarantineMovesTheFileBehindALink) {
  Folder folder;
  spit(folder.file("real.db"), random_bytes(5000, 1));
  std::filesystem::create_symlink("real.db", folder.file("link.db"));
  expect_works(*must_open(folder.file("link.db")));
  EXPECT_TRUE(std::filesystem::is_symlink(folder.file("link.db")));
  EXPECT_EQ(must_open(folder.file("real.db"))->all_decisions()->size(), 1u);
}

}  // namespace
}  // namespace hone::db
