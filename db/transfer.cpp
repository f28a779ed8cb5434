#include "db/transfer.h"

#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include <fmt/format.h>

#include "db/transfer_internal.h"
#include "engine/base/printable.h"

namespace hone::db {
namespace {

// A line of a record is far below; what is above is not ours, and reading on would only fill memory.
constexpr size_t kMaxLine = size_t{16} << 20;

Status stopped() { return unavailable("interrupted: nothing was written"); }

// The next line without its newline; false at the end of the file.
Result<bool> next_line(std::FILE* in, std::string& line) {
  line.clear();
  for (;;) {
    const int c = getc_unlocked(in);
    if (c == EOF) {
      if (std::ferror(in)) return unavailable(fmt::format("cannot be read: {}", std::strerror(errno)));
      return !line.empty();
    }
    if (c == '\n') return true;
    if (line.size() == kMaxLine) {
      return invalid_argument(fmt::format("a line of more than {} MiB is no record", kMaxLine >> 20));
    }
    line += static_cast<char>(c);
  }
}

// Messages repeat what the line has, and what a library says of it: enough of it is shown.
Status at(const std::string& name, int64_t line, const Status& status) {
  constexpr size_t kShown = 2000;
  return {status.code(), fmt::format("{}:{}: {}", name, line, printable(status.message(), kShown))};
}

Status import_into(RecordWriter& writer, std::FILE* in, const std::string& name, const ImportOptions& options) {
  LineReader reader;
  std::string line;
  for (int64_t number = 1;; ++number) {
    const Result<bool> more = next_line(in, line);
    if (!more.ok()) return at(name, number, more.status());
    if (!*more) {
      const Status complete = reader.at_end();
      return complete.ok() ? complete : at(name, std::max<int64_t>(number - 1, 1), complete);
    }
    if (options.stop && options.stop()) return stopped();
    const Result<std::optional<Record>> record = reader.read(line);
    if (!record.ok()) return at(name, number, record.status());
    if (!record->has_value()) continue;
    const auto* problem = std::get_if<ProblemKey>(&**record);
    Status status = problem && options.check_problem ? options.check_problem(*problem) : Status{};
    if (status.ok()) status = writer.add(**record);
    if (!status.ok()) return at(name, number, status);
  }
}

bool same_file(const std::string& a, const std::string& b) {
  struct stat first {
  }, second{};
  return stat(a.c_str(), &first) == 0 && stat(b.c_str(), &second) == 0 && first.st_dev == second.st_dev &&
         first.st_ino == second.st_ino;
}

// A newer schema may hold what these records have no place for.
Status known_schema(const Store& store) {
  const int newest = migrations().back().version;
  if (store.schema_version() <= newest) return {};
  return unsupported(
      fmt::format("{} was written by a newer version (schema {}, this one knows {}): export it with that", store.path(),
                  store.schema_version(), newest));
}

}  // namespace

Status export_lines(Store& store, const ExportOptions& options, const LineSink& sink) {
  HONE_ASSIGN_OR_RETURN(SqliteStore * from, as_sqlite(store));
  HONE_RETURN_IF_ERROR(known_schema(store));
  HONE_RETURN_IF_ERROR(sink(header_line()));
  HONE_RETURN_IF_ERROR(read_records(*from, options, [&](const Record& r) { return sink(to_line(r)); }));
  return sink(end_line());
}

Result<std::vector<TransferCount>> import_lines(Store& into, std::FILE* in, const std::string& name,
                                                const ImportOptions& options) {
  HONE_ASSIGN_OR_RETURN(SqliteStore * store, as_sqlite(into));
  const off_t start = ftello(in);
  if (start < 0) return invalid_argument(fmt::format("{} cannot be read from its beginning again", name));
  return store->write([&]() -> Result<std::vector<TransferCount>> {
    if (fseeko(in, start, SEEK_SET) != 0) return unavailable(fmt::format("{}: {}", name, std::strerror(errno)));
    RecordWriter writer(*store);
    HONE_RETURN_IF_ERROR(import_into(writer, in, name, options));
    return writer.counts();
  });
}

Result<std::vector<TransferCount>> merge(Store& into, Store& from, const ImportOptions& options) {
  HONE_ASSIGN_OR_RETURN(SqliteStore * target, as_sqlite(into));
  HONE_ASSIGN_OR_RETURN(SqliteStore * source, as_sqlite(from));
  if (target == source || same_file(into.path(), from.path()))
    return invalid_argument(fmt::format("{} cannot be merged into itself; name another database", into.path()));
  HONE_RETURN_IF_ERROR(known_schema(from));
  return target->write([&]() -> Result<std::vector<TransferCount>> {
    RecordWriter writer(*target);
    HONE_RETURN_IF_ERROR(read_records(*source, {.rankers = true}, [&](const Record& record) -> Status {
      if (options.stop && options.stop()) return stopped();
      const auto* problem = std::get_if<ProblemKey>(&record);
      Status status = problem && options.check_problem ? options.check_problem(*problem) : Status{};
      if (status.ok()) status = writer.add(record);
      return status.ok() ? status : Status{status.code(), fmt::format("{}: {}", from.path(), status.message())};
    }));
    return writer.counts();
  });
}

}  // namespace hone::db
