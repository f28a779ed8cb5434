// Studies as one page for a browser: no script, nothing from elsewhere, readable on a dark screen and on a light one.
#pragma once

#include <span>
#include <string>

#include "tools/hone/codegen.h"

namespace hone::cli {

// What stands above the studies, as plain text.
struct PageFacts {
  std::string machine, build, date, command;
};

// XHTML syntax: every element is closed and every text escaped, so that a checker can parse it.
std::string codegen_html(std::span<const Study> studies, const PageFacts& facts);

}  // namespace hone::cli
