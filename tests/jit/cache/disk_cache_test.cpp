// The cache on disk with made-up code: where it is, whom it trusts, what it survives, and that it stays within its
// budget.
#include "jit/cache/disk_cache.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>
#include <fstream>
#include <map>
#include <thread>

#include "engine/base/log.h"
#include "engine/base/sha256.h"

namespace hone::jit {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;
using testing::StartsWith;

CachedCode code_of(const std::string& what, size_t bytes = 1000) {
  CachedCode code{.label = {"llvm", "llvm-1/1", "avx2", "0123456789abcdef", what},
                  .symbol = what + "_llvm",
                  .size = bytes,
                  .object = ""};
  while (code.object.size() < bytes) code.object += what + ";";
  code.object.resize(bytes);
  return code;
}

CollectOptions keep_all(bool dry_run = false) {
  return {.judge = [](const EntryLabel&) { return std::string(); }, .dry_run = dry_run};
}

std::string id_of(const std::string& what) { return sha256_hex(what); }

class JitDiskCache : public testing::Test {
 protected:
  JitDiskCache() {
    folder_ = fs::path(testing::TempDir()) / ("hone_cache_" + std::to_string(getpid()) + "_" +
                                              testing::UnitTest::GetInstance()->current_test_info()->name());
    fs::remove_all(folder_);
    set_log_topics(1u << static_cast<int>(LogTopic::kJit));
    set_log_sink([this](std::string_view line) { said_.emplace_back(line); });
  }
  ~JitDiskCache() override {
    set_log_sink({});
    set_log_topics(0);
    fs::remove_all(folder_);
  }

  CachePlace place() const { return {.folder = folder_.string(), .why_none = ""}; }
  fs::path file_of(const std::string& what) const { return folder_ / (id_of(what) + ".kernel"); }
  std::vector<std::string> files() const {
    std::vector<std::string> names;
    if (fs::exists(folder_))
      for (const fs::directory_entry& entry : fs::directory_iterator(folder_))
        names.push_back(entry.path().filename().string());
    return names;
  }
  static void age(const fs::path& path, int64_t seconds) {
    timespec now = {};
    clock_gettime(CLOCK_REALTIME, &now);
    const timespec times[2] = {{now.tv_sec - seconds, 0}, {now.tv_sec - seconds, 0}};
    ASSERT_EQ(utimensat(AT_FDCWD, path.c_str(), times, 0), 0);
  }

  fs::path folder_;
  std::vector<std::string> said_;
};

TEST_F(JitDiskCache, WhatIsStoredIsLoadedByAnyProcess) {
  DiskCache writer(place());
  EXPECT_EQ(writer.load(id_of("a")), std::nullopt);
  EXPECT_FALSE(fs::exists(folder_)) << "a look makes nothing";
  writer.store(id_of("a"), code_of("a"));
  DiskCache reader(place());
  const std::optional<CachedCode> got = reader.load(id_of("a"));
  ASSERT_TRUE(got.has_value());
  EXPECT_EQ(got->object, code_of("a").object);
  EXPECT_EQ(got->symbol, "a_llvm");
  EXPECT_EQ(reader.load(id_of("b")), std::nullopt);
  EXPECT_THAT(files(), SizeIs(1));
  EXPECT_THAT(said_, IsEmpty());
  reader.remove(id_of("a"));
  EXPECT_EQ(writer.load(id_of("a")), std::nullopt);
}

TEST_F(JitDiskCache, FolderAndFilesAreTheUsersAlone) {
  const mode_t before = umask(0);
  DiskCache(place()).store(id_of("a"), code_of("a"));
  umask(before);
  struct stat facts = {};
  ASSERT_EQ(stat(folder_.c_str(), &facts), 0);
  EXPECT_EQ(facts.st_mode & 0777, 0700u);
  ASSERT_EQ(stat(file_of("a").c_str(), &facts), 0);
  EXPECT_EQ(facts.st_mode & 0777, 0600u);
}

TEST_F(JitDiskCache, WhereItIs) {
  const auto where = [](std::map<std::string, std::string> variables) {
    return cache_place([=](const char* name) -> std::optional<std::string> {
      const auto found = variables.find(name);
      return found == variables.end() ? std::nullopt : std::optional(found->second);
    });
  };
  EXPECT_EQ(where({{"HONE_CACHE", "x/y"}, {"HOME", "/h"}}).folder, "x/y");
  EXPECT_EQ(where({{"HONE_CACHE", "off"}, {"HOME", "/h"}}).folder, "");
  EXPECT_EQ(where({{"HONE_CACHE", "off"}}).why_none, "HONE_CACHE=off");
  EXPECT_EQ(where({{"XDG_CACHE_HOME", "/c"}, {"HOME", "/h"}}).folder, "/c/hone/kernels");
  EXPECT_EQ(where({{"XDG_CACHE_HOME", "c"}, {"HOME", "/h"}}).folder, "/h/.cache/hone/kernels");
  EXPECT_EQ(where({}).folder, "");
  EXPECT_THAT(where({}).why_none, HasSubstr("HOME"));
}

TEST_F(JitDiskCache, NoPlaceIsNoErrorAndSaidOnce) {
  DiskCache cache({.folder = "", .why_none = "HONE_CACHE=off"});
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(cache.load(id_of("a")), std::nullopt);
    cache.store(id_of("a"), code_of("a"));
    cache.remove(id_of("a"));
  }
  EXPECT_EQ(cache.why_unused(), "HONE_CACHE=off");
  ASSERT_THAT(said_, SizeIs(2)) << "once for reading, once for writing";
  EXPECT_THAT(said_[0], HasSubstr("HONE_CACHE=off"));
}

// A damaged entry is a miss, is removed, and can be stored again.
TEST_F(JitDiskCache, DamageIsAMissAndGone) {
  DiskCache cache(place());
  cache.store(id_of("a"), code_of("a", 200));
  const auto whole = static_cast<int64_t>(fs::file_size(file_of("a")));
  for (int64_t length = 0; length < whole; ++length) {
    ASSERT_EQ(truncate(file_of("a").c_str(), length), 0);
    ASSERT_EQ(cache.load(id_of("a")), std::nullopt) << length;
    ASSERT_FALSE(fs::exists(file_of("a"))) << length;
    cache.store(id_of("a"), code_of("a", 200));
    ASSERT_TRUE(cache.load(id_of("a")).has_value()) << length;
  }
  for (int64_t at = 0; at < whole; at += 7) {
    std::fstream file(file_of("a"), std::ios::in | std::ios::out | std::ios::binary);
    file.seekg(at);
    const char was = static_cast<char>(file.get());
    file.seekp(at);
    file.put(static_cast<char>(was ^ 0x20));
    file.close();
    ASSERT_EQ(cache.load(id_of("a")), std::nullopt) << at;
    cache.store(id_of("a"), code_of("a", 200));
  }
  EXPECT_THAT(said_.front(), HasSubstr("removed="));
}

TEST_F(JitDiskCache, ARenamedEntryIsNotTakenForAnother) {
  DiskCache cache(place());
  cache.store(id_of("a"), code_of("a"));
  fs::rename(file_of("a"), file_of("b"));
  EXPECT_EQ(cache.load(id_of("b")), std::nullopt);
  EXPECT_THAT(files(), IsEmpty());
}

TEST_F(JitDiskCache, AFolderThatOthersMayWriteIsNotUsed) {
  DiskCache(place()).store(id_of("a"), code_of("a"));
  for (const mode_t mode : {0770u, 0707u, 0722u}) {
    ASSERT_EQ(chmod(folder_.c_str(), mode), 0);
    DiskCache cache(place());
    EXPECT_EQ(cache.load(id_of("a")), std::nullopt);
    cache.store(id_of("b"), code_of("b"));
    EXPECT_FALSE(fs::exists(file_of("b")));
    EXPECT_THAT(cache.why_unused(), HasSubstr("may be written by others"));
  }
  ASSERT_EQ(chmod(folder_.c_str(), 0755), 0);
  EXPECT_TRUE(DiskCache(place()).load(id_of("a")).has_value()) << "others may look";
}

TEST_F(JitDiskCache, AFolderOfAnotherUserIsNotUsed) {
  fs::path theirs = "/";  // of root
  if (geteuid() == 0) {
    fs::create_directories(folder_);
    ASSERT_EQ(chown(folder_.c_str(), 12345, 12345), 0);
    theirs = folder_;
  }
  DiskCache cache({.folder = theirs.string(), .why_none = ""});
  EXPECT_EQ(cache.load(id_of("a")), std::nullopt);
  cache.store(id_of("a"), code_of("a"));
  EXPECT_FALSE(fs::exists(theirs / (id_of("a") + ".kernel")));
  EXPECT_THAT(cache.why_unused(), HasSubstr("belongs to user"));
  EXPECT_THAT(said_.front(), HasSubstr("belongs to user"));
}

// Somebody else's HOME (sudo) gets no folders that its owner could not use, and who owns a folder on the way decides
// what is in it.
TEST_F(JitDiskCache, NothingIsMadeInAFolderOfAnotherUser) {
  if (geteuid() != 0) GTEST_SKIP() << "only root can make a folder of another user";
  fs::create_directories(folder_);
  ASSERT_EQ(chown(folder_.c_str(), 12345, 12345), 0);
  DiskCache cache({.folder = (folder_ / ".cache/hone/kernels").string(), .why_none = ""});
  cache.store(id_of("a"), code_of("a"));
  EXPECT_THAT(files(), IsEmpty());
  EXPECT_THAT(said_.front(), HasSubstr("set HONE_CACHE"));
}

// Who may write to a folder on the way can put another one in its place; behind a sticky bit he cannot.
TEST_F(JitDiskCache, TheWholeWayIsLookedAt) {
  const fs::path deep = folder_ / "a/b/kernels";
  const auto works = [&](const fs::path& path) {
    DiskCache cache({.folder = path.string(), .why_none = ""});
    cache.store(id_of("a"), code_of("a"));
    return cache.load(id_of("a")).has_value();
  };
  fs::create_directories(folder_ / "a");
  ASSERT_EQ(chmod((folder_ / "a").c_str(), 0777), 0);
  EXPECT_FALSE(works(deep));
  EXPECT_FALSE(fs::exists(folder_ / "a/b")) << "nothing is made there";
  ASSERT_EQ(chmod((folder_ / "a").c_str(), 0755), 0);
  EXPECT_TRUE(works(deep));
  for (const char* way : {".", "a", "a/b"}) {
    for (const mode_t mode : {0775u, 0757u, 0777u}) {
      ASSERT_EQ(chmod((folder_ / way).c_str(), mode), 0);
      EXPECT_FALSE(works(deep)) << way;
      DiskCache cache({.folder = deep.string(), .why_none = ""});
      EXPECT_THAT(cache.why_unused(), HasSubstr("may be written by others")) << way;
    }
    ASSERT_EQ(chmod((folder_ / way).c_str(), 01777), 0);
    EXPECT_TRUE(works(deep)) << "sticky";
    ASSERT_EQ(chmod((folder_ / way).c_str(), 0755), 0);
  }
  // Links on the way are followed first: what counts is where the folder lies.
  fs::create_directories(folder_ / "open");
  fs::create_directories(folder_ / "open/real/kernels");
  fs::create_directory_symlink(folder_ / "open/real", folder_ / "link");
  ASSERT_EQ(chmod((folder_ / "open").c_str(), 0777), 0);
  EXPECT_FALSE(works(folder_ / "link/kernels"));
  ASSERT_EQ(chmod((folder_ / "open").c_str(), 0755), 0);
  EXPECT_TRUE(works(folder_ / "link/kernels"));
}

TEST_F(JitDiskCache, LinksPipesAndForeignFilesAreNotFollowed) {
  DiskCache cache(place());
  cache.store(id_of("a"), code_of("a"));
  const fs::path link = folder_.string() + "_link";
  fs::remove(link);
  fs::create_directory_symlink(folder_, link);
  for (const std::string& path : {link.string(), link.string() + "/", link.string() + "//"}) {
    DiskCache linked({.folder = path, .why_none = ""});
    EXPECT_EQ(linked.load(id_of("a")), std::nullopt);
    EXPECT_THAT(linked.why_unused(), HasSubstr("symbolic link"));
  }
  fs::remove(link);

  fs::rename(file_of("a"), folder_ / "elsewhere");
  fs::create_symlink(folder_ / "elsewhere", file_of("a"));
  EXPECT_EQ(cache.load(id_of("a")), std::nullopt);
  cache.store(id_of("a"), code_of("a"));
  EXPECT_TRUE(fs::is_regular_file(fs::symlink_status(file_of("a")))) << "the link was replaced";
  EXPECT_TRUE(cache.load(id_of("a")).has_value());

  ASSERT_EQ(mkfifo(file_of("pipe").c_str(), 0600), 0);
  EXPECT_EQ(cache.load(id_of("pipe")), std::nullopt) << "and does not wait for a writer";
  fs::create_directory(file_of("folder"));
  EXPECT_EQ(cache.load(id_of("folder")), std::nullopt);
  ASSERT_EQ(chmod(file_of("a").c_str(), 0622), 0);
  EXPECT_EQ(cache.load(id_of("a")), std::nullopt) << "others may have written it";
}

// r: full disk, read-only folder, no room for a file. Said once; reading goes on.
TEST_F(JitDiskCache, WhatCannotBeWrittenIsNotKept) {
  for (const char* nowhere : {"/proc/hone/kernels", "/dev/null/kernels", "/dev/full"}) {
    said_.clear();
    DiskCache cache({.folder = nowhere, .why_none = ""});
    for (int i = 0; i < 3; ++i) cache.store(id_of("a"), code_of("a"));
    EXPECT_EQ(cache.load(id_of("a")), std::nullopt);
    ASSERT_THAT(said_, testing::Not(IsEmpty())) << nowhere;
    EXPECT_THAT(said_[0], HasSubstr("nothing is kept for now")) << nowhere;
  }
  DiskCache(place()).store(id_of("a"), code_of("a"));
  rlimit was = {};
  ASSERT_EQ(getrlimit(RLIMIT_FSIZE, &was), 0);
  const rlimit small = {.rlim_cur = 100, .rlim_max = was.rlim_max};
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &small), 0);
  DiskCache cache(place());
  cache.store(id_of("b"), code_of("b"));  // SIGXFSZ would end this process
  EXPECT_TRUE(cache.load(id_of("a")).has_value());
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &was), 0);
  EXPECT_THAT(files(), SizeIs(1));
}

TEST_F(JitDiskCache, AReadOnlyFolderIsRead) {
  DiskCache(place()).store(id_of("a"), code_of("a"));
  ASSERT_EQ(chmod(folder_.c_str(), 0500), 0);
  const pid_t child = fork();
  if (child == 0) {
    // Root may write anyway, so it becomes nobody: then neither the folder nor its files are its own.
    DiskCache cache(place());
    if (geteuid() == 0) _exit(setuid(65534) == 0 && !cache.load(id_of("a")).has_value() ? 0 : 1);
    cache.store(id_of("b"), code_of("b"));
    _exit(cache.load(id_of("a")).has_value() && !fs::exists(file_of("b")) ? 0 : 1);
  }
  int status = 0;
  waitpid(child, &status, 0);
  EXPECT_EQ(status, 0);
  ASSERT_EQ(chmod(folder_.c_str(), 0700), 0);
}

TEST_F(JitDiskCache, ThirtyTwoHundredKernelsStayWithinTheBudget) {
  constexpr int64_t kBudget = 100'000;
  DiskCache cache(place(), kBudget);
  for (int i = 0; i < 3200; ++i) {
    cache.store(id_of(std::to_string(i)), code_of(std::to_string(i), 500));
    // A folder is looked at once per 32nd of the budget on average; four times that is seen once in e^4 stores.
    ASSERT_LT(cache.usage().bytes, kBudget + kBudget) << i;
  }
  EXPECT_GT(cache.usage().bytes, kBudget / 2);
  EXPECT_TRUE(cache.load(id_of("3199")).has_value());
  EXPECT_EQ(cache.load(id_of("0")), std::nullopt);
  const CacheReport report = cache.collect(keep_all());
  EXPECT_LE(report.after.bytes, kBudget);
  EXPECT_EQ(report.after.bytes, cache.usage().bytes);
}

TEST_F(JitDiskCache, WhatWasUsedLastStays) {
  DiskCache cache(place(), 10'000);
  for (const char* what : {"a", "b", "c"}) cache.store(id_of(what), code_of(what, 2'500));
  age(file_of("a"), 300);
  age(file_of("b"), 200);
  age(file_of("c"), 100);
  ASSERT_TRUE(cache.load(id_of("a")).has_value());  // now the youngest
  cache.store(id_of("d"), code_of("d", 4'500));     // 45% of the budget: the folder is looked at for certain
  EXPECT_TRUE(fs::exists(file_of("a")));
  EXPECT_FALSE(fs::exists(file_of("b")));
  EXPECT_TRUE(fs::exists(file_of("d")));
  cache.store(id_of("e"), code_of("e", 20'000));
  EXPECT_FALSE(fs::exists(file_of("e"))) << "larger than the budget";
}

TEST_F(JitDiskCache, TemporaryFilesOfTheDeadAreSwept) {
  DiskCache cache(place(), 10'000);
  cache.store(id_of("a"), code_of("a"));
  const fs::path dead = folder_ / ".0123456789abcdef.4.5.6.tmp", alive = folder_ / ".0123456789abcdef.4.5.7.tmp",
                 other = folder_ / "notes.txt";
  for (const fs::path& path : {dead, alive, other}) std::ofstream(path) << "half a ker";
  age(dead, 601);
  age(alive, 5);
  age(other, 10'000);
  const CacheReport report = cache.collect(keep_all(true));
  EXPECT_THAT(report.dropped, IsEmpty()) << "no entry";
  ASSERT_THAT(report.temporary, SizeIs(1));
  EXPECT_EQ(report.temporary[0].file, dead.filename());
  EXPECT_EQ(report.after.entries, report.before.entries);
  EXPECT_EQ(report.after.bytes, report.before.bytes - 10);
  EXPECT_THAT(report.temporary[0].reason, HasSubstr("writer that was ended"));
  EXPECT_TRUE(fs::exists(dead)) << "a dry run";
  cache.store(id_of("b"), code_of("b", 4'500));
  EXPECT_FALSE(fs::exists(dead));
  EXPECT_TRUE(fs::exists(alive));
  EXPECT_TRUE(fs::exists(other));
}

// A folder that somebody names may hold anything.
TEST_F(JitDiskCache, FilesOfOthersStay) {
  DiskCache cache(place(), 10'000);
  cache.store(id_of("a"), code_of("a"));
  const std::string x16 = "0123456789abcdef";
  for (const std::string& name :
       {std::string(".tmp"), std::string("..tmp"), std::string(".mail.tmp"), "." + x16 + ".tmp", "." + x16 + ".1.2.tmp",
        "." + x16 + ".1.2.3.4.tmp", "." + x16 + ".1..3.tmp", "." + x16 + ".1.2.x.tmp", "." + x16 + ".1.2.3tmp",
        "." + x16 + ".1.2.-3.tmp", "." + x16 + "0.1.2.3.tmp", "." + x16.substr(0, 10) + "ABCDEF.1.2.3.tmp",
        "." + x16.substr(0, 4) + ".1.2.3.tmp", x16 + ".1.2.3.tmp", std::string(64, 'g') + ".kernel",
        std::string(63, 'a') + ".kernel"}) {
    std::ofstream(folder_ / name) << "theirs";
    age(folder_ / name, 10'000);
  }
  const size_t before = files().size();
  (void)cache.collect(keep_all());
  cache.store(id_of("b"), code_of("b", 4'500));  // looks at the folder
  EXPECT_EQ(files().size(), before + 1);
  EXPECT_EQ(cache.usage().entries, 2);
}

// The cause of a failure may be gone a moment later.
TEST_F(JitDiskCache, AfterAFailureItIsTriedAgain) {
  DiskCache patient(place(), kCacheBudget, std::chrono::hours(1)),
      eager(place(), kCacheBudget, std::chrono::seconds(0));
  rlimit was = {};
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &was), 0);
  const rlimit none = {.rlim_cur = 0, .rlim_max = was.rlim_max};
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &none), 0);
  patient.store(id_of("a"), code_of("a"));
  eager.store(id_of("a"), code_of("a"));
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &was), 0);
  EXPECT_FALSE(fs::exists(file_of("a")));
  patient.store(id_of("a"), code_of("a"));
  EXPECT_FALSE(fs::exists(file_of("a"))) << "not before its time";
  eager.store(id_of("a"), code_of("a"));
  EXPECT_TRUE(eager.load(id_of("a")).has_value());
}

TEST_F(JitDiskCache, AFolderInPlaceOfAnEntryIsThatEntrysProblem) {
  DiskCache cache(place(), kCacheBudget, std::chrono::hours(1));
  fs::create_directories(file_of("a") / "full");
  ASSERT_EQ(chmod(folder_.c_str(), 0700), 0);
  cache.store(id_of("a"), code_of("a"));
  cache.store(id_of("b"), code_of("b"));
  EXPECT_EQ(cache.load(id_of("a")), std::nullopt);
  EXPECT_TRUE(cache.load(id_of("b")).has_value());
  EXPECT_THAT(files(), SizeIs(2)) << "no temporary file is left";
  EXPECT_THAT(said_.front(), HasSubstr("is a folder"));
  const CacheReport report = cache.collect(keep_all());
  EXPECT_THAT(report.dropped, IsEmpty());
  ASSERT_THAT(report.stuck, SizeIs(1));
  EXPECT_EQ(report.stuck[0].file, file_of("a").filename());
  EXPECT_THAT(report.stuck[0].reason, HasSubstr("cannot be removed"));
  EXPECT_EQ(report.after.entries, report.before.entries);
}

TEST_F(JitDiskCache, AnotherBuildsFormatIsItsOwnUnlessAskedFor) {
  DiskCache cache(place());
  cache.store(id_of("a"), code_of("a"));
  std::ofstream(file_of("b")) << "hone-kernel 7\nwhatever";
  EXPECT_THAT(cache.collect(keep_all()).dropped, IsEmpty());
  CollectOptions all = keep_all();
  all.other_formats = true;
  const CacheReport report = cache.collect(all);
  ASSERT_THAT(report.dropped, SizeIs(1));
  EXPECT_THAT(report.dropped[0].reason, HasSubstr("hone-kernel 7"));
  EXPECT_THAT(files(), SizeIs(1));
}

TEST_F(JitDiskCache, CollectSaysWhatAndWhy) {
  DiskCache cache(place());
  for (const char* what : {"old", "young", "damaged", "outdated", "foreign"}) cache.store(id_of(what), code_of(what));
  age(file_of("old"), 86'400);
  ASSERT_EQ(truncate(file_of("damaged").c_str(), 700), 0);
  ASSERT_EQ(chmod(file_of("foreign").c_str(), 0666), 0);
  DiskCache small(place(), 2'000);  // less than the two that are left
  const auto judge = [](const EntryLabel& label) { return label.kernel == "outdated" ? "made by llvm-0" : ""; };
  const CacheReport dry = small.collect({.judge = judge, .dry_run = true});
  EXPECT_THAT(files(), SizeIs(5));
  std::map<std::string, std::string> reasons;
  for (const CacheDrop& drop : dry.dropped) reasons[drop.file] = drop.kernel + "|" + drop.reason;
  ASSERT_THAT(reasons, SizeIs(4));
  EXPECT_THAT(reasons[id_of("old") + ".kernel"], StartsWith("old|beyond the 2000 bytes of the cache, last used 20"));
  EXPECT_THAT(reasons[id_of("damaged") + ".kernel"], HasSubstr("truncated"));
  EXPECT_THAT(reasons[id_of("foreign") + ".kernel"], HasSubstr("may be written by others"));
  EXPECT_EQ(reasons[id_of("outdated") + ".kernel"], "outdated|made by llvm-0");
  const CacheReport report = small.collect({.judge = judge});
  EXPECT_THAT(report.dropped, SizeIs(4));
  EXPECT_EQ(report.before.entries, 5);
  EXPECT_EQ(report.after.entries, 1);
  EXPECT_EQ(report.after.bytes, small.usage().bytes);
  EXPECT_TRUE(small.load(id_of("young")).has_value());
  EXPECT_THAT(small.collect({.judge = judge}).dropped, IsEmpty());
}

// Writers of the same entries, readers, and one who cleans up, all at once: whatever is loaded is right, and nothing
// but whole entries is left.
TEST_F(JitDiskCache, ProcessesWriteReadAndCollectAtOnce) {
  constexpr int kKernels = 20, kRounds = 40;
  const auto work = [&](bool collects) {
    DiskCache cache(place(), collects ? 8'000 : 30'000);
    for (int i = 0; i < kRounds * kKernels; ++i) {
      const std::string what = std::to_string(i * 7 % kKernels);
      if (collects && i % kKernels == 0) (void)cache.collect(keep_all());
      if (const std::optional<CachedCode> got = cache.load(id_of(what)); got.has_value()) {
        if (got->object != code_of(what).object || got->label.kernel != what) _exit(1);
      } else {
        cache.store(id_of(what), code_of(what));
      }
    }
    _exit(0);
  };
  std::vector<pid_t> children;
  for (int child = 0; child < 4; ++child) {
    children.push_back(fork());
    if (children.back() == 0) work(child == 3);
  }
  for (const pid_t child : children) {
    int status = 0;
    waitpid(child, &status, 0);
    EXPECT_EQ(status, 0);
  }
  DiskCache cache(place());
  for (const std::string& name : files()) EXPECT_THAT(name, testing::EndsWith(".kernel"));
  EXPECT_THAT(cache.collect(keep_all(true)).dropped, IsEmpty()) << "all are whole";
}

TEST_F(JitDiskCache, ThreadsShareOneObject) {
  DiskCache cache(place(), 20'000);
  std::atomic<int> wrong{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < 200; ++i) {
        const std::string what = std::to_string((i + t) % 25);
        cache.store(id_of(what), code_of(what));
        const std::optional<CachedCode> got = cache.load(id_of(what));
        if (got.has_value() && got->object != code_of(what).object) ++wrong;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong, 0);
}

// Killed at any moment: what is left is loaded whole or not at all.
TEST_F(JitDiskCache, KilledWritersLeaveNoHalfEntry) {
  for (int round = 0; round < 10; ++round) {
    const pid_t child = fork();
    if (child == 0) {
      DiskCache cache(place());
      for (int i = 0;; ++i) cache.store(id_of(std::to_string(i % 50)), code_of(std::to_string(i % 50), 20'000));
    }
    usleep(2'000 + 1'300 * round);
    kill(child, SIGKILL);
    int status = 0;
    waitpid(child, &status, 0);
    DiskCache cache(place());
    for (int i = 0; i < 50; ++i) {
      const std::string what = std::to_string(i);
      if (!fs::exists(file_of(what))) continue;
      const std::optional<CachedCode> got = cache.load(id_of(what));
      ASSERT_TRUE(got.has_value()) << "round " << round;
      EXPECT_EQ(got->object, code_of(what, 20'000).object);
    }
  }
}

TEST_F(JitDiskCache, AFolderThatIsRemovedIsMadeAgain) {
  DiskCache cache(place());
  cache.store(id_of("a"), code_of("a"));
  fs::remove_all(folder_);
  EXPECT_EQ(cache.load(id_of("a")), std::nullopt);
  cache.store(id_of("a"), code_of("a"));
  EXPECT_TRUE(cache.load(id_of("a")).has_value());
}

TEST(JitDiskCacheOfTheProcess, FollowsTheEnvironment) {
  const char* was = getenv("HONE_CACHE");
  const std::string before = was != nullptr ? was : "";
  setenv("HONE_CACHE", "/some/where", 1);
  const std::shared_ptr<DiskCache> first = disk_cache();
  EXPECT_EQ(first->place().folder, "/some/where");
  EXPECT_EQ(disk_cache(), first);
  setenv("HONE_CACHE", "off", 1);
  EXPECT_EQ(disk_cache()->place().folder, "");
  setenv("HONE_CACHE", before.c_str(), 1);
}

}  // namespace
}  // namespace hone::jit
