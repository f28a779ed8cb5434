// See stops_internal.h.
#include <algorithm>
#include <string_view>

#include "engine/model/files/stops_internal.h"

namespace hone::model {
namespace {

// The second row ends what a model of code fills in: another file begins there.
constexpr std::string_view kStops[] = {"<|eot_id|>",
                                       "<|eom_id|>",
                                       "<|im_end|>",
                                       "<|end_of_text|>",
                                       "<|endoftext|>",
                                       "<|end|>",
                                       "<|end_turn|>",
                                       "<|EOT|>",
                                       "<end_of_turn>",
                                       "<end_of_utterance>",
                                       "<|end_of_turn|>",
                                       "</s>",
                                       "<eos>",
                                       "<EOT>",
                                       "_<EOT>",
                                       "\u2581<EOT>",
                                       "[EOT]",
                                       "[EOS]",
                                       "<\uff5cend\u2581of\u2581sentence\uff5c>",
                                       "<|fim_pad|>",
                                       "<|fim_repo|>",
                                       "<|repo_name|>",
                                       "<|file_sep|>",
                                       "<fim_pad>",
                                       "<fim-pad>"};

// No text that somebody might write has these letters in this order.
bool is_marker(std::string_view text) {
  return (text.starts_with("<|") && text.ends_with("|>")) || text.starts_with("<\uff5c");
}

}  // namespace

void add_stops(Vocabulary& v, std::span<const int32_t> named) {
  const auto add = [&](int32_t id) {
    const bool token = id >= 0 && static_cast<size_t>(id) < v.tokens.size();
    if (!token || std::ranges::find(v.end_of_generation, id) != v.end_of_generation.end()) return;
    v.end_of_generation.push_back(id);
    v.tokens[static_cast<size_t>(id)].kind = TokenKind::kControl;
  };
  for (const int32_t id : named) add(id);
  const bool by_bytes = v.kind == TokenizerKind::kByteLevel;
  for (size_t i = 0; i < v.tokens.size(); ++i) {
    const Token& token = v.tokens[i];
    if (std::ranges::find(kStops, token.text) == std::end(kStops)) continue;
    const bool text = by_bytes && token.kind == TokenKind::kNormal && !is_marker(token.text);
    if (!text) add(static_cast<int32_t>(i));
  }
}

}  // namespace hone::model
