// hone db export, import, merge: what one database knows, to another.
//
// A file that is written is whole or absent: it is made beside its name and renamed. A file that is read goes into the
// database as a whole or not at all; what cannot be read twice (a pipe) is put aside first, because the database is
// locked while a file is imported.
#include "db/transfer.h"

#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>

#include "kernels/op/op.h"
#include "tools/hone/db.h"
#include "tools/hone/new_file.h"

namespace hone::cli {
namespace {

namespace fs = std::filesystem;

struct TransferArgs : DbArgs {
  std::string problem, machine;
  bool rankers = false;
};

// ---- writing ----

// Header first, but not before there is a record: an export of nothing that was asked for is a slip.
Status export_to(db::Store& store, const db::ExportOptions& options, const db::LineSink& write) {
  std::string header;
  int64_t lines = 0;
  const bool everything = options.problem.empty() && options.machine_key.empty();
  return db::export_lines(store, options, [&](std::string_view line) -> Status {
    if (interrupted()) return unavailable("interrupted: nothing was exported");
    if (lines++ == 0) {
      header = line;
      return {};
    }
    if (lines == 2) {
      const bool nothing = line.starts_with(R"({"type":"end")");
      if (nothing && !everything)
        return not_found(fmt::format("{} has no run of that problem and machine: hone db ls lists them", store.path()));
      HONE_RETURN_IF_ERROR(write(header));
    }
    return write(line);
  });
}

int run_export(const TransferArgs& args) {
  Result<std::unique_ptr<db::Store>> store = open_existing(args.db, "export");
  if (!store.ok()) return fail(store.status());
  db::ExportOptions options{
      .problem = problem_text(args.problem), .machine_key = args.machine, .rankers = args.rankers};
  if (args.machine == "this") {
    const Result<Machine> machine = described_machine();
    if (!machine.ok()) return fail(machine.status());
    options.machine_key = machine->key();
  }
  if (args.what == "-") {
    const Status status = export_to(**store, options, [](std::string_view line) {
      write_results(line);
      return Status{};
    });
    return status.ok() ? kDone : fail_or_interrupted(status);
  }
  Result<NewFile> file = NewFile::create(args.what, "hone.jsonl");
  if (!file.ok()) return fail(file.status());
  Status status = export_to(**store, options, [&](std::string_view line) { return file->write(line); });
  if (status.ok()) status = file->commit();
  return status.ok() ? kDone : fail_or_interrupted(status);
}

// ---- reading ----

// A copy that can be read again, deleted when it is closed.
Result<FilePtr> put_aside(std::FILE* in, const std::string& name) {
  FilePtr copy(std::tmpfile());
  if (!copy) return cannot("put aside", name);
  char block[1 << 16];
  for (size_t got = 0; (got = std::fread(block, 1, sizeof block, in)) > 0;) {
    if (interrupted()) return unavailable("interrupted: nothing was imported");
    errno = 0;
    if (std::fwrite(block, 1, got, copy.get()) != got) return cannot("put aside", name);
  }
  if (std::ferror(in)) return cannot("read", name);
  if (std::fflush(copy.get()) != 0) return cannot("put aside", name);
  std::rewind(copy.get());
  return copy;
}

Result<FilePtr> open_to_import(const std::string& path) {
  if (path == "-") return put_aside(stdin, "stdin");
  struct stat there {};
  if (stat(path.c_str(), &there) != 0) return cannot("read", path);
  if (S_ISDIR(there.st_mode)) return invalid_argument(fmt::format("{} is a folder; name the file to import", path));
  FilePtr file(std::fopen(path.c_str(), "r"));
  if (!file) return cannot("read", path);
  if (!S_ISREG(there.st_mode)) return put_aside(file.get(), path);
  return file;
}

// The family and m that a problem is stored with decide which plans are its neighbours. A text that this build cannot
// read is of another version, which knew.
Status check_problem(const db::ProblemKey& problem) {
  const Result<op::Problem> parsed = op::parse_problem(problem.text);
  if (!parsed.ok()) return {};
  const std::string family = op::family(*parsed);
  const std::string text = op::to_string(*parsed);
  if (problem.text != text)  // would be a second problem of one shape, which nobody asks for
    return invalid_argument(fmt::format("problem: '{}' must be written '{}'", problem.text, text));
  if (problem.family == family && problem.m == op::rows(*parsed)) return {};
  return invalid_argument(fmt::format("problem: family of '{}' is '{}' and m={}, must be '{}' and m={}", problem.text,
                                      problem.family, problem.m, family, op::rows(*parsed)));
}

db::ImportOptions import_options() {
  return {.check_problem = check_problem, .stop = [] { return interrupted().load(); }};
}

int print_counts(const Result<std::vector<db::TransferCount>>& counts, Format format, const char* name) {
  if (!counts.ok()) return fail_or_interrupted(counts.status());
  Table table{name, {{"records"}, {"added"}, {"present"}}, {}};
  for (const db::TransferCount& c : *counts) table.add({c.type, c.added, c.present});
  write_results(render(table, format));
  return kDone;
}

int run_import(const TransferArgs& args) {
  const Result<Format> format = args.format();
  if (!format.ok()) return fail(format.status());
  const Result<FilePtr> file = open_to_import(args.what);
  if (!file.ok()) return fail_or_interrupted(file.status());
  Result<std::unique_ptr<db::Store>> store = open_to_change(args.db);
  if (!store.ok()) return fail(store.status());
  const std::string name = args.what == "-" ? "stdin" : args.what;
  return print_counts(db::import_lines(**store, file->get(), name, import_options()), *format, "import");
}

int run_merge(const TransferArgs& args) {
  const Result<Format> format = args.format();
  if (!format.ok()) return fail(format.status());
  Result<std::unique_ptr<db::Store>> other = open_stored(args.what);
  if (!other.ok()) return fail(other.status());
  if (*other == nullptr) return fail(invalid_argument(fmt::format("cannot read {}: there is no such file", args.what)));
  Result<std::unique_ptr<db::Store>> store = open_to_change(args.db);
  if (!store.ok()) return fail(store.status());
  return print_counts(db::merge(**store, **other, import_options()), *format, "merge");
}

}  // namespace

void add_db_transfer(CLI::App& db, Run& run) {
  auto args = std::make_shared<TransferArgs>();
  CLI::App* to = add_verb(db, run, args, "export", "everything as lines of JSON (db/EXPORT.md)", run_export);
  to->add_option("file", args->what, "file to write, - for stdout")->required()->check(not_empty());
  to->add_option("--problem", args->problem, "only this problem")->check(not_empty());
  to->add_option("--machine", args->machine, "only machines with this key; this: of this machine")->check(not_empty());
  to->add_flag("--rankers", args->rankers, "learned rankers too");
  CLI::App* from = add_verb(db, run, args, "import", "lines of an export, all or none", run_import);
  from->add_option("file", args->what, "file to read, - for stdin")->required()->check(not_empty());
  add_format(*from, *args);
  CLI::App* merge = add_verb(db, run, args, "merge", "everything of another database", run_merge);
  merge->add_option("other", args->what, "database file, which is only read")->required()->check(not_empty());
  add_format(*merge, *args);
}

}  // namespace hone::cli
