// See stops_internal.h.
#include <algorithm>
#include <string_view>

#include "engine/model/files/stops_internal.h"

namespace hone::model {
namespace {

constexpr std::string_view kStops[] = {"<|eot_id|>",         "<|eom_id|>", "<|im_end|>",   "<|end_of_text|>",
                                       "<|endoftext|>",      "<|end|>",    "<|end_turn|>", "<end_of_turn>",
                                       "<end_of_utterance>", "</s>",       "<EOT>",        "[EOT]"};

}  // namespace

void add_stops(Vocabulary& v, std::span<const int32_t> named) {
  const auto add = [&](int32_t id) {
    const bool token = id >= 0 && static_cast<size_t>(id) < v.tokens.size();
    if (!token || std::ranges::find(v.end_of_generation, id) != v.end_of_generation.end()) return;
    v.end_of_generation.push_back(id);
    v.tokens[static_cast<size_t>(id)].kind = TokenKind::kControl;
  };
  for (const int32_t id : named) add(id);
  for (size_t i = 0; i < v.tokens.size(); ++i)
    if (std::ranges::find(kStops, v.tokens[i].text) != std::end(kStops)) add(static_cast<int32_t>(i));
}

}  // namespace hone::model
