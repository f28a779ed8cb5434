// See identity_internal.h.
#include "engine/model/files/identity_internal.h"

#include <fmt/format.h>

#include <algorithm>

#include "engine/base/sha256.h"

namespace hone::model {
namespace {

constexpr size_t kHeaderBytes = 1 << 20, kPieceBytes = 16 << 10, kPieces = 64;

}  // namespace

std::string identity_of(std::string_view format, const std::vector<std::shared_ptr<const MappedFile>>& files) {
  Sha256 hash;
  hash.add(fmt::format("{}\n{}\n", format, files.size()));
  for (const auto& file : files) {
    const std::span<const std::byte> bytes = file->bytes();
    const FileStamp& s = file->stamp();
    hash.add(fmt::format("{} {} {} {} {}\n", bytes.size(), s.device, s.inode, s.modified_ns, s.changed_ns));
    const std::span<const std::byte> header = bytes.first(std::min(kHeaderBytes, bytes.size()));
    const std::span<const std::byte> rest = bytes.subspan(header.size());
    hash.add(header);
    if (rest.size() <= kPieces * kPieceBytes) {
      hash.add(rest);
      continue;
    }
    // The last piece ends where the file does.
    const size_t last = rest.size() - kPieceBytes;
    for (size_t i = 0; i < kPieces; ++i) hash.add(rest.subspan(last / (kPieces - 1) * i, kPieceBytes));
    hash.add(rest.subspan(last));
  }
  return hash.hex();
}

}  // namespace hone::model
