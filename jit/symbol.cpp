#include "jit/symbol.h"

namespace hone::jit {

std::string kernel_symbol(std::string_view kernel_name, std::string_view generator) {
  constexpr size_t kMax = 200;  // with a suffix still a file name: those have 255 characters at most
  const std::string suffix = "_" + std::string(generator);
  std::string symbol(kernel_name.substr(0, kMax - suffix.size()));
  symbol += suffix;
  for (char& c : symbol) {
    const bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
    if (!plain) c = '_';
  }
  if (symbol.front() >= '0' && symbol.front() <= '9') symbol.insert(symbol.begin(), '_');
  return symbol;
}

}  // namespace hone::jit
