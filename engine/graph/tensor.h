// A dense row-major tensor that owns its elements: inputs and outputs of the reference evaluator and of tests.
#pragma once

#include <cstring>
#include <span>
#include <string_view>
#include <vector>

#include "engine/base/status.h"
#include "engine/graph/graph.h"

namespace hone::graph {

struct Tensor {
  DType dtype = DType::kF32;
  std::vector<int64_t> shape;
  std::vector<std::byte> data;

  static Tensor make(DType dtype, std::vector<int64_t> shape);  // zeros
  static Tensor f32(std::vector<int64_t> shape, std::span<const float> elements);
  static Tensor s32(std::vector<int64_t> shape, std::span<const int32_t> elements);

  int64_t elements() const;
  template <typename T>
  std::span<T> as() {
    return {reinterpret_cast<T*>(data.data()), data.size() / sizeof(T)};
  }
  template <typename T>
  std::span<const T> as() const {
    return {reinterpret_cast<const T*>(data.data()), data.size() / sizeof(T)};
  }
  bool operator==(const Tensor&) const = default;
};

// u8 is a truth value. Invalid_argument "input m: element 5 is 2 and must be 0 or 1" where one is neither.
Status check_truth_values(std::string_view input, std::span<const std::byte> elements);

}  // namespace hone::graph
