// Element type and sizes of a tensor.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "engine/base/dtype.h"
#include "engine/graph/dim.h"

namespace hone::graph {

using Shape = std::vector<Dim>;

struct TensorType {
  DType dtype = DType::kF32;
  Shape dims;
  bool operator==(const TensorType&) const = default;
  int rank() const { return static_cast<int>(dims.size()); }
  bool is_static() const;
  // Of a static type. Beyond 2^62: -1.
  int64_t elements() const;
  int64_t bytes() const { return elements() * dtype_bytes(dtype); }
};
std::string to_string(const TensorType& type);  // "f32[s, 2048]"

}  // namespace hone::graph
