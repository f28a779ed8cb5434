// Records out of a store and into another: as lines of text (export, import) or directly (merge). One path: a store is
// read as records, a store is written from records, and text is one form of a record (EXPORT.md).
//
// Records name each other by what they are (a run by its uid, a problem by its text), never by row numbers, so that the
// same record of two stores is one record. Bringing in what is there already adds nothing.
#pragma once

#include <cstdint>
#include <cstdio>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "db/store.h"

namespace hone::db {

struct ExportOptions {
  std::string problem;      // only what concerns this problem text; "": all
  std::string machine_key;  // only runs of machines with this key; "": all
  bool rankers = false;     // learned rankers too: they are large, and can be learned again
};

// One call a line, with its newline, in an order that depends on the content only. A failure ends the export.
using LineSink = std::function<Status(std::string_view line)>;
Status export_lines(Store& store, const ExportOptions& options, const LineSink& sink);

struct ImportOptions {
  // What only someone who knows kernels can check: that family and m are those of the text.
  std::function<Status(const ProblemKey&)> check_problem = {};
  std::function<bool()> stop = {};  // asked between records; then nothing is written (unavailable)
};

struct TransferCount {
  std::string type;     // "machines", "samples", ...
  int64_t added = 0;    // were not there
  int64_t present = 0;  // were there, and are left as they are
};

// Everything or nothing, in one transaction. `in` is read from where it is now and has to be seekable: the write lock
// is not held while somebody types. Errors: invalid_argument with `name`, the line, the field and what is wrong with
// it.
Result<std::vector<TransferCount>> import_lines(Store& into, std::FILE* in, const std::string& name,
                                                const ImportOptions& options = {});

// Everything or nothing. `from` may be open for reading only. Error: invalid_argument when both are one file.
Result<std::vector<TransferCount>> merge(Store& into, Store& from, const ImportOptions& options = {});

}  // namespace hone::db
