// Dimensions as a plan evaluates them in each call: sums over an array of symbol values, without names and without
// allocating.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "engine/graph/dim.h"

namespace hone::executable {

class Size {
 public:
  Size() = default;
  Size(int64_t constant) : constant_(constant) {}  // NOLINT: implicit on purpose
  // `symbols`: names in the order of the values. Errors: failed_precondition (unknown, no such symbol), unsupported
  // (more than kMaxTerms symbols).
  static Result<Size> of(const graph::Dim& dim, std::span<const std::string> symbols);

  int64_t at(std::span<const int64_t> values) const {
    int64_t sum = constant_;
    for (int i = 0; i < terms_; ++i) sum += factors_[static_cast<size_t>(i)] * values[symbols_[static_cast<size_t>(i)]];
    return sum;
  }
  bool is_constant() const { return terms_ == 0; }

  static constexpr size_t kMaxTerms = 4;

 private:
  int64_t constant_ = 0;
  int terms_ = 0;
  std::array<uint16_t, kMaxTerms> symbols_{};
  std::array<int64_t, kMaxTerms> factors_{};
};

Result<std::vector<Size>> sizes_of(std::span<const graph::Dim> dims, std::span<const std::string> symbols);

}  // namespace hone::executable
