// Element types. One list (dtypes.inc) gives the enumerators, the names and the sizes.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace hone {

enum class DType : uint8_t {
#define X(id, name, bytes) id,
#include "engine/base/dtypes.inc"
#undef X
};

constexpr std::string_view dtype_name(DType t) {
  switch (t) {
#define X(id, name, bytes) \
  case DType::id:          \
    return name;
#include "engine/base/dtypes.inc"
#undef X
  }
  return "?";
}

constexpr int64_t dtype_bytes(DType t) {
  switch (t) {
#define X(id, name, bytes) \
  case DType::id:          \
    return bytes;
#include "engine/base/dtypes.inc"
#undef X
  }
  return 0;
}

// Floats of 16 bits: what weights are stored in, and nothing computes in (half.h widens them).
constexpr bool is_16bit_float(DType t) { return t == DType::kBf16 || t == DType::kF16; }

std::optional<DType> parse_dtype(std::string_view name);

}  // namespace hone
