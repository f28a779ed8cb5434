// On what does a store stand? The file that was asked for if that is possible, else the best that is, and a message.
//
// Two things must stay true. A file that is not ours is never changed: ownership is read before anything is written,
// and only a damaged database, or a file named like one, is moved aside. And the database file is never opened except
// through SQLite while it may be sound: closing any descriptor of a file drops all POSIX locks that this process holds
// on it, which would take the lock away from another Store of the same process in the middle of its transaction.
#include <SQLiteCpp/Backup.h>
#include <fcntl.h>
#include <sqlite3.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cctype>
#include <cstring>
#include <ctime>
#include <filesystem>
#include <fstream>

#include <fmt/format.h>

#include "db/pages.h"
#include "db/salvage.h"
#include "db/store_internal.h"
#include "engine/base/env.h"

namespace hone::db {
namespace {

namespace fs = std::filesystem;
using StorePtr = std::unique_ptr<Store>;

// How long the first access waits before it is asked whether the file system has locks at all.
constexpr int kOpenTimeoutMs = 300;

constexpr std::string_view kElsewhere = "set HONE_DB or --db to a writable path to keep results";

// What was there when it was looked at; `inode` tells later whether it still is the same file.
struct FileState {
  bool exists = false;
  int64_t size = 0;
  dev_t device = 0;
  ino_t inode = 0;
};

Result<FileState> look_at(const std::string& path) {
  if (path.find('\0') != std::string::npos) return invalid_argument("database path contains a NUL byte");
  struct stat info {};
  if (stat(path.c_str(), &info) != 0) return FileState{};
  if (S_ISDIR(info.st_mode)) {
    return invalid_argument(fmt::format("{} is a folder, not a database; give a file, such as {}/hone.db", path, path));
  }
  if (!S_ISREG(info.st_mode)) return invalid_argument(fmt::format("{} is not a regular file; give another path", path));
  return FileState{.exists = true, .size = info.st_size, .device = info.st_dev, .inode = info.st_ino};
}

// SQLite finds the side files of a database by name, so a process that is about to open NAME while another one moves it
// away and makes it anew would join the old file with the new log. Hence opening holds the folder's lock shared, and
// moving holds it alone. flock() on the folder itself leaves no lock file behind. Where folders cannot be locked (some
// network file systems), or a forked child keeps the lock, this goes on without after a while: the inode check remains.
class FolderLock {
 public:
  FolderLock(const std::string& path, int kind)
      : folder_(::open(fs::path(path).parent_path().c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC)) {
    for (int i = 0; folder_ >= 0 && i < 2000; ++i) {
      if (flock(folder_, kind | LOCK_NB) == 0) return;
      possible_ = errno != ENOLCK && errno != EOPNOTSUPP && errno != EINVAL && errno != ENOSYS;
      if (errno != EWOULDBLOCK) return;
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
  }
  ~FolderLock() {
    if (folder_ >= 0) close(folder_);
  }
  FolderLock(const FolderLock&) = delete;
  FolderLock& operator=(const FolderLock&) = delete;
  bool possible() const { return possible_; }  // the file system knows locks

 private:
  bool possible_ = true;
  const int folder_;
};

// The place that relative names, links and trailing parts finally mean, so that a rename moves the file and not a link.
std::string resolve(const std::string& path) {
  std::error_code error;
  fs::path full = fs::absolute(path, error);
  if (error) return path;
  if (fs::is_symlink(full, error)) {
    fs::path target = fs::weakly_canonical(full, error);
    if (!error) full = target;
  }
  return full.lexically_normal().string();
}

Status not_ours(const std::string& path) {
  return invalid_argument(
      fmt::format("{} is the SQLite database of another application and is left alone; give another path", path));
}

// SQLite takes a file of one byte for an empty one and would overwrite it.
SQLite::Exception one_byte() { return SQLite::Exception("file of one byte", SQLITE_NOTADB); }

Result<StorePtr> in_memory(std::string message, std::span<const Migration> steps) {
  auto connection = std::make_unique<Connection>(":memory:", ":memory:", SQLite::OPEN_READWRITE | SQLite::OPEN_CREATE);
  configure_writer(connection->database());
  const SchemaState schema = migrate(connection->database(), steps);
  StoreState state{
      .mode = OpenMode::kInMemory, .message = std::move(message), .schema_version = schema.version, .damage = ""};
  return StorePtr(std::make_unique<SqliteStore>(std::move(connection), std::move(state)));
}

// Some network and shared file systems have no locks, and SQLite takes their refusal (ENOLCK) for another process that
// holds the lock. So it is asked about a file that nobody else can hold.
bool has_locks(const std::string& path) {
  const std::string probe = fmt::format("{}.locks-{}", path, getpid());
  bool locked = true;
  try {
    SQLite::Database database(probe, SQLite::OPEN_READWRITE | SQLite::OPEN_CREATE);
    database.exec("BEGIN EXCLUSIVE; ROLLBACK");
  } catch (const SQLite::Exception& e) {
    locked = !is_busy(e) && (e.getErrorCode() & 0xff) != SQLITE_IOERR;
  }
  std::error_code ignored;
  if (fs::remove(probe, ignored)) return locked;
  return FolderLock(path, LOCK_SH).possible();  // no file can be made there
}

SQLite::Exception no_locks() { return SQLite::Exception("its file system has no locks", SQLITE_IOERR_LOCK); }

bool may_mean_no_locks(const SQLite::Exception& e) { return is_busy(e) || (e.getErrorCode() & 0xff) == SQLITE_IOERR; }

// What can be read of a damaged file that is not to be moved, for someone who wants to write.
Result<StorePtr> salvaged_in_memory(const std::string& path, const std::string& message,
                                    std::span<const Migration> steps) {
  std::optional<Salvaged> saved = salvage(path, steps);
  if (!saved) return in_memory(message, steps);
  StoreState state{.mode = OpenMode::kInMemory,
                   .message = fmt::format("{} ({})", message, saved->summary()),
                   .schema_version = steps.back().version,
                   .damage = ""};
  return StorePtr(std::make_unique<SqliteStore>(std::move(saved->connection), std::move(state)));
}

// The same for someone who reads: the file as far as it can be read. `damage` goes to verify(); "" when there is none.
// A null store when nothing can be read.
StorePtr salvaged_to_read(const std::string& path, const std::string& message, const std::string& damage,
                          std::span<const Migration> steps) {
  std::optional<Salvaged> saved = salvage(path, steps, path);
  if (!saved) return nullptr;
  configure_reader(saved->connection->database());
  const std::string found = damage.empty() && saved->damaged_tables > 0 ? saved->summary() : damage;
  StoreState state{.mode = OpenMode::kReadOnly,
                   .message = fmt::format("{} ({})", message, saved->summary()),
                   .schema_version = steps.back().version,
                   .damage = found};
  return std::make_unique<SqliteStore>(std::move(saved->connection), std::move(state));
}

// file:PATH?immutable=1, with everything that has a meaning in a URI encoded.
std::string immutable_uri(const std::string& path) {
  std::string uri = "file:";
  for (unsigned char c : path) {
    const bool plain = std::isalnum(c) || std::strchr("/._-~", c) != nullptr;
    uri += plain ? std::string(1, static_cast<char>(c)) : fmt::format("%{:02x}", c);
  }
  return uri + "?immutable=1";
}

// A database in WAL mode needs a -shm file even to be read. Where none can be made, SQLite reads it only on the promise
// that nobody writes, which is what a read-only folder means. It then ignores the log: `unseen` names one that is
// there.
std::unique_ptr<Connection> connect_to_read(const std::string& path, std::string& unseen) {
  try {
    auto connection = std::make_unique<Connection>(path, path, SQLite::OPEN_READONLY);
    connection->database().setBusyTimeout(kOpenTimeoutMs);
    (void)read_schema(connection->database());
    connection->database().setBusyTimeout(kBusyTimeoutMs);
    return connection;
  } catch (const SQLite::Exception& e) {
    if (is_damage(e) || (is_busy(e) && has_locks(path))) throw;
  }
  const std::string log = path + "-wal";
  std::error_code absent;
  if (const auto size = fs::file_size(log, absent); !absent && size > 0) unseen = log;
  return std::make_unique<Connection>(path, immutable_uri(path), SQLite::OPEN_READONLY | SQLite::OPEN_URI);
}

// The queries know the newest schema only: an older file that may not be changed is read through a migrated copy.
std::unique_ptr<Connection> migrated_copy(Connection& from, std::span<const Migration> steps) {
  auto copy = std::make_unique<Connection>(from.path(), ":memory:", SQLite::OPEN_READWRITE | SQLite::OPEN_CREATE);
  SQLite::Backup(copy->database(), from.database()).executeStep(-1);
  (void)migrate(copy->database(), steps);
  return copy;
}

// `reason`: why it is not open for writing ("" when reading is what was asked).
Result<StorePtr> open_to_read(const std::string& path, const std::string& reason, std::span<const Migration> steps) {
  FolderLock nobody_moves_it(path, LOCK_SH);
  HONE_ASSIGN_OR_RETURN(const FileState file, look_at(path));
  const std::string prefix = reason.empty() ? "" : reason + "; ";
  // Who asked for reading only has nothing to keep.
  const std::string instead =
      reason.empty() ? "there are no stored plans" : fmt::format("working in memory; {}", kElsewhere);
  if (!file.exists) return in_memory(fmt::format("{}{} does not exist: {}", prefix, path, instead), steps);
  if (file.size == 0) return in_memory(fmt::format("{}{} is empty: {}", prefix, path, instead), steps);
  try {
    if (file.size == 1) throw one_byte();
    return with_retry([&]() -> Result<StorePtr> {
      std::string unseen_log;
      auto connection = connect_to_read(path, unseen_log);
      StoreState state{.mode = OpenMode::kReadOnly, .message = reason, .schema_version = 0, .damage = ""};
      if (!unseen_log.empty()) {
        const std::string why = fmt::format("{}{} was not merged and SQLite cannot do it here", prefix, unseen_log);
        if (StorePtr store = salvaged_to_read(path, why + ": read with it page by page", "", steps)) return store;
        state.message = why + ": what only it holds is not seen";
      }
      const SchemaState schema = read_schema(connection->database());
      if (schema.owner == Owner::kOther) return not_ours(path);
      if (schema.owner == Owner::kNobody) {
        return in_memory(fmt::format("{}{} has no tables: {}", prefix, path, instead), steps);
      }
      state.schema_version = schema.version;
      if (schema.version > steps.back().version) {
        state.message = fmt::format(
            "{}{} was written by a newer version (schema {}, this one knows {}): opened for reading only; update hone "
            "or give another path with --db",
            unseen_log.empty() ? "" : state.message + "; ", path, schema.version, steps.back().version);
      } else {
        if (schema.version < steps.back().version) connection = migrated_copy(*connection, steps);
        check_tables(connection->database(), false);
      }
      configure_reader(connection->database());
      return StorePtr(std::make_unique<SqliteStore>(std::move(connection), std::move(state)));
    });
  } catch (const SQLite::Exception& e) {
    if (is_damage(e)) {
      const std::string message = fmt::format("{}{} is damaged ({}): read as far as it can be", prefix, path, e.what());
      if (StorePtr store = salvaged_to_read(path, message, e.what(), steps)) return store;
    }
    return in_memory(fmt::format("{}{} cannot be read ({}): {}", prefix, path, e.what(), instead), steps);
  }
}

// A damaged file may be moved away when it is ours: it says so in its header or in that of its log, or it never was a
// database but bears the name of one. Anything else (a model, a note, named by mistake) is the user's; so is a database
// without an application id, which few programs set.
Status may_quarantine(const std::string& path) {
  std::array<char, 100> header{};
  std::ifstream in(path, std::ios::binary);
  in.read(header.data(), header.size());
  const auto got = static_cast<size_t>(in.gcount());
  constexpr std::string_view kMagic{"SQLite format 3\0", 16};
  if (std::string_view(header.data(), std::min(got, kMagic.size())) == kMagic.substr(0, got)) {
    uint32_t application = 0;
    for (int i = 68; i < 72; ++i)
      application = application << 8 | static_cast<unsigned char>(header[static_cast<size_t>(i)]);
    if (application == static_cast<uint32_t>(kApplicationId)) return {};
    // The log has the newer header, but says nothing where the file is cut within its first page.
    const std::optional<DamagedFile> file = DamagedFile::read(path);
    if (file && file->application_id() == kApplicationId) return {};
    // Else it is too short to say whose it is.
    if (got >= header.size()) return not_ours(path);
  }
  const std::string extension = fs::path(path).extension().string();
  if (extension == ".db" || extension == ".sqlite") return {};
  return invalid_argument(fmt::format(
      "{} is not a database and is left alone, as its name does not end in .db or .sqlite; give another path", path));
}

// Writes what was saved to a file of its own beside `path`; its name, "" when there is no room for it.
std::string write_beside(const std::string& path, Salvaged& saved) {
  const std::string name = fmt::format("{}.salvage-{}", path, getpid());
  std::error_code ignored;
  fs::remove(name, ignored);
  try {
    SQLite::Statement vacuum(saved.connection->database(), "VACUUM INTO ?");
    vacuum.bind(1, name);
    vacuum.exec();
    return name;
  } catch (const SQLite::Exception&) {
    fs::remove(name, ignored);
    return "";
  }
}

// Renames the file and its side files, all or none. The log first: one left beside the new file would be replayed into
// it.
Status move_away(const std::string& path, const std::string& name) {
  const std::array<std::string, 4> parts = {"-wal", "-shm", "-journal", ""};
  for (size_t i = 0; i < parts.size(); ++i) {
    std::error_code error, ignored;
    fs::rename(path + parts[i], name + parts[i], error);
    if (!error || (error == std::errc::no_such_file_or_directory && !parts[i].empty())) continue;
    for (size_t k = 0; k < i; ++k) fs::rename(name + parts[k], path + parts[k], ignored);  // some were never there
    return unavailable(fmt::format("cannot move {}{} away: {}", path, parts[i], error.message()));
  }
  return {};
}

// Moves the damaged file and its side files away, and puts what could be read in its place. Several processes may find
// the damage at once: only the first still sees the inode that was found damaged. Returns what happened, "" when
// someone else was first.
Result<std::string> quarantine(const std::string& path, const FileState& damaged, std::span<const Migration> steps) {
  FolderLock nobody_opens(path, LOCK_EX);
  HONE_ASSIGN_OR_RETURN(const FileState file, look_at(path));
  if (!file.exists || file.inode != damaged.inode || file.device != damaged.device) return std::string();
  std::optional<Salvaged> saved = salvage(path, steps);
  const std::string fresh = saved ? write_beside(path, *saved) : "";
  if (saved && fresh.empty()) return resource_exhausted("there is no room beside it for what can be read");
  const std::string first = fmt::format("{}.corrupt-{}", path, static_cast<int64_t>(std::time(nullptr)));
  std::string name = first;
  std::error_code error;
  for (int i = 1; fs::exists(name, error); ++i) name = fmt::format("{}.{}", first, i);
  // Saving takes its time, and the folder's lock is given up after a while: somebody else may have been first.
  HONE_ASSIGN_OR_RETURN(const FileState now, look_at(path));
  const bool first_here = now.exists && now.inode == damaged.inode && now.device == damaged.device;
  const Status moved = first_here ? move_away(path, name) : Status{};
  if (!first_here || !moved.ok()) {
    if (!fresh.empty()) fs::remove(fresh, error);
    if (!moved.ok()) return moved;
    return std::string();
  }
  if (!saved) return fmt::format("moved to {}, started a new one", name);
  fs::rename(fresh, path, error);
  if (error) return fmt::format("moved to {}, what can be read of it to {}", name, fresh);
  return fmt::format("moved to {}, {}", name, saved->summary());
}

// read_schema() that does not wait long for a lock that there is not.
SchemaState first_look(const std::string& path, SQLite::Database& database) {
  database.setBusyTimeout(kOpenTimeoutMs);
  try {
    const SchemaState schema = read_schema(database);
    database.setBusyTimeout(kBusyTimeoutMs);
    return schema;
  } catch (const SQLite::Exception& e) {
    if (may_mean_no_locks(e) && !has_locks(path)) throw no_locks();
    throw;
  }
}

// One attempt at the file itself. ok with a null store: read it instead, for the reason in `why_not`.
Result<StorePtr> try_to_write(const std::string& path, const std::string& message, bool check_all,
                              std::span<const Migration> steps, std::string& why_not) {
  return with_retry([&]() -> Result<StorePtr> {
    auto connection = std::make_unique<Connection>(path, path, SQLite::OPEN_READWRITE | SQLite::OPEN_CREATE);
    SQLite::Database& database = connection->database();
    SchemaState schema = first_look(path, database);
    if (schema.owner == Owner::kOther) return not_ours(path);
    if (schema.version > steps.back().version) {
      why_not = "newer schema";  // open_to_read words it
      return StorePtr();
    }
    if (is_read_only(database)) {
      why_not = fmt::format("{} is write protected: opened for reading only; {}", path, kElsewhere);
      return StorePtr();
    }
    configure_writer(database);
    if (schema.owner != Owner::kHone || schema.version < steps.back().version) schema = migrate(database, steps);
    if (schema.owner == Owner::kOther) return not_ours(path);
    check_tables(database, check_all);
    StoreState state{.mode = OpenMode::kReadWrite, .message = message, .schema_version = schema.version, .damage = ""};
    return StorePtr(std::make_unique<SqliteStore>(std::move(connection), std::move(state)));
  });
}

Result<StorePtr> open_to_write(const std::string& path, bool check_all, std::span<const Migration> steps) {
  std::string message;
  // Twice at most: a file that is damaged again right after it was made anew means a disk that cannot be trusted.
  for (int attempt = 0; attempt < 2; ++attempt) {
    HONE_ASSIGN_OR_RETURN(FileState file, look_at(path));
    if (!file.exists) {
      const fs::path folder = fs::path(path).parent_path();
      std::error_code error;
      fs::create_directories(folder, error);
      if (error) {
        return in_memory(fmt::format("cannot create folder {} ({}): working in memory; {}", folder.string(),
                                     error.message(), kElsewhere),
                         steps);
      }
    }
    try {
      FolderLock nobody_moves_it(path, LOCK_SH);
      HONE_ASSIGN_OR_RETURN(file, look_at(path));
      if (file.size == 1) throw one_byte();
      std::string why_not;
      HONE_ASSIGN_OR_RETURN(StorePtr store, try_to_write(path, message, check_all, steps, why_not));
      if (store) return store;
      return open_to_read(path, why_not, steps);
    } catch (const SQLite::Exception& e) {
      if (!is_damage(e)) {
        return open_to_read(
            path, fmt::format("cannot write {} ({}): opened for reading only; {}", path, e.what(), kElsewhere), steps);
      }
      HONE_RETURN_IF_ERROR(may_quarantine(path));
      Result<std::string> moved = quarantine(path, file, steps);
      if (!moved.ok()) {
        return salvaged_in_memory(path,
                                  fmt::format("{} is damaged ({}) and {}: working in memory; {}", path, e.what(),
                                              moved.status().message(), kElsewhere),
                                  steps);
      }
      if (!moved->empty()) message = fmt::format("{} was damaged ({}): {}", path, e.what(), *moved);
    }
  }
  return in_memory(fmt::format("{} keeps getting damaged: working in memory; {}", path, kElsewhere), steps);
}

Result<StorePtr> open_path(const OpenOptions& options, std::span<const Migration> steps) {
  if (options.mode == OpenMode::kInMemory || options.path == ":memory:") return in_memory("", steps);
  std::string path = options.path;
  if (path.empty()) {
    Result<std::string> found = default_path();
    if (!found.ok()) return in_memory(found.status().message() + ": working in memory", steps);
    path = *found;
    if (path == ":memory:") return in_memory("", steps);
  }
  if (path.back() == '/') return invalid_argument(fmt::format("{} is a folder, not a database; give a file", path));
  path = resolve(path);
  if (options.mode == OpenMode::kReadOnly) return open_to_read(path, "", steps);
  return open_to_write(path, options.check_all, steps);
}

}  // namespace

Result<std::string> default_path() {
  if (auto path = env("HONE_DB")) return *path;
  if (auto data = env("XDG_DATA_HOME"); data && data->front() == '/') return *data + "/hone/hone.db";
  if (auto home = env("HOME")) return *home + "/.local/share/hone/hone.db";
  return not_found("no place for the database: none of HONE_DB, XDG_DATA_HOME (absolute) and HOME is set");
}

Result<StorePtr> open(const OpenOptions& options) { return open_with(options, migrations()); }

Result<StorePtr> open_with(const OpenOptions& options, std::span<const Migration> steps) {
  try {
    return open_path(options, steps);
  } catch (const SQLite::Exception& e) {
    return to_status(e, options.path.empty() ? "the database" : options.path);
  } catch (const std::exception& e) {
    return resource_exhausted(
        fmt::format("cannot open {}: {}", options.path.empty() ? "the database" : options.path, e.what()));
  }
}

}  // namespace hone::db
