// The part of hone info that needs code to be generated: hone has it, hone-exec does not (info_peak.cpp, no_peak.cpp).
#pragma once

#include "engine/base/machine.h"
#include "engine/base/status.h"
#include "tools/hone/json.h"

namespace hone::cli {

// {f32_gflops_1t, f32_gflops_all, read_gbs_1t, read_gbs_all, l2_gbs_1t}
Result<Json> measured_peak(const Machine& machine);

}  // namespace hone::cli
