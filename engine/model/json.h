// JSON of files that others wrote, as an object whose keys are each there once.
#pragma once

#include <nlohmann/json.hpp>
#include <string_view>

#include "engine/base/status.h"

namespace hone::model {

using Json = nlohmann::json;

// A value takes up to 40 times its bytes in memory, a bracket 80 times: 4096 layers of tensors are 12 MB of JSON.
inline constexpr size_t kMostJsonBytes = 16 << 20;

// data_loss where it is no JSON object or a key is there twice, in any object of it: which of two values a reader takes
// is chance, and a file could show one to a check and the other to us. unsupported where it is larger than `most_bytes`
// or nested more than 16 deep, which no real one is: what walks it, as its own destructor and dump() do, calls itself
// once a level.
Result<Json> parse_json_object(std::string_view text, size_t most_bytes = kMostJsonBytes);

// The member, or null where it is absent or `object` is none.
const Json& member(const Json& object, std::string_view key);

}  // namespace hone::model
