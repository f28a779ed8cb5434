// Results on stdout: rows of named cells, printed in the format that the user asked for. Numbers stay numbers until the
// last moment, so that JSON gets all digits and people get three.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "engine/base/status.h"

namespace hone::cli {

// HONE_FORMAT(enumerator, name). gbench is the JSON of Google Benchmark, for its compare tools.
#define HONE_CLI_FORMATS(HONE_FORMAT) \
  HONE_FORMAT(kMd, "md")              \
  HONE_FORMAT(kCsv, "csv")            \
  HONE_FORMAT(kJson, "json")          \
  HONE_FORMAT(kJsonl, "jsonl")        \
  HONE_FORMAT(kSql, "sql")            \
  HONE_FORMAT(kGbench, "gbench")

enum class Format : uint8_t {
#define HONE_FORMAT(id, name) id,
  HONE_CLI_FORMATS(HONE_FORMAT)
#undef HONE_FORMAT
};

// Error: invalid_argument listing the names. gbench needs a table with a time of every row.
Result<Format> parse_format(const std::string& name, bool times = false);

// An interval around an estimate: [lo, hi] in JSON.
struct Range {
  double lo = 0, hi = 0;
};

// monostate: no value (null, an empty cell). A list of numbers is for machines.
using Cell = std::variant<std::monostate, std::string, double, int64_t, Range, std::vector<double>>;

enum class For : uint8_t { kAll, kPeople, kMachines };  // people read md; everything else is for machines

struct Column {
  std::string name;
  For whom = For::kAll;
  std::string title = "";  // as people see it; "": the name
};

struct Table {
  std::string name;  // of the SQL table
  std::vector<Column> columns;
  std::vector<std::vector<Cell>> rows;
  bool exact = false;  // people too get every digit, and NULL by name

  void add(std::vector<Cell> row) { rows.push_back(std::move(row)); }
};

// As people read it: four significant digits. May hold what a terminal or a browser would obey.
std::string for_people(const Cell& cell);

// A row as an object, keyed by column.
nlohmann::ordered_json row_to_json(const Table& table, const std::vector<Cell>& row);

// csv and jsonl are rows of one kind.
bool has_place_for_summary(Format format);
// A table without rows is "" in md. `summary`, another table that says what this one comes to, is left out where the
// format has no place for it.
std::string render(const Table& table, Format format, const Table* summary = nullptr);

}  // namespace hone::cli
