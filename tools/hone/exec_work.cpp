// See exec_work.h.
#include "tools/hone/exec_work.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

namespace hone::cli {

Result<std::unique_ptr<ExecWork>> make_exec_work(const op::Problem& problem, const op::Program& program) {
  return std::visit(
      [&](const auto& p) -> Result<std::unique_ptr<ExecWork>> {
        return std::visit(
            [&](const auto& t) -> Result<std::unique_ptr<ExecWork>> {
              if constexpr (requires { make_work_of(p, t); }) return make_work_of(p, t);
              return invalid_argument(
                  fmt::format("a program of another op than {}: '{}'", op::name(problem), op::to_string(program)));
            },
            program);
      },
      problem);
}

Status check_array(const OperandInfo& operand, const NpyArray& array) {
  if (array.dtype != operand.dtype)
    return invalid_argument(
        fmt::format("{} must be {}, got {}", operand.name, dtype_name(operand.dtype), dtype_name(array.dtype)));
  const std::vector<int64_t>& want = operand.shape;
  bool fits = array.shape.size() == want.size() || (operand.broadcasts && array.shape.size() < want.size());
  const size_t missing = fits ? want.size() - array.shape.size() : 0;
  for (size_t i = 0; fits && i < array.shape.size(); ++i) {
    const int64_t wanted = want[missing + i], got = array.shape[i];
    fits = got == wanted || wanted == -1 || (operand.broadcasts && got == 1 && i + 1 < array.shape.size());
  }
  if (fits) return {};
  return invalid_argument(
      fmt::format("{} must have the shape {}, got {}", operand.name, shape_text(want), shape_text(array.shape)));
}

// splitmix64 of a counter.
uint64_t random_bits(uint64_t seed, std::string_view name, uint64_t at) {
  uint64_t key = seed * 0x9e3779b97f4a7c15ULL;
  for (const char c : name) key = (key ^ static_cast<uint8_t>(c)) * 0x100000001b3ULL;
  uint64_t x = key + at * 0x9e3779b97f4a7c15ULL;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ULL;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebULL;
  return x ^ (x >> 31);
}

Result<NpyArray> random_floats(const std::vector<int64_t>& shape, uint64_t seed, std::string_view name) {
  HONE_ASSIGN_OR_RETURN(NpyArray array, make_array(DType::kF32, shape));
  const std::span<float> values = array.as<float>();
  for (size_t i = 0; i < values.size(); ++i)
    values[i] = static_cast<float>(random_bits(seed, name, i) >> 41) * 0x1p-22f - 1.0f;
  return array;
}

Result<AlignedBuffer> poisoned(int64_t floats) {
  HONE_ASSIGN_OR_RETURN(AlignedBuffer buffer, AlignedBuffer::allocate_elements(floats, sizeof(float)));
  if (!buffer.empty()) std::memset(buffer.data(), 0xff, static_cast<size_t>(buffer.size()));
  return buffer;
}

}  // namespace hone::cli
