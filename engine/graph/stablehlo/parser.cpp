// Modules, functions, blocks and operations in generic form.
#include "engine/graph/stablehlo/parser.h"

#include <fmt/format.h>

#include <charconv>

#include "engine/base/printable.h"
#include "engine/graph/stablehlo/parser_internal.h"

namespace hone::graph::stablehlo {

Result<Module> parse_module(std::string_view text) { return Parser(text).module(); }

Parser::Parser(std::string_view text) : lexer_(text) { advance(); }

// ---- words ----

bool Parser::take(char c) {
  if (!token_.is(c)) return false;
  advance();
  return true;
}

bool Parser::take_word(std::string_view word) {
  if (!token_.is_word(word)) return false;
  advance();
  return true;
}

Status Parser::expect(char c) { return take(c) ? Status() : wrong(fmt::format("'{}'", c)); }

Status Parser::expect_word(std::string_view word) {
  return take_word(word) ? Status() : wrong(fmt::format("'{}'", word));
}

Result<int64_t> Parser::integer() {
  const bool negative = take('-');
  if (token_.kind != Token::Kind::kInteger) return wrong("an integer");
  std::string_view digits = token_.text;
  const int base = digits.starts_with("0x") ? 16 : 10;
  if (base == 16) digits.remove_prefix(2);
  int64_t value = 0;
  const auto end = std::from_chars(digits.data(), digits.data() + digits.size(), value, base);
  if (end.ec != std::errc() || end.ptr != digits.data() + digits.size()) return wrong("an integer of 64 bits");
  advance();
  return negative ? -value : value;
}

Status Parser::wrong_at(size_t position, int line, std::string_view what) const {
  const size_t newline = position == 0 ? std::string_view::npos : lexer_.text().rfind('\n', position - 1);
  const size_t column = newline == std::string_view::npos ? position + 1 : position - newline;
  return invalid_argument(fmt::format("line {}, column {}: {}", line, column, what));
}

Status Parser::wrong(std::string_view expected) const {
  if (token_.kind == Token::Kind::kError) return wrong_at(token_.begin, token_.line, token_.text);
  const std::string found =
      token_.kind == Token::Kind::kEnd
          ? std::string("the end of the text")
          : "'" + printable(lexer_.text().substr(token_.begin, token_.end - token_.begin), 40) + "'";
  return wrong_at(token_.begin, token_.line, fmt::format("expected {}, found {}", expected, found));
}

Result<std::string_view> Parser::balanced() {
  const size_t begin = token_.begin;
  std::string closers;
  size_t end = begin;
  do {
    if (token_.kind == Token::Kind::kEnd || token_.kind == Token::Kind::kError)
      return wrong(closers.empty() ? "a bracket" : fmt::format("'{}'", closers.back()));
    const char c = token_.kind == Token::Kind::kPunctuation ? token_.text[0] : ' ';
    if (c == '(' || c == '[' || c == '{' || c == '<') {
      closers += c == '(' ? ')' : c == '[' ? ']' : c == '{' ? '}' : '>';
    } else if (c == ')' || c == ']' || c == '}' || c == '>') {
      if (closers.empty() || closers.back() != c)
        return wrong(closers.empty() ? "a bracket" : fmt::format("'{}'", closers.back()));
      closers.pop_back();
    }
    end = token_.end;
    advance();
  } while (!closers.empty());
  return lexer_.text().substr(begin, end - begin);
}

// ---- modules ----

Result<Module> Parser::module() {
  Module module;
  module.attributes.kind = Attribute::Kind::kDict;
  while (token_.kind != Token::Kind::kEnd) HONE_RETURN_IF_ERROR(top_level(&module));
  if (module.functions.empty()) return wrong("a module with a function");
  return module;
}

Status Parser::top_level(Module* module) {
  if (token_.kind == Token::Kind::kHash) return alias(module);
  if (token_.kind == Token::Kind::kOpenFile) return resources(module);
  if (token_.kind == Token::Kind::kString) {
    HONE_ASSIGN_OR_RETURN(Operation all, operation());
    return unwrap_generic(std::move(all), module);
  }
  if (token_.is_word("module") || token_.is_word("builtin.module")) {
    if (!module->functions.empty()) return wrong("one module");
    advance();
    if (token_.kind == Token::Kind::kAt) {
      module->name = token_.text;
      advance();
    }
    if (take_word("attributes")) HONE_RETURN_IF_ERROR(maybe_dictionary(&module->attributes));
    HONE_RETURN_IF_ERROR(expect('{'));
    while (!take('}')) HONE_RETURN_IF_ERROR(function(module));
    return location().status();
  }
  return function(module);
}

Status Parser::alias(Module* module) {
  const std::string_view name = token_.text;
  advance();
  HONE_RETURN_IF_ERROR(expect('='));
  if (token_.is_word("loc")) {
    HONE_ASSIGN_OR_RETURN(std::optional<Attribute> place, location());
    if (place) module->aliases.insert_or_assign(name, std::move(*place));
    return {};
  }
  HONE_ASSIGN_OR_RETURN(Attribute value, attribute());
  module->aliases.insert_or_assign(name, std::move(value));
  return {};
}

// {-# dialect_resources: { builtin: { key: "0x..", .. } } #-}
Status Parser::resources(Module* module) {
  advance();
  while (token_.kind != Token::Kind::kCloseFile) {
    if (!token_.is_word("dialect_resources")) {
      // external_resources and the like: of tools, not of the program.
      if (token_.kind != Token::Kind::kBare) return wrong("dialect_resources");
      advance();
      HONE_RETURN_IF_ERROR(expect(':'));
      HONE_RETURN_IF_ERROR(balanced().status());
      take(',');
      continue;
    }
    advance();
    HONE_RETURN_IF_ERROR(expect(':'));
    HONE_RETURN_IF_ERROR(expect('{'));
    while (!take('}')) {
      if (token_.kind != Token::Kind::kBare) return wrong("the name of a dialect");
      advance();
      HONE_RETURN_IF_ERROR(expect(':'));
      HONE_RETURN_IF_ERROR(expect('{'));
      while (!take('}')) {
        if (token_.kind != Token::Kind::kBare && token_.kind != Token::Kind::kString)
          return wrong("the key of a resource");
        const std::string_view key = token_.text;
        advance();
        HONE_RETURN_IF_ERROR(expect(':'));
        if (token_.kind != Token::Kind::kString) return wrong("a blob \"0x..\"");
        module->resources.insert_or_assign(key, token_.text);
        advance();
        take(',');
      }
      take(',');
    }
    take(',');
  }
  advance();
  return {};
}

// "builtin.module"() ({ "func.func"() .. }) {attributes}
Status Parser::unwrap_generic(Operation operation, Module* module) {
  if (operation.name == "func.func") {
    HONE_ASSIGN_OR_RETURN(Function function, generic_function(std::move(operation)));
    module->functions.push_back(std::move(function));
    return {};
  }
  if (operation.name != "builtin.module" || operation.regions.size() != 1)
    return invalid_argument(fmt::format("line {}: expected builtin.module or func.func, found {}", operation.line,
                                        printable(operation.name, 40)));
  if (const Attribute* name = operation.attribute("sym_name")) module->name = name->text;
  module->attributes = std::move(operation.attributes);
  for (Operation& inner : operation.regions[0].operations) {
    if (inner.name == "sdy.mesh") continue;
    if (inner.name != "func.func")
      return invalid_argument(
          fmt::format("line {}: expected func.func, found {}", inner.line, printable(inner.name, 40)));
    HONE_RETURN_IF_ERROR(unwrap_generic(std::move(inner), module));
  }
  return {};
}

Result<Function> Parser::generic_function(Operation operation) {
  Function function;
  function.line = operation.line;
  const Attribute* name = operation.attribute("sym_name");
  if (name == nullptr || name->kind != Attribute::Kind::kString || operation.regions.size() != 1)
    return invalid_argument(fmt::format("line {}: func.func must have a sym_name and one region", operation.line));
  function.name = name->text;
  const Attribute* visibility = operation.attribute("sym_visibility");
  function.is_private = visibility != nullptr && visibility->text == "private";
  function.body = std::move(operation.regions[0]);
  function.has_body = !function.body.operations.empty();
  if (const Attribute* attributes = operation.attribute("arg_attrs"))
    for (size_t i = 0; i < attributes->items.size() && i < function.body.arguments.size(); ++i)
      function.body.arguments[i].attributes = attributes->items[i];
  return function;
}

// ---- functions ----

// func.func public @main(..) -> (..) attributes {..} { .. }
Status Parser::function(Module* module) {
  if (token_.kind == Token::Kind::kString) {
    HONE_ASSIGN_OR_RETURN(Operation all, operation());
    return unwrap_generic(std::move(all), module);
  }
  if (token_.is_word("sdy.mesh")) return skip_mesh();
  Function function;
  function.line = token_.line;
  if (!take_word("func.func") && !take_word("func")) return wrong("func.func");
  if (token_.is_word("private") || token_.is_word("public") || token_.is_word("nested")) {
    function.is_private = token_.is_word("private");
    advance();
  }
  if (token_.kind != Token::Kind::kAt) return wrong("the name of the function, @name");
  function.name = token_.text;
  advance();
  HONE_RETURN_IF_ERROR(function_arguments(&function));
  HONE_RETURN_IF_ERROR(function_results(&function));
  Attribute ignored;
  if (take_word("attributes")) HONE_RETURN_IF_ERROR(maybe_dictionary(&ignored));
  if (take('{')) {
    HONE_ASSIGN_OR_RETURN(Block body, block());
    // The arguments stand in the signature.
    if (!body.arguments.empty()) return wrong("a body without a block label");
    function.body.operations = std::move(body.operations);
    function.has_body = true;
  }
  HONE_RETURN_IF_ERROR(location().status());
  module->functions.push_back(std::move(function));
  return {};
}

// sdy.mesh @mesh = <["x"=2]>
Status Parser::skip_mesh() {
  advance();
  if (token_.kind != Token::Kind::kAt) return wrong("the name of the mesh");
  advance();
  HONE_RETURN_IF_ERROR(expect('='));
  HONE_RETURN_IF_ERROR(balanced().status());
  Attribute ignored;
  HONE_RETURN_IF_ERROR(maybe_dictionary(&ignored));
  return location().status();
}

Status Parser::function_arguments(Function* function) {
  HONE_RETURN_IF_ERROR(expect('('));
  while (!take(')')) {
    if (!function->body.arguments.empty()) HONE_RETURN_IF_ERROR(expect(','));
    BlockArgument argument;
    if (token_.kind == Token::Kind::kPercent) {
      argument.name = token_.text;
      advance();
      HONE_RETURN_IF_ERROR(expect(':'));
    }
    HONE_ASSIGN_OR_RETURN(argument.type, type());
    HONE_RETURN_IF_ERROR(maybe_dictionary(&argument.attributes));
    HONE_ASSIGN_OR_RETURN(argument.location, location());
    function->body.arguments.push_back(std::move(argument));
  }
  return {};
}

Status Parser::function_results(Function* function) {
  if (token_.kind != Token::Kind::kArrow) return {};
  advance();
  if (!take('(')) {
    HONE_ASSIGN_OR_RETURN(Type result, type());
    function->result_types.push_back(std::move(result));
    return {};
  }
  while (!take(')')) {
    if (!function->result_types.empty()) HONE_RETURN_IF_ERROR(expect(','));
    HONE_ASSIGN_OR_RETURN(Type result, type());
    function->result_types.push_back(std::move(result));
    Attribute ignored;  // jax.result_info, mhlo.sharding
    HONE_RETURN_IF_ERROR(maybe_dictionary(&ignored));
    HONE_RETURN_IF_ERROR(location().status());
  }
  return {};
}

// ---- operations ----

Result<Block> Parser::block() {
  const Nesting nesting(&depth_);
  if (depth_ > kDepth) return wrong("fewer regions in each other");
  Block block;
  if (token_.kind == Token::Kind::kCaret) HONE_RETURN_IF_ERROR(block_arguments(&block));
  while (!take('}')) {
    if (token_.kind == Token::Kind::kCaret)
      return wrong("one block: branches between blocks are not supported; found a second");
    HONE_ASSIGN_OR_RETURN(Operation next, operation());
    block.operations.push_back(std::move(next));
  }
  return block;
}

// ^bb0(%a: tensor<f32>, ..):
Status Parser::block_arguments(Block* block) {
  advance();
  if (take('(')) {
    while (!take(')')) {
      if (!block->arguments.empty()) HONE_RETURN_IF_ERROR(expect(','));
      BlockArgument argument;
      if (token_.kind != Token::Kind::kPercent) return wrong("an argument of the block");
      argument.name = token_.text;
      advance();
      HONE_RETURN_IF_ERROR(expect(':'));
      HONE_ASSIGN_OR_RETURN(argument.type, type());
      HONE_ASSIGN_OR_RETURN(argument.location, location());
      block->arguments.push_back(std::move(argument));
    }
  }
  return expect(':');
}

Result<Operation> Parser::operation() {
  Operation op;
  op.attributes.kind = Attribute::Kind::kDict;
  op.line = token_.line;
  while (token_.kind == Token::Kind::kPercent) {
    ResultName result{.name = token_.text};
    advance();
    if (take(':')) {
      HONE_ASSIGN_OR_RETURN(result.count, integer());
      if (result.count < 1 || result.count > 1024) return wrong("between 1 and 1024 results");
    }
    if (op.results.size() == kMost) return wrong(fmt::format("at most {} results", kMost));
    op.results.push_back(result);
    if (take(',')) continue;
    HONE_RETURN_IF_ERROR(expect('='));
    break;
  }
  if (token_.kind == Token::Kind::kString) {
    HONE_RETURN_IF_ERROR(generic_operation(&op));
  } else if (token_.kind == Token::Kind::kBare) {
    HONE_RETURN_IF_ERROR(pretty_operation(&op));
  } else {
    return wrong("an operation");
  }
  HONE_ASSIGN_OR_RETURN(op.location, location());
  return op;
}

// "stablehlo.add"(%a, %b) <{properties}> ({regions}) {attributes} : (types) -> types
Status Parser::generic_operation(Operation* op) {
  op->name = token_.text;
  advance();
  HONE_RETURN_IF_ERROR(operands_in_parentheses(op));
  if (take('<')) {
    HONE_RETURN_IF_ERROR(maybe_dictionary(&op->attributes));
    HONE_RETURN_IF_ERROR(expect('>'));
  }
  if (take('(')) {
    do {
      HONE_RETURN_IF_ERROR(expect('{'));
      HONE_ASSIGN_OR_RETURN(Block region, block());
      op->regions.push_back(std::move(region));
    } while (take(','));
    HONE_RETURN_IF_ERROR(expect(')'));
  }
  HONE_RETURN_IF_ERROR(maybe_dictionary(&op->attributes));
  return type_suffix(op);
}

Status Parser::operand(Operation* op) {
  if (op->operands.size() == kMost) return wrong(fmt::format("at most {} operands", kMost));
  ValueName value{.name = token_.text, .line = token_.line};
  const size_t end = token_.end;
  advance();
  // %0#1 is one name for us; MLIR writes no space within it.
  if (token_.kind == Token::Kind::kHash && token_.begin == end) {
    const auto [stop, ec] = std::from_chars(token_.text.data(), token_.text.data() + token_.text.size(), value.index);
    if (ec != std::errc() || stop != token_.text.data() + token_.text.size() || value.index < 0)
      return wrong("the number of a result");
    advance();
  }
  op->operands.push_back(value);
  return {};
}

Status Parser::operands_in_parentheses(Operation* op) {
  HONE_RETURN_IF_ERROR(expect('('));
  bool first = true;
  while (!take(')')) {
    if (!first) HONE_RETURN_IF_ERROR(expect(','));
    first = false;
    if (token_.kind != Token::Kind::kPercent) return wrong("an operand");
    HONE_RETURN_IF_ERROR(operand(op));
  }
  return {};
}

// `: t`, `: t, t`, `: (t, t) -> t`, `: t -> (t, t)`. Without an arrow the last type is the result's; several results
// have a type each.
Status Parser::type_suffix(Operation* op) {
  if (!take(':')) return {};
  if (token_.is('(')) {
    HONE_ASSIGN_OR_RETURN(op->operand_types, types_in_parentheses());
  } else {
    do {
      HONE_ASSIGN_OR_RETURN(Type next, type());
      op->operand_types.push_back(std::move(next));
    } while (take(','));
  }
  if (token_.kind == Token::Kind::kArrow) {
    advance();
    if (token_.is('(')) {
      HONE_ASSIGN_OR_RETURN(op->result_types, types_in_parentheses());
      return {};
    }
    HONE_ASSIGN_OR_RETURN(Type result, type());
    op->result_types.push_back(std::move(result));
    return {};
  }
  if (!op->operand_types.empty() && !op->results.empty()) {
    if (op->results.size() == 1 && op->results[0].count == 1) {
      op->result_types.push_back(op->operand_types.back());
    } else {
      op->result_types = op->operand_types;
    }
  }
  // A list that is shorter than the operands says less than (..) -> ..: one type for all.
  op->operand_types.clear();
  return {};
}

}  // namespace hone::graph::stablehlo
