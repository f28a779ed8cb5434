#include "engine/graph/tensor.h"

#include <fmt/format.h>

namespace hone::graph {

Tensor Tensor::make(DType dtype, std::vector<int64_t> shape) {
  Tensor t;
  t.dtype = dtype;
  t.shape = std::move(shape);
  t.data.resize(static_cast<size_t>(t.elements() * dtype_bytes(dtype)));
  return t;
}

Tensor Tensor::f32(std::vector<int64_t> shape, std::span<const float> elements) {
  const auto bytes = std::as_bytes(elements);
  return {DType::kF32, std::move(shape), {bytes.begin(), bytes.end()}};
}

Tensor Tensor::s32(std::vector<int64_t> shape, std::span<const int32_t> elements) {
  const auto bytes = std::as_bytes(elements);
  return {DType::kS32, std::move(shape), {bytes.begin(), bytes.end()}};
}

int64_t Tensor::elements() const {
  int64_t n = 1;
  for (const int64_t d : shape) n *= d;
  return n;
}

Status check_truth_values(std::string_view input, std::span<const std::byte> elements) {
  // Eight at a time while they are right: a mask is looked at in every call.
  size_t i = 0;
  for (uint64_t word = 0; i + 8 <= elements.size(); i += 8) {
    std::memcpy(&word, elements.data() + i, 8);
    if ((word & 0xfefefefefefefefe) != 0) break;
  }
  while (i < elements.size() && elements[i] <= std::byte{1}) ++i;
  if (i == elements.size()) return {};
  return invalid_argument(
      fmt::format("input {}: element {} is {} and must be 0 or 1", input, i, static_cast<int>(elements[i])));
}

}  // namespace hone::graph
