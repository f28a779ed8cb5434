// What a Model keeps, shared by its sequences.
#pragma once

#include <optional>
#include <string>

#include "engine/executable/plan.h"
#include "engine/model/config.h"
#include "engine/model/tokenizer/tokenizer.h"
#include "hone/model.hpp"

namespace hone {

class Model::Impl {
 public:
  Impl(model::DecoderConfig c, executable::ExecutablePlan p) : config(std::move(c)), plan(std::move(p)) {}

  model::DecoderConfig config;
  executable::ExecutablePlan plan;
  std::optional<model::Tokenizer> tokenizer;
  ModelInfo info;
};

// A session of the model's plan.
Result<Sequence> make_sequence(std::shared_ptr<const Model::Impl> model);

}  // namespace hone
