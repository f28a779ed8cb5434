// Private to engine/base: how HONE_CPU changes a detected machine.
#pragma once

#include <string_view>

#include "engine/base/machine.h"

namespace hone {

// Overwrites the fields of `machine` that the description has.
Status describe_machine(std::string_view json_text, Machine& machine);

// What of `described` may be executed on `real`, see detect_machine().
Machine restrict_machine(const Machine& described, const Machine& real);

}  // namespace hone
