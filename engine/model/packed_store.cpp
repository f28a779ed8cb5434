// See packed_store.h.
#include "engine/model/packed_store.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <ctime>
#include <filesystem>
#include <numeric>

#include "engine/base/env.h"
#include "engine/base/log.h"
#include "engine/base/printable.h"
#include "engine/base/sha256.h"
#include "engine/model/packed_file_internal.h"

namespace hone::model {
namespace {

namespace fs = std::filesystem;

constexpr int64_t kKeepFree = int64_t{4} << 30;
constexpr size_t kModelDigits = 64;
constexpr int64_t kSecond = 1'000'000'000;
constexpr int64_t kAbandoned = 600 * kSecond;  // no writer takes that long for a file

int64_t now_ns() {
  timespec now = {};
  clock_gettime(CLOCK_REALTIME, &now);
  return now.tv_sec * kSecond + now.tv_nsec;
}

bool is_hex(std::string_view text, size_t digits) {
  return text.size() == digits && text.find_first_not_of("0123456789abcdef") == std::string_view::npos;
}
bool is_packed(std::string_view name) {
  return name.ends_with(kPackedSuffix) && is_hex(name.substr(0, name.size() - kPackedSuffix.size()), kModelDigits);
}
bool is_temporary(std::string_view name) {
  return name.size() > 22 && name[0] == '.' && name.ends_with(".tmp") && is_hex(name.substr(1, 16), 16);
}

// A folder that is this user's alone to write. Errors: not_found, failed_precondition.
Result<Descriptor> open_folder(const std::string& path) {
  Descriptor folder(open(path.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
  if (folder.get() < 0 && errno == ENOENT) return not_found(path + " does not exist");
  if (folder.get() < 0) return failed_precondition(fmt::format("cannot open {}: {}", path, std::strerror(errno)));
  struct stat facts = {};
  if (fstat(folder.get(), &facts) != 0 || facts.st_uid != geteuid())
    return failed_precondition(path + " belongs to another user");
  if ((facts.st_mode & (S_IWGRP | S_IWOTH)) != 0)
    return failed_precondition(fmt::format("{} may be written by others: chmod go-w it", path));
  return folder;
}

Result<Descriptor> make_folder(const std::string& path) {
  std::error_code error;
  fs::create_directories(fs::path(path).parent_path(), error);
  if (mkdir(path.c_str(), S_IRWXU) != 0 && errno != EEXIST)
    return failed_precondition(fmt::format("cannot make {}: {}", path, std::strerror(errno)));
  return open_folder(path);
}

struct File {
  std::string name;
  int64_t bytes = 0;
  int64_t used = 0;  // its time of modification: find() sets it
};

std::vector<File> files_of(const std::string& folder) {
  std::vector<File> files;
  std::error_code error;
  for (fs::directory_iterator at(folder, error), end; !error && at != end; at.increment(error)) {
    const std::string name = at->path().filename().string();
    struct stat facts = {};
    if ((!is_packed(name) && !is_temporary(name)) || lstat(at->path().c_str(), &facts) != 0) continue;
    files.push_back({name, facts.st_size, facts.st_mtim.tv_sec * kSecond + facts.st_mtim.tv_nsec});
  }
  std::sort(files.begin(), files.end(), [](const File& a, const File& b) { return a.name < b.name; });
  return files;
}

// Its writer is gone.
bool is_abandoned(const File& f) { return is_temporary(f.name) && now_ns() - f.used > kAbandoned; }

struct Entry {
  std::string model;
  File file;
  std::string reason = "";  // to drop it
};

std::string folder_of(const StorePlace& place, std::string_view model) {
  return fmt::format("{}/{}", place.folder, model);
}

// The files of all models, used least recently first.
std::vector<Entry> entries_of(const StorePlace& place, const StoreUsage& usage) {
  std::vector<Entry> entries;
  for (const StoredModel& m : usage.models)
    for (File& f : files_of(folder_of(place, m.name))) entries.push_back({m.name, std::move(f)});
  std::ranges::stable_sort(entries, {}, [](const Entry& e) { return e.file.used; });
  return entries;
}

void remove(const StorePlace& place, const Entry& e) {
  unlink(fmt::format("{}/{}", folder_of(place, e.model), e.file.name).c_str());
}
// Where nothing is left in it.
void remove_folder(const StorePlace& place, std::string_view model) { rmdir(folder_of(place, model).c_str()); }

// How many bytes may be written to the disk of `folder`.
std::optional<int64_t> room_on_disk(int folder) {
  struct statvfs facts = {};
  if (fstatvfs(folder, &facts) != 0) return std::nullopt;
  const auto block = static_cast<int64_t>(facts.f_frsize);
  const int64_t all = static_cast<int64_t>(facts.f_blocks) * block, free = static_cast<int64_t>(facts.f_bavail) * block;
  return free - std::min(kKeepFree, all / 10);
}

}  // namespace

StorePlace store_place(const std::function<std::optional<std::string>(const char*)>& variable) {
  StorePlace place;
  if (const auto limit = variable("HONE_WEIGHTS_LIMIT")) {
    int64_t bytes = 0;
    const auto [end, error] = std::from_chars(limit->data(), limit->data() + limit->size(), bytes);
    if (error != std::errc() || end != limit->data() + limit->size() || bytes < 0) {
      place.why_none = fmt::format("HONE_WEIGHTS_LIMIT={} is no number of bytes", printable(*limit, 40));
      return place;
    }
    place.limit = bytes;
  }
  if (const auto folder = variable("HONE_WEIGHTS")) {
    place.folder = *folder == "off" ? "" : *folder;
    if (*folder == "off") place.why_none = "HONE_WEIGHTS=off";
  } else if (const auto cache = variable("XDG_CACHE_HOME"); cache && cache->starts_with('/')) {
    place.folder = *cache + "/hone/weights";
  } else if (const auto home = variable("HOME"); home && home->starts_with('/')) {
    place.folder = *home + "/.cache/hone/weights";
  } else {
    place.why_none = "HOME is not set: set HONE_WEIGHTS to a folder";
  }
  return place;
}

StorePlace store_place() {
  return store_place([](const char* name) { return env(name); });
}

std::string why_unusable(const StorePlace& place) {
  if (place.folder.empty()) return place.why_none;
  const Status status = open_folder(place.folder).status();
  if (status.code() != Code::kNotFound) return std::string(status.message());
  // It is made in the innermost folder that there is.
  std::error_code error;
  fs::path above = fs::absolute(place.folder, error).parent_path();
  while (above.has_relative_path() && !fs::exists(above, error)) above = above.parent_path();
  if (access(above.c_str(), W_OK | X_OK) == 0) return "";
  return fmt::format("cannot make {}: {}: {}", place.folder, above.string(), std::strerror(errno));
}

// ---- all models ----

int64_t StoreUsage::bytes() const {
  return std::accumulate(models.begin(), models.end(), int64_t{0},
                         [](int64_t sum, const StoredModel& m) { return sum + m.bytes; });
}

StoreUsage stored_models(const StorePlace& place) {
  StoreUsage usage{.why_unused = place.why_none, .models = {}};
  if (place.folder.empty()) return usage;
  const Result<Descriptor> folder = open_folder(place.folder);
  if (!folder.ok()) {
    if (folder.status().code() != Code::kNotFound) usage.why_unused = std::string(folder.status().message());
    return usage;
  }
  std::error_code error;
  for (fs::directory_iterator at(place.folder, error), end; !error && at != end; at.increment(error)) {
    StoredModel model{.name = at->path().filename().string()};
    struct stat facts = {};
    if (!is_hex(model.name, kModelDigits) || lstat(at->path().c_str(), &facts) != 0 || !S_ISDIR(facts.st_mode))
      continue;
    for (const File& f : files_of(at->path().string())) {
      ++model.files;
      model.bytes += f.bytes;
      model.used = std::max(model.used, f.used);
    }
    usage.models.push_back(std::move(model));
  }
  std::sort(usage.models.begin(), usage.models.end(), [](const StoredModel& a, const StoredModel& b) {
    return std::pair(a.used, a.name) < std::pair(b.used, b.name);
  });
  return usage;
}

namespace {

// Whatever the limit is.
std::string why_useless(const StorePlace& place, const Entry& e, std::optional<int64_t> older_than) {
  if (older_than && now_ns() - e.file.used > *older_than * kSecond) return "not used for longer than that";
  if (is_temporary(e.file.name)) return is_abandoned(e.file) ? "left behind by who wrote it" : "";
  const Result<Descriptor> folder = open_folder(folder_of(place, e.model));
  return folder.ok() ? why_unreadable(folder->get(), e.file.name) : "";
}

// A model of which nothing stays, all for one reason, is one.
std::vector<StoreDrop> dropped_of(const StoreUsage& usage, const std::vector<Entry>& entries) {
  std::vector<StoreDrop> dropped;
  for (const StoredModel& m : usage.models) {
    std::vector<StoreDrop> files;
    int64_t bytes = 0;
    bool one = true;
    for (const Entry& e : entries) {
      if (e.model != m.name) continue;
      if (!e.reason.empty()) files.push_back({m.name + "/" + e.file.name, e.file.bytes, e.reason});
      one = one && !e.reason.empty() && e.reason == files[0].reason;
      bytes += e.file.bytes;
    }
    if (one && !files.empty()) files = {{m.name, bytes, files[0].reason}};
    dropped.insert(dropped.end(), files.begin(), files.end());
  }
  return dropped;
}

}  // namespace

std::vector<StoreDrop> collect_stored(const StorePlace& place, const StoreCollection& how) {
  const StoreUsage usage = stored_models(place);
  std::vector<Entry> entries = entries_of(place, usage);
  int64_t bytes = 0;
  for (Entry& e : entries) {
    e.reason = why_useless(place, e, how.older_than);
    if (e.reason.empty()) bytes += e.file.bytes;
  }
  const std::string beyond = fmt::format("all models have {} bytes, the limit is {}", bytes, place.limit);
  for (Entry& e : entries) {
    if (bytes <= place.limit) break;
    if (!e.reason.empty() || is_temporary(e.file.name)) continue;
    e.reason = beyond;
    bytes -= e.file.bytes;
  }
  if (!how.dry_run) {
    for (const Entry& e : entries)
      if (!e.reason.empty()) remove(place, e);
    for (const StoredModel& m : usage.models) remove_folder(place, m.name);
  }
  return dropped_of(usage, entries);
}

// ---- one model ----

PackedStore::PackedStore(StorePlace place, std::string_view identity, int threads,
                         std::function<std::optional<int64_t>(int)> room)
    : place_(std::move(place)),
      model_(sha256_hex(identity)),
      threads_(threads),
      room_(room ? std::move(room) : room_on_disk) {}

std::optional<WeightStore::Found> PackedStore::find(std::string_view key, int64_t bytes) {
  if (bytes <= 0) return std::nullopt;
  const int at = folder(/*make=*/false);
  if (at < 0) return std::nullopt;
  Result<MappedPacked> mapped = map_packed(at, key, bytes, threads_);
  if (mapped.ok()) {
    found_ += bytes;
    uses(at, key);
    return Found{mapped->bytes, std::move(mapped->owner)};
  }
  if (mapped.status().code() != Code::kNotFound)
    HONE_LOG_EVENT(LogTopic::kDb, "weights_ignored", {{"model", model_}, {"why", mapped.status().message()}});
  return std::nullopt;
}

void PackedStore::put(std::string_view key, std::span<const std::byte> bytes) {
  if (bytes.empty()) return;
  const int at = folder(/*make=*/true);
  if (at < 0 || !makes_room(packed_file_bytes(key, static_cast<int64_t>(bytes.size())))) return;
  if (const Status s = write_packed(at, key, bytes, threads_); !s.ok()) {
    const std::lock_guard lock(mutex_);
    given_up_ = true;  // the next one would fail as well, after as much work
    return say_once("weights_not_kept", s.message());
  }
  uses(at, key);
  put_ += static_cast<int64_t>(bytes.size());
}

// Notes when the file was used, for who makes room; where that cannot be noted, the time when it was written stays.
void PackedStore::uses(int folder, std::string_view key) {
  const std::string name = packed_name(key);
  (void)utimensat(folder, name.c_str(), nullptr, AT_SYMLINK_NOFOLLOW);
  const std::lock_guard lock(mutex_);
  in_use_.insert(name);
}

// Of this model; -1 where there is none, which is then known.
int PackedStore::folder(bool make) {
  const std::lock_guard lock(mutex_);
  if (given_up_ && make) return -1;
  if (folder_) return folder_->get();
  if (place_.folder.empty()) {
    given_up_ = true;
    say_once("weights_not_kept", place_.why_none);
    return -1;
  }
  const std::string path = folder_of(place_, model_);
  Result<Descriptor> all = make ? make_folder(place_.folder) : open_folder(place_.folder);
  Result<Descriptor> own = !all.ok() ? std::move(all) : make ? make_folder(path) : open_folder(path);
  if (!own.ok()) {
    if (!make && own.status().code() == Code::kNotFound) return -1;
    given_up_ = true;
    say_once("weights_not_kept", own.status().message());
    return -1;
  }
  folder_ = std::move(*own);
  return folder_->get();
}

bool PackedStore::makes_room(int64_t bytes) {
  const std::lock_guard lock(mutex_);
  if (stored_ < 0) stored_ = stored_models(place_).bytes();
  if (stored_ + bytes > place_.limit && bytes <= place_.limit) {
    const StoreUsage usage = stored_models(place_);
    stored_ = usage.bytes();
    for (const Entry& e : entries_of(place_, usage)) {
      if (stored_ + bytes <= place_.limit) break;
      if (is_temporary(e.file.name) ? !is_abandoned(e.file) : e.model == model_ && in_use_.contains(e.file.name))
        continue;
      remove(place_, e);
      if (e.model != model_) remove_folder(place_, e.model);  // of this one it is open, to be written to
      stored_ -= e.file.bytes;
      HONE_LOG_EVENT(LogTopic::kDb, "weights_dropped",
                     {{"model", e.model}, {"file", e.file.name}, {"bytes", e.file.bytes}, {"limit", place_.limit}});
    }
  }
  if (stored_ + bytes > place_.limit) {
    say_once("weights_not_kept", fmt::format("HONE_WEIGHTS_LIMIT is {} bytes", place_.limit));
    return false;
  }
  const std::optional<int64_t> room = room_(folder_->get());
  if (!room || *room < bytes) {
    say_once("weights_not_kept", fmt::format("the disk of {} is nearly full", place_.folder));
    return false;
  }
  stored_ += bytes;
  return true;
}

void PackedStore::say_once(std::string_view event, std::string_view why) {
  if (said_.exchange(true)) return;
  HONE_LOG_EVENT(LogTopic::kDb, event, {{"folder", place_.folder}, {"why", why}});
}

}  // namespace hone::model
