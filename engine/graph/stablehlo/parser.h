// Reads the text of a StableHLO module, pretty or generic, into syntax.h.
#pragma once

#include "engine/base/status.h"
#include "engine/graph/stablehlo/syntax.h"

namespace hone::graph::stablehlo {

// The module holds views of `text`. Error: invalid_argument "line L, column C: ..."; unsupported "line L: OP is not
// supported; supported are: .." for an operation in pretty form that is not in ops.inc.
Result<Module> parse_module(std::string_view text);

}  // namespace hone::graph::stablehlo
