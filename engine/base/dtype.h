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

std::optional<DType> parse_dtype(std::string_view name);

}  // namespace hone
