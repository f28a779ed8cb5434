// See special_tokens_internal.h.
#include "engine/model/tokenizer/special_tokens_internal.h"

#include <algorithm>

namespace hone::model {

SpecialTokens::SpecialTokens(const std::vector<Token>& tokens, bool control) {
  for (size_t id = 0; id < tokens.size(); ++id) {
    const TokenKind kind = tokens[id].kind;
    const bool wanted =
        kind == TokenKind::kUserDefined || (control && (kind == TokenKind::kControl || kind == TokenKind::kUnknown));
    if (wanted && !tokens[id].text.empty()) tokens_.push_back({tokens[id].text, static_cast<int32_t>(id)});
  }
  std::sort(tokens_.begin(), tokens_.end(), [](const Entry& a, const Entry& b) { return a.text < b.text; });
  for (size_t b = 0, at = 0; b < 256; ++b) {
    starts_[b] = static_cast<uint32_t>(at);
    while (at < tokens_.size() && static_cast<uint8_t>(tokens_[at].text[0]) == b) ++at;
    starts_[b + 1] = static_cast<uint32_t>(at);
  }
}

std::optional<SpecialTokens::Found> SpecialTokens::find(std::string_view text, size_t from) const {
  if (tokens_.empty()) return std::nullopt;
  for (size_t begin = from; begin < text.size(); ++begin) {
    const auto first = static_cast<uint8_t>(text[begin]);
    size_t low = starts_[first], high = starts_[first + 1];
    if (low == high) continue;
    // All of [low, high) have the first `length` bytes of the text; the one that is no longer comes first.
    Found best;
    for (size_t length = 1; low < high; ++length) {
      if (tokens_[low].text.size() == length) best = {.begin = begin, .length = length, .id = tokens_[low++].id};
      if (begin + length == text.size()) break;
      const auto byte = static_cast<uint8_t>(text[begin + length]);
      const auto less = [length](const Entry& e, uint8_t b) { return static_cast<uint8_t>(e.text[length]) < b; };
      const auto more = [length](uint8_t b, const Entry& e) { return b < static_cast<uint8_t>(e.text[length]); };
      const auto at = tokens_.begin();
      const auto next_low =
          std::lower_bound(at + static_cast<ptrdiff_t>(low), at + static_cast<ptrdiff_t>(high), byte, less);
      const auto next_high = std::upper_bound(next_low, at + static_cast<ptrdiff_t>(high), byte, more);
      low = static_cast<size_t>(next_low - at);
      high = static_cast<size_t>(next_high - at);
    }
    if (best.id >= 0) return best;
  }
  return std::nullopt;
}

}  // namespace hone::model
