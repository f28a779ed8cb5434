// See json.h.
#include <fmt/format.h>

#include <set>
#include <string>
#include <vector>

#include "engine/base/printable.h"
#include "engine/model/json.h"

namespace hone::model {
namespace {

constexpr int kMostDepth = 16;

}  // namespace

Result<Json> parse_json_object(std::string_view text, size_t most_bytes) {
  if (text.size() > most_bytes)
    return unsupported(fmt::format("{} bytes of JSON, more than {}", text.size(), most_bytes));
  std::vector<std::set<std::string>> open;  // the keys of objects under way
  std::string twice;
  bool too_deep = false;
  const auto look = [&](int depth, Json::parse_event_t event, Json& parsed) {
    if (depth > kMostDepth) {  // not kept
      too_deep = true;
      return false;
    }
    if (event == Json::parse_event_t::object_start) open.emplace_back();
    if (event == Json::parse_event_t::object_end) open.pop_back();
    if (event == Json::parse_event_t::key && twice.empty()) {
      const auto& key = parsed.get_ref<const std::string&>();
      if (!open.back().insert(key).second) twice = fmt::format("\"{}\" is there twice", printable(key));
    }
    return true;
  };
  Json json = Json::parse(text, look, /*allow_exceptions=*/false);
  if (json.is_discarded()) return data_loss("not JSON, or cut off");
  if (too_deep) return unsupported(fmt::format("JSON nested more than {} deep", kMostDepth));
  if (!json.is_object()) return data_loss("not a JSON object");
  if (!twice.empty()) return data_loss(twice);
  return json;
}

const Json& member(const Json& object, std::string_view key) {
  static const Json kNull;
  const auto found = object.find(key);
  return found == object.end() ? kNull : *found;
}

}  // namespace hone::model
