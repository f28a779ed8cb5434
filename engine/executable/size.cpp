#include "engine/executable/size.h"

#include <fmt/format.h>

#include <algorithm>

namespace hone::executable {

Result<Size> Size::of(const graph::Dim& dim, std::span<const std::string> symbols) {
  if (dim.is_unknown()) return unsupported("a distance in memory is a product of symbols: give all but one a number");
  Size size(dim.value());
  for (const auto& [name, factor] : dim.terms()) {
    const auto at = std::find(symbols.begin(), symbols.end(), name);
    if (at == symbols.end())
      return failed_precondition(fmt::format("symbol '{}' of {} is not declared", name, to_string(dim)));
    if (static_cast<size_t>(size.terms_) == kMaxTerms)
      return unsupported(fmt::format("dimension {} has more than {} symbols", to_string(dim), kMaxTerms));
    size.symbols_[static_cast<size_t>(size.terms_)] = static_cast<uint16_t>(at - symbols.begin());
    size.factors_[static_cast<size_t>(size.terms_++)] = factor;
  }
  return size;
}

Result<std::vector<Size>> sizes_of(std::span<const graph::Dim> dims, std::span<const std::string> symbols) {
  std::vector<Size> sizes;
  for (const graph::Dim& d : dims) {
    HONE_ASSIGN_OR_RETURN(const Size size, Size::of(d, symbols));
    sizes.push_back(size);
  }
  return sizes;
}

}  // namespace hone::executable
