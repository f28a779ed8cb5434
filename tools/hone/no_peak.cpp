// In the place of info_peak.cpp where no code can be generated.
#include "tools/hone/info.h"

namespace hone::cli {

Result<Json> measured_peak(const Machine&) {
  return unsupported("hone-exec generates no code to measure with; hone info --measure does");
}

}  // namespace hone::cli
