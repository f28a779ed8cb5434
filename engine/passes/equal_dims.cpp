#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "engine/passes/equal_dims_internal.h"

namespace hone::passes {

using graph::Dim;
using graph::Symbol;

Dim EqualDims::fresh() { return Dim::symbol(fmt::format("?{}", next_++)); }

bool EqualDims::has_fresh(const Dim& dim) {
  return std::any_of(dim.terms().begin(), dim.terms().end(), [](const auto& term) { return is_fresh(term.first); });
}

Dim EqualDims::resolve(Dim dim) const {
  for (bool again = !replaced_.empty(); again;) {
    again = false;
    for (const auto& [symbol, factor] : dim.terms()) {
      const auto at = replaced_.find(symbol);
      if (at == replaced_.end()) continue;
      dim = dim.substitute(std::string(symbol), at->second);
      again = true;
      break;
    }
  }
  return dim;
}

graph::TensorType EqualDims::resolve(graph::TensorType type) const {
  for (Dim& d : type.dims) d = resolve(d);
  return type;
}

Status EqualDims::equate(const Dim& one, const Dim& other, const std::string& where, const std::string& why) {
  const Dim a = resolve(one), b = resolve(other), difference = a - b;
  if (difference.is_unknown()) return {};
  if (difference.is_static()) {
    if (difference.value() == 0) return {};
    return invalid_argument(fmt::format("{} is {} and must be {}: {}", where, to_string(a), to_string(b), why));
  }
  // What to replace: a size that nothing is known of, else the declared symbol that was declared last.
  const std::string* chosen = nullptr;
  int64_t factor = 0, best = -1;
  for (const auto& [symbol, f] : difference.terms()) {
    if ((f != 1 && f != -1) || symbol == position_) continue;
    if (difference.uses(position_) && resolve(tokens_).uses(symbol)) continue;
    const auto declared =
        std::find_if(symbols_.begin(), symbols_.end(), [&](const Symbol& s) { return s.name == symbol; });
    const int64_t rank = is_fresh(symbol) ? std::numeric_limits<int64_t>::max() : declared - symbols_.begin();
    if (rank > best) chosen = &symbol, factor = f, best = rank;
  }
  if (chosen == nullptr) {
    const bool known = std::any_of(guards_.begin(), guards_.end(), [&](const Guard& g) {
      return g.kind == Guard::Kind::kEqual && resolve(g.left) == a && resolve(g.right) == b;
    });
    if (!known) guards_.push_back({Guard::Kind::kEqual, a, b, where, why});
    return {};
  }
  // factor * symbol + rest = 0
  const Dim rest = difference - Dim::symbol(*chosen, factor);
  return replace(std::string(*chosen), factor == 1 ? rest * Dim(-1) : rest, where, why);
}

Status EqualDims::replace(const std::string& symbol, const Dim& by, const std::string& where, const std::string& why) {
  const auto at = std::find_if(symbols_.begin(), symbols_.end(), [&](const Symbol& s) { return s.name == symbol; });
  if (at != symbols_.end()) {
    const Symbol declared = *at;
    symbols_.erase(at);
    HONE_RETURN_IF_ERROR(hand_on_bounds(declared, by, where, why));
  } else if (by.is_static() && by.value() < 0) {
    return invalid_argument(fmt::format("{} would be {}: {}", where, by.value(), why));
  }
  replaced_.emplace(symbol, by);
  return {};
}

Status EqualDims::hand_on_bounds(const Symbol& symbol, const Dim& by, const std::string& where,
                                 const std::string& why) {
  const std::string declared =
      symbol.multiple_of == 1
          ? fmt::format("{} in {}..{}", symbol.name, symbol.min, symbol.max)
          : fmt::format("{} in {}..{}, a multiple of {}", symbol.name, symbol.min, symbol.max, symbol.multiple_of);
  if (by.is_static()) {
    if (by.value() >= symbol.min && by.value() <= symbol.max && by.value() % symbol.multiple_of == 0) return {};
    return invalid_argument(
        fmt::format("{} is {}, declared as {}, and must be {}: {}", where, symbol.name, declared, by.value(), why));
  }
  if (const auto other = by.as_symbol(); other && !is_fresh(*other) && *other != position_) {
    for (Symbol& s : symbols_) {
      if (s.name != *other) continue;
      s.min = std::max(s.min, symbol.min), s.max = std::min(s.max, symbol.max);
      s.multiple_of = std::lcm(s.multiple_of, symbol.multiple_of);
      if (s.min > s.max)
        return invalid_argument(fmt::format("{}: {} and {} must be equal and their bounds leave nothing: {}", where,
                                            symbol.name, s.name, why));
    }
    return {};
  }
  const std::string what = fmt::format("{} = {}", symbol.name, to_string(by));
  guards_.push_back({Guard::Kind::kAtLeast, by, symbol.min, what, declared});
  guards_.push_back({Guard::Kind::kAtMost, by, symbol.max, what, declared});
  if (symbol.multiple_of != 1) guards_.push_back({Guard::Kind::kMultiple, by, symbol.multiple_of, what, declared});
  return {};
}

std::vector<Guard> EqualDims::guards() const {
  std::vector<Guard> all = guards_;
  for (Guard& g : all) g.left = resolve(g.left), g.right = resolve(g.right);
  std::erase_if(all, [](const Guard& g) { return g.kind == Guard::Kind::kEqual && g.left == g.right; });
  return all;
}

}  // namespace hone::passes
