#include "db/salvage.h"

#include <sqlite3.h>

#include <map>
#include <unordered_map>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "db/pages.h"
#include "db/store_internal.h"

namespace hone::db {
namespace {

struct Index {
  std::string name;
  std::vector<size_t> columns;
};

// A table as the schema of the damaged file's version has it.
struct Layout {
  std::string name;
  std::vector<std::string> columns;
  std::vector<size_t> optional_references;  // columns that may be NULL and refer to a row
  std::vector<Index> indices;
  bool rowids = true;
  int64_t usual_root = 0;  // where the tree begins in a file made at once: tried when the page that says so is lost
};

std::optional<Layout> layout(SQLite::Database& schema, const std::string& table) {
  Layout found{.name = table};
  SQLite::Statement text(schema,
                         "SELECT sql, rootpage FROM sqlite_schema WHERE type = 'table' AND name = ? ORDER BY name");
  text.bind(1, table);
  if (!text.executeStep()) return std::nullopt;
  found.rowids = text.getColumn("sql").getString().find("WITHOUT ROWID") == std::string::npos;
  found.usual_root = text.getColumn("rootpage").getInt64();
  SQLite::Statement columns(
      schema,
      "SELECT c.cid AS cid, c.name AS name, c.\"notnull\" AS needed, "
      "EXISTS (SELECT 1 FROM pragma_foreign_key_list(:table) f WHERE f.\"from\" = c.name) AS refers "
      "FROM pragma_table_info(:table) c ORDER BY c.cid");
  columns.bind(":table", table);
  while (columns.executeStep()) {
    if (columns.getColumn("refers").getInt() != 0 && columns.getColumn("needed").getInt() == 0)
      found.optional_references.push_back(found.columns.size());
    found.columns.push_back(columns.getColumn("name").getString());
  }
  if (!found.rowids) return found;  // its one index is the table itself
  SQLite::Statement indices(schema,
                            "SELECT l.name AS name, i.cid AS cid FROM pragma_index_list(:table) l, "
                            "pragma_index_info(l.name) i ORDER BY l.name, i.seqno");
  indices.bind(":table", table);
  while (indices.executeStep()) {
    const std::string name = indices.getColumn("name").getString();
    if (found.indices.empty() || found.indices.back().name != name) found.indices.push_back({name, {}});
    found.indices.back().columns.push_back(static_cast<size_t>(indices.getColumn("cid").getInt()));
  }
  return found;
}

// The columns of the rows of one table as its indices have them.
struct Indexed {
  std::unordered_map<int64_t, std::map<size_t, Value>> rows;
  std::vector<size_t> surely;  // columns of indices that could be read whole: a row that lacks them there is not true

  bool agrees(const Row& record) const {
    const auto row = rows.find(record.rowid);
    if (row == rows.end()) return surely.empty();
    for (const auto& [column, value] : row->second) {
      if (column >= record.values.size() || record.values[column] != value) return false;
    }
    for (size_t column : surely) {
      if (!row->second.contains(column)) return false;
    }
    return true;
  }
};

class Salvage {
 public:
  Salvage(DamagedFile& file, Connection& target) : file_(file), target_(target) {}

  // The trees of the file by name, from its schema table.
  void read_roots() {
    (void)file_.read_tree(1, DamagedFile::Tree::kRowid, [&](Row&& row) {  // copy() counts what is missing
      if (row.values.size() != 5) return;
      const auto* name = std::get_if<std::string>(&row.values[1]);
      const auto* root = std::get_if<int64_t>(&row.values[3]);
      if (name && root) roots_[*name] = *root;
    });
  }

  // Walks every tree once, to learn which pages belong to none.
  void find_orphans(const std::vector<Layout>& layouts) {
    const auto walk = [&](const std::string& name, DamagedFile::Tree tree) {
      const auto root = roots_.find(name);
      if (root != roots_.end()) (void)file_.read_tree(root->second, tree, [](Row&&) {});  // copy() counts faults
    };
    for (const Layout& table : layouts) {
      walk(table.name, kind(table));
      for (const Index& index : table.indices) walk(index.name, DamagedFile::Tree::kKeyed);
    }
    orphans_ = file_.orphans();
    file_.forget_visits();
  }

  // True when the table was read whole.
  bool copy(const Layout& table) {
    const auto named = roots_.find(table.name);
    const bool guessed = named == roots_.end();
    Indexed indexed = read_indices(table);
    int refused = guessed ? 1 : 0;
    const int bad =
        file_.read_tree(guessed ? table.usual_root : named->second,
                        table.rowids ? DamagedFile::Tree::kRowid : DamagedFile::Tree::kKeyed, [&](Row&& row) {
                          if (guessed && row.values.size() != table.columns.size()) return;
                          if (!take(table, indexed, std::move(row))) ++refused;
                        });
    // Leaves that a bad page led to. A row of another table has another number of columns or is refused, except that
    // machines and builds (three columns, two of them texts) look alike; these are small and have no page above them.
    const auto adopt = [&](Row&& row) {
      if (row.values.size() == table.columns.size()) (void)take(table, indexed, std::move(row));  // of another table
    };
    if (bad > 0 && table.columns.size() != 3) {
      for (uint32_t page : orphans_) file_.read_leaf(page, kind(table), adopt);
    }
    if (bad > 0) rebuild(table, indexed);
    return bad == 0 && refused == 0;
  }

  int64_t records() const { return records_; }

 private:
  static DamagedFile::Tree kind(const Layout& table) {
    return table.rowids ? DamagedFile::Tree::kRowid : DamagedFile::Tree::kKeyed;
  }

  Indexed read_indices(const Layout& table) {
    Indexed indexed;
    for (const Index& index : table.indices) {
      const auto root = roots_.find(index.name);
      if (root == roots_.end()) continue;
      const int bad = file_.read_tree(root->second, DamagedFile::Tree::kKeyed, [&](Row&& row) {
        // The columns, then the number of the row.
        const auto* rowid = row.values.empty() ? nullptr : std::get_if<int64_t>(&row.values.back());
        if (!rowid || row.values.size() != index.columns.size() + 1) return;
        auto& known = indexed.rows[*rowid];
        for (size_t i = 0; i < index.columns.size(); ++i) known[index.columns[i]] = std::move(row.values[i]);
      });
      if (bad == 0) indexed.surely.insert(indexed.surely.end(), index.columns.begin(), index.columns.end());
    }
    return indexed;
  }

  bool take(const Layout& table, Indexed& indexed, Row&& row) {
    if (row.values.size() > table.columns.size()) return false;
    if (table.rowids) {
      // INTEGER PRIMARY KEY is stored as NULL and means the number of the row.
      if (!std::holds_alternative<std::monostate>(row.values[0])) return false;
      const bool true_row = indexed.agrees(row);
      indexed.rows.erase(row.rowid);  // of two that differ neither can be trusted
      if (!true_row) return false;
      row.values[0] = row.rowid;
    }
    if (insert(table, row.values)) return true;
    for (size_t column : table.optional_references) {
      if (column >= row.values.size()) continue;
      row.values[column] = std::monostate{};
      if (insert(table, row.values)) return true;
    }
    return false;
  }

  // Rows of bad pages that indices hold completely.
  void rebuild(const Layout& table, Indexed& indexed) {
    for (auto& [rowid, known] : indexed.rows) {
      if (known.size() + 1 != table.columns.size() || known.contains(0)) continue;
      std::vector<Value> values{Value(rowid)};
      for (auto& [column, value] : known) values.push_back(std::move(value));
      (void)insert(table, values);  // refused: it was damaged in a way that the table forbids
    }
  }

  bool insert(const Layout& table, const std::vector<Value>& values) {
    auto& statement = inserts_[table.name + " " + std::to_string(values.size())];
    if (!statement) {
      std::string columns, marks;
      for (size_t i = 0; i < values.size(); ++i) {
        columns += (i == 0 ? "" : ", ") + table.columns[i];
        marks += i == 0 ? "?" : ", ?";
      }
      statement = std::make_unique<SQLite::Statement>(
          target_.database(), fmt::format("INSERT INTO {}({}) VALUES({})", table.name, columns, marks));
    }
    statement->reset();
    for (size_t i = 0; i < values.size(); ++i) bind(*statement, static_cast<int>(i) + 1, values[i]);
    try {
      statement->exec();
    } catch (const SQLite::Exception& e) {
      (void)statement->tryReset();
      if ((e.getErrorCode() & 0xff) != SQLITE_CONSTRAINT) throw;
      return false;
    }
    ++records_;
    return true;
  }

  static void bind(SQLite::Statement& statement, int at, const Value& value) {
    if (const auto* integer = std::get_if<int64_t>(&value)) {
      statement.bind(at, *integer);
    } else if (const auto* real = std::get_if<double>(&value)) {
      statement.bind(at, *real);
    } else if (const auto* text = std::get_if<std::string>(&value)) {
      statement.bind(at, *text);
    } else if (const auto* blob = std::get_if<Blob>(&value)) {
      statement.bind(at, static_cast<const void*>(blob->bytes.data()), static_cast<int>(blob->bytes.size()));
    } else {
      statement.bind(at);
    }
  }

  DamagedFile& file_;
  Connection& target_;
  std::map<std::string, int64_t> roots_;
  std::vector<uint32_t> orphans_;
  std::map<std::string, std::unique_ptr<SQLite::Statement>> inserts_;
  int64_t records_ = 0;
};

}  // namespace

std::string Salvaged::summary() const {
  std::string text = fmt::format("saved {} record{}, {} table{} damaged", records, records == 1 ? "" : "s",
                                 damaged_tables, damaged_tables == 1 ? " was" : "s were");
  if (dropped_decisions > 0)
    text += fmt::format(", {} decision{} dropped whose samples are lost", dropped_decisions,
                        dropped_decisions == 1 ? " was" : "s were");
  return text;
}

std::optional<Salvaged> salvage(const std::string& path, std::span<const Migration> steps, const std::string& name) {
  std::optional<DamagedFile> file = DamagedFile::read(path);
  if (!file || file->application_id() != kApplicationId) return std::nullopt;
  const int version = file->user_version();
  if (version < 1 || version > steps.back().version) return std::nullopt;
  Salvaged result;
  result.connection = std::make_unique<Connection>(name, ":memory:", SQLite::OPEN_READWRITE | SQLite::OPEN_CREATE);
  SQLite::Database& database = result.connection->database();
  configure_writer(database);
  (void)migrate(database, steps.first(static_cast<size_t>(version)));
  {
    Salvage work(*file, *result.connection);
    std::vector<Layout> layouts;
    for (const Table& table : tables()) {
      if (table.derived) continue;
      if (std::optional<Layout> known = layout(database, table.name)) layouts.push_back(std::move(*known));
    }
    work.read_roots();
    work.find_orphans(layouts);
    work.read_roots();  // marks its pages again
    SQLite::Transaction transaction(database);
    for (const Layout& table : layouts) {
      if (!work.copy(table)) ++result.damaged_tables;
    }
    transaction.commit();
    result.records = work.records();
  }
  if (result.records == 0) return std::nullopt;
  (void)migrate(database, steps);
  SQLite::Transaction transaction(database);
  result.dropped_decisions = drop_faulty_decisions(*result.connection);
  transaction.commit();
  result.records -= result.dropped_decisions;
  return result;
}

}  // namespace hone::db
