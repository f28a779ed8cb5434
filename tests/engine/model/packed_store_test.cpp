// Packed weights on disk: what is found again, what is not trusted, and what room there is.
#include "engine/model/packed_store.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <thread>

#include "engine/base/log.h"
#include "engine/base/random.h"
#include "engine/model/checksum.h"
#include "engine/model/packed_file_internal.h"

namespace hone::model {
namespace {

namespace fs = std::filesystem;
using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr int64_t kMuch = int64_t{1} << 40;

std::vector<std::byte> content(size_t bytes, uint64_t seed) {
  Random random(seed);
  std::vector<std::byte> made(bytes);
  for (std::byte& b : made) b = static_cast<std::byte>(random.below(256));
  return made;
}

class ModelPackedStore : public ::testing::Test {
 protected:
  void SetUp() override {
    folder_ = fs::path(::testing::TempDir()) / ("weights_" + std::to_string(getpid()));
    fs::remove_all(folder_);
    set_log_topics(LogTopics{1} << static_cast<int>(LogTopic::kDb));
    set_log_sink([this](std::string_view line) { said_.emplace_back(line); });
  }
  void TearDown() override {
    set_log_topics(0);
    set_log_sink({});
    fs::remove_all(folder_);
  }

  StorePlace place(int64_t limit = kMuch) const { return {.folder = folder_ / "w", .why_none = "", .limit = limit}; }
  PackedStore store(std::string_view identity = "model", int64_t limit = kMuch, int64_t room = kMuch) const {
    return PackedStore(place(limit), identity, 2, [room](int) { return room; });
  }
  // Whether these very bytes are there.
  static bool has(PackedStore& store, std::string_view key, const std::vector<std::byte>& bytes) {
    const auto found = store.find(key, static_cast<int64_t>(bytes.size()));
    return found && std::equal(found->bytes.begin(), found->bytes.end(), bytes.begin(), bytes.end());
  }
  // Used an hour ago.
  static void grow_old(const fs::path& file) {
    fs::last_write_time(file, fs::file_time_type::clock::now() - std::chrono::hours(1));
  }
  fs::path only_file() const {
    for (const auto& at : fs::recursive_directory_iterator(folder_))
      if (at.is_regular_file()) return at.path();
    return {};
  }

  fs::path folder_;
  std::vector<std::string> said_;
};

// ---- checksum ----

TEST(ModelChecksum, EveryBitAndTheLengthCount) {
  for (const size_t size : {size_t{1}, size_t{63}, size_t{64}, size_t{200}}) {
    std::vector<std::byte> bytes = content(size, size);
    const uint64_t sum = checksum64(bytes);
    EXPECT_EQ(checksum64(bytes), sum);
    for (size_t bit = 0; bit < 8 * size; ++bit) {
      bytes[bit / 8] ^= std::byte{1} << bit % 8;
      ASSERT_NE(checksum64(bytes), sum) << bit;
      bytes[bit / 8] ^= std::byte{1} << bit % 8;
    }
    bytes.push_back(std::byte{0});
    EXPECT_NE(checksum64(bytes), sum);
  }
}

TEST(ModelChecksum, WordsThatChangePlacesShow) {
  std::vector<std::byte> bytes = content(256, 3);
  const uint64_t sum = checksum64(bytes);
  std::swap_ranges(bytes.begin(), bytes.begin() + 8, bytes.begin() + 64);  // of one lane
  EXPECT_NE(checksum64(bytes), sum);
  std::swap_ranges(bytes.begin(), bytes.begin() + 8, bytes.begin() + 64);
  std::swap_ranges(bytes.begin(), bytes.begin() + 8, bytes.begin() + 8);  // of two
  EXPECT_NE(checksum64(bytes), sum);
}

// ---- finding ----

TEST_F(ModelPackedStore, WhatOneProcessPutsAnotherFinds) {
  const auto small = content(5, 1), large = content((3 << 20) + 77, 2);
  {
    PackedStore first = store();
    EXPECT_FALSE(has(first, "large", large));
    first.put("small", small);
    first.put("large", large);
    EXPECT_TRUE(has(first, "small", small));
  }
  PackedStore second = store();
  const auto found = second.find("large", static_cast<int64_t>(large.size()));
  ASSERT_TRUE(found);
  EXPECT_TRUE(std::equal(found->bytes.begin(), found->bytes.end(), large.begin(), large.end()));
  EXPECT_EQ(reinterpret_cast<uintptr_t>(found->bytes.data()) % 4096, 0u);
  EXPECT_EQ(second.counts().found, static_cast<int64_t>(large.size()));
  EXPECT_TRUE(has(second, "small", small));
  EXPECT_FALSE(second.find("large", 5)) << "another size";
  EXPECT_FALSE(second.find("other", 5)) << "another key";
  PackedStore other = store("another model");
  EXPECT_FALSE(has(other, "small", small));
  // Who has it mapped keeps it.
  fs::remove_all(folder_);
  EXPECT_TRUE(std::equal(found->bytes.begin(), found->bytes.end(), large.begin(), large.end()));
}

TEST_F(ModelPackedStore, DamageIsIgnoredSaidAndReplaced) {
  const auto bytes = content((2 << 20) + 100, 4);
  {
    PackedStore first = store();
    first.put("key", bytes);
  }
  const fs::path file = only_file();
  const auto size = static_cast<int64_t>(fs::file_size(file));
  const auto flip = [&](int64_t at) {
    std::fstream f(file, std::ios::in | std::ios::out | std::ios::binary);
    f.seekg(at);
    const char c = static_cast<char>(f.get() ^ 1);
    f.seekp(at);
    f.put(c);
  };
  for (const int64_t at : {int64_t{0}, int64_t{8}, int64_t{40}, int64_t{56}, int64_t{57}, int64_t{4096}, size - 1}) {
    SCOPED_TRACE(at);
    said_.clear();
    flip(at);
    PackedStore damaged = store();
    EXPECT_FALSE(has(damaged, "key", bytes));
    EXPECT_THAT(said_, Contains(HasSubstr("event=weights_ignored")));
    damaged.put("key", bytes);
    EXPECT_TRUE(has(damaged, "key", bytes));
  }
  for (const int64_t cut : {size - 1, int64_t{4096}, int64_t{10}, int64_t{0}}) {
    fs::resize_file(file, static_cast<uintmax_t>(cut));
    PackedStore damaged = store();
    EXPECT_FALSE(has(damaged, "key", bytes)) << cut;
    damaged.put("key", bytes);
    EXPECT_TRUE(has(damaged, "key", bytes)) << cut;
  }
}

// The name is a hash of the key; a file that was copied to another's place is not taken for it.
TEST_F(ModelPackedStore, AFileOfAnotherKeyIsForeign) {
  const auto bytes = content(4096, 5);
  PackedStore s = store();
  s.put("key", bytes);
  const fs::path file = only_file();
  fs::rename(file, file.parent_path() / packed_name("kex"));
  EXPECT_FALSE(has(s, "kex", bytes));
}

TEST_F(ModelPackedStore, WhatOthersMayWriteIsNotTrusted) {
  const auto bytes = content(4096, 6);
  PackedStore s = store();
  s.put("key", bytes);
  fs::permissions(only_file(), fs::perms::others_write, fs::perm_options::add);
  EXPECT_FALSE(has(s, "key", bytes));
  EXPECT_THAT(said_, Contains(HasSubstr("may be written by others")));
  fs::permissions(folder_ / "w", fs::perms::group_write, fs::perm_options::add);
  PackedStore again = store();
  again.put("other", bytes);
  EXPECT_FALSE(has(again, "other", bytes));
}

TEST_F(ModelPackedStore, ManyAtOnce) {
  const auto a = content(1 << 20, 7), b = content(1 << 20, 8);
  std::vector<std::thread> all;
  std::atomic<int> wrong{0};
  for (int t = 0; t < 4; ++t)
    all.emplace_back([&] {
      PackedStore s = store();
      for (int i = 0; i < 10; ++i) {
        s.put("a", a);
        s.put("b", b);
        wrong += !has(s, "a", a) + !has(s, "b", b);
      }
    });
  for (std::thread& t : all) t.join();
  EXPECT_EQ(wrong, 0);
  EXPECT_EQ(stored_models(place()).models.at(0).files, 2) << "no temporary file is left";
}

// ---- room ----

TEST_F(ModelPackedStore, WithoutAFolderNothingHappens) {
  const auto bytes = content(100, 9);
  PackedStore off({.folder = "", .why_none = "HONE_WEIGHTS=off"}, "model", 1);
  off.put("key", bytes);
  EXPECT_FALSE(off.find("key", 100));
  EXPECT_THAT(said_, Contains(HasSubstr("HONE_WEIGHTS=off")));
  fs::create_directories(folder_);
  std::ofstream(folder_ / "file") << "x";
  PackedStore blocked({.folder = folder_ / "file", .why_none = ""}, "model", 1);
  blocked.put("key", bytes);
  EXPECT_FALSE(blocked.find("key", 100));
}

TEST_F(ModelPackedStore, ADiskThatIsNearlyFullIsLeftAlone) {
  const auto bytes = content(1 << 16, 10);
  PackedStore s = store("model", kMuch, 1 << 16);  // the header needs room too
  s.put("key", bytes);
  EXPECT_FALSE(has(s, "key", bytes));
  EXPECT_THAT(said_, Contains(HasSubstr("nearly full")));
}

TEST_F(ModelPackedStore, TheModelUsedLeastRecentlyGoesFirst) {
  const auto bytes = content(1 << 16, 11);
  const int64_t limit = 3 * packed_file_bytes("key", 1 << 16) - 1;  // for two
  for (const char* model : {"a", "b"}) {
    PackedStore s = store(model, limit);
    s.put("key", bytes);
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
  {
    PackedStore a = store("a", limit);  // used again
    EXPECT_TRUE(has(a, "key", bytes));
  }
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  PackedStore c = store("c", limit);
  c.put("key", bytes);
  EXPECT_TRUE(has(c, "key", bytes));
  PackedStore a = store("a", limit), b = store("b", limit);
  EXPECT_TRUE(has(a, "key", bytes));
  EXPECT_FALSE(has(b, "key", bytes));
  PackedStore large = store("d", 1 << 16);
  large.put("key", bytes);
  EXPECT_FALSE(has(large, "key", bytes)) << "it does not fit alone";
  EXPECT_EQ(stored_models(place()).bytes(), 2 * packed_file_bytes("key", 1 << 16))
      << "nothing goes for what does not fit";
}

// As after another width of panels: other keys, one model, room for one layout.
TEST_F(ModelPackedStore, ADeadLayoutMakesRoomForTheOneInUse) {
  const auto bytes = content(1 << 16, 15);
  const int64_t limit = 4 * packed_file_bytes("key", 1 << 16) - 1;  // for three
  {
    PackedStore first = store("a", limit);
    for (const char* key : {"dead 1", "dead 2", "kept"}) first.put(key, bytes);
  }
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  {
    PackedStore second = store("a", limit);
    EXPECT_TRUE(has(second, "kept", bytes));
    second.put("new 1", bytes);
    second.put("new 2", bytes);
    second.put("new 3", bytes);
    EXPECT_TRUE(has(second, "kept", bytes)) << "this load has found it";
    EXPECT_FALSE(has(second, "new 3", bytes)) << "there is room for three";
  }
  PackedStore third = store("a", limit);
  for (const char* key : {"kept", "new 1", "new 2"}) EXPECT_TRUE(has(third, key, bytes)) << key;
  for (const char* key : {"dead 1", "dead 2"}) EXPECT_FALSE(has(third, key, bytes)) << key;
  // None of what is there is asked for: the folder that is written to stays when it is empty.
  PackedStore other = store("a", packed_file_bytes("key", 1 << 16));
  EXPECT_FALSE(has(other, "other", bytes));
  other.put("other", bytes);
  EXPECT_TRUE(has(other, "other", bytes));
  EXPECT_EQ(stored_models(place()).models.at(0).files, 1);
}

#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
// Stacks of 8 MiB fit into what is left for some of the helpers.
TEST_F(ModelPackedStore, FewerThreadsThanAskedForDoTheWork) {
  const auto bytes = content(64 << 20, 16);
  PackedStore s = store();
  s.put("first", content(100, 17));
  const auto in_little_memory = [&] {
    std::ifstream sizes("/proc/self/statm");
    rlim_t pages = 0;
    sizes >> pages;
    const rlim_t most = pages * static_cast<rlim_t>(sysconf(_SC_PAGESIZE)) + (30 << 20);
    const rlimit limit{most, most};
    if (setrlimit(RLIMIT_AS, &limit) != 0) std::_Exit(2);
    const Descriptor folder(open(only_file().parent_path().c_str(), O_RDONLY | O_DIRECTORY));
    std::_Exit(write_packed(folder.get(), "key", bytes, 64).ok() ? 0 : 1);
  };
  EXPECT_EXIT(in_little_memory(), ::testing::ExitedWithCode(0), "");
  EXPECT_TRUE(has(s, "key", bytes));
}
#endif

TEST_F(ModelPackedStore, CleaningUp) {
  const auto bytes = content(5000, 12);
  PackedStore a = store("a");
  a.put("key", bytes);
  a.put("damaged", bytes);
  const fs::path model = only_file().parent_path();
  fs::resize_file(model / packed_name("damaged"), 4500);
  std::ofstream(model / ".0123456789abcdef.1.2.3.tmp") << "left";
  std::ofstream(model / "notes.txt") << "somebody's";
  fs::last_write_time(model / ".0123456789abcdef.1.2.3.tmp", fs::file_time_type::clock::now() - std::chrono::hours(1));
  EXPECT_EQ(collect_stored(place(), {.dry_run = true}).size(), 2u);
  EXPECT_EQ(stored_models(place()).models.at(0).files, 3);
  EXPECT_EQ(collect_stored(place(), {}).size(), 2u);
  EXPECT_EQ(stored_models(place()).models.at(0).files, 1);
  EXPECT_THAT(collect_stored(place(), {.older_than = 60}), IsEmpty());
  grow_old(model / packed_name("key"));
  const std::vector<StoreDrop> old = collect_stored(place(), {.older_than = 60});
  ASSERT_EQ(old.size(), 1u);
  EXPECT_GT(old[0].bytes, 5000);
  EXPECT_EQ(stored_models(place()).bytes(), 0);
  EXPECT_TRUE(fs::exists(model / "notes.txt"));
}

// A layout that loads ask for no more: its files go, the model's others stay.
TEST_F(ModelPackedStore, WhatNoLoadFindsAnyMoreIsCollectedByAge) {
  const auto bytes = content(5000, 13);
  {
    PackedStore first = store("a");
    first.put("used", bytes);
    first.put("dead", bytes);
  }
  const fs::path model = only_file().parent_path();
  for (const char* key : {"used", "dead"}) grow_old(model / packed_name(key));
  PackedStore second = store("a");
  EXPECT_TRUE(has(second, "used", bytes));
  const std::vector<StoreDrop> old = collect_stored(place(), {.older_than = 60});
  ASSERT_EQ(old.size(), 1u);
  EXPECT_THAT(old[0].name, HasSubstr("/" + packed_name("dead")));
  EXPECT_TRUE(has(second, "used", bytes));
  EXPECT_FALSE(has(second, "dead", bytes));
  // All of a model for one reason is one.
  second.put("more", bytes);
  for (const char* key : {"used", "more"}) grow_old(model / packed_name(key));
  const std::vector<StoreDrop> whole = collect_stored(place(), {.older_than = 60});
  ASSERT_EQ(whole.size(), 1u);
  EXPECT_EQ(whole[0].name, model.filename());
  EXPECT_EQ(whole[0].bytes, packed_file_bytes("used", 5000) + packed_file_bytes("more", 5000));
  EXPECT_FALSE(fs::exists(model));
}

TEST_F(ModelPackedStore, BeyondTheLimitTheFileUsedLeastRecentlyIsCollected) {
  const auto bytes = content(5000, 14);
  PackedStore a = store("a"), b = store("b");
  a.put("old", bytes);
  const fs::path old = only_file();
  a.put("new", bytes);
  b.put("old", bytes);
  grow_old(old);
  const std::vector<StoreDrop> dropped = collect_stored(place(3 * packed_file_bytes("old", 5000) - 1), {});
  ASSERT_EQ(dropped.size(), 1u);
  EXPECT_EQ(dropped[0].name, old.parent_path().filename() / old.filename());
  EXPECT_TRUE(has(a, "new", bytes));
  EXPECT_TRUE(has(b, "old", bytes));
}

TEST_F(ModelPackedStore, FoldersThatCannotBeAreNamed) {
  EXPECT_EQ(why_unusable({.folder = "", .why_none = "HONE_WEIGHTS=off"}), "HONE_WEIGHTS=off");
  EXPECT_THAT(why_unusable({.folder = "/dev/null", .why_none = ""}),
              HasSubstr("cannot open /dev/null: Not a directory"));
  EXPECT_EQ(why_unusable({.folder = folder_ / "a" / "b", .why_none = ""}), "");
  EXPECT_FALSE(fs::exists(folder_ / "a")) << "asking makes nothing";
  fs::create_directories(folder_);
  std::ofstream(folder_ / "file") << "x";
  for (const char* name : {"file", "file/below"})
    EXPECT_THAT(why_unusable({.folder = folder_ / name, .why_none = ""}), HasSubstr("Not a directory"));
  if (geteuid() != 0) {  // to whom no folder is closed
    fs::permissions(folder_, fs::perms::owner_write, fs::perm_options::remove);
    EXPECT_THAT(why_unusable({.folder = folder_ / "a" / "b", .why_none = ""}), HasSubstr("Permission denied"));
    fs::permissions(folder_, fs::perms::owner_write, fs::perm_options::add);
  }
  fs::permissions(folder_, fs::perms::others_write, fs::perm_options::add);
  EXPECT_THAT(why_unusable({.folder = folder_, .why_none = ""}), HasSubstr("may be written by others"));
}

TEST(ModelStorePlace, ByTheEnvironment) {
  const auto where = [](std::map<std::string, std::string> variables) {
    return store_place([variables](const char* name) -> std::optional<std::string> {
      const auto at = variables.find(name);
      return at == variables.end() ? std::nullopt : std::optional(at->second);
    });
  };
  EXPECT_EQ(where({{"HONE_WEIGHTS", "x"}, {"HOME", "/h"}}).folder, "x");
  EXPECT_EQ(where({{"XDG_CACHE_HOME", "/c"}, {"HOME", "/h"}}).folder, "/c/hone/weights");
  EXPECT_EQ(where({{"HOME", "/h"}}).folder, "/h/.cache/hone/weights");
  EXPECT_EQ(where({{"HOME", "/h"}}).limit, int64_t{64} << 30);
  EXPECT_EQ(where({{"HOME", "/h"}, {"HONE_WEIGHTS_LIMIT", "1000"}}).limit, 1000);
  for (const auto& [variable, value, why] : {std::tuple{"HONE_WEIGHTS", "off", "HONE_WEIGHTS=off"},
                                             std::tuple{"HONE_WEIGHTS_LIMIT", "64G", "no number of bytes"}}) {
    const StorePlace none = where({{"HOME", "/h"}, {variable, value}});
    EXPECT_EQ(none.folder, "");
    EXPECT_THAT(none.why_none, HasSubstr(why));
  }
  EXPECT_THAT(where({}).why_none, HasSubstr("HOME"));
}

}  // namespace
}  // namespace hone::model
