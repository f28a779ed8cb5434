#include "engine/graph/attributes.h"

#include <fmt/format.h>

#include <cmath>

#include "engine/base/printable.h"

namespace hone::graph {

namespace {

constexpr AttributeRule kRules[] = {
#define HONE_GRAPH_ATTRIBUTE(op, name, kind, required) {OpKind::op, #name, AttributeKind::kind, required},
#include "engine/graph/attributes.inc"
#undef HONE_GRAPH_ATTRIBUTE
};

std::string_view kind_name(AttributeKind kind) {
  switch (kind) {
    case AttributeKind::kInteger:
      return "an integer";
    case AttributeKind::kNumber:
      return "a finite number";
    case AttributeKind::kFlag:
      return "true or false";
    case AttributeKind::kText:
      return "a text";
    case AttributeKind::kIntegers:
      return "a list of integers";
    case AttributeKind::kDim:
      return "a dimension that is known";
  }
  return "?";
}

bool is_of_kind(const Attribute& value, AttributeKind kind) {
  const bool integer = std::holds_alternative<int64_t>(value);
  switch (kind) {
    case AttributeKind::kInteger:
      return integer;
    case AttributeKind::kNumber:
      return integer || (std::holds_alternative<double>(value) && std::isfinite(std::get<double>(value)));
    case AttributeKind::kFlag:
      return std::holds_alternative<bool>(value);
    case AttributeKind::kText:
      return std::holds_alternative<std::string>(value);
    case AttributeKind::kIntegers:
      return std::holds_alternative<std::vector<int64_t>>(value);
    case AttributeKind::kDim:
      return integer || (std::holds_alternative<Dim>(value) && !std::get<Dim>(value).is_unknown());
  }
  return false;
}

std::string names_of(OpKind op) {
  std::string names;
  for (const AttributeRule& rule : kRules)
    if (rule.op == op) names += fmt::format("{}{}", names.empty() ? "" : ", ", rule.name);
  return names.empty() ? "it has none" : "it has " + names;
}

}  // namespace

const AttributeRule* find_attribute(OpKind op, std::string_view name) {
  for (const AttributeRule& rule : kRules)
    if (rule.op == op && rule.name == name) return &rule;
  return nullptr;
}

Status check_attributes(OpKind op, const Attributes& attributes) {
  const std::string_view op_name = op_info(op).name;
  for (const auto& [name, value] : attributes) {
    const AttributeRule* rule = find_attribute(op, name);
    if (rule == nullptr)
      return invalid_argument(fmt::format("{}: has no attribute '{}': {}", op_name, printable(name), names_of(op)));
    if (!is_of_kind(value, rule->kind))
      return invalid_argument(fmt::format("{}: attribute '{}' must be {}", op_name, name, kind_name(rule->kind)));
  }
  for (const AttributeRule& rule : kRules)
    if (rule.op == op && rule.required && !attributes.contains(rule.name))
      return invalid_argument(
          fmt::format("{}: attribute '{}' is missing; it is {}", op_name, rule.name, kind_name(rule.kind)));
  return {};
}

}  // namespace hone::graph
