// Whether threads pay for a piece of work, counted as the ops' region_work does: multiply-adds, or what one core does
// while it moves the operands where that is more.
#pragma once

#include <cstdint>
#include <optional>

namespace hone::op {

// One AVX2 core does about 50 multiply-adds and moves about 10 bytes a nanosecond, so an element of f32 that it moves
// is worth 20; only the order of magnitude matters.
inline constexpr double kWorkPerElement = 20;

// Threads worth waking for work on which nothing was measured, 1..limit. `min_work`: from how much work on `limit`
// threads are faster than one on this machine, as `hone tune` found; without it a guess that suits none exactly.
int default_threads(double work, int limit, std::optional<int64_t> min_work = std::nullopt);
// Whether a call is worth a region of several threads; one that is not stays on the caller.
bool region_pays(double work, std::optional<int64_t> min_work);

}  // namespace hone::op
