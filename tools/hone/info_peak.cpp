#include "autotune/measure/peak.h"
#include "tools/hone/info.h"

namespace hone::cli {

Result<Json> measured_peak(const Machine& machine) {
  HONE_ASSIGN_OR_RETURN(const autotune::Peak peak, autotune::measure_peak(machine));
  return Json{{"f32_gflops_1t", peak.f32_gflops_1t},
              {"f32_gflops_all", peak.f32_gflops_all},
              {"bf16_gflops_1t", peak.bf16_gflops_1t},
              {"bf16_gflops_all", peak.bf16_gflops_all},
              {"read_gbs_1t", peak.read_gbs_1t},
              {"read_gbs_all", peak.read_gbs_all},
              {"l2_gbs_1t", peak.l2_gbs_1t}};
}

}  // namespace hone::cli
