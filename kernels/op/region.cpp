// See region.h.
#include "kernels/op/region.h"

#include <algorithm>

namespace hone::op {
namespace {

// On a machine that was never tuned each thread gets as much as one core does in 50 us: the wake-up of a thread that
// sleeps takes 5-50 us.
constexpr double kWorthThread = 2'500'000;

}  // namespace

int default_threads(double work, int limit, std::optional<int64_t> min_work) {
  if (min_work) return work < static_cast<double>(*min_work) ? 1 : std::max(1, limit);
  return std::max(1, std::min(limit, static_cast<int>(std::min(work / kWorthThread, 4096.0)) + 1));
}

bool region_pays(double work, std::optional<int64_t> min_work) { return default_threads(work, 2, min_work) > 1; }

}  // namespace hone::op
