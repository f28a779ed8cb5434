// Gradient-boosted trees by libxgboost, through its C API: the only file that knows it.
//
// Regression on the correction, not a ranking objective: pairs within a problem would be quadratic in the thousands of
// candidates of an exhaustive run, and what the order needs is which ones are far off. Trees are few and shallow, since
// a database has tens of problems, whose candidates repeat the same structures: 100 trees of depth 5 at rate 0.12 (200
// at 0.08 order no better and take twice as long as these, which are 50 ms for 13 000 candidates); half the rows and
// 70% of the columns a tree, so that no single column (a knob that happened to go with a fast problem) carries all of
// them; leaves hold the weight of at least 10 rounds.
#include <xgboost/c_api.h>

#include <limits>
#include <utility>

#include "autotune/learn/booster_internal.h"

namespace hone::autotune {
namespace {

constexpr int kTrees = 100;

Status check(int code, const char* what) {
  if (code == 0) return {};
  std::string message = XGBGetLastError();
  if (const size_t line = message.find('\n'); line != std::string::npos) message.resize(line);
  return internal_error(std::string("xgboost: ") + what + ": " + message);
}

struct Matrix {
  DMatrixHandle handle = nullptr;
  Matrix() = default;
  Matrix(const Matrix&) = delete;
  Matrix& operator=(const Matrix&) = delete;
  ~Matrix() {
    if (handle != nullptr) XGDMatrixFree(handle);
  }
  Status create(const FeatureMatrix& m) {
    return check(XGDMatrixCreateFromMat_omp(m.values.data(), m.rows, m.columns, std::numeric_limits<float>::quiet_NaN(),
                                            &handle, 1),
                 "matrix");
  }
  Status set(const char* field, std::span<const float> values) {
    return check(XGDMatrixSetFloatInfo(handle, field, values.data(), values.size()), field);
  }
};

struct Booster {
  BoosterHandle handle = nullptr;
  Booster() = default;
  Booster(const Booster&) = delete;
  Booster& operator=(const Booster&) = delete;
  ~Booster() {
    if (handle != nullptr) XGBoosterFree(handle);
  }
  Status create(const DMatrixHandle* matrices, size_t count) {
    // It writes warnings to stderr by itself; what matters comes back as an error.
    HONE_RETURN_IF_ERROR(check(XGBSetGlobalConfig(R"({"verbosity": 0})"), "settings"));
    HONE_RETURN_IF_ERROR(check(XGBoosterCreate(matrices, count, &handle), "model"));
    return set("nthread", "1");
  }
  Status set(const char* name, const char* value) { return check(XGBoosterSetParam(handle, name, value), name); }
};

}  // namespace

Status booster_available() { return {}; }

Result<std::string> boost(const FeatureMatrix& matrix, std::span<const float> labels, std::span<const float> weights,
                          uint64_t seed) {
  Matrix data;
  HONE_RETURN_IF_ERROR(data.create(matrix));
  HONE_RETURN_IF_ERROR(data.set("label", labels));
  HONE_RETURN_IF_ERROR(data.set("weight", weights));
  Booster booster;
  HONE_RETURN_IF_ERROR(booster.create(&data.handle, 1));
  const std::string seed_text = std::to_string(seed % 1'000'000'007);
  for (const auto& [name, value] : {std::pair{"objective", "reg:squarederror"},
                                    {"base_score", "0"},
                                    {"booster", "gbtree"},
                                    {"tree_method", "hist"},
                                    {"max_depth", "5"},
                                    {"eta", "0.12"},
                                    {"subsample", "0.5"},
                                    {"colsample_bytree", "0.7"},
                                    {"min_child_weight", "10"},
                                    {"seed", seed_text.c_str()}})
    HONE_RETURN_IF_ERROR(booster.set(name, value));
  for (int i = 0; i < kTrees; ++i)
    HONE_RETURN_IF_ERROR(check(XGBoosterUpdateOneIter(booster.handle, i, data.handle), "training"));
  bst_ulong size = 0;
  const char* bytes = nullptr;
  HONE_RETURN_IF_ERROR(
      check(XGBoosterSaveModelToBuffer(booster.handle, R"({"format": "ubj"})", &size, &bytes), "saving"));
  return std::string(bytes, size);
}

Result<std::vector<double>> booster_predict(std::string_view model, const FeatureMatrix& matrix) {
  Booster booster;
  HONE_RETURN_IF_ERROR(booster.create(nullptr, 0));
  HONE_RETURN_IF_ERROR(check(XGBoosterLoadModelFromBuffer(booster.handle, model.data(), model.size()), "loading"));
  HONE_RETURN_IF_ERROR(booster.set("nthread", "1"));  // loading forgets it
  Matrix data;
  HONE_RETURN_IF_ERROR(data.create(matrix));
  bst_ulong count = 0;
  const float* values = nullptr;
  HONE_RETURN_IF_ERROR(check(XGBoosterPredict(booster.handle, data.handle, 0, 0, 0, &count, &values), "prediction"));
  if (count != matrix.rows) return internal_error("xgboost: a prediction a row was expected");
  return std::vector<double>(values, values + count);
}

}  // namespace hone::autotune
