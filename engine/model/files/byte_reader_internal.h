// Little-endian values one after the other, and never a byte beyond the end: a count that a file claims is compared
// with what is left of the file before anything is multiplied or allocated by it.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string_view>
#include <type_traits>

namespace hone::model {

static_assert(std::endian::native == std::endian::little, "weights are used as they lie in the file");

class ByteReader {
 public:
  explicit ByteReader(std::span<const std::byte> bytes, size_t at = 0) : bytes_(bytes), at_(at) {}

  size_t position() const { return at_; }
  size_t left() const { return bytes_.size() - at_; }

  // False, and nothing is read, where less than that is left.
  template <typename T>
  bool read(T& value) {
    static_assert(std::is_arithmetic_v<T>);
    if (left() < sizeof(T)) return false;
    std::memcpy(&value, bytes_.data() + at_, sizeof(T));
    at_ += sizeof(T);
    return true;
  }
  bool take(uint64_t size, std::span<const std::byte>& taken) {
    if (size > left()) return false;
    taken = bytes_.subspan(at_, static_cast<size_t>(size));
    at_ += static_cast<size_t>(size);
    return true;
  }
  // `count` elements of `size` bytes each; the product is not formed before it is known to fit.
  bool take_elements(uint64_t count, uint64_t size, std::span<const std::byte>& taken) {
    return count <= left() / size && take(count * size, taken);
  }
  bool take_text(uint64_t size, std::string_view& text) {
    std::span<const std::byte> taken;
    if (!take(size, taken)) return false;
    text = {reinterpret_cast<const char*>(taken.data()), taken.size()};
    return true;
  }

 private:
  std::span<const std::byte> bytes_;
  size_t at_;
};

}  // namespace hone::model
