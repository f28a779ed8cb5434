// What kernels are run on and what they must leave there, as bytes: one process writes it, another, for another
// architecture, reads it, runs the kernels and compares. Both are little-endian.
#pragma once

#include <cstdint>
#include <cstring>
#include <fstream>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

namespace hone::jit {

struct Recording {
  // Memory of its own, before the first launch and after the last.
  struct Region {
    bool guard_before = false;  // the page that may not be touched lies in front of it, else behind
    bool floats = false;        // f32: NaN may be any NaN
    std::vector<uint8_t> before, after;
  };
  struct Pointer {
    int32_t region = -1;  // -1: null
    int64_t offset = 0;   // in bytes
  };
  struct Item {
    std::vector<Pointer> buffers;
    std::vector<int64_t> params;
  };
  // All tasks of all items, by one kernel of one op of a package.
  struct Launch {
    int32_t op = 0, kernel = 0;
    bool poisoned = false;  // workspaces hold NaN before each task, else what was left there
    std::vector<Item> items;
  };
  struct Case {
    std::string name;
    std::vector<Region> regions;
    std::vector<Launch> launches;
  };

  std::vector<Case> cases;
};

// Writes or reads, member by member in one order.
template <bool kWrite>
class RecordingFile {
 public:
  explicit RecordingFile(const std::string& path)
      : file_(path, std::ios::binary | (kWrite ? std::ios::out | std::ios::trunc : std::ios::in)) {}
  void pass(Recording& r) {
    list(r.cases, [&](auto& c) { pass(c); });
  }
  // False when anything failed.
  bool close() {
    file_.close();
    return ok();
  }

 private:
  bool ok() const { return static_cast<bool>(file_); }
  void pass(Recording::Case& c) {
    list(c.name, [&](auto& v) { number(v); });
    list(c.regions, [&](auto& r) { pass(r); });
    list(c.launches, [&](auto& l) { pass(l); });
  }
  void pass(Recording::Region& r) {
    number(r.guard_before), number(r.floats);
    bytes(r.before), bytes(r.after);
  }
  void pass(Recording::Launch& l) {
    number(l.op), number(l.kernel), number(l.poisoned);
    list(l.items, [&](auto& i) { pass(i); });
  }
  void pass(Recording::Item& i) {
    list(i.buffers, [&](auto& p) { number(p.region), number(p.offset); });
    list(i.params, [&](auto& v) { number(v); });
  }

  template <typename T>
  void number(T& v) {
    static_assert(std::is_arithmetic_v<T>);
    if constexpr (kWrite) {
      file_.write(reinterpret_cast<const char*>(&v), sizeof v);
    } else {
      file_.read(reinterpret_cast<char*>(&v), sizeof v);
    }
  }
  template <typename List>
  void size(List& all) {
    auto count = static_cast<uint64_t>(all.size());
    number(count);
    if constexpr (!kWrite) all.resize(ok() ? count : 0);
  }
  template <typename List, typename Each>
  void list(List& all, const Each& each) {
    size(all);
    for (auto& one : all) each(one);
  }
  void bytes(std::vector<uint8_t>& all) {
    size(all);
    const auto count = static_cast<std::streamsize>(all.size());
    if constexpr (kWrite) {
      file_.write(reinterpret_cast<const char*>(all.data()), count);
    } else {
      file_.read(reinterpret_cast<char*>(all.data()), count);
    }
  }

  std::fstream file_;
};

inline bool write_recording(const std::string& path, Recording& recording) {
  RecordingFile<true> file(path);
  file.pass(recording);
  return file.close();
}

inline bool read_recording(const std::string& path, Recording& recording) {
  RecordingFile<false> file(path);
  file.pass(recording);
  return file.close();
}

}  // namespace hone::jit
