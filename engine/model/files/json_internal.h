// JSON of files that others wrote, as an object whose keys are each there once.
#pragma once

#include <nlohmann/json.hpp>
#include <string_view>

#include "engine/base/status.h"

namespace hone::model {

using Json = nlohmann::json;

// data_loss where it is no JSON object or a key is there twice, in any object of it: which of two values a reader takes
// is chance, and a file could show one to a check and the other to us. unsupported where it is larger or nested deeper
// than any real one.
Result<Json> parse_json_object(std::string_view text);

// The member, or null where it is absent.
const Json& member(const Json& object, std::string_view key);

}  // namespace hone::model
