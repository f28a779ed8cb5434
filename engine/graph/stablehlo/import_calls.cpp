// Handlers of calls: of functions of the module, which are inlined, and of what exporters write for ops that StableHLO
// does not have.
#include <fmt/format.h>

#include "engine/base/printable.h"
#include "engine/graph/stablehlo/import_internal.h"

namespace hone::graph::stablehlo {

Importer::Entries Importer::inline_call(const Call& c, std::string_view name) {
  const Function* function = find_function(name);
  if (function == nullptr) return wrong(c, fmt::format("the module has no function @{}", printable(name, 60)));
  return inlined(*function, c.operands, c.op.line);
}

Importer::Entries Importer::call(const Call& c) {
  const Attribute* callee = c.attribute("callee");
  if (callee == nullptr) return wrong(c, "attribute callee is missing");
  return inline_call(c, callee->text);
}

// An op of another dialect with the function that says what it is: known ones are taken as what they are called.
Importer::Entries Importer::composite(const Call& c) {
  const Attribute *name = c.attribute("name"), *function = c.attribute("decomposition"),
                  *attributes = c.attribute("composite_attributes");
  (void)c.attribute("version");
  if (name == nullptr || function == nullptr) return wrong(c, "attributes name and decomposition must be there");
  if (name->text == "chlo.erf") {
    HONE_RETURN_IF_ERROR(count(c, 1));
    HONE_ASSIGN_OR_RETURN(std::vector<ValueId> operands, values(c));
    return emit(c, OpKind::erf, std::move(operands));
  }
  if (name->text == "chlo.top_k" && attributes != nullptr) {
    const Attribute *k = attributes->find("k"), *largest = attributes->find("largest");
    if (k != nullptr && (largest == nullptr || largest->integer != 0)) return top_k_of(c, k->integer);
  }
  return inline_call(c, function->text);
}

Importer::Entries Importer::custom_call(const Call& c) {
  const Attribute* target = c.attribute("call_target_name");
  const std::string_view name = target != nullptr ? target->text : "";
  // Nothing that changes a value for the targets below, except mhlo.attributes.
  for (const std::string_view known :
       {"api_version", "operand_layouts", "result_layouts", "output_operand_aliases", "called_computations"})
    (void)c.attribute(known);
  if (const Attribute* effect = c.attribute("has_side_effect"); effect != nullptr && effect->integer != 0)
    return refused(c, fmt::format("@{} has a side effect", printable(name, 60)));
  const Attribute* config = c.attribute("backend_config");
  const Attribute* attributes = c.attribute("mhlo.attributes");
  if (name == "Sharding") return c.operands;
  if (config != nullptr && !config->text.empty())
    return refused(c, fmt::format("the backend_config of @{} is not supported", printable(name, 60)));
  if (name == "mhlo.erf") {
    HONE_RETURN_IF_ERROR(count(c, 1));
    HONE_ASSIGN_OR_RETURN(std::vector<ValueId> operands, values(c));
    return emit(c, OpKind::erf, std::move(operands));
  }
  if (name == "mhlo.topk") {
    const Attribute* k = attributes != nullptr ? attributes->find("k") : nullptr;
    const Attribute* largest = attributes != nullptr ? attributes->find("largest") : nullptr;
    if (k == nullptr || k->kind != Attribute::Kind::kInteger)
      return wrong(c, "mhlo.attributes of @mhlo.topk must have k");
    if (largest != nullptr && largest->integer == 0) return refused(c, "the smallest elements are not supported");
    return top_k_of(c, k->integer);
  }
  return refused(
      c, fmt::format("@{} is not supported; supported are @mhlo.erf, @mhlo.topk, @Sharding", printable(name, 60)));
}

// Where a value lies among devices: the value itself.
Importer::Entries Importer::sharding(const Call& c) {
  HONE_RETURN_IF_ERROR(count(c, 1));
  (void)c.attribute("sharding");
  return c.operands;
}

Importer::Entries Importer::misplaced_return(const Call& c) { return wrong(c, "it does not end the function"); }

}  // namespace hone::graph::stablehlo
