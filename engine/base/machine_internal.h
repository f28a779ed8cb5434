// Private to engine/base: how HONE_CPU changes a detected machine.
#pragma once

#include <string_view>

#include "engine/base/machine.h"

namespace hone {

// Overwrites the fields of `machine` that the description has. Features differ: execution stays legal only if a
// description can take features away, so the result has those that both have, and what was taken away is in `masked`.
Status restrict_machine(std::string_view json_text, Machine& machine);

}  // namespace hone
