// See printable.h.
#include "engine/base/printable.h"

#include <fmt/format.h>

namespace hone {

std::string printable(std::string_view text, size_t shown) {
  std::string out;
  for (const unsigned char c : text.substr(0, shown)) {
    if (c >= 0x20 && c < 0x7f) {
      out += static_cast<char>(c);
    } else {
      out += fmt::format("\\x{:02x}", c);
    }
  }
  if (text.size() > shown) out += "...";
  return out;
}

}  // namespace hone
