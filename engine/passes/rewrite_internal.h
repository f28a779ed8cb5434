// How passes change a graph: new nodes get their types from infer_types, a node that is replaced hands on its name,
// line and schedule hint, and everything is said in a note.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "engine/passes/compilation.h"

namespace hone::passes {

class Rewriter {
 public:
  Rewriter(Compilation& compilation, std::string_view pass) : g(compilation.graph), c_(compilation), pass_(pass) {}

  graph::Graph& g;

  // New nodes stand before this one; whatever they read must be defined above it.
  void before(graph::NodeId id) { before_ = id; }
  graph::ValueId add(graph::OpKind op, std::vector<graph::ValueId> operands, graph::Attributes attributes = {},
                     std::string name = {});
  graph::ValueId add_typed(graph::OpKind op, std::vector<graph::ValueId> operands, graph::Attributes attributes,
                           graph::TensorType type, std::string name = {});
  // The same elements under another name, which is free.
  graph::ValueId constant(graph::Constant constant, std::string name = {});
  // x itself where nothing would change.
  graph::ValueId reshape(graph::ValueId x, graph::Shape dims);
  graph::ValueId transpose(graph::ValueId x, std::vector<int64_t> perm);

  // The (first) result of `old` is `by` from now on, and `old` goes. Its name, line and hint go to the node of `heir`,
  // which does its work now: that of `by` where there is one node for one, another where shapes are changed on the way.
  void replace(graph::NodeId old, graph::ValueId by) { replace(old, by, by); }
  void replace(graph::NodeId old, graph::ValueId by, graph::ValueId heir);
  // To nobody, as nothing computes what it did any longer.
  void drop(graph::NodeId old, graph::ValueId by) { replace(old, by, -1); }

  void note(const std::string& node, std::string what, std::string why);
  // How many notes there are; and for who takes back what was done, those from `first` on go.
  size_t notes() const { return c_.notes.size(); }
  void forget_notes(size_t first) { c_.notes.resize(first); }
  // Of `note`s by name of the node, so that a reason is given once.
  bool noted(const std::string& node, std::string_view what) const;

  // The first failure of add(): a bug of the pass.
  const Status& status() const { return status_; }
  const graph::TensorType& type(graph::ValueId v) const { return g.value(v).type; }

 private:
  Compilation& c_;
  std::string pass_;
  graph::NodeId before_ = -1;
  Status status_;
};

// One use, and no output.
bool used_once(const graph::Graph& graph, graph::ValueId value);
// The node that alone uses it, or null.
const graph::Node* sole_user(const graph::Graph& graph, graph::ValueId value);
// "saves 1 launch, and a store and a load of f32[s, 64]", with bytes where they are known.
std::string saved_traffic(const graph::TensorType& type, int launches = 1);

}  // namespace hone::passes
