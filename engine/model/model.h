// What tools see of a loaded model beyond hone/model.hpp.
#pragma once

#include "engine/executable/plan.h"
#include "engine/model/config.h"
#include "engine/model/tokenizer/tokenizer.h"
#include "hone/model.hpp"

namespace hone {

// Keys and values of more tokens than this would be an error of a unit and no wish.
inline constexpr int64_t kMaxContext = int64_t{1} << 22;

struct ModelAccess {
  static const model::DecoderConfig& config(const Model& model);
  static const executable::ExecutablePlan& plan(const Model& model);
  static executable::Session& session(Sequence& sequence);
  static const model::Tokenizer* tokenizer(const Model& model);  // nullptr: there is none
};

}  // namespace hone
