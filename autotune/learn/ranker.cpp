// See ranker.h. A library's own format is not safe against damage (a length read from a damaged file is allocated
// before it is doubted), so a model is sealed: a line with the number of features and a checksum, then its bytes.
#include "autotune/learn/ranker.h"

#include <fmt/format.h>

#include "autotune/learn/booster_internal.h"
#include "autotune/learn/checksum_internal.h"

namespace hone::autotune {
namespace {

Result<FeatureMatrix> matrix_of(size_t rows, auto features_of) {
  FeatureMatrix matrix{.values = {}, .rows = rows, .columns = rows == 0 ? 0 : features_of(0).size()};
  matrix.values.reserve(rows * matrix.columns);
  for (size_t i = 0; i < rows; ++i) {
    const std::vector<float>& row = features_of(i);
    if (row.size() != matrix.columns || row.empty()) return invalid_argument("rows of features differ in length");
    matrix.values.insert(matrix.values.end(), row.begin(), row.end());
  }
  return matrix;
}

std::string seal_line(size_t columns, std::string_view model) {
  return fmt::format("hone ranker 1 {} {:016x}\n", columns, fnv1a(model));
}

}  // namespace

Status ranker_available() { return booster_available(); }

Result<std::string> train_ranker(std::span<const TrainingRow> rows, uint64_t seed) {
  if (rows.empty()) return invalid_argument("nothing to train on");
  HONE_ASSIGN_OR_RETURN(const FeatureMatrix matrix,
                        matrix_of(
                            rows.size(), [&](size_t i) -> auto& { return rows[i].features; }));
  std::vector<float> labels, weights;
  for (const TrainingRow& row : rows) {
    labels.push_back(static_cast<float>(row.correction));
    weights.push_back(static_cast<float>(row.weight));
  }
  HONE_ASSIGN_OR_RETURN(const std::string model, boost(matrix, labels, weights, seed));
  return seal_line(matrix.columns, model) + model;
}

Result<std::vector<double>> predict(std::string_view sealed, std::span<const std::vector<float>> rows) {
  HONE_RETURN_IF_ERROR(booster_available());
  if (rows.empty()) return std::vector<double>();
  HONE_ASSIGN_OR_RETURN(const FeatureMatrix matrix, matrix_of(
                                                        rows.size(), [&](size_t i) -> auto& { return rows[i]; }));
  const size_t end = sealed.find('\n');
  if (end == std::string_view::npos) return data_loss("not a model");
  const std::string_view model = sealed.substr(end + 1);
  if (sealed.substr(0, end + 1) != seal_line(matrix.columns, model))
    return data_loss(fmt::format("the model is damaged, or not one for {} features", matrix.columns));
  return booster_predict(model, matrix);
}

}  // namespace hone::autotune
