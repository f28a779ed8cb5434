// How texts and numbers are spelt in the text of a graph, for both directions.
#pragma once

#include <string>
#include <string_view>

#include "engine/base/status.h"
#include "engine/graph/graph.h"

namespace hone::graph {

// Of names that need no quotes.
bool is_bare(char c);

// In quotes; \" \\ and \xNN for what is not printable ASCII.
std::string quoted(std::string_view text);

// Shortest that reads back as the same; NaN as its bits.
std::string spell(float v);
std::string spell(double v);
// Element i.
std::string spell(const Constant& constant, int64_t i);

// Appends the bytes of one element. Error: what is wrong with the word, without a place.
Status read_element(DType dtype, std::string_view word, std::vector<std::byte>* to);
Result<double> read_double(std::string_view word);

}  // namespace hone::graph
