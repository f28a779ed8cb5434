// One statement after the other; nothing nests, so nothing recurses. Names are looked up as they come, which is why
// definitions must precede uses. Types and attributes are judged where they stand, by the rules of infer.h; what only
// the whole graph shows is left to verify().
#include <fmt/format.h>

#include <map>

#include "engine/base/printable.h"
#include "engine/graph/attributes.h"
#include "engine/graph/infer.h"
#include "engine/graph/infer_internal.h"
#include "engine/graph/text.h"
#include "engine/graph/text_cursor_internal.h"
#include "engine/graph/text_internal.h"
#include "engine/graph/verify.h"

namespace hone::graph {

namespace {

// Beyond what any graph needs, and little enough that no text makes the parser slow.
constexpr size_t kMaxList = 4096, kMaxSymbols = 1024;

class Parser {
 public:
  Parser(std::string_view text, const ConstantSource& source) : c_(text), source_(source) {}

  Result<Graph> run();

 private:
  Status statement();
  Status symbol(bool is_position);
  Status input(bool is_state);
  Status node();
  Status schedule();
  Status layout();
  Status output();

  // `read_one` reads an item of a list that `close` ends; the opening character has been read.
  template <typename ReadOne>
  Status list(char close, std::string_view what, const ReadOne& read_one);
  Result<Dim> dim(std::string_view stops);
  Result<TensorType> type();
  Result<std::vector<TensorType>> types();
  Result<std::string> new_name();
  Result<ValueId> used_value();
  Result<ScheduleHint> hint();
  Status attribute(OpKind op, Attributes* all);
  Status value(AttributeKind kind, Attribute* to);
  Status constant(const std::vector<std::string>& names);
  Result<Constant> elements(bool splat, const std::vector<std::pair<size_t, std::string_view>>& words, TensorType type);
  Status add(OpKind op, size_t at, std::vector<std::string> names, std::vector<ValueId> operands, Attributes attributes,
             std::vector<TensorType> types);

  TextCursor c_;
  const ConstantSource& source_;
  Graph graph_;
  std::map<std::string, ValueId, std::less<>> values_;
  std::vector<ValueId> outputs_;
  bool has_output_ = false;
};

Result<Graph> Parser::run() {
  HONE_RETURN_IF_ERROR(c_.expect("graph"));
  HONE_ASSIGN_OR_RETURN(graph_.name, c_.name('@', "the name of the graph"));
  HONE_RETURN_IF_ERROR(c_.expect('{'));
  while (c_.peek() != '}' || c_.done()) {
    if (c_.done()) return c_.expected("a statement or '}'");
    HONE_RETURN_IF_ERROR(statement());
  }
  const size_t end = c_.at();
  HONE_RETURN_IF_ERROR(c_.expect('}'));
  if (!c_.done()) return c_.expected("the end of the text");
  graph_.set_outputs(outputs_);
  if (const Status s = verify(graph_); !s.ok()) return c_.wrong_at(end, s.message());
  return std::move(graph_);
}

Status Parser::statement() {
  if (c_.peek() == '%') return node();
  if (c_.accept("symbol")) return symbol(false);
  if (c_.accept("position")) return symbol(true);
  if (c_.accept("input")) return input(false);
  if (c_.accept("state")) return input(true);
  if (c_.accept("schedule")) return schedule();
  if (c_.accept("layout")) return layout();
  if (c_.accept("output")) return output();
  return c_.expected("symbol, position, input, state, schedule, layout, output, %name or '}'");
}

template <typename ReadOne>
Status Parser::list(char close, std::string_view what, const ReadOne& read_one) {
  if (c_.accept(close)) return {};
  for (size_t count = 0;; ++count) {
    if (count == kMaxList) return c_.wrong(fmt::format("more than {} {}", kMaxList, what));
    HONE_RETURN_IF_ERROR(read_one());
    if (c_.accept(close)) return {};
    if (!c_.accept(',')) return c_.expected(fmt::format("',' or '{}'", close));
  }
}

Status Parser::symbol(bool is_position) {
  const size_t at = c_.at();
  if (graph_.symbols.size() == kMaxSymbols) return c_.wrong(fmt::format("more than {} symbols", kMaxSymbols));
  Symbol s;
  HONE_ASSIGN_OR_RETURN(s.name, c_.identifier("the name of a symbol"));
  if (graph_.find_symbol(s.name) != nullptr) return c_.wrong_at(at, fmt::format("symbol {} is declared twice", s.name));
  HONE_RETURN_IF_ERROR(c_.expect("in"));
  HONE_ASSIGN_OR_RETURN(s.min, c_.integer("the least value"));
  for (int dots = 0; dots < 2; ++dots)
    if (!c_.accept('.')) return c_.expected("'..'");
  HONE_ASSIGN_OR_RETURN(s.max, c_.integer("the largest value"));
  if (!is_position && c_.accept("multiple")) {
    HONE_ASSIGN_OR_RETURN(s.multiple_of, c_.integer("what it is a multiple of"));
  }
  if (is_position) {
    if (!graph_.position.empty()) return c_.wrong_at(at, fmt::format("the position is {} already", graph_.position));
    graph_.position = s.name;
    HONE_RETURN_IF_ERROR(c_.expect("step"));
    HONE_ASSIGN_OR_RETURN(graph_.tokens, dim("}"));
  }
  graph_.symbols.push_back(std::move(s));
  return {};
}

Result<Dim> Parser::dim(std::string_view stops) {
  constexpr size_t kLongest = 200;
  const size_t at = c_.at();
  const std::string_view text = c_.until(stops);
  if (text.size() > kLongest) return c_.wrong_at(at, fmt::format("a dimension of more than {} characters", kLongest));
  Result<Dim> d = parse_dim(text);
  if (!d.ok()) return c_.wrong_at(at, d.status().message());
  return d;
}

Result<TensorType> Parser::type() {
  const size_t at = c_.at();
  TensorType type;
  HONE_ASSIGN_OR_RETURN(const std::string dtype, c_.identifier("a type such as f32[4]"));
  const std::optional<DType> known = parse_dtype(dtype);
  if (!known) return c_.wrong_at(at, fmt::format("'{}' is no element type: f32, s32 or u8", printable(dtype)));
  type.dtype = *known;
  HONE_RETURN_IF_ERROR(c_.expect('['));
  HONE_RETURN_IF_ERROR(list(']', "dimensions", [&]() -> Status {
    HONE_ASSIGN_OR_RETURN(Dim d, dim(",]"));
    for (const auto& [name, factor] : d.terms())
      if (graph_.find_symbol(name) == nullptr) return c_.wrong_at(at, fmt::format("symbol '{}' is not declared", name));
    type.dims.push_back(std::move(d));
    return {};
  }));
  if (const Status s = check_type(type); !s.ok()) return c_.wrong_at(at, "the type " + s.message());
  return type;
}

Result<std::vector<TensorType>> Parser::types() {
  std::vector<TensorType> types;
  HONE_RETURN_IF_ERROR(c_.expect(':'));
  do {
    if (types.size() == kMaxList) return c_.wrong("too many types");
    HONE_ASSIGN_OR_RETURN(TensorType t, type());
    types.push_back(std::move(t));
  } while (c_.accept(','));
  return types;
}

// Not in values_ yet.
Result<std::string> Parser::new_name() {
  const size_t at = c_.at();
  HONE_ASSIGN_OR_RETURN(std::string name, c_.name('%', "a name"));
  if (name.empty()) return c_.wrong_at(at, "the name is empty");
  if (values_.contains(name)) return c_.wrong_at(at, fmt::format("%{} is defined twice", printable(name)));
  return name;
}

Result<ValueId> Parser::used_value() {
  const size_t at = c_.at();
  HONE_ASSIGN_OR_RETURN(const std::string name, c_.name('%', "the name of a value"));
  const auto found = values_.find(name);
  if (found == values_.end()) return c_.wrong_at(at, fmt::format("%{} is not defined before this", printable(name)));
  return found->second;
}

Status Parser::input(bool is_state) {
  HONE_ASSIGN_OR_RETURN(const std::string name, new_name());
  HONE_RETURN_IF_ERROR(c_.expect(':'));
  HONE_ASSIGN_OR_RETURN(TensorType t, type());
  const ValueId v = is_state ? graph_.add_state(name, std::move(t)) : graph_.add_input(name, std::move(t));
  values_.emplace(name, v);
  if (is_state || !c_.accept("aliases")) return {};
  HONE_ASSIGN_OR_RETURN(const int64_t output, c_.integer("the number of an output"));
  if (output < 0 || output > static_cast<int64_t>(kMaxList)) return c_.wrong("there is no such output to alias");
  graph_.set_alias(v, static_cast<int>(output));
  return {};
}

Status Parser::node() {
  const int line = c_.line();
  std::vector<std::string> names;
  do {
    if (names.size() == kMaxList) return c_.wrong("too many results");
    const size_t at = c_.at();
    HONE_ASSIGN_OR_RETURN(std::string name, new_name());
    if (std::find(names.begin(), names.end(), name) != names.end())
      return c_.wrong_at(at, fmt::format("%{} is defined twice", printable(name)));
    names.push_back(std::move(name));
  } while (c_.accept(','));
  HONE_RETURN_IF_ERROR(c_.expect('='));
  const size_t at = c_.at();
  HONE_ASSIGN_OR_RETURN(const std::string op_name, c_.identifier("an op"));
  const std::optional<OpKind> op = find_op(op_name);
  if (!op) return c_.wrong_at(at, fmt::format("there is no op '{}'", printable(op_name)));
  if (*op == OpKind::constant) {
    if (names.size() != 1) return c_.wrong_at(at, "constant has 1 result");
    HONE_RETURN_IF_ERROR(constant(names));
  } else {
    std::vector<ValueId> operands;
    HONE_RETURN_IF_ERROR(c_.expect('('));
    HONE_RETURN_IF_ERROR(list(')', "operands", [&]() -> Status {
      HONE_ASSIGN_OR_RETURN(const ValueId v, used_value());
      operands.push_back(v);
      return {};
    }));
    Attributes all;
    if (c_.accept('{')) HONE_RETURN_IF_ERROR(list('}', "attributes", [&] { return attribute(*op, &all); }));
    HONE_ASSIGN_OR_RETURN(std::vector<TensorType> result_types, types());
    HONE_RETURN_IF_ERROR(add(*op, at, std::move(names), std::move(operands), std::move(all), std::move(result_types)));
  }
  graph_.node(graph_.order().back()).line = line;
  return {};
}

Status Parser::add(OpKind op, size_t at, std::vector<std::string> names, std::vector<ValueId> operands,
                   Attributes attributes, std::vector<TensorType> result_types) {
  const OpInfo& info = op_info(op);
  const size_t count = static_cast<size_t>(info.results);
  if (names.size() != count || result_types.size() != count)
    return c_.wrong_at(at, fmt::format("{} has {} results; there are {} names and {} types", info.name, count,
                                       names.size(), result_types.size()));
  std::vector<TensorType> operand_types;
  for (const ValueId v : operands) operand_types.push_back(graph_.value(v).type);
  const Dim position = graph_.position.empty() ? Dim::unknown() : Dim::symbol(graph_.position);
  const Result<std::vector<TensorType>> inferred =
      infer_types({op, operand_types, attributes, &result_types[0], position});
  if (!inferred.ok()) return c_.wrong_at(at, inferred.status().message());
  for (size_t i = 0; i < count; ++i)
    if (const Status s = check_recorded(result_types[i], (*inferred)[i]); !s.ok())
      return c_.wrong_at(at, fmt::format("{}: %{} {}", info.name, printable(names[i]), s.message()));
  const NodeId n =
      graph_.add_node(op, std::move(operands), std::move(attributes), std::move(result_types), std::move(names[0]));
  for (size_t i = 1; i < count; ++i) graph_.rename_result(graph_.result(n, static_cast<int>(i)), std::move(names[i]));
  for (const ValueId v : graph_.node(n).results) values_.emplace(graph_.value(v).name, v);
  return {};
}

Status Parser::attribute(OpKind op, Attributes* all) {
  const size_t at = c_.at();
  HONE_ASSIGN_OR_RETURN(const std::string name, c_.identifier("the name of an attribute"));
  const AttributeRule* rule = find_attribute(op, name);
  if (rule == nullptr)
    return c_.wrong_at(at, fmt::format("{} has no attribute '{}'", op_info(op).name, printable(name)));
  HONE_RETURN_IF_ERROR(c_.expect('='));
  if (all->contains(name)) return c_.wrong_at(at, "the attribute is there twice");
  return value(rule->kind, &(*all)[name]);
}

Status Parser::value(AttributeKind kind, Attribute* to) {
  const size_t at = c_.at();
  switch (kind) {
    case AttributeKind::kInteger: {
      HONE_ASSIGN_OR_RETURN(*to, c_.integer("an integer"));
      return {};
    }
    case AttributeKind::kNumber: {
      const Result<double> v = read_double(c_.number_word());
      if (!v.ok()) return c_.wrong_at(at, v.status().message());
      *to = *v;
      return {};
    }
    case AttributeKind::kFlag:
      *to = c_.accept("true");
      return std::get<bool>(*to) || c_.accept("false") ? Status() : c_.expected("true or false");
    case AttributeKind::kText: {
      HONE_ASSIGN_OR_RETURN(*to, c_.quoted_text("a text"));
      return {};
    }
    case AttributeKind::kIntegers: {
      std::vector<int64_t> v;
      HONE_RETURN_IF_ERROR(c_.expect('['));
      HONE_RETURN_IF_ERROR(list(']', "integers", [&]() -> Status {
        HONE_ASSIGN_OR_RETURN(const int64_t i, c_.integer("an integer"));
        v.push_back(i);
        return {};
      }));
      *to = std::move(v);
      return {};
    }
    case AttributeKind::kDim: {
      HONE_ASSIGN_OR_RETURN(*to, dim(",}"));
      return {};
    }
  }
  return {};
}

// After "constant": "name", dense(..) or splat(..), and the type.
Status Parser::constant(const std::vector<std::string>& names) {
  const size_t at = c_.at();
  std::string elsewhere;
  std::vector<std::pair<size_t, std::string_view>> words;
  bool splat = false, inside = false;
  if (c_.peek() == '"') {
    HONE_ASSIGN_OR_RETURN(elsewhere, c_.quoted_text("the name of a constant"));
  } else {
    inside = true;
    splat = c_.accept("splat");
    if (!splat && !c_.accept("dense")) return c_.expected("dense(..), splat(..) or the name of a constant in quotes");
    HONE_RETURN_IF_ERROR(c_.expect('('));
    HONE_RETURN_IF_ERROR(list(')', "elements", [&]() -> Status {
      const size_t place = c_.at();
      words.emplace_back(place, c_.number_word());
      return {};
    }));
  }
  HONE_ASSIGN_OR_RETURN(std::vector<TensorType> result_types, types());
  if (result_types.size() != 1) return c_.wrong_at(at, "constant has 1 result");
  TensorType& type = result_types[0];
  if (!type.is_static()) return c_.wrong_at(at, fmt::format("constant: {} must be static", to_string(type)));
  Constant found;
  if (inside) {
    HONE_ASSIGN_OR_RETURN(found, elements(splat, words, type));
  } else {
    if (!source_)
      return c_.wrong_at(at,
                         fmt::format("the elements of constant \"{}\" are not in the text, and nothing else has them",
                                     printable(elsewhere)));
    HONE_ASSIGN_OR_RETURN(found, source_(elsewhere, type));
    if (!(found.type == type))
      return c_.wrong_at(at, fmt::format("constant \"{}\" is {} where it was found and {} here", printable(elsewhere),
                                         to_string(found.type), to_string(type)));
  }
  values_.emplace(names[0], graph_.result(graph_.add_constant(std::move(found), names[0])));
  return {};
}

Result<Constant> Parser::elements(bool splat, const std::vector<std::pair<size_t, std::string_view>>& words,
                                  TensorType type) {
  const int64_t needed = splat ? 1 : type.elements();
  if (static_cast<int64_t>(words.size()) != needed)
    return c_.wrong(fmt::format("{} needs {} elements and there are {}", to_string(type), needed, words.size()));
  std::vector<std::byte> bytes;
  for (const auto& [place, word] : words)
    if (const Status s = read_element(type.dtype, word, &bytes); !s.ok()) return c_.wrong_at(place, s.message());
  Constant constant = Constant::copy_of(std::move(type), bytes);
  constant.splat = splat;
  return constant;
}

Result<ScheduleHint> Parser::hint() {
  ScheduleHint hint;
  HONE_RETURN_IF_ERROR(c_.expect('{'));
  HONE_RETURN_IF_ERROR(c_.expect("parallel_dims"));
  HONE_RETURN_IF_ERROR(c_.expect('='));
  HONE_RETURN_IF_ERROR(c_.expect('['));
  HONE_RETURN_IF_ERROR(list(']', "dimensions", [&]() -> Status {
    HONE_ASSIGN_OR_RETURN(std::string name, c_.quoted_text("the name of a dimension"));
    hint.parallel_dims.push_back(std::move(name));
    return {};
  }));
  if (c_.accept(',')) {
    HONE_RETURN_IF_ERROR(c_.expect("parallelism"));
    HONE_RETURN_IF_ERROR(c_.expect('='));
    HONE_ASSIGN_OR_RETURN(hint.parallelism, c_.integer("a number of cores"));
  }
  HONE_RETURN_IF_ERROR(c_.expect('}'));
  return hint;
}

Status Parser::schedule() {
  std::optional<ScheduleHint>* to = &graph_.ambient_schedule;
  const size_t at = c_.at();
  if (c_.peek() == '%') {
    HONE_ASSIGN_OR_RETURN(const ValueId v, used_value());
    const Value& value = graph_.value(v);
    if (value.kind != ValueKind::kResult || value.index != 0) return c_.wrong_at(at, "that is not the name of a node");
    to = &graph_.node(value.node).schedule;
  }
  if (*to) return c_.wrong_at(at, "the schedule is there twice");
  HONE_RETURN_IF_ERROR(c_.expect('='));
  HONE_ASSIGN_OR_RETURN(*to, hint());
  return {};
}

Status Parser::layout() {
  const size_t at = c_.at();
  HONE_ASSIGN_OR_RETURN(std::string of, c_.quoted_text("the name of a node"));
  HONE_RETURN_IF_ERROR(c_.expect('='));
  HONE_ASSIGN_OR_RETURN(std::string text, c_.quoted_text("a layout"));
  if (!graph_.layouts.emplace(std::move(of), std::move(text)).second)
    return c_.wrong_at(at, "the layout is there twice");
  return {};
}

Status Parser::output() {
  if (has_output_) return c_.wrong("the outputs are there twice");
  has_output_ = true;
  do {
    if (outputs_.size() == kMaxList) return c_.wrong("too many outputs");
    HONE_ASSIGN_OR_RETURN(const ValueId v, used_value());
    outputs_.push_back(v);
  } while (c_.accept(','));
  return {};
}

}  // namespace

Result<Graph> parse(std::string_view text, const ConstantSource& source) { return Parser(text, source).run(); }

}  // namespace hone::graph
