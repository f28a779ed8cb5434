// SHA-256 (FIPS 180-4): what names kernels in the cache on disk, and vouches for the files of a package.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace hone {

// Takes bytes in any number of pieces.
class Sha256 {
 public:
  Sha256& add(std::span<const std::byte> bytes);
  Sha256& add(std::string_view text) { return add(std::as_bytes(std::span(text))); }
  // 64 lower-case hexadecimal digits of what was added. Ends the hash: nothing may be added afterwards.
  std::string hex();

 private:
  void block(const uint8_t* bytes);

  std::array<uint32_t, 8> state_ = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a,
                                    0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};
  std::array<uint8_t, 64> pending_ = {};
  uint64_t bytes_ = 0;  // added so far; the last bytes_ % 64 are pending
};

inline std::string sha256_hex(std::span<const std::byte> bytes) { return Sha256().add(bytes).hex(); }
inline std::string sha256_hex(std::string_view text) { return Sha256().add(text).hex(); }

}  // namespace hone
