// The frame of the import: functions, arguments, names, and what holds for every operation. Whatever the text says of
// types is compared with what infer_types finds; whatever attribute no handler asked for is refused.
#include "engine/graph/stablehlo/import.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>

#include "engine/base/printable.h"
#include "engine/graph/infer.h"
#include "engine/graph/stablehlo/import_internal.h"
#include "engine/graph/stablehlo/literal.h"
#include "engine/graph/stablehlo/parser.h"
#include "engine/graph/verify.h"

namespace hone::graph::stablehlo {

Result<Graph> import_stablehlo(std::string_view text, const ImportOptions& options) {
  HONE_ASSIGN_OR_RETURN(const Module module, parse_module(text));
  return Importer(module, options).run();
}

std::string plain_name(std::string_view text) {
  std::string name;
  for (const char c : text) {
    const bool plain = std::isalnum(static_cast<unsigned char>(c)) || c == '_';
    // params['w'] becomes params_w.
    if (plain) {
      name += c;
    } else if (!name.empty() && name.back() != '_') {
      name += '_';
    }
  }
  while (!name.empty() && name.back() == '_' && !text.ends_with('_')) name.pop_back();
  if (name.size() > 100) name.resize(100);
  if (!name.empty() && std::isdigit(static_cast<unsigned char>(name[0]))) name = "v" + name;
  return name;
}

namespace {

// The text of a location that is a name, without the jit(f)/jit(main)/ that JAX begins all with.
std::string location_name(const Module& module, const std::optional<Attribute>& location) {
  if (!location) return {};
  const Attribute& named = resolve(module, *location);
  if (named.kind != Attribute::Kind::kString) return {};
  std::string_view text = named.text;
  while (text.starts_with("jit(") && text.find(")/") != std::string_view::npos) text.remove_prefix(text.find(")/") + 2);
  return unescape(text);
}

// a says what b says, or less.
bool agrees(const TensorType& a, const TensorType& b) {
  if (a.dtype != b.dtype || a.dims.size() != b.dims.size()) return false;
  for (size_t i = 0; i < a.dims.size(); ++i)
    if (!possibly_equal(a.dims[i], b.dims[i])) return false;
  return true;
}

// Both are true: dimension by dimension what is surer.
TensorType surer(TensorType a, const TensorType& b) {
  for (size_t i = 0; i < a.dims.size(); ++i)
    if (a.dims[i].is_unknown() || (b.dims[i].is_static() && !a.dims[i].is_static())) a.dims[i] = b.dims[i];
  return a;
}

// Of the frameworks around the program: where it was split over devices, how results are called, how XLA laid bytes
// out.
bool is_ignorable(std::string_view attribute) {
  for (const std::string_view layout : {"result_layout", "source_layout", "operand_layouts"})
    if (attribute == layout) return true;
  for (const std::string_view prefix : {"mhlo.", "sdy.", "jax.", "tf.", "xla.", "xla_", "_xla"})
    if (attribute.starts_with(prefix)) return true;
  return false;
}

}  // namespace

void Importer::note(std::string text) const {
  if (options_.notes != nullptr) options_.notes->push_back(std::move(text));
}

Result<Graph> Importer::run() {
  for (const Function& f : module_.functions)
    if (!functions_.emplace(f.name, &f).second)
      return invalid_argument(fmt::format("line {}: function @{} is there twice", f.line, printable(f.name, 60)));
  const Function* function = find_function(options_.function);
  if (function == nullptr || !function->has_body)
    return invalid_argument(fmt::format("line {}: the module has no function @{} with a body",
                                        module_.functions[0].line, printable(options_.function, 60)));
  graph_.name = module_.name.empty() ? "main" : plain_name(module_.name);
  if (graph_.name.empty()) graph_.name = "main";
  Environment environment;
  HONE_RETURN_IF_ERROR(arguments(*function, &environment));
  HONE_ASSIGN_OR_RETURN(std::vector<Entry> results, body(function->body, &environment));
  if (!function->result_types.empty() && function->result_types.size() != results.size())
    return invalid_argument(fmt::format("line {}: function @{} has {} results and returns {}", function->line,
                                        printable(function->name, 60), function->result_types.size(), results.size()));
  std::vector<ValueId> outputs;
  for (size_t i = 0; i < results.size(); ++i) {
    if (!results[i].value)
      return unsupported(
          fmt::format("line {}: result {} of @{} is the size of a dimension, which is not supported as a result",
                      function->line, i, printable(function->name, 60)));
    if (!function->result_types.empty()) {
      HONE_ASSIGN_OR_RETURN(const TensorType said, tensor_type(function->result_types[i]));
      if (!agrees(said, results[i].type))
        return invalid_argument(fmt::format("line {}: result {} of @{} is {} and is declared as {}", function->line, i,
                                            printable(function->name, 60), to_string(results[i].type),
                                            to_string(said)));
    }
    outputs.push_back(*results[i].value);
  }
  graph_.set_outputs(std::move(outputs));
  HONE_RETURN_IF_ERROR(aliases(*function));
  graph_.erase_dead();
  HONE_RETURN_IF_ERROR(check_erfc());
  if (i64_ > 0)
    note(fmt::format("{} is of i64 and computed in s32, where a larger result wraps{}", first_i64_,
                     i64_ > 1 ? fmt::format("; it is the first of {} such operations", i64_) : ""));
  header();
  HONE_RETURN_IF_ERROR(verify(graph_));
  return std::move(graph_);
}

// ---- arguments ----

Status Importer::argument_name(const BlockArgument& argument, size_t index, std::string* name) const {
  if (const Attribute* info = argument.attributes.find("jax.arg_info");
      info != nullptr && info->kind == Attribute::Kind::kString)
    *name = plain_name(unescape(info->text));
  if (name->empty()) *name = plain_name(location_name(module_, argument.location));
  if (name->empty()) *name = plain_name(argument.name);
  if (name->empty()) *name = fmt::format("arg{}", index);
  return {};
}

Status Importer::arguments(const Function& function, Environment* environment) {
  std::vector<bool> named(options_.dimensions.size());
  for (size_t i = 0; i < function.body.arguments.size(); ++i) {
    const BlockArgument& argument = function.body.arguments[i];
    HONE_ASSIGN_OR_RETURN(TensorType type, tensor_type(argument.type));
    std::string name;
    HONE_RETURN_IF_ERROR(argument_name(argument, i, &name));
    for (size_t j = 0; j < options_.dimensions.size(); ++j) {
      const NamedDimension& wanted = options_.dimensions[j];
      if (wanted.input != name) continue;
      if (wanted.dimension < 0 || wanted.dimension >= type.rank() ||
          !type.dims[static_cast<size_t>(wanted.dimension)].is_unknown())
        return invalid_argument(fmt::format("dimension {} of input {} ({}) is not open, so it cannot be called {}",
                                            wanted.dimension, name, to_string(type), wanted.symbol.name));
      type.dims[static_cast<size_t>(wanted.dimension)] = Dim::symbol(wanted.symbol.name);
      if (graph_.find_symbol(wanted.symbol.name) == nullptr) graph_.symbols.push_back(wanted.symbol);
      named[j] = true;
    }
    if (argument.type.element == "i64")
      note(fmt::format("line {}: %{} is i64 and is taken as s32", argument.type.line, printable(argument.name, 60)));
    const ValueId id = graph_.add_input(std::move(name), type);
    if (!environment->emplace(argument.name, std::vector<Entry>{{.type = std::move(type), .value = id, .numbers = {}}})
             .second ||
        argument.name.empty())
      return invalid_argument(fmt::format("line {}: argument {} needs a name of its own", argument.type.line, i));
  }
  for (size_t j = 0; j < named.size(); ++j)
    if (!named[j])
      return invalid_argument(fmt::format("no input is called {}, whose dimension {} should be {}",
                                          options_.dimensions[j].input, options_.dimensions[j].dimension,
                                          options_.dimensions[j].symbol.name));
  return {};
}

// tf.aliasing_output names the output; jax.buffer_donor leaves it open: the first output of that type which nobody has.
Status Importer::aliases(const Function& function) {
  const auto fits = [&](ValueId input, size_t output) {
    const TensorType &a = graph_.value(input).type, &b = graph_.value(graph_.outputs()[output]).type;
    return agrees(a, b);
  };
  std::vector<bool> taken(graph_.outputs().size());
  for (size_t i = 0; i < function.body.arguments.size(); ++i) {
    const BlockArgument& argument = function.body.arguments[i];
    const Attribute* alias = argument.attributes.find("tf.aliasing_output");
    if (alias == nullptr) continue;
    const auto output = static_cast<size_t>(alias->integer);
    if (alias->kind != Attribute::Kind::kInteger || alias->integer < 0 || output >= taken.size() || taken[output] ||
        !fits(graph_.inputs()[i], output))
      return invalid_argument(fmt::format(
          "line {}: tf.aliasing_output of %{} must be the number of a result of its type that no other argument has",
          argument.type.line, printable(argument.name, 60)));
    taken[output] = true;
    graph_.set_alias(graph_.inputs()[i], static_cast<int>(output));
  }
  for (size_t i = 0; i < function.body.arguments.size(); ++i) {
    const Attribute* donor = function.body.arguments[i].attributes.find("jax.buffer_donor");
    if (donor == nullptr || donor->integer == 0 || graph_.value(graph_.inputs()[i]).aliases_output >= 0) continue;
    for (size_t output = 0; output < taken.size(); ++output) {
      if (taken[output] || !fits(graph_.inputs()[i], output)) continue;
      taken[output] = true;
      graph_.set_alias(graph_.inputs()[i], static_cast<int>(output));
      break;
    }
  }
  return {};
}

// ---- hone.schedule, hone.tensor_layouts ----

void Importer::header() {
  if (const Attribute* layouts = module_.attributes.find("hone.tensor_layouts"))
    for (const NamedAttribute& entry : layouts->entries) {
      if (entry.value.kind == Attribute::Kind::kString)
        graph_.layouts.insert_or_assign(unescape(entry.name), unescape(entry.value.text));
      else
        note(fmt::format("line {}: the layout of '{}' is no string and is left out", entry.value.line,
                         printable(entry.name, 60)));
    }
  const Attribute* schedule = module_.attributes.find("hone.schedule");
  if (schedule == nullptr) return;
  std::unordered_map<std::string_view, NodeId> nodes;
  for (const NodeId id : graph_.order()) nodes.emplace(graph_.node(id).name, id);
  for (const NamedAttribute& entry : schedule->entries) {
    const std::string key = unescape(entry.name);
    const auto node = nodes.find(key);
    if (node == nodes.end()) {
      note(fmt::format("line {}: hone.schedule names '{}', which no node is called", entry.value.line,
                       printable(key, 60)));
      continue;
    }
    ScheduleHint hint;
    const Attribute* dims = entry.value.find("parallel_dims");
    bool sound = dims != nullptr && dims->kind == Attribute::Kind::kArray;
    for (size_t i = 0; sound && i < dims->items.size(); ++i) {
      sound = dims->items[i].kind == Attribute::Kind::kString;
      if (sound) hint.parallel_dims.push_back(unescape(dims->items[i].text));
    }
    if (const Attribute* parallelism = entry.value.find("parallelism")) {
      sound = sound && parallelism->kind == Attribute::Kind::kInteger;
      hint.parallelism = parallelism->integer;
    }
    if (sound)
      graph_.node(node->second).schedule = std::move(hint);
    else
      note(fmt::format("line {}: the hint of '{}' is not {{parallel_dims = [\"..\"], parallelism = N}} and is left out",
                       entry.value.line, printable(key, 60)));
  }
}

// ---- functions ----

Result<std::vector<Entry>> Importer::inlined(const Function& function, std::vector<Entry> given, int line) {
  if (!function.has_body)
    return invalid_argument(fmt::format("line {}: function @{} has no body", line, printable(function.name, 60)));
  if (given.size() != function.body.arguments.size())
    return invalid_argument(fmt::format("line {}: function @{} has {} arguments and is given {}", line,
                                        printable(function.name, 60), function.body.arguments.size(), given.size()));
  if (calls_ == kMaxCalls)
    return unsupported(
        fmt::format("line {}: calls are nested deeper than {}; recursion is not supported", line, kMaxCalls));
  ++calls_;
  Environment environment;
  for (size_t i = 0; i < given.size(); ++i) {
    HONE_ASSIGN_OR_RETURN(const TensorType said, tensor_type(function.body.arguments[i].type));
    if (!agrees(said, given[i].type))
      return invalid_argument(fmt::format("line {}: argument {} of @{} is {} and is given {}", line, i,
                                          printable(function.name, 60), to_string(said), to_string(given[i].type)));
    environment.insert_or_assign(function.body.arguments[i].name, std::vector<Entry>{std::move(given[i])});
  }
  Result<std::vector<Entry>> results = body(function.body, &environment);
  --calls_;
  return results;
}

Result<std::vector<Entry>> Importer::body(const Block& block, Environment* environment) {
  for (const Operation& op : block.operations) {
    if (op.name == "func.return" || op.name == "stablehlo.return") {
      if (&op != &block.operations.back())
        return invalid_argument(fmt::format("line {}: operations after a return", op.line));
      return operands(op, *environment);
    }
    HONE_RETURN_IF_ERROR(operation(op, environment));
  }
  const int line = block.operations.empty() ? module_.functions[0].line : block.operations.back().line;
  return invalid_argument(fmt::format("line {}: a function must end in return", line));
}

// ---- operations ----

Result<std::vector<Entry>> Importer::operands(const Operation& op, const Environment& environment) const {
  std::vector<Entry> entries;
  for (const ValueName& name : op.operands) {
    const auto at = environment.find(name.name);
    if (at == environment.end())
      return invalid_argument(fmt::format("line {}: %{} is not defined", name.line, printable(name.name, 60)));
    if (name.index >= static_cast<int64_t>(at->second.size()))
      return invalid_argument(fmt::format("line {}: %{} has {} results, and #{} is asked for", name.line,
                                          printable(name.name, 60), at->second.size(), name.index));
    entries.push_back(at->second[static_cast<size_t>(name.index)]);
  }
  return entries;
}

Status Importer::operation(const Operation& op, Environment* environment) {
  const OpRow* row = find_row(op.name);
  if (row == nullptr) return unsupported_op(op.line, op.name);
  if (++operations_ > kMaxOperations)
    return unsupported(fmt::format("line {}: more than {} operations after inlining", op.line, kMaxOperations));
  if ((operands_ += static_cast<int64_t>(op.operands.size())) > kMaxOperands)
    return unsupported(fmt::format("line {}: more than {} operands after inlining", op.line, kMaxOperands));
  HONE_ASSIGN_OR_RETURN(std::vector<Entry> given, operands(op, *environment));
  Call call{.op = op, .row = *row, .operands = std::move(given), .results = {}, .read = {}};
  for (const Type& type : op.result_types) {
    HONE_ASSIGN_OR_RETURN(TensorType result, tensor_type(type));
    call.results.push_back(std::move(result));
  }
  HONE_RETURN_IF_ERROR(check_operands(call));
  const size_t nodes_before = graph_.order().size();
  HONE_ASSIGN_OR_RETURN(std::vector<Entry> results, handle(call));
  HONE_RETURN_IF_ERROR(check_attributes(call));
  if (!results.empty()) note_i64(call, results[0]);
  if (!op.regions.empty() && row->handler != OpHandler::reduce) return wrong(call, "a region, which it does not take");
  return bind_results(call, std::move(results), nodes_before, environment);
}

Status Importer::check_operands(const Call& call) const {
  if (call.op.operand_types.empty()) return {};
  if (call.op.operand_types.size() != call.operands.size())
    return wrong(call,
                 fmt::format("{} operands and {} types of them", call.operands.size(), call.op.operand_types.size()));
  for (size_t i = 0; i < call.operands.size(); ++i) {
    HONE_ASSIGN_OR_RETURN(const TensorType said, tensor_type(call.op.operand_types[i]));
    if (!agrees(said, call.operands[i].type))
      return wrong(call, fmt::format("operand {} is {} and is written as {}", i, to_string(call.operands[i].type),
                                     to_string(said)));
  }
  return {};
}

Status Importer::check_attributes(const Call& call) const {
  for (const NamedAttribute& entry : call.op.attributes.entries) {
    if (is_ignorable(entry.name)) continue;
    if (std::find(call.read.begin(), call.read.end(), entry.name) == call.read.end())
      return refused(call, fmt::format("attribute '{}' is not supported", printable(entry.name, 60)));
  }
  return {};
}

Status Importer::bind_results(const Call& call, std::vector<Entry> results, size_t nodes_before,
                              Environment* environment) {
  const Operation& op = call.op;
  if (call.results.size() != results.size())
    return wrong(call,
                 fmt::format("{} result types are given, it has {} results", call.results.size(), results.size()));
  for (size_t i = 0; i < results.size(); ++i) {
    if (!agrees(call.results[i], results[i].type))
      return wrong(call, fmt::format("its result is {} and is written as {}", to_string(results[i].type),
                                     to_string(call.results[i])));
    results[i].type = surer(results[i].type, call.results[i]);
    if (results[i].value && graph_.value(*results[i].value).type != results[i].type)
      graph_.set_type(*results[i].value, results[i].type);
  }
  // A name that the text gives the op is the node's, for traces and hints.
  const std::string name = plain_name(location_name(module_, op.location));
  if (!name.empty() && !results.empty() && results[0].value && graph_.order().size() > nodes_before) {
    const Node* node = graph_.definition(*results[0].value);
    if (node != nullptr && node->id == graph_.order().back()) graph_.rename(node->id, name);
  }
  size_t next = 0;
  for (const ResultName& result : op.results) {
    std::vector<Entry> entries;
    for (int64_t i = 0; i < result.count; ++i, ++next) {
      if (next >= results.size())
        return wrong(call, fmt::format("it has {} results, and more are named", results.size()));
      entries.push_back(results[next]);
    }
    if (!environment->emplace(result.name, std::move(entries)).second)
      return invalid_argument(fmt::format("line {}: %{} is defined twice", op.line, printable(result.name, 60)));
  }
  if (!op.results.empty() && next != results.size())
    return wrong(call, fmt::format("it has {} results, and {} are named", results.size(), next));
  return {};
}

Importer::Entries Importer::handle(const Call& c) {
  switch (c.row.handler) {
#define HONE_STABLEHLO_HANDLER(name) \
  case OpHandler::name:              \
    return name(c);
#include "engine/graph/stablehlo/handlers.inc"
#undef HONE_STABLEHLO_HANDLER
  }
  return misplaced_return(c);
}

}  // namespace hone::graph::stablehlo
