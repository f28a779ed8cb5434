// A result against its reference, element by element: within a bound, or bit for bit.
#pragma once

#include <cstdint>
#include <string>

namespace hone::numeric {

struct Comparison {
  int64_t elements = 0;
  int64_t mismatches = 0;
  double worst = 0;  // largest |error| / bound (inf when a NaN or an infinity is where it should not be)
  std::string text;  // the first and the worst mismatch; "" when there is none

  bool ok() const { return mismatches == 0; }
};

// Collects mismatches: counts all, describes the first and the worst. `place()` names the element, as "C[0][1,2]".
class Mismatches {
 public:
  // NaN or infinity where the reference has none is a mismatch, as is their absence where it has one; but a result
  // beyond the largest float may be inf. An infinite bound says that nothing is known of the element.
  template <typename Place>
  void within(float got, double want, double bound, const Place& place) {
    const Verdict v = judge(got, want, bound);
    ++result_.elements;
    if (v.wrong) return add(got, want, v, place());
    if (v.ratio > result_.worst) result_.worst = v.ratio;
  }
  // NaN equals NaN.
  template <typename Place>
  void bits(float got, float want, const Place& place) {
    const Verdict v = judge_bits(got, want);
    ++result_.elements;
    if (v.wrong) add(got, want, v, place());
  }
  Comparison finish();

 private:
  struct Verdict {
    bool wrong = false;
    double ratio = 0;
    std::string rule;
  };
  static Verdict judge(float got, double want, double bound);
  static Verdict judge_bits(float got, float want);
  void add(float got, double want, const Verdict& verdict, const std::string& place);

  Comparison result_;
  std::string first_, worst_;
};

}  // namespace hone::numeric
