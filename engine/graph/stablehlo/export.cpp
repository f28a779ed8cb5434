// The frame of the export: header, arguments, results, and which op is written by whom.
#include "engine/graph/stablehlo/export.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <set>

#include "engine/base/printable.h"
#include "engine/graph/infer.h"
#include "engine/graph/stablehlo/export_internal.h"

namespace hone::graph::stablehlo {

Result<std::string> export_stablehlo(const Graph& graph, const ExportOptions& options) {
  return Exporter(graph, options).run();
}

namespace {

// [A-Za-z_][A-Za-z0-9_.$]*; other keys are quoted and escaped.
bool is_bare(std::string_view key) {
  bool bare = !key.empty() && (std::isalpha(static_cast<unsigned char>(key[0])) || key[0] == '_');
  for (const char c : key) bare &= std::isalnum(static_cast<unsigned char>(c)) || c == '_' || c == '.' || c == '$';
  return bare;
}

std::string quoted(std::string_view text) {
  std::string out = "\"";
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (c == '"' || c == '\\' || byte < 0x20 || byte == 0x7f)
      out += fmt::format("\\{:02X}", byte);
    else
      out += c;
  }
  return out + '"';
}

std::string key_text(std::string_view key) { return is_bare(key) ? std::string(key) : quoted(key); }

bool is_blank(std::string_view text) {
  return std::all_of(text.begin(), text.end(), [](char c) { return std::isspace(static_cast<unsigned char>(c)) != 0; });
}

// A hint without a dimension, with a blank one or without a thread says nothing that may be exported.
bool is_sound(const ScheduleHint& hint) {
  if (hint.parallel_dims.empty() || (hint.parallelism && *hint.parallelism <= 0)) return false;
  return std::none_of(hint.parallel_dims.begin(), hint.parallel_dims.end(),
                      [](const std::string& d) { return is_blank(d); });
}

std::string hint_text(const ScheduleHint& hint) {
  std::string dims;
  for (const std::string& d : hint.parallel_dims) dims += (dims.empty() ? "" : ", ") + quoted(d);
  const std::string parallelism = hint.parallelism ? fmt::format(", parallelism = {}", *hint.parallelism) : "";
  return fmt::format("{{parallel_dims = [{}]{}}}", dims, parallelism);
}

}  // namespace

Result<std::string> Exporter::run() {
  for (const auto& [name, size] : options_.sizes) {
    const Symbol* symbol = graph_.find_symbol(name);
    if (symbol != nullptr && (size < symbol->min || size > symbol->max || size % symbol->multiple_of != 0))
      return invalid_argument(fmt::format("{} = {}: it must be in {}..{} and a multiple of {}", name, size, symbol->min,
                                          symbol->max, symbol->multiple_of));
  }
  if (!graph_.position.empty() && options_.sizes.contains(graph_.position))
    return invalid_argument(
        fmt::format("the position {} is an argument of the export and can have no size", graph_.position));
  for (const NodeId id : graph_.order())
    if (const Node& n = graph_.node(id); n.constant && is_16bit_float(n.constant->type.dtype))
      return unsupported(fmt::format("constant {} is {}: weights of 16 bits are not exported; widen them to f32 first",
                                     n.name, to_string(n.constant->type)));
  HONE_ASSIGN_OR_RETURN(const std::string head, header());
  HONE_ASSIGN_OR_RETURN(const std::string signature, arguments());
  for (const NodeId id : graph_.order()) HONE_RETURN_IF_ERROR(node(graph_.node(id)));
  std::string types;
  HONE_ASSIGN_OR_RETURN(const std::string outputs, results(&types));
  HONE_RETURN_IF_ERROR(e_.status());
  std::string text = e_.take_text();
  text.insert(0, fmt::format("{}  func.func public @main({}) -> ({}) {{\n", head, signature, types));
  text += outputs.empty() ? "    return\n" : fmt::format("    return {} : {}\n", outputs, types);
  return text += "  }\n}\n";
}

// Nothing to say: exactly `module {`.
Result<std::string> Exporter::header() const {
  std::string layouts, hints;
  for (const auto& [name, layout] : graph_.layouts)
    layouts += fmt::format("{}{} = {}", layouts.empty() ? "" : ", ", key_text(name), quoted(layout));
  for (const NodeId id : graph_.order()) {
    const Node& n = graph_.node(id);
    if (n.schedule && is_sound(*n.schedule))
      hints += fmt::format("{}{} = {}", hints.empty() ? "" : ", ", key_text(n.name), hint_text(*n.schedule));
  }
  std::string all;
  if (!layouts.empty()) all = fmt::format("hone.tensor_layouts = {{{}}}", layouts);
  if (!hints.empty()) all += fmt::format("{}hone.schedule = {{{}}}", all.empty() ? "" : ", ", hints);
  return all.empty() ? std::string("module {\n") : fmt::format("module attributes {{{}}} {{\n", all);
}

Dim Exporter::sized(Dim dim) const {
  for (const auto& [symbol, size] : options_.sizes) dim = dim.substitute(symbol, Dim(size));
  return dim;
}

Result<TensorType> Exporter::sized(const TensorType& type, std::string_view what) const {
  TensorType out = type;
  for (Dim& d : out.dims) {
    d = sized(d);
    if (d.is_unknown())
      return unsupported(
          fmt::format("{} is {}: a dimension is unknown, run shape inference first", what, to_string(type)));
    if (!graph_.position.empty() && d.uses(graph_.position))
      return unsupported(fmt::format(
          "{} is {}: a size that grows with the position cannot be exported, but for a cache that attention reads",
          what, to_string(type)));
    if (d.is_static() && d.value() < 0)
      return invalid_argument(fmt::format("{} is {}: a size would be {}", what, to_string(type), d.value()));
  }
  return out;
}

// An input whose name MLIR cannot spell, or that another has (a position may be called as an input is), is called by
// its number, with the name as its location.
Result<std::string> Exporter::arguments() {
  std::string text;
  int number = 0;
  std::set<std::string> taken;
  const auto add = [&](const std::string& name, const TensorType& type, int alias) {
    const bool bare = is_bare(name) && taken.insert(name).second;
    Ref ref{bare ? "%" + name : fmt::format("%${}", number), type};
    text += fmt::format("{}{}: {}", number++ > 0 ? ", " : "", ref.name, type_text(type));
    if (alias >= 0) text += fmt::format(" {{tf.aliasing_output = {} : i32}}", alias);
    if (!bare) text += fmt::format(" loc({})", quoted(name));
    return ref;
  };
  for (const ValueId id : graph_.inputs()) {
    const Value& v = graph_.value(id);
    HONE_ASSIGN_OR_RETURN(const TensorType type, sized(v.type, "input " + v.name));
    const Ref ref = add(v.name, type, v.aliases_output);
    values_[id] = {ref, {}};
    for (int d = 0; d < type.rank(); ++d)
      if (const auto symbol = ref.dim(d).as_symbol()) e_.define_symbol(*symbol, ref, d);
  }
  int output = static_cast<int>(graph_.outputs().size());
  for (const ValueId id : graph_.states()) {
    const Value& v = graph_.value(id);
    HONE_ASSIGN_OR_RETURN(const TensorType type, sized(v.type, "state " + v.name));
    states_[id] = add(v.name, type, output++);
  }
  if (!graph_.position.empty()) {
    position_ = add(graph_.position, {DType::kS32, {}}, output);
    e_.define_symbol(graph_.position, position_);
  }
  return text;
}

Result<std::string> Exporter::results(std::string* types) {
  std::string names;
  const auto add = [&](const Ref& ref) {
    names += (names.empty() ? "" : ", ") + ref.name;
    *types += (types->empty() ? "" : ", ") + type_text(ref.type);
  };
  for (const ValueId id : graph_.outputs()) {
    const auto at = values_.find(id);
    if (at == values_.end() || at->second.rows)
      return unsupported(
          fmt::format("output {} is a cache, which is exported as the argument and result that its state is",
                      graph_.value(id).name));
    add(at->second.ref);
  }
  for (const ValueId id : graph_.states()) add(states_.at(id));
  if (!graph_.position.empty()) add(e_.add(position_, e_.size(sized(graph_.tokens))));
  return names;
}

Status Exporter::refuse(const Node& n, std::string_view what) const {
  return unsupported(fmt::format("{} ({}): {}", n.name, op_info(n.op).name, what));
}

Result<std::vector<Ref>> Exporter::operands(const Node& n) const {
  std::vector<Ref> refs;
  for (const ValueId v : n.operands) {
    const auto at = values_.find(v);
    if (at == values_.end() || at->second.rows)
      return refuse(n,
                    fmt::format("reads {}, a cache; only attention can, as its keys or values", graph_.value(v).name));
    refs.push_back(at->second.ref);
  }
  return refs;
}

// The name leads readers of the header to the op: to its product where it has one, as recognisers start there.
void Exporter::name_line(const Node& n) {
  if ((n.schedule && is_sound(*n.schedule)) || graph_.layouts.contains(n.name)) e_.name_last(quoted(n.name));
}

Status Exporter::node(const Node& n) {
  const size_t before = e_.text().size();
  if (n.op == OpKind::attention) {
    HONE_RETURN_IF_ERROR(attention(n));
  } else if (n.op == OpKind::kv_append) {
    HONE_RETURN_IF_ERROR(kv_append(n));
  } else {
    HONE_RETURN_IF_ERROR(primitive(n));
  }
  if (!e_.status().ok())
    return Status(e_.status().code(), fmt::format("{} ({}): {}", n.name, op_info(n.op).name, e_.status().message()));
  const bool names_its_product = n.op == OpKind::attention || n.op == OpKind::matmul;
  if (!names_its_product && e_.text().size() > before) name_line(n);
  return {};
}

// Rules that symbols leave to the call, such as a reshape of [s, 4] to [8], are judged where sizes are given.
Status Exporter::check_sizes(const Node& n, const std::vector<Ref>& x) const {
  std::vector<TensorType> operand_types;
  for (const Ref& ref : x) operand_types.push_back(ref.type);
  HONE_ASSIGN_OR_RETURN(const TensorType wanted, sized(graph_.value(n.results[0]).type, n.name));
  const Result<std::vector<TensorType>> types = infer_types(
      {.op = n.op, .operands = operand_types, .attributes = n.attributes, .wanted = &wanted, .position = Dim()});
  if (types.ok() || n.op == OpKind::constant) return {};
  return invalid_argument(fmt::format("{}: with these sizes {}", n.name, types.status().message()));
}

Status Exporter::primitive(const Node& n) {
  HONE_ASSIGN_OR_RETURN(const std::vector<Ref> x, operands(n));
  for (const ValueId v : n.results)
    HONE_RETURN_IF_ERROR(sized(graph_.value(v).type, fmt::format("{} ({})", n.name, op_info(n.op).name)).status());
  if (!options_.sizes.empty()) HONE_RETURN_IF_ERROR(check_sizes(n, x));
  if (n.op <= OpKind::select) return elements(n, x);
  if (n.op <= OpKind::dynamic_update_slice) return shapes(n, x);
  if (n.op <= OpKind::top_k) return sums(n, x);
  return decoder(n, x);
}

}  // namespace hone::graph::stablehlo
