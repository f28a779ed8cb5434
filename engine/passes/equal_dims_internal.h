// The sizes that are still open as equations: symbols are replaced by sums of others, until all that is left is
// independent. Pure arithmetic over Dim; knows no ops.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "engine/passes/compilation.h"

namespace hone::passes {

class EqualDims {
 public:
  // `symbols` are those of the graph: a declared one that is replaced leaves the list and its bounds go to what
  // replaces it. `position` is never replaced, and no symbol of `tokens` by what uses it: a call cannot depend on how
  // many tokens went before.
  EqualDims(std::vector<graph::Symbol>& symbols, std::string position, graph::Dim tokens)
      : symbols_(symbols), position_(std::move(position)), tokens_(std::move(tokens)) {}

  // A size of its own, about which nothing is known.
  graph::Dim fresh();
  static bool is_fresh(std::string_view symbol) { return !symbol.empty() && symbol[0] == '?'; }
  static bool has_fresh(const graph::Dim& dim);

  // With everything replaced that is known.
  graph::Dim resolve(graph::Dim dim) const;
  graph::TensorType resolve(graph::TensorType type) const;

  // a = b from now on. `where` names the dimension and `why` the rule: "%x, dimension 1", "add needs equal shapes".
  Status equate(const graph::Dim& a, const graph::Dim& b, const std::string& where, const std::string& why);

  // How many symbols have been replaced.
  size_t replaced() const { return replaced_.size(); }
  // Equations that no replacement meets, and bounds of symbols that became sums.
  std::vector<Guard> guards() const;

 private:
  Status replace(const std::string& symbol, const graph::Dim& by, const std::string& where, const std::string& why);
  Status hand_on_bounds(const graph::Symbol& symbol, const graph::Dim& by, const std::string& where,
                        const std::string& why);

  std::vector<graph::Symbol>& symbols_;
  std::string position_;
  graph::Dim tokens_;
  std::map<std::string, graph::Dim> replaced_;
  std::vector<Guard> guards_;
  int next_ = 0;
};

}  // namespace hone::passes
