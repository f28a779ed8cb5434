// hone db query: SQL that reads.
#include "db/query.h"

#include <fmt/format.h>

#include "tools/hone/db.h"

namespace hone::cli {
namespace {

struct QueryArgs : DbArgs {
  bool tables = false;
};

// So many rows at a time where each is a line of its own; other formats are made of all rows at once.
constexpr size_t kRowsAtOnce = 4096;
// People see where a blob begins and how long it is.
constexpr size_t kShownBytes = 16;

std::string hex(const std::string& bytes, size_t most) {
  std::string text = "x'";
  for (size_t i = 0; i < std::min(bytes.size(), most); ++i)
    text += fmt::format("{:02x}", static_cast<unsigned char>(bytes[i]));
  return text + "'";
}

Cell cell_of(const db::Value& value, Format format) {
  if (const auto* whole = std::get_if<int64_t>(&value)) return *whole;
  if (const auto* number = std::get_if<double>(&value)) return *number;
  if (const auto* text = std::get_if<std::string>(&value)) return *text;
  if (const auto* blob = std::get_if<db::Blob>(&value)) {
    const bool cut = format == Format::kMd && blob->bytes.size() > kShownBytes;
    return cut ? fmt::format("{}... ({} bytes)", hex(blob->bytes, kShownBytes), blob->bytes.size())
               : hex(blob->bytes, blob->bytes.size());
  }
  return {};
}

int run_query(const QueryArgs& args) {
  const Result<Format> format = args.format();
  if (!format.ok()) return fail(format.status());
  Result<std::unique_ptr<db::Store>> store = open_existing(args.db, "query");
  if (!store.ok()) return fail(store.status());
  Table table{.name = "query", .columns = {}, .rows = {}, .exact = true};
  const db::QuerySink sink{.columns =
                               [&](const std::vector<std::string>& names) {
                                 for (const std::string& name : names) table.columns.push_back({name});
                                 return Status{};
                               },
                           .row =
                               [&](const std::vector<db::Value>& values) {
                                 std::vector<Cell> row;
                                 for (const db::Value& v : values) row.push_back(cell_of(v, *format));
                                 table.add(std::move(row));
                                 if (*format != Format::kJsonl || table.rows.size() < kRowsAtOnce) return Status{};
                                 write_results(render(table, *format));
                                 table.rows.clear();
                                 return Status{};
                               }};
  const bool list = args.tables || args.what.empty();
  const Status status =
      db::query(**store, list ? db::kListTables : args.what, sink, [] { return interrupted().load(); });
  if (!status.ok()) return fail_or_interrupted(status);
  if (*format == Format::kMd && table.rows.empty()) note("no rows");
  write_results(render(table, *format));
  return kDone;
}

}  // namespace

void add_db_query(CLI::App& db, Run& run) {
  auto args = std::make_shared<QueryArgs>();
  CLI::App* verb =
      add_verb(db, run, args, "query", "one SQL statement that only reads; without one, what there is", run_query);
  verb->add_option("sql", args->what, "SQL of SQLite: \"SELECT problem, ns FROM plans ORDER BY ns\"")
      ->check(not_empty());
  verb->add_flag("--tables", args->tables, "tables and views with their columns");
  add_format(*verb, *args);
}

}  // namespace hone::cli
