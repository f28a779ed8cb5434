// Compiled kernels on disk, so that a code generator that takes long compiles a kernel once on a machine, whichever
// process asks. What is here is executed: a folder or file that somebody else owns or may write to is not used.
//
// Nothing here fails. What cannot be read is compiled again, what cannot be written is not kept, and HONE_LOG=jit says
// so once. Any number of threads and processes may use one folder, and clean it up meanwhile:
//   - an entry appears whole (it is written under another name and renamed) and never changes afterwards;
//   - two who write the same entry write the same bytes, and the later name wins;
//   - a reader keeps what it has opened, also when it is removed;
//   - nothing is locked, so nobody who is killed leaves a lock. What he leaves is a temporary file, which is removed
//     when it is ten minutes old.
// Nothing is synchronised with the disk either (that would cost more than many a compilation): after a power failure
// an entry may be short or empty, which its checksum shows.
#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "engine/base/status.h"
#include "jit/cache/entry.h"

namespace hone::jit {

// A kernel takes 5 to 100 KB, and tuning all problems of a model compiles a few thousand with LLVM.
inline constexpr int64_t kCacheBudget = int64_t{512} << 20;

// Where the cache is, by the environment: $HONE_CACHE (a folder, or "off"), else $XDG_CACHE_HOME/hone/kernels, else
// $HOME/.cache/hone/kernels.
struct CachePlace {
  std::string folder;    // "": there is none
  std::string why_none;  // and why
};
CachePlace cache_place(const std::function<std::optional<std::string>(const char*)>& variable);

struct CacheUsage {
  int64_t entries = 0, bytes = 0;
};

// A file that cleaning up removed, or would.
struct CacheDrop {
  std::string file;    // its name in the folder
  std::string kernel;  // "" when it cannot be read
  int64_t bytes = 0;
  std::string reason;
};
struct CacheReport {
  std::vector<CacheDrop> dropped;    // entries
  std::vector<CacheDrop> temporary;  // what writers left behind
  std::vector<CacheDrop> stuck;      // was to go and is still there; the reason says why it is
  CacheUsage before, after;
};
struct CollectOptions {
  // Why an entry is of no use; "": it is.
  std::function<std::string(const EntryLabel&)> judge;
  bool dry_run = false;        // changes nothing
  bool other_formats = false;  // entries that another build's format makes unreadable go too
};

class DiskCache {
 public:
  // A store that failed is not repeated for every kernel while a disk is full, but `retry` later, as the cause may have
  // been a short one.
  explicit DiskCache(CachePlace place, int64_t budget = kCacheBudget,
                     std::chrono::nanoseconds retry = std::chrono::seconds(10));

  // The code made from the key with this id; nullopt when there is none, or none that can be trusted. An entry that is
  // damaged is removed.
  std::optional<CachedCode> load(std::string_view id);
  // Keeps it, and removes what was used least recently when the folder is over its budget.
  void store(std::string_view id, const CachedCode& code);
  // Removes an entry.
  void remove(std::string_view id);

  const CachePlace& place() const { return place_; }
  int64_t budget() const { return budget_; }
  // "" when the folder can be used or would be made; else why not.
  std::string why_unused() const;
  CacheUsage usage() const;
  // Reads every entry.
  CacheReport collect(const CollectOptions& options);

 private:
  enum class Said { kUnused, kDistrusted, kNotKept };  // index of said_
  void say_once(Said what, std::string_view why);

  CachePlace place_;
  int64_t budget_;
  std::array<std::atomic<bool>, 3> said_ = {};
  const std::chrono::nanoseconds retry_;
  std::atomic<std::chrono::steady_clock::time_point> write_after_{std::chrono::steady_clock::time_point::min()};
};

// The cache that the environment names now; one object as long as that does not change. Never null.
std::shared_ptr<DiskCache> disk_cache();

}  // namespace hone::jit
