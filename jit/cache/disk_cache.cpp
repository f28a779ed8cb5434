// See disk_cache.h. The folder is opened for every call: a descriptor that is kept would go on writing into a folder
// that was removed, and an opening costs microseconds where a compilation costs milliseconds.
#include "jit/cache/disk_cache.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdlib>
#include <ctime>
#include <map>
#include <mutex>

#include "engine/base/env.h"
#include "engine/base/log.h"
#include "jit/cache/folder_internal.h"

namespace hone::jit {
namespace {

// A kernel expands to at most 200 000 statements, some tens of bytes each: what is larger is none of ours.
constexpr int64_t kMaxEntryBytes = int64_t{64} << 20;
// A file is written in milliseconds; who still has a temporary one after this was killed.
constexpr int64_t kStaleNs = int64_t{600} * 1'000'000'000;

int64_t now_ns() {
  timespec now = {};
  clock_gettime(CLOCK_REALTIME, &now);
  return now.tv_sec * 1'000'000'000 + now.tv_nsec;
}

// One of the future too: the clock was put back.
bool stale(const FolderFile& file, int64_t now) { return !file.entry && std::abs(now - file.used) > kStaleNs; }

std::vector<FolderFile> by_last_use(std::vector<FolderFile> files) {
  std::stable_sort(files.begin(), files.end(),
                   [](const FolderFile& a, const FolderFile& b) { return a.used < b.used; });
  return files;
}

int64_t bytes_of(const std::vector<FolderFile>& files) {
  int64_t bytes = 0;
  for (const FolderFile& file : files) bytes += file.bytes;
  return bytes;
}

// Whether this store has to look at the whole folder. No process knows what the others wrote, and counting all files
// for each kernel would be slow in a full folder: so a store looks with the probability that its bytes are of a 32nd of
// the budget, and the folder is looked at once per 32nd that is written, by whomever. The digits of the id are the
// dice.
bool looks(std::string_view id, int64_t bytes, int64_t budget) {
  uint32_t dice = 0;
  std::from_chars(id.data(), id.data() + std::min<size_t>(id.size(), 8), dice, 16);
  return static_cast<double>(dice) * (static_cast<double>(budget) / 32) < static_cast<double>(bytes) * 0x1p32;
}

// Temporary files of the dead, and the least recently used beyond the budget. Down to 7/8 of it: else the next store
// would be over it again.
void sweep(int folder, int64_t budget) {
  const int64_t now = now_ns();
  std::vector<FolderFile> entries;
  for (FolderFile& file : list_folder(folder)) {
    if (file.entry) {
      entries.push_back(std::move(file));
    } else if (stale(file, now)) {
      (void)remove_file(folder, file.name);
    }
  }
  int64_t bytes = bytes_of(entries);
  if (bytes <= budget) return;
  for (const FolderFile& file : by_last_use(std::move(entries))) {
    if (bytes <= budget - budget / 8) break;
    if (remove_file(folder, file.name).ok()) bytes -= file.bytes;
  }
}

std::string date_of(int64_t ns) {
  const std::time_t seconds = ns / 1'000'000'000;
  std::tm parts = {};
  gmtime_r(&seconds, &parts);
  return fmt::format("{:04}-{:02}-{:02}", parts.tm_year + 1900, parts.tm_mon + 1, parts.tm_mday);
}

}  // namespace

CachePlace cache_place(const std::function<std::optional<std::string>(const char*)>& variable) {
  if (const auto folder = variable("HONE_CACHE")) {
    if (*folder == "off") return {.folder = "", .why_none = "HONE_CACHE=off"};
    return {.folder = *folder, .why_none = ""};
  }
  // As the XDG base directory specification has it, what is not absolute is ignored.
  if (const auto base = variable("XDG_CACHE_HOME"); base && base->front() == '/')
    return {.folder = *base + "/hone/kernels", .why_none = ""};
  if (const auto home = variable("HOME")) return {.folder = *home + "/.cache/hone/kernels", .why_none = ""};
  return {.folder = "", .why_none = "none of HONE_CACHE, XDG_CACHE_HOME (absolute) and HOME is set"};
}

DiskCache::DiskCache(CachePlace place, int64_t budget, std::chrono::nanoseconds retry)
    : place_(std::move(place)), budget_(budget), retry_(retry) {}

std::optional<CachedCode> DiskCache::load(std::string_view id) {
  const Result<Descriptor> folder = open_folder(place_, Missing::kFail);
  if (!folder.ok()) {
    if (folder.status().code() != Code::kNotFound) say_once(Said::kUnused, folder.status().message());
    return std::nullopt;
  }
  const std::string name = entry_name(id);
  const Result<std::string> file = read_trusted(folder->get(), name, kMaxEntryBytes, Purpose::kUse);
  if (!file.ok()) {
    if (file.status().code() != Code::kNotFound) say_once(Said::kDistrusted, file.status().message());
    return std::nullopt;
  }
  Result<CachedCode> code = decode_entry(*file, id);
  if (code.ok()) return std::move(code).value();
  // A good one that somebody put there since is lost with it, which costs a compilation.
  (void)remove_file(folder->get(), name);
  HONE_LOG_EVENT(LogTopic::kJit, "cache", {{"removed", name}, {"why", code.status().message()}});
  return std::nullopt;
}

void DiskCache::store(std::string_view id, const CachedCode& code) {
  const auto now = std::chrono::steady_clock::now();
  if (now < write_after_.load(std::memory_order_relaxed)) return;
  const std::string file = encode_entry(id, code);
  const auto bytes = static_cast<int64_t>(file.size());
  if (bytes > std::min(kMaxEntryBytes, budget_)) return;
  const Result<Descriptor> folder = open_folder(place_, Missing::kMake);
  Status status = folder.status();
  if (status.ok()) status = write_whole(folder->get(), entry_name(id), file);
  if (folder.ok() && status.code() == Code::kFailedPrecondition) return say_once(Said::kDistrusted, status.message());
  if (!status.ok()) {
    write_after_.store(now + retry_, std::memory_order_relaxed);
    return say_once(Said::kNotKept, status.message());
  }
  if (looks(id, bytes, budget_)) sweep(folder->get(), budget_);
}

void DiskCache::remove(std::string_view id) {
  const Result<Descriptor> folder = open_folder(place_, Missing::kFail);
  if (folder.ok()) (void)remove_file(folder->get(), entry_name(id));
}

std::string DiskCache::why_unused() const {
  const Result<Descriptor> folder = open_folder(place_, Missing::kFail);
  return folder.ok() || folder.status().code() == Code::kNotFound ? "" : folder.status().message();
}

CacheUsage DiskCache::usage() const {
  CacheUsage usage;
  const Result<Descriptor> folder = open_folder(place_, Missing::kFail);
  if (!folder.ok()) return usage;
  for (const FolderFile& file : list_folder(folder->get())) {
    usage.entries += file.entry;
    usage.bytes += file.bytes;
  }
  return usage;
}

CacheReport DiskCache::collect(const CollectOptions& options) {
  CacheReport report;
  const Result<Descriptor> folder = open_folder(place_, Missing::kFail);
  if (!folder.ok()) return report;
  const int64_t now = now_ns();
  std::vector<FolderFile> kept;
  std::map<std::string, std::string> kernels;
  // True when it is gone, or would be.
  const auto drop = [&](const FolderFile& file, const std::string& reason) {
    CacheDrop dropped{file.name, kernels[file.name], file.bytes, reason};
    const Status removed = options.dry_run ? Status() : remove_file(folder->get(), file.name);
    // Somebody else, who cleans up too, was faster.
    if (!removed.ok() && removed.code() != Code::kNotFound) {
      dropped.reason = fmt::format("{}; {}", reason, removed.message());
      report.stuck.push_back(std::move(dropped));
      return false;
    }
    (file.entry ? report.dropped : report.temporary).push_back(std::move(dropped));
    return true;
  };
  for (FolderFile& file : list_folder(folder->get())) {
    report.before.entries += file.entry;
    report.before.bytes += file.bytes;
    if (!file.entry) {
      if (stale(file, now)) drop(file, "left behind by a writer that was ended");
      continue;
    }
    const Result<std::string> bytes = read_trusted(folder->get(), file.name, kMaxEntryBytes, Purpose::kLook);
    const Result<CachedCode> code = bytes.ok() ? decode_entry(*bytes, entry_id(file.name)) : bytes.status();
    const bool foreign = !code.ok() && code.status().code() == Code::kUnsupported && !options.other_formats;
    if (code.ok()) kernels[file.name] = code->label.kernel;
    const std::string why = code.ok() ? options.judge(code->label) : foreign ? "" : code.status().message();
    if (why.empty()) {
      kept.push_back(std::move(file));
    } else {
      drop(file, why);
    }
  }
  int64_t bytes = bytes_of(kept);
  for (const FolderFile& file : by_last_use(std::move(kept))) {
    if (bytes <= budget_) break;
    if (drop(file, fmt::format("beyond the {} bytes of the cache, last used {}", budget_, date_of(file.used))))
      bytes -= file.bytes;
  }
  report.after = report.before;
  report.after.entries -= static_cast<int64_t>(report.dropped.size());
  for (const std::vector<CacheDrop>* gone : {&report.dropped, &report.temporary})
    for (const CacheDrop& dropped : *gone) report.after.bytes -= dropped.bytes;
  return report;
}

void DiskCache::say_once(Said what, std::string_view why) {
  static constexpr std::array kStates = {"not used", "an entry is not used", "nothing is kept for now"};
  const auto index = static_cast<size_t>(what);
  if (said_.at(index).exchange(true, std::memory_order_relaxed)) return;
  HONE_LOG_EVENT(LogTopic::kJit, "cache", {{"folder", place_.folder}, {"state", kStates.at(index)}, {"why", why}});
}

std::shared_ptr<DiskCache> disk_cache() {
  static std::mutex mutex;
  static auto& current = *new std::shared_ptr<DiskCache>;  // never destroyed: threads may compile while a process ends
  CachePlace place = cache_place(env);
  const std::lock_guard lock(mutex);
  if (current == nullptr || current->place().folder != place.folder || current->place().why_none != place.why_none)
    current = std::make_shared<DiskCache>(std::move(place));
  return current;
}

}  // namespace hone::jit
