// See pattern_syntax_internal.h.
#include "engine/model/tokenizer/pattern_syntax_internal.h"

#include <fmt/format.h>

#include "engine/base/printable.h"

namespace hone::model {
namespace {

constexpr std::string_view kWhiteSpace =
    "\\x{9}-\\x{d}\\x{20}\\x{85}\\x{a0}\\x{1680}\\x{2000}-\\x{200a}\\x{2028}\\x{2029}\\x{202f}\\x{205f}\\x{3000}";

Status differs(std::string_view pattern, std::string_view what) {
  return unsupported(fmt::format("the tokenizer's pattern '{}' has {}", printable(pattern), what));
}

}  // namespace

Result<std::string> pcre2_pattern(std::string_view pattern) {
  std::string out;
  bool in_class = false;
  for (size_t i = 0; i < pattern.size(); ++i) {
    const char c = pattern[i];
    if (c == '\\' && i + 1 < pattern.size()) {
      const char escaped = pattern[++i];
      if (escaped == 'h' || escaped == 'H' || escaped == 'Q' || escaped == 'E')
        return differs(pattern, fmt::format("\\{}, which is not one thing everywhere", escaped));
      if (escaped == 's' && in_class) {
        out += kWhiteSpace;
      } else if (escaped == 's' || (escaped == 'S' && !in_class)) {
        out.append(escaped == 's' ? "[" : "[^").append(kWhiteSpace).append("]");
      } else if (escaped == 'S') {
        return differs(pattern, "\\S inside brackets");
      } else {
        out += c;
        out += escaped;
      }
      continue;
    }
    if (!in_class && c == '[') {
      in_class = true;
      out += c;
      if (i + 1 < pattern.size() && pattern[i + 1] == '^') out += pattern[++i];
      if (i + 1 < pattern.size() && pattern[i + 1] == ']') return differs(pattern, "an unescaped ] in brackets");
      continue;
    }
    if (in_class && c == '[') return differs(pattern, "brackets inside brackets");
    if (in_class && c == '&' && pattern.substr(i).starts_with("&&")) return differs(pattern, "&& inside brackets");
    if (in_class && c == ']') in_class = false;
    out += c;
  }
  return out;
}

}  // namespace hone::model
