// See packed_file_internal.h.
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <ctime>
#include <system_error>
#include <thread>
#include <vector>

#include "engine/base/descriptor.h"
#include "engine/base/sha256.h"
#include "engine/model/checksum.h"
#include "engine/model/packed_file_internal.h"
#include "jit/file_limit.h"

namespace hone::model {
namespace {

constexpr char kMagic[8] = {'h', 'o', 'n', 'e', 'p', 'a', 'c', 'k'};
constexpr int64_t kPage = 4096;
// 1 MiB takes some 100 us to look at: a thread more pays from a few of them on.
constexpr int64_t kChunk = int64_t{1} << 20;
constexpr int64_t kMostKeyBytes = 4096;

struct Head {
  char magic[8];
  int64_t version, key_bytes, content_begin, content_bytes, chunk_bytes;
  uint64_t checksum;  // of the header; 0 while that is computed
};

int64_t chunks_of(int64_t bytes) { return (bytes + kChunk - 1) / kChunk; }

int64_t content_begin(std::string_view key, int64_t bytes) {
  const int64_t header = static_cast<int64_t>(sizeof(Head) + key.size()) + 8 * chunks_of(bytes);
  return (header + kPage - 1) / kPage * kPage;
}

std::span<const std::byte> chunk(std::span<const std::byte> bytes, int64_t i) {
  const auto at = static_cast<size_t>(i * kChunk);
  return bytes.subspan(at, std::min(bytes.size() - at, static_cast<size_t>(kChunk)));
}

// body(i) for every i below count, on up to `threads` threads, this one among them; on fewer where the system has no
// more of them.
template <typename Body>
void on_threads(int64_t count, int threads, const Body& body) {
  std::atomic<int64_t> next{0};
  const auto work = [&] {
    for (int64_t i = next++; i < count; i = next++) body(i);
  };
  std::vector<std::jthread> helpers;
  try {
    for (int64_t t = 1; t < std::min<int64_t>(threads, count / 4); ++t) helpers.emplace_back(work);
  } catch (const std::system_error&) {  // those that were started do all the work
  }
  work();
}

// Its pages all at once, where the kernel can (Linux 5.14); otherwise they come as they are read.
void populate([[maybe_unused]] std::span<const std::byte> bytes) {
#ifdef MADV_POPULATE_READ
  const auto begin = reinterpret_cast<uintptr_t>(bytes.data()) / kPage * kPage;
  const auto end = reinterpret_cast<uintptr_t>(bytes.data() + bytes.size());
  (void)madvise(reinterpret_cast<void*>(begin), end - begin, MADV_POPULATE_READ);  // a hint
#endif
}

Status refused(const std::string& what) {
  const int error = errno;
  return resource_exhausted(fmt::format("{}: {}", what, std::strerror(error)));
}

std::string header_of(std::string_view key, std::span<const std::byte> bytes, int threads) {
  const auto size = static_cast<int64_t>(bytes.size());
  Head head{.magic = {},
            .version = kPackedVersion,
            .key_bytes = static_cast<int64_t>(key.size()),
            .content_begin = content_begin(key, size),
            .content_bytes = size,
            .chunk_bytes = kChunk,
            .checksum = 0};
  std::memcpy(head.magic, kMagic, sizeof kMagic);
  std::vector<uint64_t> sums(static_cast<size_t>(chunks_of(size)));
  on_threads(chunks_of(size), threads, [&](int64_t i) { sums[static_cast<size_t>(i)] = checksum64(chunk(bytes, i)); });
  std::string header(static_cast<size_t>(head.content_begin), '\0');
  std::memcpy(header.data(), &head, sizeof head);
  std::memcpy(header.data() + sizeof head, key.data(), key.size());
  if (!sums.empty()) std::memcpy(header.data() + sizeof head + key.size(), sums.data(), sums.size() * 8);
  head.checksum = checksum64(std::as_bytes(std::span(header)));
  std::memcpy(header.data(), &head, sizeof head);
  return header;
}

Result<Head> read_head(int file, const std::string& name) {
  Head head{};
  if (pread(file, &head, sizeof head, 0) != static_cast<ssize_t>(sizeof head) ||
      std::memcmp(head.magic, kMagic, sizeof kMagic) != 0)
    return data_loss(name + " is no file of packed weights");
  if (head.version != kPackedVersion)
    return data_loss(fmt::format("{} has version {}, this build reads {}", name, head.version, kPackedVersion));
  return head;
}

Result<Descriptor> open_ours(int folder, const std::string& name, int64_t* size) {
  Descriptor file(openat(folder, name.c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC));
  if (file.get() < 0 && errno == ENOENT) return not_found(name);
  if (file.get() < 0) return failed_precondition(fmt::format("{} cannot be opened: {}", name, std::strerror(errno)));
  struct stat facts = {};
  if (fstat(file.get(), &facts) != 0 || !S_ISREG(facts.st_mode)) return failed_precondition(name + " is no file");
  if (facts.st_uid != geteuid() || (facts.st_mode & (S_IWGRP | S_IWOTH)) != 0)
    return failed_precondition(name + " may be written by others");
  *size = facts.st_size;
  return file;
}

// Names differ between threads, processes, and machines that share a folder.
std::string temporary_name(std::string_view name) {
  static std::atomic<uint64_t> next{0};
  timespec now = {};
  clock_gettime(CLOCK_REALTIME, &now);
  return fmt::format(".{}.{}.{}.{}.tmp", name.substr(0, 16), getpid(), now.tv_sec * 1'000'000'000 + now.tv_nsec,
                     next.fetch_add(1, std::memory_order_relaxed));
}

}  // namespace

std::string packed_name(std::string_view key) { return sha256_hex(key) + std::string(kPackedSuffix); }

int64_t packed_file_bytes(std::string_view key, int64_t bytes) { return content_begin(key, bytes) + bytes; }

Result<MappedPacked> map_packed(int folder, std::string_view key, int64_t bytes, int threads) {
  const std::string name = packed_name(key);
  int64_t size = 0;
  HONE_ASSIGN_OR_RETURN(const Descriptor file, open_ours(folder, name, &size));
  HONE_ASSIGN_OR_RETURN(const Head head, read_head(file.get(), name));
  const bool fits = head.content_bytes == bytes && head.key_bytes == static_cast<int64_t>(key.size()) &&
                    head.chunk_bytes == kChunk && head.content_begin == content_begin(key, bytes) &&
                    size == packed_file_bytes(key, bytes);
  if (!fits) return data_loss(fmt::format("{} has {} bytes and does not hold {} of this key", name, size, bytes));
  std::string header(static_cast<size_t>(head.content_begin), '\0');
  if (pread(file.get(), header.data(), header.size(), 0) != static_cast<ssize_t>(header.size()))
    return data_loss(name + " cannot be read");
  Head unsummed = head;
  unsummed.checksum = 0;
  std::memcpy(header.data(), &unsummed, sizeof unsummed);
  if (checksum64(std::as_bytes(std::span(header))) != head.checksum ||
      header.compare(sizeof head, key.size(), key) != 0)
    return data_loss(name + " has a header that is not what its checksum says");
  void* at = mmap(nullptr, static_cast<size_t>(size), PROT_READ, MAP_PRIVATE, file.get(), 0);
  if (at == MAP_FAILED) return refused("cannot map " + name);
  MappedPacked mapped;
  mapped.owner = std::shared_ptr<const void>(at, [size](void* p) { munmap(p, static_cast<size_t>(size)); });
  mapped.bytes = {static_cast<const std::byte*>(at) + head.content_begin, static_cast<size_t>(bytes)};
  std::vector<uint64_t> sums(static_cast<size_t>(chunks_of(bytes)));
  if (!sums.empty()) std::memcpy(sums.data(), header.data() + sizeof head + key.size(), sums.size() * 8);
  std::atomic<bool> sound{true};
  on_threads(chunks_of(bytes), threads, [&](int64_t i) {
    if (!sound.load(std::memory_order_relaxed)) return;
    const std::span<const std::byte> part = chunk(mapped.bytes, i);
    populate(part);
    if (checksum64(part) != sums[static_cast<size_t>(i)]) sound.store(false, std::memory_order_relaxed);
  });
  if (!sound) return data_loss(name + " has bytes that are not what their checksum says");
  return mapped;
}

Status write_packed(int folder, std::string_view key, std::span<const std::byte> bytes, int threads) {
  if (static_cast<int64_t>(key.size()) > kMostKeyBytes) return resource_exhausted("the key is too long");
  if (!jit::file_may_have(static_cast<size_t>(packed_file_bytes(key, static_cast<int64_t>(bytes.size())))))
    return resource_exhausted(fmt::format("files may not have {} bytes (ulimit -f)", bytes.size()));
  const std::string name = packed_name(key), temporary = temporary_name(name);
  const std::string header = header_of(key, bytes, threads);
  Descriptor file(
      openat(folder, temporary.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, S_IRUSR | S_IWUSR));
  if (file.get() < 0) return refused("cannot make a file");
  const std::string_view content(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  Status status;
  if (!write_all(file.get(), header) || !write_all(file.get(), content) || !file.close()) {
    status = refused("cannot write");
  } else if (renameat(folder, temporary.c_str(), folder, name.c_str()) != 0) {
    status = refused("cannot rename");
  }
  if (!status.ok()) unlinkat(folder, temporary.c_str(), 0);
  return status;
}

std::string why_unreadable(int folder, const std::string& name) {
  int64_t size = 0;
  const Result<Descriptor> file = open_ours(folder, name, &size);
  if (!file.ok()) return std::string(file.status().message());
  const Result<Head> head = read_head(file->get(), name);
  if (!head.ok()) return std::string(head.status().message());
  const bool whole = head->content_begin > 0 && head->content_bytes >= 0 && head->content_bytes <= size &&
                     size == head->content_begin + head->content_bytes;
  return whole ? "" : fmt::format("{} has {} bytes, which is not what its header says", name, size);
}

}  // namespace hone::model
