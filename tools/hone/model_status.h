// What a model file that cannot be read is to a command.
#pragma once

#include "engine/base/status.h"

namespace hone::cli {

// A file that is not there was typed wrongly (exit code 2); whatever is wrong in one that is there was not (1).
inline Status model_status(const Status& status) {
  const Code code = status.code();
  if (code == Code::kNotFound) return invalid_argument(status.message());
  return code == Code::kInvalidArgument ? data_loss(status.message()) : status;
}

}  // namespace hone::cli
