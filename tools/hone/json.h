// JSON as the commands print it.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

namespace hone::cli {

using Json = nlohmann::ordered_json;

// Paths and problem texts may hold bytes that are no UTF-8; they are replaced, as JSON has no place for them.
inline std::string dump(const Json& json, int indent = -1) {
  return json.dump(indent, ' ', false, Json::error_handler_t::replace);
}

}  // namespace hone::cli
