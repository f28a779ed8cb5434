// What tools see of a loaded model beyond hone/model.hpp.
#pragma once

#include "engine/executable/plan.h"
#include "engine/model/config.h"
#include "hone/model.hpp"

namespace hone {

struct ModelAccess {
  static const model::DecoderConfig& config(const Model& model);
  static const executable::ExecutablePlan& plan(const Model& model);
};

}  // namespace hone
