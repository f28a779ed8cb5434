#include "engine/graph/stablehlo/syntax.h"

#include <cctype>

namespace hone::graph::stablehlo {

const Attribute* Attribute::find(std::string_view key) const {
  for (const NamedAttribute& entry : entries)
    if (entry.name == key) return &entry.value;
  return nullptr;
}

const Attribute& resolve(const Module& module, const Attribute& attribute) {
  const Attribute* a = &attribute;
  // An alias of itself ends too.
  for (int i = 0; i < 16 && a->kind == Attribute::Kind::kAlias; ++i) {
    const auto at = module.aliases.find(a->text);
    if (at == module.aliases.end()) break;
    a = &at->second;
  }
  return *a;
}

std::string unescape(std::string_view text) {
  std::string out;
  const auto digit = [](char c) {
    return std::isdigit(static_cast<unsigned char>(c)) ? c - '0' : (std::tolower(c) - 'a' + 10);
  };
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '\\' || i + 1 == text.size()) {
      out += text[i];
      continue;
    }
    const char c = text[++i];
    if (i + 1 < text.size() && std::isxdigit(static_cast<unsigned char>(c)) &&
        std::isxdigit(static_cast<unsigned char>(text[i + 1]))) {
      out += static_cast<char>(digit(c) * 16 + digit(text[++i]));
    } else {
      out += c == 'n' ? '\n' : c == 't' ? '\t' : c;
    }
  }
  return out;
}

}  // namespace hone::graph::stablehlo
