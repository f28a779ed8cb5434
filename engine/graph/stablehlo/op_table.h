// The operations of ops.inc by name.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "engine/base/status.h"
#include "engine/graph/ops.h"

namespace hone::graph::stablehlo {

enum class OpForm : uint8_t { items, constant, slice, reduce, call, composite, sharding };

// Which method of Importer reads an operation.
enum class OpHandler : uint8_t {
#define HONE_STABLEHLO_HANDLER(name) name,
#include "engine/graph/stablehlo/handlers.inc"
#undef HONE_STABLEHLO_HANDLER
};

struct OpRow {
  std::string_view name;
  OpForm form;
  OpHandler handler;
  OpKind op;
};
std::span<const OpRow> op_table();
const OpRow* find_row(std::string_view name);
// "line L: NAME is not supported; supported are: stablehlo.abs, ..."
Status unsupported_op(int line, std::string_view name);

}  // namespace hone::graph::stablehlo
