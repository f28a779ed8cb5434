// For tests that look into candidates of matmul.
#pragma once

#include "autotune/space/space.h"

namespace hone::autotune {

inline const matmul::TransformProgram& matmul_of(const Candidate& c) {
  return std::get<matmul::TransformProgram>(c.program);
}

}  // namespace hone::autotune
