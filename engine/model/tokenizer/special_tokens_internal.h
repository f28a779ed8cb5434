// Tokens that are split off text before anything else, found as the longest one at the leftmost place.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "engine/model/tokenizer/vocabulary.h"

namespace hone::model {

class SpecialTokens {
 public:
  struct Found {
    size_t begin = 0, length = 0;
    int32_t id = -1;
  };

  // The user-defined ones; with `control` those that text may not say without being asked for (control, unknown) as
  // well.
  SpecialTokens() = default;
  SpecialTokens(const std::vector<Token>& tokens, bool control);
  // At `from` or later.
  std::optional<Found> find(std::string_view text, size_t from) const;
  bool empty() const { return tokens_.empty(); }

 private:
  struct Entry {
    std::string_view text;
    int32_t id;
  };
  std::vector<Entry> tokens_;              // sorted by text; a search narrows a range byte by byte, at most 512 of them
  std::array<uint32_t, 257> starts_ = {};  // those that begin with byte b: [starts_[b], starts_[b + 1])
};

}  // namespace hone::model
