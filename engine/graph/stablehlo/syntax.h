// A StableHLO module as text says it, before anything of it is judged: functions, operations, attributes, types.
//
// The pretty form and the generic form of an operation become the same Operation: `dims = [0, 1]` of a pretty
// broadcast_in_dim is the attribute broadcast_dimensions, as the generic form calls it. Names and literals are views of
// the text, which must outlive the module: a model's weights stand in it as one literal of some hundred megabytes.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace hone::graph::stablehlo {

struct Type {
  bool tensor = false;        // ranked
  std::vector<int64_t> dims;  // -1: ?
  std::string_view element;   // "f32"
  std::string_view text;      // all of it, for messages
  int line = 0;
};

struct NamedAttribute;

struct Attribute {
  enum class Kind : uint8_t {
    kUnit,
    kBool,
    kInteger,
    kFloat,
    kString,    // text: between the quotes, escapes as they stand
    kSymbol,    // text: @text
    kArray,     // items: [..] and array<i64: ..>
    kDict,      // entries
    kDense,     // text: between the angle brackets; type
    kResource,  // text: the key; type
    kType,
    kAlias,    // text: #text
    kDialect,  // text: name of #name<..>; entries and words (as kSymbol items) of what is between the brackets
    kOther,    // text: what this importer never asks for
  };
  Kind kind = Kind::kUnit;
  int line = 0;
  int64_t integer = 0;  // kBool: 0 or 1
  double number = 0;
  std::string_view text;
  std::vector<Attribute> items;
  std::vector<NamedAttribute> entries;
  std::optional<Type> type;

  const Attribute* find(std::string_view key) const;
};

struct NamedAttribute {
  std::string_view name;
  Attribute value;
};

struct ValueName {
  std::string_view name;  // without %
  int64_t index = 0;      // %name#index
  int line = 0;
};

struct ResultName {
  std::string_view name;
  int64_t count = 1;  // %name:count
};

struct Operation;

struct BlockArgument {
  std::string_view name;
  Type type;
  Attribute attributes;               // kDict
  std::optional<Attribute> location;  // kString (a name), kAlias or kOther
};

struct Block {
  std::vector<BlockArgument> arguments;
  std::vector<Operation> operations;
};

struct Operation {
  std::string_view name;  // "stablehlo.add"
  int line = 0;
  std::vector<ResultName> results;
  std::vector<ValueName> operands;
  Attribute attributes;  // kDict
  std::vector<Block> regions;
  std::vector<Type> operand_types;  // empty: not said
  std::vector<Type> result_types;
  std::optional<Attribute> location;

  const Attribute* attribute(std::string_view key) const { return attributes.find(key); }
};

struct Function {
  std::string_view name;
  int line = 0;
  bool is_private = false;
  std::vector<Type> result_types;
  bool has_body = false;
  Block body;
};

struct Module {
  std::string_view name;  // "": none
  Attribute attributes;   // kDict
  std::vector<Function> functions;
  std::map<std::string_view, Attribute> aliases;           // without #
  std::map<std::string_view, std::string_view> resources;  // blobs, "0x.." without quotes
};

// What #alias stands for, through aliases of aliases; the attribute itself where it is none or unknown.
const Attribute& resolve(const Module& module, const Attribute& attribute);
// The characters that a string literal means.
std::string unescape(std::string_view text);

}  // namespace hone::graph::stablehlo
