// What a library of boosted trees has to offer; implemented once a library, and once for builds that have none.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "engine/base/status.h"

namespace hone::autotune {

// `values`: rows of `columns` features each.
struct FeatureMatrix {
  std::vector<float> values;
  size_t rows = 0, columns = 0;
};

Status booster_available();
Result<std::string> boost(const FeatureMatrix& matrix, std::span<const float> labels, std::span<const float> weights,
                          uint64_t seed);
// `model` is exactly what boost() returned, for as many columns.
Result<std::vector<double>> booster_predict(std::string_view model, const FeatureMatrix& matrix);

}  // namespace hone::autotune
