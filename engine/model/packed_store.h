// Packed weights on disk, so that a model is packed once on a machine: the second load maps what the first one left.
//
//   FOLDER/<SHA-256 of the model's identity>/<SHA-256 of the key>.weights          packed_file_internal.h
//
// Nothing here fails. What cannot be read is packed again and replaced, what cannot be written is not kept, and
// HONE_LOG=db says so. Any number of threads and processes may use one folder, and clean it up meanwhile: a file
// appears whole under its name and never changes afterwards; who has mapped one keeps it, also when it is removed.
// Nothing is locked, and nothing is synchronised with the disk: after a power failure a file may be short, which shows.
//
// Room: a file is written only where 4 GiB of the disk stay free (a tenth of it, where that is less), and while all
// models together stay below the limit. Files that were not found for longest go first, of whatever model: a layout
// that no load asks for any more (another width of panels is another key) goes, and the model that is being loaded
// keeps what this load has found or put.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "engine/base/descriptor.h"
#include "engine/base/status.h"
#include "engine/weight_store.h"

namespace hone::model {

// $HONE_WEIGHTS (a folder, or "off"), else $XDG_CACHE_HOME/hone/weights, else $HOME/.cache/hone/weights; and
// $HONE_WEIGHTS_LIMIT, in bytes.
struct StorePlace {
  std::string folder;    // "": there is none
  std::string why_none;  // and why
  int64_t limit = int64_t{64} << 30;
};
StorePlace store_place(const std::function<std::optional<std::string>(const char*)>& variable);
StorePlace store_place();  // by the environment
// Why nothing can be kept in its folder: it is none, another user's, or cannot be made; "" where it can be. Makes
// nothing.
std::string why_unusable(const StorePlace& place);

struct StoredModel {
  std::string name;  // of its folder
  int64_t files = 0, bytes = 0;
  int64_t used = 0;  // any of its files, last time, ns since 1970; 0: it has none
};
struct StoreUsage {
  std::string why_unused;           // "": the folder is used, or would be made
  std::vector<StoredModel> models;  // used least recently first
  int64_t bytes() const;
};
StoreUsage stored_models(const StorePlace& place);

// A file ("model/name") that cleaning up removed, or would; or a model, where all of it goes for one reason.
struct StoreDrop {
  std::string name;
  int64_t bytes = 0;
  std::string reason;
};
struct StoreCollection {
  bool dry_run = false;
  std::optional<int64_t> older_than;  // seconds: files that were not used since
};
// Files that no build of this version reads, what writers left behind, what was not used for too long, and beyond the
// limit what was used least recently.
std::vector<StoreDrop> collect_stored(const StorePlace& place, const StoreCollection& how);

class PackedStore final : public WeightStore {
 public:
  // `identity`: of the model (ModelFile::identity). `free_bytes`: of the disk; tests say another number.
  PackedStore(StorePlace place, std::string_view identity, int threads,
              std::function<std::optional<int64_t>(int folder)> room = {});

  std::optional<Found> find(std::string_view key, int64_t bytes) override;
  void put(std::string_view key, std::span<const std::byte> bytes) override;

  struct Counts {
    int64_t found = 0, put = 0;  // bytes
  };
  Counts counts() const { return {found_, put_}; }

 private:
  int folder(bool make);
  bool makes_room(int64_t bytes);
  void uses(int folder, std::string_view key);
  void say_once(std::string_view event, std::string_view why);

  const StorePlace place_;
  const std::string model_;
  const int threads_;
  const std::function<std::optional<int64_t>(int)> room_;
  std::mutex mutex_;  // of the four below
  std::optional<Descriptor> folder_;
  int64_t stored_ = -1;           // bytes of all models; -1: not looked yet
  std::set<std::string> in_use_;  // files of this model, by name
  bool given_up_ = false;
  std::atomic<bool> said_{false};
  std::atomic<int64_t> found_{0}, put_{0};
};

}  // namespace hone::model
