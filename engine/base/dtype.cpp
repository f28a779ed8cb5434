#include "engine/base/dtype.h"

namespace hone {

std::optional<DType> parse_dtype(std::string_view name) {
#define X(id, text, bytes) \
  if (name == (text)) return DType::id;
#include "engine/base/dtypes.inc"
#undef X
  return std::nullopt;
}

}  // namespace hone
