// One recursive descent over the tokens; the files parser*.cpp have its parts. Recursion is bounded by kDepth, so that
// no text can exhaust the stack.
#pragma once

#include "engine/base/status.h"
#include "engine/graph/stablehlo/lexer.h"
#include "engine/graph/stablehlo/op_table.h"
#include "engine/graph/stablehlo/syntax.h"

namespace hone::graph::stablehlo {

class Parser {
 public:
  explicit Parser(std::string_view text);

  Result<Module> module();

 private:
  static constexpr int kDepth = 64;
  static constexpr size_t kMost = 4096;  // operands or results of an operation, entries of a dictionary

  // ---- words ----
  void advance() { token_ = lexer_.next(); }
  bool take(char c);
  bool take_word(std::string_view word);
  Status expect(char c);
  Status expect_word(std::string_view word);
  Result<int64_t> integer();  // with its sign
  Status wrong(std::string_view expected) const;
  Status wrong_at(size_t position, int line, std::string_view what) const;
  // From the bracket under the token to its partner; both are left behind.
  Result<std::string_view> balanced();

  // ---- parser_attributes.cpp ----
  Result<Type> type();
  Result<Type> tensor_type(size_t begin);
  Status shape(std::string_view body, Type* type);
  Result<std::vector<Type>> types_in_parentheses();
  Result<Attribute> attribute();
  Result<Attribute> number_attribute();
  Result<Attribute> word_attribute();
  Result<Attribute> array_attribute();
  Result<Attribute> typed_array();
  Result<Attribute> dialect_attribute();
  Result<Attribute> literal(Attribute::Kind kind);
  Result<Attribute> dictionary();  // { .. }
  Status dialect_body(Attribute* attribute);
  Status maybe_dictionary(Attribute* into);
  Result<std::optional<Attribute>> location();  // loc(..), where there is one
  Status optional_type(Attribute* attribute);

  // ---- parser.cpp ----
  Status top_level(Module* module);
  Status module_body(Module* module, bool braces);
  Status function(Module* module);
  Status skip_mesh();
  Status function_arguments(Function* function);
  Status function_results(Function* function);
  Status alias(Module* module);
  Status resources(Module* module);
  Status unwrap_generic(Operation operation, Module* module);
  Result<Function> generic_function(Operation operation);
  Result<Block> block();  // after {, up to and with }
  Status block_arguments(Block* block);
  Result<Operation> operation();
  Status generic_operation(Operation* operation);
  Status operand(Operation* operation);
  Status operands_in_parentheses(Operation* operation);
  Status type_suffix(Operation* operation);

  // ---- parser_pretty.cpp ----
  Status pretty_operation(Operation* operation);
  Status pretty_items(const OpRow& row, Operation* operation);
  Status pretty_keyword(const OpRow& row, std::string_view key, Operation* operation);
  Status pretty_word(const OpRow& row, std::string_view word, Operation* operation);
  Status pretty_constant(Operation* operation);
  Status pretty_slice(Operation* operation);
  Status pretty_reduce(Operation* operation);
  Status reducer(Operation* operation);
  Status pretty_call(Operation* operation);
  Status pretty_composite(Operation* operation);
  Status pretty_sharding(Operation* operation);
  Result<Attribute> integer_list();
  static void set(Operation* operation, std::string_view name, Attribute value);

  Lexer lexer_;
  Token token_;
  int depth_ = 0;
};

// Counts a level of nesting while it lives.
class Nesting {
 public:
  explicit Nesting(int* depth) : depth_(depth) { ++*depth_; }
  ~Nesting() { --*depth_; }
  Nesting(const Nesting&) = delete;
  Nesting& operator=(const Nesting&) = delete;

 private:
  int* depth_;
};

}  // namespace hone::graph::stablehlo
