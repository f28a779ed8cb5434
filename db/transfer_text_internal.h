// What both directions of the text form agree on. EXPORT.md is the format; a change of it is a new kFormat.
#pragma once

#include <string_view>

#include "db/transfer_internal.h"

namespace hone::db {

inline constexpr int kFormat = 1;
inline constexpr std::string_view kHeader = "hone-export", kEnd = "end";

}  // namespace hone::db
