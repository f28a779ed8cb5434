// The seam to a library of gradient-boosted trees: rows of features in, corrections of log time out. What the library
// is, and whether this build has one, is known behind it only.
//
// A model predicts how far the analytical estimate is off, as log(true / estimated) up to a constant per problem, so
// that log(estimate) + prediction is the score of a candidate. Where nothing was learned the correction is near 0 and
// the analytical order stays.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "engine/base/status.h"

namespace hone::autotune {

struct TrainingRow {
  std::vector<float> features;
  double correction = 0;  // log(true / estimated)
  double weight = 1;      // > 0
};

// unsupported, saying what to install, when this build has no library.
Status ranker_available();

// The bytes of a model. The same rows in the same order and the same seed give the same bytes. Rows have equally many
// features.
Result<std::string> train_ranker(std::span<const TrainingRow> rows, uint64_t seed);

// One correction a row. data_loss when `model` is not whole as train_ranker made it, or takes another number of
// features. Never runs more than the calling thread: threads of a library would spin beside what is measured next.
Result<std::vector<double>> predict(std::string_view model, std::span<const std::vector<float>> rows);

}  // namespace hone::autotune
