// The patterns of tokenizer files are written for Oniguruma or Rust's regex; PCRE2 reads nearly the same language. Here
// is what differs.
#pragma once

#include <string>
#include <string_view>

#include "engine/base/status.h"

namespace hone::model {

// The pattern for PCRE2: \s is Unicode's White_Space (PCRE2's has U+180E too, which is none since Unicode 6.3). Errors:
// unsupported (intersections and classes inside classes, which PCRE2 10.42 would read as something else; \h).
Result<std::string> pcre2_pattern(std::string_view pattern);

}  // namespace hone::model
