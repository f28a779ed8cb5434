// Types as text, and what tests of graphs ask again and again.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <string_view>
#include <vector>

#include "engine/graph/graph.h"

namespace hone::graph {

// "f32[s, 4]".
inline TensorType type_of(std::string_view text) {
  TensorType type;
  const size_t open = text.find('[');
  type.dtype = parse_dtype(text.substr(0, open)).value();
  std::string_view rest = text.substr(open + 1, text.size() - open - 2);
  while (!rest.empty()) {
    const size_t comma = rest.find(',');
    std::string_view dim = rest.substr(0, comma);
    while (dim.starts_with(" ")) dim.remove_prefix(1);
    type.dims.push_back(parse_dim(dim).value());
    rest.remove_prefix(comma == std::string_view::npos ? rest.size() : comma + 1);
  }
  return type;
}

inline std::string text_of(const std::vector<TensorType>& types) {
  std::string text;
  for (const TensorType& t : types) text += (text.empty() ? "" : " ") + to_string(t);
  return text;
}

using Ints = std::vector<int64_t>;

}  // namespace hone::graph
