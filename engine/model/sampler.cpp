#include "hone/sampler.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <set>

#include "engine/base/guarded.h"
#include "engine/base/random.h"
#include "engine/base/status.h"

namespace hone {
namespace {

using Candidate = Sampler::Candidate;

// e^x for x <= 0, by additions and multiplications alone: libraries differ in the last bit, with the CPU at times, and
// a draw near the border between two tokens with them. Below -745 it is 0. Error < 2 ulp: |r| <= ln(2) / 2, and the
// first term that is left out is r^14 / 14! < 5e-18.
double exponential(double x) {
  if (!(x > -745)) return 0;
  constexpr double kLog2e = 1.4426950408889634, kLn2High = 0x1.62e42feep-1, kLn2Low = 0x1.a39ef35793c76p-33;
  const double n = std::floor(x * kLog2e + 0.5);
  const double r = (x - n * kLn2High) - n * kLn2Low;
  double sum = 1;
  for (int i = 13; i > 0; --i) sum = 1 + sum * r / i;
  return std::ldexp(sum, static_cast<int>(n));
}

// A total order: equal logits by id.
struct Logit {
  double value = 0;
  int32_t id = 0;
  bool operator<(const Logit& o) const { return value != o.value ? value > o.value : id < o.id; }
};

// Beyond every context; twice as many ids are kept at most.
constexpr int64_t kMostWindow = int64_t{1} << 30;

Status check(const SamplerOptions& o) {
  const auto wrong = [](std::string_view name, double value, std::string_view rule) {
    return invalid_argument(fmt::format("{} is {} and must be {}", name, value, rule));
  };
  if (!(o.temperature >= 0) || !std::isfinite(o.temperature))
    return wrong("temperature", o.temperature, "a number from 0 (the most probable token) on");
  if (o.top_k < 0) return invalid_argument(fmt::format("top_k is {} and must be 0 (all tokens) or more", o.top_k));
  if (!(o.top_p > 0 && o.top_p <= 1)) return wrong("top_p", o.top_p, "above 0 and at most 1 (all tokens)");
  if (!(o.min_p >= 0 && o.min_p <= 1)) return wrong("min_p", o.min_p, "from 0 (all tokens) to 1");
  if (!(o.repeat_penalty >= 1e-3 && o.repeat_penalty <= 1e3))
    return wrong("repeat_penalty", o.repeat_penalty, "from 0.001 to 1000, where 1 is none");
  if (o.repeat_window < 0 || o.repeat_window > kMostWindow)
    return invalid_argument(fmt::format("repeat_window is {} and must be from 0 to {}", o.repeat_window, kMostWindow));
  return {};
}

}  // namespace

class Sampler::Impl {
 public:
  explicit Impl(const SamplerOptions& o) : options(o), random(o.seed) {}

  void accept(int32_t token) {
    recent.push_back(token);
    const size_t window = static_cast<size_t>(options.repeat_window);
    if (recent.size() > 2 * window + 64) recent.erase(recent.begin(), recent.end() - static_cast<ptrdiff_t>(window));
  }

  Result<std::vector<Logit>> penalised(std::span<const float> logits) const {
    if (logits.empty()) return invalid_argument("there are no logits to sample from");
    std::vector<Logit> all(logits.size());
    double largest = -std::numeric_limits<double>::infinity();
    for (size_t i = 0; i < logits.size(); ++i) {
      if (std::isnan(logits[i]) || logits[i] == std::numeric_limits<float>::infinity())
        return invalid_argument(fmt::format("the logit of token {} is {}", i, logits[i]));
      all[i] = {logits[i], static_cast<int32_t>(i)};
      largest = std::max(largest, all[i].value);
    }
    if (std::isinf(largest)) return invalid_argument("every logit is -infinity");
    if (options.repeat_penalty == 1) return all;
    const size_t window = std::min(recent.size(), static_cast<size_t>(options.repeat_window));
    for (const int32_t id : std::set<int32_t>(recent.end() - static_cast<ptrdiff_t>(window), recent.end())) {
      if (id < 0 || static_cast<size_t>(id) >= all.size()) continue;
      double& value = all[static_cast<size_t>(id)].value;
      value = value > 0 ? value / options.repeat_penalty : value * options.repeat_penalty;
    }
    return all;
  }

  // In order, with weights e^((l - largest) / temperature) whose sum is not 1.
  Result<std::vector<Candidate>> weighted(std::span<const float> logits) const {
    HONE_ASSIGN_OR_RETURN(std::vector<Logit> all, penalised(logits));
    if (options.temperature == 0) return std::vector<Candidate>{{std::min_element(all.begin(), all.end())->id, 1}};
    const size_t k = options.top_k == 0 ? all.size() : std::min(all.size(), static_cast<size_t>(options.top_k));
    std::partial_sort(all.begin(), all.begin() + static_cast<ptrdiff_t>(k), all.end());
    all.resize(k);
    std::vector<Candidate> left(k);
    double sum = 0;
    for (size_t i = 0; i < k; ++i) {
      left[i] = {all[i].id, exponential(all[i].value - all[0].value)};
      sum += left[i].probability;
    }
    size_t count = k;
    if (options.top_p < 1) {
      double together = 0;
      for (count = 0; count < k && (count == 0 || together < options.top_p * sum); ++count)
        together += left[count].probability;
    }
    while (count > 1 && left[count - 1].probability < options.min_p) --count;  // the largest weight is 1
    left.resize(count);
    for (size_t i = 0; i < count; ++i)
      left[i].probability = exponential((all[i].value - all[0].value) / options.temperature);
    return left;
  }

  Result<int32_t> draw(std::span<const float> logits) {
    HONE_ASSIGN_OR_RETURN(const std::vector<Candidate> left, weighted(logits));
    if (left.size() == 1) return left[0].id;
    double sum = 0;
    for (const Candidate& c : left) sum += c.probability;
    const double at = static_cast<double>(random.next() >> 11) * 0x1p-53 * sum;
    double together = 0;
    for (const Candidate& c : left) {
      together += c.probability;
      if (at < together) return c.id;
    }
    return left.back().id;
  }

  SamplerOptions options;
  Random random;
  std::vector<int32_t> recent;  // the last ones are at its end
};

Sampler::Sampler(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Sampler::Sampler(Sampler&&) noexcept = default;
Sampler& Sampler::operator=(Sampler&&) noexcept = default;
Sampler::~Sampler() = default;

Result<Sampler> Sampler::create(const SamplerOptions& options) {
  return guarded([&]() -> Result<Sampler> {
    HONE_RETURN_IF_ERROR(check(options));
    return Sampler(std::make_unique<Impl>(options));
  });
}

Result<int32_t> Sampler::sample(std::span<const float> logits) {
  return guarded([&]() -> Result<int32_t> {
    HONE_ASSIGN_OR_RETURN(const int32_t id, impl_->draw(logits));
    impl_->accept(id);
    return id;
  });
}

Result<std::vector<Candidate>> Sampler::distribution(std::span<const float> logits) const {
  return guarded([&]() -> Result<std::vector<Candidate>> {
    HONE_ASSIGN_OR_RETURN(std::vector<Candidate> left, impl_->weighted(logits));
    double sum = 0;
    for (const Candidate& c : left) sum += c.probability;
    for (Candidate& c : left) c.probability /= sum;
    return left;
  });
}

void Sampler::accept(std::span<const int32_t> tokens) {
  for (const int32_t id : tokens) impl_->accept(id);
}

}  // namespace hone
