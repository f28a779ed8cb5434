// See elements_internal.h.
#include <algorithm>
#include <cstring>

#include "engine/base/half.h"
#include "tools/synthetic/elements_internal.h"

namespace hone::synthetic {
namespace {

constexpr int64_t kPieceElements = 1 << 16;  // both buffers stay in a second-level cache

float rounded(float value, DType dtype) {
  if (dtype == DType::kBf16) return bf16_to_f32(f32_to_bf16(value));
  if (dtype == DType::kF16) return f16_to_f32(f32_to_f16(value));
  return value;
}

class Buffer {
 public:
  explicit Buffer(const Sink& sink) : sink_(sink) {}

  Status write(std::span<float> elements, DType values, DType stored) {
    if (stored == DType::kF32) {
      if (values != DType::kF32)
        for (float& element : elements) element = rounded(element, values);
      return sink(elements.data(), elements.size_bytes());
    }
    halves_.resize(elements.size());
    if (stored == DType::kBf16)
      std::ranges::transform(elements, halves_.begin(), f32_to_bf16);
    else
      std::ranges::transform(elements, halves_.begin(), f32_to_f16);
    return sink(halves_.data(), halves_.size() * sizeof(uint16_t));
  }

 private:
  Status sink(const void* bytes, size_t size) { return sink_({static_cast<const char*>(bytes), size}); }

  const Sink& sink_;
  std::vector<uint16_t> halves_;
};

bool is_turned(Role role) {
  return role == Role::kQ || role == Role::kK || role == Role::kQBias || role == Role::kKBias;
}

}  // namespace

Status write_elements(const SyntheticModel& model, const Tensor& tensor, DType stored, bool neighbours,
                      const Sink& sink) {
  Buffer buffer(sink);
  std::vector<float> elements(kPieceElements);
  const auto write = [&](int64_t count) {
    return buffer.write(std::span(elements).first(static_cast<size_t>(count)), model.dtype, stored);
  };
  if (!neighbours || !is_turned(tensor.role)) {
    for (int64_t at = 0; at < tensor.elements(); at += kPieceElements) {
      const int64_t count = std::min(kPieceElements, tensor.elements() - at);
      fill(tensor, model.seed, at, std::span(elements).first(static_cast<size_t>(count)));
      HONE_RETURN_IF_ERROR(write(count));
    }
    return {};
  }
  const int64_t columns = tensor.matrix() ? tensor.shape[1] : 1;
  elements.resize(static_cast<size_t>(std::max(columns, kPieceElements)));
  for (int64_t row = 0; row < tensor.shape[0]; ++row) {
    fill(tensor, model.seed, row_in_halves(row, model.config.head_dim) * columns,
         std::span(elements).first(static_cast<size_t>(columns)));
    HONE_RETURN_IF_ERROR(write(columns));
  }
  return {};
}

}  // namespace hone::synthetic
