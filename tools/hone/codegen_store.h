// Studies as records of the database.
#pragma once

#include <vector>

#include "db/records.h"
#include "tools/hone/codegen.h"

namespace hone::cli {

// A record for each generator that there is something to say about: code that was looked at, or a time.
std::vector<db::CodeRecord> code_records(const Study& study, const Machine& machine);

}  // namespace hone::cli
