#include "engine/passes/rope_frequencies_internal.h"

#include <algorithm>
#include <cmath>

namespace hone::passes {
namespace {

using graph::Constant;

constexpr double kTolerance = 0x1p-20;
// atan2 of two f32 is off by an ulp or two, and so are frequencies that were computed with another pow.
constexpr int kUlps = 6;
constexpr int64_t kMaxRows = int64_t{1} << 20;

class Tables {
 public:
  Tables(const Constant& cos, const Constant& sin, TableColumns columns) : cos_(cos), sin_(sin), layout_(columns) {
    rows_ = cos.type.dims[0].value();
    columns_ = cos.type.dims[1].value();
    half_ = layout_ == TableColumns::kOnce ? columns_ : columns_ / 2;
  }

  std::optional<std::vector<float>> frequencies() const {
    if (rows_ < 2 || rows_ > kMaxRows || !repeats()) return std::nullopt;
    std::vector<float> all;
    for (int64_t j = 0; j < half_; ++j) {
      const auto f = frequency(j);
      if (!f) return std::nullopt;
      all.push_back(*f);
    }
    return all;
  }

 private:
  int64_t at(int64_t row, int64_t j) const {
    return row * columns_ + (layout_ == TableColumns::kPairsTwice ? 2 * j : j);
  }
  bool repeats() const {
    if (layout_ == TableColumns::kOnce) return true;
    const int64_t other = layout_ == TableColumns::kPairsTwice ? 1 : half_;
    for (int64_t r = 0; r < rows_; ++r)
      for (int64_t j = 0; j < half_; ++j)
        for (const Constant* c : {&cos_, &sin_})
          if (c->f32_at(at(r, j)) != c->f32_at(at(r, j) + other)) return false;
    return columns_ % 2 == 0;
  }

  // Angles turn by less than half a circle from row to row, else nothing tells them from slower ones.
  std::optional<float> frequency(int64_t j) const {
    const double angle = std::atan2(sin_.f32_at(at(1, j)), cos_.f32_at(at(1, j)));
    float candidate = static_cast<float>(angle);
    for (int i = 0; i < kUlps; ++i) candidate = std::nextafter(candidate, -INFINITY);
    std::optional<float> best;
    double least = kTolerance;
    for (int i = -kUlps; i <= kUlps; ++i, candidate = std::nextafter(candidate, INFINITY)) {
      const double e = error(j, candidate, least);
      if (e < least) best = candidate, least = e;
    }
    return best;
  }
  // The largest of a column; what is beyond `enough` is not looked for.
  double error(int64_t j, float f, double enough) const {
    double largest = 0;
    for (int64_t r = rows_; r-- > 0 && largest < enough;) {
      const double angle = static_cast<float>(r) * f;
      largest = std::max({largest, std::abs(std::cos(angle) - cos_.f32_at(at(r, j))),
                          std::abs(std::sin(angle) - sin_.f32_at(at(r, j)))});
    }
    return largest;
  }

  const Constant &cos_, &sin_;
  TableColumns layout_;
  int64_t rows_ = 0, columns_ = 0, half_ = 0;
};

}  // namespace

std::optional<std::vector<float>> frequencies_of(const Constant& cos, const Constant& sin, TableColumns columns) {
  const bool tables =
      cos.type == sin.type && cos.type.rank() == 2 && cos.type.dtype == DType::kF32 && !cos.splat && !sin.splat;
  return tables ? Tables(cos, sin, columns).frequencies() : std::nullopt;
}

}  // namespace hone::passes
