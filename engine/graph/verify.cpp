#include "engine/graph/verify.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <set>

#include "engine/base/printable.h"
#include "engine/graph/infer.h"
#include "engine/graph/infer_internal.h"

namespace hone::graph {

namespace {

template <typename... Args>
Status wrong(fmt::format_string<Args...> text, Args&&... args) {
  return invalid_argument(fmt::format(text, std::forward<Args>(args)...));
}

bool is_identifier(std::string_view name) {
  if (name.empty() || std::isdigit(static_cast<unsigned char>(name[0]))) return false;
  return std::all_of(name.begin(), name.end(),
                     [](char c) { return std::isalnum(static_cast<unsigned char>(c)) || c == '_'; });
}

class Verifier {
 public:
  explicit Verifier(const Graph& graph) : g_(graph) {}

  Status run() {
    HONE_RETURN_IF_ERROR(check_symbols());
    HONE_RETURN_IF_ERROR(check_position());
    HONE_RETURN_IF_ERROR(check_structure());
    HONE_RETURN_IF_ERROR(check_uses());
    HONE_RETURN_IF_ERROR(check_names());
    for (const ValueId v : g_.inputs()) HONE_RETURN_IF_ERROR(check_input(g_.value(v)));
    for (const ValueId v : g_.states()) HONE_RETURN_IF_ERROR(check_state(g_.value(v)));
    for (const NodeId n : g_.order()) HONE_RETURN_IF_ERROR(check_node(g_.node(n)));
    return check_aliases();
  }

 private:
  std::string name_of(const Node& n) const {
    return fmt::format("node {} ({})", printable(n.name), op_info(n.op).name);
  }
  std::string name_of(const Value& v) const {
    return fmt::format("{} {}", v.kind == ValueKind::kInput ? "input" : "state", printable(v.name));
  }

  Status check_symbols() const;
  Status check_position() const;
  Status check_dim(const Dim& dim, const std::string& where) const;
  Status check_dims(const TensorType& type, const std::string& where) const;
  Status check_computed(const TensorType& type, const std::string& where) const;
  Status check_structure();
  Status check_operands(const Node& n) const;
  Status check_results(const Node& n);
  Status check_uses() const;
  Status check_names() const;
  Status check_input(const Value& v) const;
  Status check_state(const Value& v) const;
  Status check_node(const Node& n) const;
  Status check_constant(const Node& n) const;
  Status check_append(const Node& n) const;
  Status check_aliases() const;

  const Graph& g_;
  std::set<ValueId> defined_;
};

Status Verifier::check_symbols() const {
  constexpr int64_t kMost = int64_t{1} << 40;
  std::set<std::string> names;
  for (const Symbol& s : g_.symbols) {
    if (!is_identifier(s.name)) return wrong("symbol '{}': the name must be letters, digits and _", printable(s.name));
    if (!names.insert(s.name).second) return wrong("symbol {} is declared twice", s.name);
    if (s.min < 0 || s.min > s.max || s.max > kMost)
      return wrong("symbol {} in {}..{}: bounds must be in 0..2^40 and in order", s.name, s.min, s.max);
    if (s.multiple_of < 1 || s.multiple_of > kMost)
      return wrong("symbol {} must be a multiple of {}: that must be 1 or more", s.name, s.multiple_of);
  }
  return {};
}

Status Verifier::check_position() const {
  if (g_.position.empty()) {
    if (!(g_.tokens == Dim(0))) return wrong("tokens is {} and there is no position", to_string(g_.tokens));
    if (!g_.states().empty()) return wrong("{} needs a position of the graph", name_of(g_.value(g_.states().front())));
    return {};
  }
  const Symbol* p = g_.find_symbol(g_.position);
  if (p == nullptr) return wrong("position '{}' is not a symbol of the graph", printable(g_.position));
  if (p->min != 0 || p->multiple_of != 1)
    return wrong("position {} must be in 0..max and a multiple of 1: it is 0 at first", p->name);
  if (g_.tokens.is_unknown() || g_.tokens.uses(p->name))
    return wrong("position {} has step {}, which must be known and not use it", p->name, to_string(g_.tokens));
  return check_dim(g_.tokens, "the step of the position");
}

Status Verifier::check_dim(const Dim& dim, const std::string& where) const {
  for (const auto& [symbol, factor] : dim.terms())
    if (g_.find_symbol(symbol) == nullptr) return wrong("{}: symbol '{}' is not declared", where, printable(symbol));
  return {};
}

Status Verifier::check_dims(const TensorType& type, const std::string& where) const {
  if (const Status s = check_type(type); !s.ok()) return wrong("{} {}", where, s.message());
  for (const Dim& d : type.dims) HONE_RETURN_IF_ERROR(check_dim(d, where));
  return {};
}

// What a caller gives, gets, or finds again: not in the dtypes that weights are stored in.
Status Verifier::check_computed(const TensorType& type, const std::string& where) const {
  if (!is_16bit_float(type.dtype)) return {};
  return wrong("{} is {}: bf16 and f16 are for constants, as weights", where, to_string(type));
}

// Ids lead somewhere, definitions precede uses.
Status Verifier::check_structure() {
  const auto is_value = [&](ValueId v) { return v >= 0 && static_cast<size_t>(v) < g_.value_count(); };
  for (const auto* list : {&g_.inputs(), &g_.states()})
    for (const ValueId v : *list)
      if (!is_value(v) || !defined_.insert(v).second)
        return wrong("value {} is an input or state twice, or not there", v);
  std::set<NodeId> nodes;
  for (const NodeId id : g_.order()) {
    if (id < 0 || static_cast<size_t>(id) >= g_.node_count() || !g_.is_live(id) || !nodes.insert(id).second)
      return wrong("the order names node {}, which is erased, named twice, or not there", id);
    const Node& n = g_.node(id);
    if (n.id != id) return wrong("{} has id {} and stands for {}", name_of(n), n.id, id);
    HONE_RETURN_IF_ERROR(check_operands(n));
    HONE_RETURN_IF_ERROR(check_results(n));
  }
  for (const ValueId v : g_.outputs()) {
    if (!is_value(v) || !defined_.contains(v)) return wrong("output {} is not a value of the graph", v);
    HONE_RETURN_IF_ERROR(check_computed(g_.value(v).type, fmt::format("output {}", printable(g_.value(v).name))));
  }
  return {};
}

Status Verifier::check_operands(const Node& n) const {
  for (size_t i = 0; i < n.operands.size(); ++i) {
    const ValueId v = n.operands[i];
    if (!defined_.contains(v))
      return wrong("{}: operand {} is value {}, which nothing before it defines", name_of(n), i, v);
  }
  return {};
}

Status Verifier::check_results(const Node& n) {
  const OpInfo& info = op_info(n.op);
  if (static_cast<int>(n.results.size()) != info.results)
    return wrong("{}: has {} results and must have {}", name_of(n), n.results.size(), info.results);
  for (size_t i = 0; i < n.results.size(); ++i) {
    const ValueId v = n.results[i];
    if (v < 0 || static_cast<size_t>(v) >= g_.value_count() || !defined_.insert(v).second)
      return wrong("{}: result {} is value {}, which is defined twice or not there", name_of(n), i, v);
    const Value& value = g_.value(v);
    if (value.kind != ValueKind::kResult || value.node != n.id || value.index != static_cast<int>(i))
      return wrong("{}: result {} is value {}, which says that node {} defines it", name_of(n), i, v, value.node);
  }
  return {};
}

Status Verifier::check_uses() const {
  std::map<ValueId, std::vector<Use>> uses;
  for (const NodeId id : g_.order()) {
    const Node& n = g_.node(id);
    for (size_t i = 0; i < n.operands.size(); ++i) uses[n.operands[i]].push_back({id, static_cast<int>(i)});
  }
  const auto sorted = [](std::vector<Use> list) {
    std::sort(list.begin(), list.end(),
              [](const Use& a, const Use& b) { return std::pair(a.node, a.operand) < std::pair(b.node, b.operand); });
    return list;
  };
  for (const ValueId v : defined_)
    if (sorted(g_.value(v).uses) != sorted(uses[v]))
      return wrong("value {}: its list of uses is not what operands of nodes say", printable(g_.value(v).name));
  return {};
}

Status Verifier::check_names() const {
  std::set<std::string_view> names;
  for (const ValueId v : defined_) {
    const std::string_view name = g_.value(v).name;
    if (name.empty()) return wrong("value {} has no name", v);
    if (!names.insert(name).second) return wrong("two values have the name '{}'", printable(name));
  }
  for (const NodeId id : g_.order()) {
    const Node& n = g_.node(id);
    if (n.name != g_.value(n.results[0]).name)
      return wrong("{}: its first result has another name, '{}'", name_of(n), printable(g_.value(n.results[0]).name));
  }
  return {};
}

Status Verifier::check_input(const Value& v) const {
  if (v.kind != ValueKind::kInput) return wrong("value {} is in the list of inputs and is none", printable(v.name));
  HONE_RETURN_IF_ERROR(check_computed(v.type, name_of(v)));
  return check_dims(v.type, name_of(v));
}

Status Verifier::check_state(const Value& v) const {
  if (v.kind != ValueKind::kState) return wrong("value {} is in the list of states and is none", printable(v.name));
  HONE_RETURN_IF_ERROR(check_dims(v.type, name_of(v)));
  HONE_RETURN_IF_ERROR(check_computed(v.type, name_of(v)));
  if (!v.type.is_static()) return wrong("{} is {} and must be static", name_of(v), to_string(v.type));
  const bool appended = v.uses.size() == 1 && v.uses[0].operand == 0 && g_.node(v.uses[0].node).op == OpKind::kv_append;
  if (!appended || g_.is_output(v.id))
    return wrong("{} must be operand 0 of one kv_append, and nothing else", name_of(v));
  return {};
}

Status Verifier::check_node(const Node& n) const {
  for (const auto& [name, attribute] : n.attributes)
    if (const Dim* d = std::get_if<Dim>(&attribute))
      HONE_RETURN_IF_ERROR(check_dim(*d, fmt::format("{}: attribute '{}'", name_of(n), printable(name))));
  Result<std::vector<TensorType>> types = infer_types(g_, n);
  if (!types.ok()) return wrong("node {}: {}", printable(n.name), types.status().message());
  for (size_t i = 0; i < n.results.size(); ++i) {
    const TensorType& recorded = g_.value(n.results[i]).type;
    HONE_RETURN_IF_ERROR(check_dims(recorded, fmt::format("{}: result {}", name_of(n), i)));
    if (const Status s = check_recorded(recorded, (*types)[i]); !s.ok())
      return wrong("{}: result {} {}", name_of(n), i, s.message());
  }
  if (n.op == OpKind::kv_append) return check_append(n);
  if (n.op == OpKind::constant) return check_constant(n);
  if (n.constant) return wrong("{}: has elements, which are for constants", name_of(n));
  return {};
}

Status Verifier::check_constant(const Node& n) const {
  if (!n.constant) return wrong("{}: has no elements", name_of(n));
  const Constant& c = *n.constant;
  const TensorType& type = g_.value(n.results[0]).type;
  if (!(c.type == type))
    return wrong("{}: its elements are {} and its result {}", name_of(n), to_string(c.type), to_string(type));
  const int64_t bytes = c.splat ? dtype_bytes(type.dtype) : type.bytes();
  if (c.runs && (c.splat || !c.data.empty())) return wrong("{}: has runs, and elements of its own too", name_of(n));
  if (c.stored_bytes() != bytes)
    return wrong("{}: has {} bytes of elements and {} needs {}", name_of(n), c.stored_bytes(), to_string(type), bytes);
  for (const Bytes piece : c.pieces()) {
    if (static_cast<int64_t>(piece.size()) % dtype_bytes(type.dtype) != 0)
      return wrong("{}: a run of {} bytes is not one of whole elements of {}", name_of(n), piece.size(),
                   to_string(type));
    if (type.dtype == DType::kU8 &&
        std::any_of(piece.begin(), piece.end(), [](std::byte b) { return b > std::byte{1}; }))
      return wrong("{}: elements of u8 are truth values, 0 or 1", name_of(n));
  }
  return {};
}

Status Verifier::check_append(const Node& n) const {
  if (g_.value(n.operands[0]).kind != ValueKind::kState) return wrong("{}: operand 0 must be a state", name_of(n));
  const Dim& rows = g_.value(n.operands[1]).type.dims[0];
  if (!possibly_equal(rows, g_.tokens))
    return wrong("{}: appends {} rows and the position goes up by {}", name_of(n), to_string(rows),
                 to_string(g_.tokens));
  return {};
}

Status Verifier::check_aliases() const {
  std::set<int> taken;
  for (const ValueId id : g_.inputs()) {
    const Value& v = g_.value(id);
    if (v.aliases_output < 0) continue;
    if (static_cast<size_t>(v.aliases_output) >= g_.outputs().size())
      return wrong("{} aliases output {} of {}", name_of(v), v.aliases_output, g_.outputs().size());
    if (!taken.insert(v.aliases_output).second)
      return wrong("{} aliases output {}, as another input does", name_of(v), v.aliases_output);
    const Value& output = g_.value(g_.outputs()[static_cast<size_t>(v.aliases_output)]);
    if (const Status s = check_recorded(v.type, output.type); !s.ok())
      return wrong("{} aliases output {} and {}", name_of(v), v.aliases_output, s.message());
  }
  return {};
}

}  // namespace

Status verify(const Graph& graph) { return Verifier(graph).run(); }

}  // namespace hone::graph
