// What both directions of the text form agree on. EXPORT.md is the format; a change of it is a new kFormat.
#pragma once

#include <string_view>

#include "db/transfer_internal.h"

namespace hone::db {

// 2: schedules. 3: codes. All of the formats before is read as well.
inline constexpr int kFormat = 3;
inline constexpr std::string_view kHeader = "hone-export", kEnd = "end";

}  // namespace hone::db
