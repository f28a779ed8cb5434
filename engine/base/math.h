// Integer arithmetic of sizes: both arguments positive (or v zero), v + to within 63 bits.
#pragma once

#include <algorithm>
#include <cstdint>

namespace hone {

constexpr int64_t ceil_div(int64_t v, int64_t by) { return (v + by - 1) / by; }
constexpr int64_t round_up(int64_t v, int64_t to) { return ceil_div(v, to) * to; }
// The largest multiple of `unit` that fits into v, but one unit at least: a block is never empty.
constexpr int64_t fit_multiple(int64_t v, int64_t unit) { return std::max(unit, v / unit * unit); }

}  // namespace hone
