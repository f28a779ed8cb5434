#include "engine/graph/stablehlo/op_table.h"

#include <fmt/format.h>

#include "engine/base/printable.h"

namespace hone::graph::stablehlo {

namespace {

constexpr OpRow kRows[] = {
#define HONE_STABLEHLO_OP(name, form, handler, op) {name, OpForm::form, OpHandler::handler, OpKind::op},
#include "engine/graph/stablehlo/ops.inc"
#undef HONE_STABLEHLO_OP
};

}  // namespace

std::span<const OpRow> op_table() { return kRows; }

const OpRow* find_row(std::string_view name) {
  for (const OpRow& row : kRows)
    if (row.name == name) return &row;
  return nullptr;
}

Status unsupported_op(int line, std::string_view name) {
  std::string names;
  for (const OpRow& row : kRows) {
    if (row.handler == OpHandler::misplaced_return) continue;
    names += fmt::format("{}{}", names.empty() ? "" : ", ", row.name);
  }
  return unsupported(fmt::format("line {}: {} is not supported; supported are: {}", line, printable(name), names));
}

}  // namespace hone::graph::stablehlo
