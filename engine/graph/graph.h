// The tensor graph: what a model computes, before and after passes.
//
// Values are in SSA form: each has one definition (an input, a state, or a node) and a list of its uses. Nodes are kept
// in an order in which definitions precede uses. Nodes and values are named by ids that stay valid until they are
// erased.
//
// Sizes are numbers or sums of symbols (dim.h). A graph that keeps something between calls has states (the keys and
// values of earlier tokens) and a position: a symbol whose value is the number of tokens so far, 0 at first. A call
// that ends well adds `tokens` to it.
//
// A graph knows nothing of buffers, threads or kernels.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "engine/base/status.h"
#include "engine/graph/constant.h"
#include "engine/graph/ops.h"

namespace hone::graph {

// A size that callers choose, within bounds that every call is checked against.
struct Symbol {
  std::string name;
  int64_t min = 1, max = int64_t{1} << 31;
  int64_t multiple_of = 1;
  bool operator==(const Symbol&) const = default;
};

using Attribute = std::variant<int64_t, double, bool, std::string, std::vector<int64_t>, Dim>;
using Attributes = std::map<std::string, Attribute, std::less<>>;

// specs/schedule.md, compile lane: which dimensions of an op may be split over cores.
struct ScheduleHint {
  std::vector<std::string> parallel_dims;
  std::optional<int64_t> parallelism;  // advisory
  bool operator==(const ScheduleHint&) const = default;
};

using ValueId = int32_t;
using NodeId = int32_t;

struct Use {
  NodeId node;
  int operand;
  bool operator==(const Use&) const = default;
};

struct Node {
  NodeId id = -1;
  OpKind op = OpKind::constant;
  std::string name;  // unique in the graph; of traces, hints and messages
  std::vector<ValueId> operands;
  std::vector<ValueId> results;
  Attributes attributes;
  std::optional<Constant> constant;  // of OpKind::constant
  std::optional<ScheduleHint> schedule;
  int line = 0;  // where it stood in the text that it was read from; 0: none

  // Attributes by name; a missing or other type gives the default.
  int64_t integer(std::string_view attribute, int64_t otherwise = 0) const;
  double number(std::string_view attribute, double otherwise = 0) const;
  bool flag(std::string_view attribute) const;
  std::string text(std::string_view attribute) const;
  std::span<const int64_t> integers(std::string_view attribute) const;
  std::optional<Dim> dim(std::string_view attribute) const;
};

enum class ValueKind : uint8_t { kInput, kState, kResult };

struct Value {
  ValueId id = -1;
  ValueKind kind = ValueKind::kResult;
  std::string name;  // unique in the graph
  TensorType type;
  NodeId node = -1;  // kResult: what defines it, and which of its results
  int index = 0;
  std::vector<Use> uses;
  // kInput: an output that a caller may give the memory of this input, because it takes its place in the next call
  // (StableHLO's tf.aliasing_output); -1: none.
  int aliases_output = -1;
};

class Graph {
 public:
  Graph() = default;
  Graph(const Graph& other);  // ids stay; constants are shared
  Graph& operator=(const Graph& other);
  Graph(Graph&&) noexcept = default;
  Graph& operator=(Graph&&) noexcept = default;

  std::string name = "main";
  std::vector<Symbol> symbols;
  // One of `symbols`, of minimum 0; "" for a graph without memory. And by how much a call raises it.
  std::string position;
  Dim tokens;
  std::optional<ScheduleHint> ambient_schedule;  // for nodes that have no hint of their own
  std::map<std::string, std::string> layouts;    // hone.tensor_layouts of what was imported or planned, by node

  ValueId add_input(std::string name, TensorType type);
  ValueId add_state(std::string name, TensorType type);
  // At the end, or before `before`. Names that are empty or taken are made unique. Result types are the caller's to
  // get right (infer.h); verify() judges.
  NodeId add_node(OpKind op, std::vector<ValueId> operands, Attributes attributes, std::vector<TensorType> results,
                  std::string name = {}, NodeId before = -1);
  NodeId add_constant(Constant constant, std::string name = {}, NodeId before = -1);

  const Node& node(NodeId id) const { return *nodes_[static_cast<size_t>(id)]; }
  Node& node(NodeId id) { return *nodes_[static_cast<size_t>(id)]; }
  const Value& value(ValueId id) const { return values_[static_cast<size_t>(id)]; }
  bool is_live(NodeId id) const { return nodes_[static_cast<size_t>(id)] != nullptr; }
  // Ids are below these.
  size_t node_count() const { return nodes_.size(); }
  size_t value_count() const { return values_.size(); }
  void set_type(ValueId id, TensorType type) { values_[static_cast<size_t>(id)].type = std::move(type); }
  void set_alias(ValueId input, int output) { values_[static_cast<size_t>(input)].aliases_output = output; }
  // The node that defines it, null for inputs and states.
  const Node* definition(ValueId id) const;
  // The constant that it is, or null.
  const Constant* constant(ValueId id) const;
  ValueId result(NodeId id, int index = 0) const { return node(id).results[static_cast<size_t>(index)]; }

  const std::vector<NodeId>& order() const { return order_; }
  const std::vector<ValueId>& inputs() const { return inputs_; }
  const std::vector<ValueId>& states() const { return states_; }
  const std::vector<ValueId>& outputs() const { return outputs_; }
  void set_outputs(std::vector<ValueId> outputs) { outputs_ = std::move(outputs); }
  bool is_output(ValueId id) const;

  void set_operand(NodeId id, int operand, ValueId to);
  void set_operands(NodeId id, std::vector<ValueId> operands);
  // In nodes and outputs.
  void replace_uses(ValueId from, ValueId to);
  // Its results must have no uses.
  void erase(NodeId id);
  // Every node that nothing needs; kv_append is needed. Returns how many went.
  int erase_dead();
  void erase_input(ValueId id);                      // that nothing uses
  void rename(NodeId id, std::string name);          // and its first result
  void rename_result(ValueId id, std::string name);  // one that is not the first of its node

  const Symbol* find_symbol(std::string_view name) const;
  std::optional<ValueId> find_value(std::string_view name) const;

 private:
  std::string unique_name(std::string wanted, std::string_view otherwise);
  ValueId add_value(ValueKind kind, std::string name, TensorType type);
  void drop_use(ValueId value, NodeId node, int operand);

  std::vector<std::unique_ptr<Node>> nodes_;  // by id; null: erased
  std::vector<Value> values_;
  std::vector<NodeId> order_;
  std::vector<ValueId> inputs_, states_, outputs_;
  std::map<std::string, int, std::less<>> names_;  // next number to try
};

}  // namespace hone::graph
