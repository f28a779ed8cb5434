// Operations as printers write them for people. Most are a list of operands, `key = value` and words; a few have a
// syntax of their own. What a key is called in the generic form is in kKeys.
#include <fmt/format.h>

#include "engine/base/printable.h"
#include "engine/graph/stablehlo/parser_internal.h"

namespace hone::graph::stablehlo {

namespace {

struct Key {
  std::string_view op, pretty, generic;  // op "": of any
};
constexpr Key kKeys[] = {
    {"stablehlo.broadcast_in_dim", "dims", "broadcast_dimensions"},
    {"stablehlo.dynamic_broadcast_in_dim", "dims", "broadcast_dimensions"},
    {"stablehlo.transpose", "dims", "permutation"},
    {"stablehlo.dynamic_slice", "sizes", "slice_sizes"},
    {"stablehlo.concatenate", "dim", "dimension"},
    {"stablehlo.get_dimension_size", "dim", "dimension"},
    {"stablehlo.iota", "dim", "iota_dimension"},
    {"stablehlo.dynamic_iota", "dim", "iota_dimension"},
    {"chlo.top_k", "k", "k"},
    {"", "precision", "precision_config"},
    {"", "algorithm", "algorithm"},
};

}  // namespace

Status Parser::pretty_operation(Operation* op) {
  std::string_view name = token_.text;
  if (name == "call") name = "func.call";
  if (name == "return") name = "func.return";
  const OpRow* row = find_row(name);
  if (row == nullptr) {
    return name.find('.') == std::string_view::npos ? wrong("an operation such as stablehlo.add")
                                                    : unsupported_op(token_.line, name);
  }
  op->name = row->name;
  advance();
  switch (row->form) {
    case OpForm::constant:
      return pretty_constant(op);
    case OpForm::slice:
      return pretty_slice(op);
    case OpForm::reduce:
      return pretty_reduce(op);
    case OpForm::call:
      return pretty_call(op);
    case OpForm::composite:
      return pretty_composite(op);
    case OpForm::sharding:
      return pretty_sharding(op);
    case OpForm::items:
      break;
  }
  return pretty_items(*row, op);
}

void Parser::set(Operation* op, std::string_view name, Attribute value) {
  op->attributes.entries.push_back({name, std::move(value)});
}

// %a, %b, key = value, WORD {attributes} : types
Status Parser::pretty_items(const OpRow& row, Operation* op) {
  const bool parentheses = take('(');  // chlo.top_k(%x, k = 2)
  for (bool first = true; !token_.is(':') && !token_.is('{') && !token_.is(')'); first = false) {
    if (!first) {
      // A return without operands is followed by '}', and any word begins the next operation.
      if (!token_.is(',')) break;
      advance();
    }
    if (token_.kind == Token::Kind::kPercent) {
      HONE_RETURN_IF_ERROR(operand(op));
      continue;
    }
    if (token_.kind != Token::Kind::kBare) {
      if (first) break;
      return wrong("an operand or an attribute");
    }
    const std::string_view word = token_.text;
    // Nothing at all follows: this word begins the next operation.
    if (first && row.handler == OpHandler::misplaced_return) break;
    advance();
    if (take('=')) {
      HONE_RETURN_IF_ERROR(pretty_keyword(row, word, op));
    } else {
      HONE_RETURN_IF_ERROR(pretty_word(row, word, op));
    }
  }
  if (parentheses) HONE_RETURN_IF_ERROR(expect(')'));
  HONE_RETURN_IF_ERROR(maybe_dictionary(&op->attributes));
  return type_suffix(op);
}

Status Parser::pretty_keyword(const OpRow& row, std::string_view key, Operation* op) {
  if (row.name == "stablehlo.dot_general" && (key == "batching_dims" || key == "contracting_dims")) {
    const bool batching = key == "batching_dims";
    HONE_ASSIGN_OR_RETURN(Attribute left, integer_list());
    HONE_RETURN_IF_ERROR(expect_word("x"));
    HONE_ASSIGN_OR_RETURN(Attribute right, integer_list());
    if (op->attribute(batching ? "lhs_batching_dimensions" : "lhs_contracting_dimensions") != nullptr)
      return wrong_at(token_.begin, token_.line, fmt::format("{} is given twice", key));
    set(op, batching ? "lhs_batching_dimensions" : "lhs_contracting_dimensions", std::move(left));
    set(op, batching ? "rhs_batching_dimensions" : "rhs_contracting_dimensions", std::move(right));
    return {};
  }
  for (const Key& k : kKeys) {
    if (k.pretty != key || (!k.op.empty() && k.op != row.name)) continue;
    if (op->attribute(k.generic) != nullptr)
      return wrong_at(token_.begin, token_.line, fmt::format("{} is given twice", key));
    Attribute value;
    value.line = token_.line;
    if (key == "algorithm") {
      value.kind = Attribute::Kind::kOther;
      HONE_RETURN_IF_ERROR(balanced().status());
    } else if (key == "precision") {
      HONE_ASSIGN_OR_RETURN(value, array_attribute());
    } else if (token_.is('[')) {
      HONE_ASSIGN_OR_RETURN(value, integer_list());
    } else {
      value.kind = Attribute::Kind::kInteger;
      HONE_ASSIGN_OR_RETURN(value.integer, integer());
    }
    set(op, k.generic, std::move(value));
    return {};
  }
  return wrong_at(token_.begin, token_.line, fmt::format("{} has no attribute '{}'", row.name, printable(key, 40)));
}

// compare LT, %a, %b, FLOAT
Status Parser::pretty_word(const OpRow& row, std::string_view word, Operation* op) {
  if (row.name != "stablehlo.compare")
    return wrong_at(token_.begin, token_.line,
                    fmt::format("'{}' after {}: expected an operand or an attribute", printable(word, 40), row.name));
  Attribute value;
  value.kind = Attribute::Kind::kSymbol;
  value.text = word;
  value.line = token_.line;
  const std::string_view name = op->operands.empty() ? "comparison_direction" : "compare_type";
  if (op->attribute(name) != nullptr)
    return wrong_at(token_.begin, token_.line, fmt::format("{} is given twice", name));
  set(op, name, std::move(value));
  return {};
}

Result<Attribute> Parser::integer_list() {
  Attribute list;
  list.kind = Attribute::Kind::kArray;
  list.line = token_.line;
  HONE_RETURN_IF_ERROR(expect('['));
  while (!take(']')) {
    if (!list.items.empty()) HONE_RETURN_IF_ERROR(expect(','));
    Attribute item;
    item.kind = Attribute::Kind::kInteger;
    item.line = token_.line;
    HONE_ASSIGN_OR_RETURN(item.integer, integer());
    list.items.push_back(std::move(item));
  }
  return list;
}

// stablehlo.constant {attributes} dense<..> : tensor<..>
Status Parser::pretty_constant(Operation* op) {
  HONE_RETURN_IF_ERROR(maybe_dictionary(&op->attributes));
  HONE_ASSIGN_OR_RETURN(Attribute value, attribute());
  if (value.type) op->result_types.push_back(*value.type);
  set(op, "value", std::move(value));
  return {};
}

// stablehlo.slice %x [0:4, 0:8:2] : (t) -> t
Status Parser::pretty_slice(Operation* op) {
  if (token_.kind != Token::Kind::kPercent) return wrong("an operand");
  HONE_RETURN_IF_ERROR(operand(op));
  Attribute lists[3];
  for (Attribute& list : lists) {
    list.kind = Attribute::Kind::kArray;
    list.line = token_.line;
  }
  const auto push = [&](Attribute& list, int64_t value) {
    Attribute item;
    item.kind = Attribute::Kind::kInteger;
    item.integer = value;
    item.line = token_.line;
    list.items.push_back(std::move(item));
  };
  HONE_RETURN_IF_ERROR(expect('['));
  while (!take(']')) {
    if (!lists[0].items.empty()) HONE_RETURN_IF_ERROR(expect(','));
    HONE_ASSIGN_OR_RETURN(const int64_t start, integer());
    HONE_RETURN_IF_ERROR(expect(':'));
    HONE_ASSIGN_OR_RETURN(const int64_t limit, integer());
    int64_t stride = 1;
    if (take(':')) {
      HONE_ASSIGN_OR_RETURN(stride, integer());
    }
    push(lists[0], start);
    push(lists[1], limit);
    push(lists[2], stride);
  }
  set(op, "start_indices", std::move(lists[0]));
  set(op, "limit_indices", std::move(lists[1]));
  set(op, "strides", std::move(lists[2]));
  HONE_RETURN_IF_ERROR(maybe_dictionary(&op->attributes));
  return type_suffix(op);
}

// stablehlo.reduce(%x init: %c) applies stablehlo.add across dimensions = [1] : (t, t) -> t
// stablehlo.reduce(%x init: %c) across dimensions = [1] : (t, t) -> t reducer(%a: t, %b: t) { .. }
Status Parser::pretty_reduce(Operation* op) {
  std::vector<ValueName> inits;
  do {
    HONE_RETURN_IF_ERROR(expect('('));
    if (token_.kind != Token::Kind::kPercent) return wrong("an operand");
    HONE_RETURN_IF_ERROR(operand(op));
    HONE_RETURN_IF_ERROR(expect_word("init"));
    HONE_RETURN_IF_ERROR(expect(':'));
    if (token_.kind != Token::Kind::kPercent) return wrong("the initial value");
    HONE_RETURN_IF_ERROR(operand(op));
    inits.push_back(op->operands.back());
    op->operands.pop_back();
    HONE_RETURN_IF_ERROR(expect(')'));
  } while (take(','));
  op->operands.insert(op->operands.end(), inits.begin(), inits.end());
  bool applies = false;
  if (take_word("applies")) {
    applies = true;
    if (token_.kind != Token::Kind::kBare) return wrong("the operation to apply");
    Attribute name;
    name.kind = Attribute::Kind::kSymbol;
    name.text = token_.text;
    name.line = token_.line;
    set(op, "applies", std::move(name));
    advance();
  }
  HONE_RETURN_IF_ERROR(expect_word("across"));
  HONE_RETURN_IF_ERROR(expect_word("dimensions"));
  HONE_RETURN_IF_ERROR(expect('='));
  HONE_ASSIGN_OR_RETURN(Attribute dimensions, integer_list());
  set(op, "dimensions", std::move(dimensions));
  HONE_RETURN_IF_ERROR(maybe_dictionary(&op->attributes));
  HONE_RETURN_IF_ERROR(type_suffix(op));
  return applies ? Status() : reducer(op);
}

Status Parser::reducer(Operation* op) {
  HONE_RETURN_IF_ERROR(expect_word("reducer"));
  std::vector<BlockArgument> arguments;
  while (take('(')) {
    while (!take(')')) {
      take(',');
      BlockArgument argument;
      if (token_.kind != Token::Kind::kPercent) return wrong("an argument of the reducer");
      argument.name = token_.text;
      advance();
      HONE_RETURN_IF_ERROR(expect(':'));
      HONE_ASSIGN_OR_RETURN(argument.type, type());
      HONE_ASSIGN_OR_RETURN(argument.location, location());
      arguments.push_back(std::move(argument));
    }
  }
  HONE_RETURN_IF_ERROR(expect('{'));
  HONE_ASSIGN_OR_RETURN(Block body, block());
  body.arguments = std::move(arguments);
  op->regions.push_back(std::move(body));
  return {};
}

// call @f(%a) : (t) -> t; stablehlo.custom_call @target(%a) {..} : (t) -> t
Status Parser::pretty_call(Operation* op) {
  if (token_.kind != Token::Kind::kAt) return wrong("what is called, @name");
  Attribute callee;
  callee.kind = Attribute::Kind::kString;
  callee.text = token_.text;
  callee.line = token_.line;
  advance();
  set(op, op->name == "func.call" ? "callee" : "call_target_name", std::move(callee));
  HONE_RETURN_IF_ERROR(operands_in_parentheses(op));
  HONE_RETURN_IF_ERROR(maybe_dictionary(&op->attributes));
  return type_suffix(op);
}

// stablehlo.composite "name" %a, %b {composite_attributes = {..}, decomposition = @f} : (t, t) -> t
Status Parser::pretty_composite(Operation* op) {
  if (token_.kind != Token::Kind::kString) return wrong("the name of the composite");
  Attribute name;
  name.kind = Attribute::Kind::kString;
  name.text = token_.text;
  name.line = token_.line;
  advance();
  set(op, "name", std::move(name));
  while (token_.kind == Token::Kind::kPercent) {
    HONE_RETURN_IF_ERROR(operand(op));
    if (!take(',')) break;
  }
  HONE_RETURN_IF_ERROR(maybe_dictionary(&op->attributes));
  return type_suffix(op);
}

// sdy.sharding_constraint %x <@mesh, [{"x"}, {}]> : t
Status Parser::pretty_sharding(Operation* op) {
  if (token_.kind != Token::Kind::kPercent) return wrong("an operand");
  HONE_RETURN_IF_ERROR(operand(op));
  if (!token_.is('<')) return wrong("'<'");
  HONE_RETURN_IF_ERROR(balanced().status());
  HONE_RETURN_IF_ERROR(maybe_dictionary(&op->attributes));
  return type_suffix(op);
}

}  // namespace hone::graph::stablehlo
