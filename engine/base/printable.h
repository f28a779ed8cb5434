// Text of others as it may be shown in a message: one line, and nothing that a terminal obeys.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace hone {

// Printable ASCII as it is, other bytes as \xNN; what is longer than `shown` bytes is cut.
std::string printable(std::string_view text, size_t shown = 160);

}  // namespace hone
