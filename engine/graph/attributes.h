// Which attributes an op may have, and of what kind: one list (attributes.inc) for the rules of ops and for the parser,
// which needs the kind to read `1` as a number, a dimension or an integer.
#pragma once

#include <cstdint>
#include <string_view>

#include "engine/graph/graph.h"

namespace hone::graph {

enum class AttributeKind : uint8_t {
  kInteger,
  kNumber,  // a double; an int64_t will do
  kFlag,
  kText,
  kIntegers,
  kDim,  // an int64_t will do
};

struct AttributeRule {
  OpKind op;
  std::string_view name;
  AttributeKind kind;
  bool required;
};

// Null: the op has no such attribute.
const AttributeRule* find_attribute(OpKind op, std::string_view name);

// Every attribute that is there is the op's and of its kind, numbers are finite, and what is required is there. Error:
// invalid_argument "OP: attribute 'NAME' ...".
Status check_attributes(OpKind op, const Attributes& attributes);

}  // namespace hone::graph
