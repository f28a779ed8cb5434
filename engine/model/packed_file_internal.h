// One file of the store: packed weights under a key, as this process made them.
//
//   header     magic "honepack", version, bytes of key, of content, of a chunk, where content begins, checksum of the
//              header with 0 in its place; the key; a checksum for each chunk; zeros up to a page
//   content    from a page on, so that the mapped file is aligned as the kernels want it
//
// Numbers are little-endian: the file is read on the machine that wrote it.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "engine/base/status.h"

namespace hone::model {

inline constexpr std::string_view kPackedSuffix = ".weights";
inline constexpr int64_t kPackedVersion = 1;

// The name of the file that has `key`.
std::string packed_name(std::string_view key);

struct MappedPacked {
  std::span<const std::byte> bytes;
  std::shared_ptr<const void> owner;
};
// `folder`: a descriptor. All pages are in memory afterwards, and every chunk is what its checksum says, looked at on
// up to `threads` threads. Errors: not_found; data_loss for what is damaged, cut, or of another key, size or version;
// failed_precondition for a file that others may write to.
Result<MappedPacked> map_packed(int folder, std::string_view key, int64_t bytes, int threads);

// Makes the file appear whole, or not at all. Error: resource_exhausted naming the call.
Status write_packed(int folder, std::string_view key, std::span<const std::byte> bytes, int threads);
// Bytes of the file that write_packed makes.
int64_t packed_file_bytes(std::string_view key, int64_t bytes);

// Whether its header is one that this build reads: "" or why not.
std::string why_unreadable(int folder, const std::string& name);

}  // namespace hone::model
