#include "engine/graph/graph.h"

#include <fmt/format.h>

#include <algorithm>
#include <unordered_set>
#include <utility>

namespace hone::graph {

namespace {

constexpr OpInfo kOps[] = {
#define HONE_GRAPH_OP(name, least, most, results) {#name, least, most, results},
#include "engine/graph/ops.inc"
#undef HONE_GRAPH_OP
};

template <typename T>
const T* attribute(const Attributes& attributes, std::string_view name) {
  const auto at = attributes.find(name);
  return at == attributes.end() ? nullptr : std::get_if<T>(&at->second);
}

}  // namespace

const OpInfo& op_info(OpKind op) { return kOps[static_cast<size_t>(op)]; }

std::optional<OpKind> find_op(std::string_view name) {
  for (size_t i = 0; i < std::size(kOps); ++i)
    if (kOps[i].name == name) return static_cast<OpKind>(i);
  return std::nullopt;
}

// ---- attributes ----

int64_t Node::integer(std::string_view key, int64_t otherwise) const {
  const int64_t* v = attribute<int64_t>(attributes, key);
  return v ? *v : otherwise;
}

double Node::number(std::string_view key, double otherwise) const {
  if (const double* v = attribute<double>(attributes, key)) return *v;
  const int64_t* v = attribute<int64_t>(attributes, key);
  return v ? static_cast<double>(*v) : otherwise;
}

bool Node::flag(std::string_view key) const {
  const bool* v = attribute<bool>(attributes, key);
  return v != nullptr && *v;
}

std::string Node::text(std::string_view key) const {
  const std::string* v = attribute<std::string>(attributes, key);
  return v ? *v : std::string();
}

std::span<const int64_t> Node::integers(std::string_view key) const {
  const auto* v = attribute<std::vector<int64_t>>(attributes, key);
  return v ? std::span<const int64_t>(*v) : std::span<const int64_t>();
}

std::optional<Dim> Node::dim(std::string_view key) const {
  if (const Dim* v = attribute<Dim>(attributes, key)) return *v;
  if (const int64_t* v = attribute<int64_t>(attributes, key)) return Dim(*v);
  return std::nullopt;
}

// ---- graph ----

Graph::Graph(const Graph& other) { *this = other; }

Graph& Graph::operator=(const Graph& other) {
  if (this == &other) return *this;
  name = other.name;
  symbols = other.symbols;
  position = other.position;
  tokens = other.tokens;
  ambient_schedule = other.ambient_schedule;
  layouts = other.layouts;
  nodes_.clear();
  for (const auto& n : other.nodes_) nodes_.push_back(n ? std::make_unique<Node>(*n) : nullptr);
  values_ = other.values_;
  order_ = other.order_;
  inputs_ = other.inputs_;
  states_ = other.states_;
  outputs_ = other.outputs_;
  names_ = other.names_;
  return *this;
}

std::string Graph::unique_name(std::string wanted, std::string_view otherwise) {
  if (wanted.empty()) wanted = otherwise;
  if (names_.emplace(wanted, 1).second) return wanted;
  for (int& next = names_[wanted];; ++next) {
    std::string candidate = fmt::format("{}_{}", wanted, next);
    if (!names_.contains(candidate)) {
      ++next;
      names_.emplace(candidate, 1);
      return candidate;
    }
  }
}

ValueId Graph::add_value(ValueKind kind, std::string value_name, TensorType type) {
  Value v;
  v.id = static_cast<ValueId>(values_.size());
  v.kind = kind;
  v.name = std::move(value_name);
  v.type = std::move(type);
  values_.push_back(std::move(v));
  return values_.back().id;
}

ValueId Graph::add_input(std::string input_name, TensorType type) {
  inputs_.push_back(add_value(ValueKind::kInput, unique_name(std::move(input_name), "input"), std::move(type)));
  return inputs_.back();
}

ValueId Graph::add_state(std::string state_name, TensorType type) {
  states_.push_back(add_value(ValueKind::kState, unique_name(std::move(state_name), "state"), std::move(type)));
  return states_.back();
}

NodeId Graph::add_node(OpKind op, std::vector<ValueId> operands, Attributes attributes, std::vector<TensorType> results,
                       std::string node_name, NodeId before) {
  auto node = std::make_unique<Node>();
  const NodeId id = static_cast<NodeId>(nodes_.size());
  node->id = id;
  node->op = op;
  node->name = unique_name(std::move(node_name), op_info(op).name);
  node->attributes = std::move(attributes);
  for (size_t i = 0; i < results.size(); ++i) {
    // A node's first result has the node's name, which is unique already.
    std::string value_name = i == 0 ? node->name : unique_name(fmt::format("{}_r{}", node->name, i), "result");
    const ValueId v = add_value(ValueKind::kResult, std::move(value_name), std::move(results[i]));
    values_[static_cast<size_t>(v)].node = id;
    values_[static_cast<size_t>(v)].index = static_cast<int>(i);
    node->results.push_back(v);
  }
  nodes_.push_back(std::move(node));
  const auto at = before < 0 ? order_.end() : std::find(order_.begin(), order_.end(), before);
  order_.insert(at, id);
  set_operands(id, std::move(operands));
  return id;
}

NodeId Graph::add_constant(Constant constant, std::string constant_name, NodeId before) {
  const NodeId id = add_node(OpKind::constant, {}, {}, {constant.type}, std::move(constant_name), before);
  node(id).constant = std::move(constant);
  return id;
}

const Node* Graph::definition(ValueId id) const {
  const Value& v = value(id);
  return v.kind == ValueKind::kResult ? nodes_[static_cast<size_t>(v.node)].get() : nullptr;
}

const Constant* Graph::constant(ValueId id) const {
  const Node* n = definition(id);
  return n != nullptr && n->op == OpKind::constant && n->constant ? &*n->constant : nullptr;
}

bool Graph::is_output(ValueId id) const { return std::find(outputs_.begin(), outputs_.end(), id) != outputs_.end(); }

// Looked for from the end: what is erased is mostly what was added last.
void Graph::drop_use(ValueId id, NodeId user, int operand) {
  auto& uses = values_[static_cast<size_t>(id)].uses;
  const auto at = std::find(uses.rbegin(), uses.rend(), Use{user, operand});
  if (at != uses.rend()) uses.erase(std::next(at).base());
}

void Graph::set_operand(NodeId id, int operand, ValueId to) {
  ValueId& slot = node(id).operands[static_cast<size_t>(operand)];
  drop_use(slot, id, operand);
  slot = to;
  values_[static_cast<size_t>(to)].uses.push_back({id, operand});
}

void Graph::set_operands(NodeId id, std::vector<ValueId> operands) {
  Node& n = node(id);
  // From the end, where they are mostly; else all of a value at once, which may be an operand thousands of times.
  std::unordered_set<ValueId> dropped;
  for (size_t i = n.operands.size(); i-- > 0;) {
    if (dropped.contains(n.operands[i])) continue;
    auto& uses = values_[static_cast<size_t>(n.operands[i])].uses;
    if (!uses.empty() && uses.back() == Use{id, static_cast<int>(i)}) {
      uses.pop_back();
      continue;
    }
    std::erase_if(uses, [&](const Use& u) { return u.node == id; });
    dropped.insert(n.operands[i]);
  }
  n.operands = std::move(operands);
  for (size_t i = 0; i < n.operands.size(); ++i)
    values_[static_cast<size_t>(n.operands[i])].uses.push_back({id, static_cast<int>(i)});
}

void Graph::replace_uses(ValueId from, ValueId to) {
  if (from == to) return;
  std::vector<Use>& uses = values_[static_cast<size_t>(from)].uses;
  for (const Use& use : uses) node(use.node).operands[static_cast<size_t>(use.operand)] = to;
  auto& onto = values_[static_cast<size_t>(to)].uses;
  onto.insert(onto.end(), uses.begin(), uses.end());
  uses.clear();
  std::replace(outputs_.begin(), outputs_.end(), from, to);
}

void Graph::erase(NodeId id) {
  set_operands(id, {});
  for (const ValueId v : node(id).results) names_.erase(value(v).name);
  names_.erase(node(id).name);
  std::erase(order_, id);
  nodes_[static_cast<size_t>(id)] = nullptr;
}

int Graph::erase_dead() {
  int erased = 0;
  // erase() looks for a node in order_: it is empty meanwhile.
  std::vector<NodeId> order = std::exchange(order_, {});
  for (auto at = order.rbegin(); at != order.rend(); ++at) {
    const Node& n = node(*at);
    const bool needed = n.op == OpKind::kv_append || std::any_of(n.results.begin(), n.results.end(), [&](ValueId v) {
                          return !value(v).uses.empty() || is_output(v);
                        });
    if (needed) continue;
    erase(*at);
    ++erased;
  }
  std::erase_if(order, [&](NodeId id) { return !is_live(id); });
  order_ = std::move(order);
  return erased;
}

void Graph::erase_input(ValueId id) {
  names_.erase(value(id).name);
  inputs_.erase(std::find(inputs_.begin(), inputs_.end(), id));
}

void Graph::rename(NodeId id, std::string to) {
  Node& n = node(id);
  names_.erase(n.name);
  n.name = unique_name(std::move(to), op_info(n.op).name);
  if (!n.results.empty()) values_[static_cast<size_t>(n.results[0])].name = n.name;
}

void Graph::rename_result(ValueId id, std::string to) {
  Value& v = values_[static_cast<size_t>(id)];
  names_.erase(v.name);
  v.name = unique_name(std::move(to), "result");
}

const Symbol* Graph::find_symbol(std::string_view wanted) const {
  for (const Symbol& s : symbols)
    if (s.name == wanted) return &s;
  return nullptr;
}

std::optional<ValueId> Graph::find_value(std::string_view wanted) const {
  for (const Value& v : values_) {
    if (v.name != wanted) continue;
    if (v.kind == ValueKind::kResult && nodes_[static_cast<size_t>(v.node)] == nullptr) continue;
    if (v.kind == ValueKind::kInput && std::find(inputs_.begin(), inputs_.end(), v.id) == inputs_.end()) continue;
    return v.id;
  }
  return std::nullopt;
}

}  // namespace hone::graph
