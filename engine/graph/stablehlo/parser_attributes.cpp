// Types, attributes and locations.
#include <fmt/format.h>

#include <charconv>

#include "engine/base/printable.h"
#include "engine/graph/stablehlo/parser_internal.h"

namespace hone::graph::stablehlo {

// ---- types ----

Result<Type> Parser::type() {
  const size_t begin = token_.begin;
  const int line = token_.line;
  if (token_.is_word("tensor")) return tensor_type(begin);
  if (token_.kind != Token::Kind::kBare && token_.kind != Token::Kind::kExclamation && !token_.is('('))
    return wrong("a type");
  size_t end = token_.end;
  if (token_.is('(')) {
    HONE_ASSIGN_OR_RETURN(const std::string_view all, balanced());
    end = begin + all.size();
  } else {
    advance();
  }
  if (token_.is('<')) {
    HONE_ASSIGN_OR_RETURN(const std::string_view parameters, balanced());
    end = static_cast<size_t>(parameters.data() + parameters.size() - lexer_.text().data());
  }
  Type other;
  other.text = lexer_.text().substr(begin, end - begin);
  other.line = line;
  return other;
}

// tensor<4x?xf32, encoding>: shapes are no words of the lexer, so this looks at the characters.
Result<Type> Parser::tensor_type(size_t begin) {
  const std::string_view text = lexer_.text();
  size_t at = lexer_.position();
  if (at >= text.size() || text[at] != '<') return wrong("'<' after tensor");
  const size_t body = at + 1;
  int open = 0;
  bool quoted = false;
  for (; at < text.size(); ++at) {
    const char c = text[at];
    if (c == '\n' && quoted) break;
    if (c == '"') quoted = !quoted;
    if (quoted) continue;
    if (c == '<') ++open;
    if (c == '>' && text[at - 1] != '-' && --open == 0) break;
  }
  if (at >= text.size() || open != 0) return wrong_at(begin, token_.line, "a tensor type is not closed");
  Type type;
  type.line = token_.line;
  type.text = text.substr(begin, at + 1 - begin);
  HONE_RETURN_IF_ERROR(shape(text.substr(body, at - body), &type));
  lexer_.skip_to(at + 1);
  advance();
  return type;
}

Status Parser::shape(std::string_view body, Type* type) {
  const auto blank = [](char c) { return c == ' ' || c == '\n' || c == '\t' || c == '\r'; };
  const auto fail = [&](std::string_view what) {
    return wrong_at(static_cast<size_t>(body.data() - lexer_.text().data()), type->line,
                    fmt::format("{} in {}", what, printable(type->text, 60)));
  };
  while (!body.empty() && blank(body.front())) body.remove_prefix(1);
  if (body.starts_with("*x")) return {};  // unranked: not a tensor that we know
  type->tensor = true;
  while (!body.empty() && (body.front() == '?' || (body.front() >= '0' && body.front() <= '9'))) {
    int64_t size = -1;
    if (body.front() == '?') {
      body.remove_prefix(1);
    } else {
      const auto [end, ec] = std::from_chars(body.data(), body.data() + body.size(), size);
      if (ec != std::errc()) return fail("a size that does not fit 63 bits");
      body.remove_prefix(static_cast<size_t>(end - body.data()));
    }
    if (body.empty() || body.front() != 'x') return fail("'x' is missing after a size");
    body.remove_prefix(1);
    if (type->dims.size() == 32) return fail("more than 32 dimensions");
    type->dims.push_back(size);
  }
  size_t end = 0;
  int open = 0;
  for (; end < body.size() && (open > 0 || body[end] != ','); ++end) {
    if (body[end] == '<') ++open;
    if (body[end] == '>') --open;
  }
  type->element = body.substr(0, end);
  while (!type->element.empty() && blank(type->element.back())) type->element.remove_suffix(1);
  if (type->element.empty()) return fail("the element type is missing");
  return {};
}

Result<std::vector<Type>> Parser::types_in_parentheses() {
  std::vector<Type> types;
  HONE_RETURN_IF_ERROR(expect('('));
  while (!take(')')) {
    if (!types.empty()) HONE_RETURN_IF_ERROR(expect(','));
    HONE_ASSIGN_OR_RETURN(Type next, type());
    types.push_back(std::move(next));
  }
  return types;
}

// ---- attributes ----

Result<Attribute> Parser::attribute() {
  const Nesting nesting(&depth_);
  if (depth_ > kDepth) return wrong("fewer brackets in each other");
  Attribute a;
  a.line = token_.line;
  switch (token_.kind) {
    case Token::Kind::kString:
      a.kind = Attribute::Kind::kString;
      a.text = token_.text;
      advance();
      HONE_RETURN_IF_ERROR(optional_type(&a));
      return a;
    case Token::Kind::kInteger:
    case Token::Kind::kFloat:
      return number_attribute();
    case Token::Kind::kAt:
      a.kind = Attribute::Kind::kSymbol;
      a.text = token_.text;
      advance();
      while (take(':')) {  // @a::@b
        HONE_RETURN_IF_ERROR(expect(':'));
        if (token_.kind != Token::Kind::kAt) return wrong("a symbol");
        advance();
      }
      return a;
    case Token::Kind::kHash:
      return dialect_attribute();
    case Token::Kind::kBare:
      return word_attribute();
    case Token::Kind::kPunctuation:
      if (token_.is('-')) return number_attribute();
      if (token_.is('[')) return array_attribute();
      if (token_.is('{')) return dictionary();
      break;
    default:
      break;
  }
  if (!token_.is('(') && token_.kind != Token::Kind::kExclamation) return wrong("an attribute");
  // A type: (tensor<f32>) -> tensor<f32>, !stablehlo.token
  a.kind = Attribute::Kind::kOther;
  HONE_RETURN_IF_ERROR(type().status());
  if (token_.kind == Token::Kind::kArrow) {
    advance();
    HONE_RETURN_IF_ERROR(type().status());
  }
  return a;
}

Status Parser::optional_type(Attribute* a) {
  if (!take(':')) return {};
  HONE_ASSIGN_OR_RETURN(a->type, type());
  return {};
}

Result<Attribute> Parser::number_attribute() {
  Attribute a;
  a.line = token_.line;
  const bool negative = token_.is('-');
  const Token sign = token_;
  if (negative) advance();
  if (token_.kind == Token::Kind::kFloat) {
    a.kind = Attribute::Kind::kFloat;
    if (std::from_chars(token_.text.data(), token_.text.data() + token_.text.size(), a.number).ec != std::errc())
      return wrong("a number that fits f64");
    if (negative) a.number = -a.number;
    advance();
  } else if (token_.kind == Token::Kind::kInteger) {
    a.kind = Attribute::Kind::kInteger;
    HONE_ASSIGN_OR_RETURN(a.integer, integer());
    if (negative) a.integer = -a.integer;
    a.number = static_cast<double>(a.integer);
  } else {
    return wrong_at(sign.begin, sign.line, "expected a number after '-'");
  }
  HONE_RETURN_IF_ERROR(optional_type(&a));
  return a;
}

Result<Attribute> Parser::word_attribute() {
  Attribute a;
  a.line = token_.line;
  const std::string_view word = token_.text;
  if (word == "true" || word == "false") {
    a.kind = Attribute::Kind::kBool;
    a.integer = word == "true" ? 1 : 0;
    advance();
    return a;
  }
  if (word == "dense") return literal(Attribute::Kind::kDense);
  if (word == "dense_resource") return literal(Attribute::Kind::kResource);
  if (word == "array") return typed_array();
  if (word == "unit") {
    advance();
    return a;
  }
  if (word == "loc") {
    a.kind = Attribute::Kind::kOther;
    HONE_RETURN_IF_ERROR(location().status());
    return a;
  }
  // A type, an affine_map, an enumerator: kept as a word.
  a.kind = Attribute::Kind::kType;
  HONE_ASSIGN_OR_RETURN(a.type, type());
  a.text = a.type->text;
  return a;
}

Result<Attribute> Parser::array_attribute() {
  Attribute a;
  a.kind = Attribute::Kind::kArray;
  a.line = token_.line;
  HONE_RETURN_IF_ERROR(expect('['));
  while (!take(']')) {
    if (!a.items.empty()) HONE_RETURN_IF_ERROR(expect(','));
    HONE_ASSIGN_OR_RETURN(Attribute item, attribute());
    a.items.push_back(std::move(item));
  }
  return a;
}

// array<i64: 0, 1>
Result<Attribute> Parser::typed_array() {
  Attribute a;
  a.kind = Attribute::Kind::kArray;
  a.line = token_.line;
  advance();
  HONE_RETURN_IF_ERROR(expect('<'));
  if (token_.kind != Token::Kind::kBare) return wrong("the element type of the array");
  advance();
  if (take(':')) {
    do {
      HONE_ASSIGN_OR_RETURN(Attribute item, attribute());
      a.items.push_back(std::move(item));
    } while (take(','));
  }
  HONE_RETURN_IF_ERROR(expect('>'));
  return a;
}

// dense<..> : tensor<..>
Result<Attribute> Parser::literal(Attribute::Kind kind) {
  Attribute a;
  a.kind = kind;
  a.line = token_.line;
  advance();
  if (!token_.is('<')) return wrong("'<'");
  HONE_ASSIGN_OR_RETURN(const std::string_view all, balanced());
  a.text = all.substr(1, all.size() - 2);
  if (kind == Attribute::Kind::kResource) {
    while (!a.text.empty() && a.text.front() == ' ') a.text.remove_prefix(1);
    while (!a.text.empty() && a.text.back() == ' ') a.text.remove_suffix(1);
    if (a.text.size() >= 2 && a.text.front() == '"') a.text = a.text.substr(1, a.text.size() - 2);
  }
  if (!token_.is(':')) return wrong("': tensor<..>' after the literal");
  HONE_RETURN_IF_ERROR(optional_type(&a));
  return a;
}

// #alias, #stablehlo.dot<lhs_batching_dimensions = [0], ..>, #stablehlo<precision DEFAULT>
Result<Attribute> Parser::dialect_attribute() {
  Attribute a;
  a.line = token_.line;
  a.text = token_.text;
  const size_t end = token_.end;
  advance();
  if (!token_.is('<') || token_.begin != end) {
    a.kind = Attribute::Kind::kAlias;
    return a;
  }
  a.kind = Attribute::Kind::kDialect;
  if (a.text == "stablehlo" || a.text == "chlo" || a.text == "stablehlo.dot" || a.text == "stablehlo.gather") {
    HONE_RETURN_IF_ERROR(dialect_body(&a));
  } else {
    HONE_RETURN_IF_ERROR(balanced().status());
  }
  return a;
}

Status Parser::dialect_body(Attribute* a) {
  advance();
  while (!take('>')) {
    if (token_.kind != Token::Kind::kBare) return wrong("a name");
    Attribute word;
    word.kind = Attribute::Kind::kSymbol;
    word.text = token_.text;
    word.line = token_.line;
    advance();
    if (take('=')) {
      HONE_ASSIGN_OR_RETURN(Attribute value, attribute());
      if (a->find(word.text) != nullptr)
        return wrong_at(token_.begin, word.line, fmt::format("{} is given twice", printable(word.text, 40)));
      if (a->entries.size() == kMost) return wrong(fmt::format("at most {} entries", kMost));
      a->entries.push_back({word.text, std::move(value)});
    } else {
      a->items.push_back(std::move(word));
    }
    take(',');
  }
  return {};
}

Result<Attribute> Parser::dictionary() {
  Attribute a;
  a.kind = Attribute::Kind::kDict;
  a.line = token_.line;
  HONE_RETURN_IF_ERROR(maybe_dictionary(&a));
  return a;
}

Status Parser::maybe_dictionary(Attribute* into) {
  into->kind = Attribute::Kind::kDict;
  if (!take('{')) return {};
  bool first = true;
  while (!take('}')) {
    if (!first) HONE_RETURN_IF_ERROR(expect(','));
    first = false;
    if (token_.kind != Token::Kind::kBare && token_.kind != Token::Kind::kString)
      return wrong("the name of an attribute");
    if (into->entries.size() == kMost) return wrong(fmt::format("at most {} entries", kMost));
    const Token name = token_;
    advance();
    Attribute value;
    value.line = name.line;
    if (take('=')) {
      HONE_ASSIGN_OR_RETURN(value, attribute());
    }
    if (into->find(name.text) != nullptr)
      return wrong_at(name.begin, name.line, fmt::format("{} is given twice", printable(name.text, 40)));
    into->entries.push_back({name.text, std::move(value)});
  }
  return {};
}

// loc("name"), loc("name"(#loc1)), loc(#loc1), loc("file":1:2), loc(callsite(..)), loc(unknown)
Result<std::optional<Attribute>> Parser::location() {
  if (!token_.is_word("loc")) return std::optional<Attribute>();
  Attribute a;
  a.kind = Attribute::Kind::kOther;
  a.line = token_.line;
  advance();
  if (!token_.is('(')) return wrong("'(' after loc");
  HONE_ASSIGN_OR_RETURN(const std::string_view all, balanced());
  Lexer inside(all.substr(1, all.size() - 2));
  const Token first = inside.next(), second = inside.next();
  const bool ends = second.kind == Token::Kind::kEnd;
  if (first.kind == Token::Kind::kString && (ends || second.is('('))) {
    a.kind = Attribute::Kind::kString;
    a.text = first.text;
  } else if (first.kind == Token::Kind::kHash && ends) {
    a.kind = Attribute::Kind::kAlias;
    a.text = first.text;
  }
  return std::optional<Attribute>(std::move(a));
}

}  // namespace hone::graph::stablehlo
