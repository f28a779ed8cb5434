// What a build without a library of boosted trees answers. Nothing but the order of measuring depends on it.
#include "autotune/learn/booster_internal.h"

namespace hone::autotune {
namespace {

Status missing() { return unsupported("this build has no learned ranker: install libxgboost-dev and build again"); }

}  // namespace

Status booster_available() { return missing(); }

Result<std::string> boost(const FeatureMatrix&, std::span<const float>, std::span<const float>, uint64_t) {
  return missing();
}

Result<std::vector<double>> booster_predict(std::string_view, const FeatureMatrix&) { return missing(); }

}  // namespace hone::autotune
