// Dropping what no build can use, entry by entry and each with its reason. db knows no kernels and no versions: what a
// decision is worth is the caller's judgement, what may be dropped for it is decided here (gc_choose.cpp), so that
// resolving gives the same plans before and after.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "db/store.h"

namespace hone::db {

enum class Age { kThisBuild, kOlder, kOther };  // kOther: a newer build, or one that cannot be compared

// What a caller who knows kernels says about a decision.
struct Worth {
  std::string why_not;    // why this build could not use it for its problem; "": it could
  bool hopeless = false;  // and no later one can: this or an older version wrote what cannot be read
  Age age = Age::kThisBuild;
  bool in_use = false;  // it is the plan that this machine runs: never dropped
};

struct GcOptions {
  std::function<Worth(const StoredDecision&)> judge;
  bool dry_run = false;       // on a copy in memory: the same list, and nothing is changed
  bool other_builds = false;  // drop what other builds measured, although this one did not measure it again
  int64_t older_than = 0;     // seconds; > 0: drop what is older and not the last of its problem and machine
  int64_t now = 0;            // unix seconds; 0: now
};

struct GcDrop {
  std::string what;  // "decision", "run", "session", "ranker", "schedule", "code"
  int64_t id = 0;
  std::string name;  // of a decision its problem and plan; of others what tells them apart
  std::string reason;
};

struct GcReport {
  std::vector<GcDrop> dropped;
  std::vector<TableCount> rows;  // deleted rows of each table
  int64_t bytes_before = 0, bytes_after = 0;
  std::string not_compacted;  // why the file was not made smaller ("" when it was, or nothing was dropped)
};

// One transaction; a failure leaves everything as it was. The file is compacted afterwards when there is room for it.
Result<GcReport> collect_garbage(Store& store, const GcOptions& options);

}  // namespace hone::db
