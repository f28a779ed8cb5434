// Reads the rows of a damaged SQLite file without SQLite, which gives up a whole table at the first bad page. The
// format is frozen and documented (sqlite.org/fileformat2.html): pages, trees of pages, records, and a write-ahead log.
//
// SQLite pages bear no checksum, so what makes a page trustworthy is that everything in it fits: cells neither overlap
// nor leave gaps, records fill their cells, keys ascend within the page and between its neighbours, no text is noise. A
// page in which anything does not fit is bad, and gives no row at all. Damage that leaves a page well formed (a digit
// that became another one) cannot be told here.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "db/value.h"

namespace hone::db {

struct Row {
  int64_t rowid = 0;  // of a table with rowids
  std::vector<Value> values;
};

class DamagedFile {
 public:
  // The file at `path` with what was committed to its log. Nothing when it cannot be read at all.
  static std::optional<DamagedFile> read(const std::string& path);

  int32_t application_id() const { return static_cast<int32_t>(header_field(68)); }
  int user_version() const { return static_cast<int>(header_field(60)); }

  enum class Tree { kRowid, kKeyed };  // a table with rowids; an index or a WITHOUT ROWID table
  // Calls on_record for each row of the tree in ascending order, and returns the number of bad pages.
  int read_tree(int64_t root, Tree tree, const std::function<void(Row&&)>& on_record);

  // Pages that no tree which was read leads to: leaves, where a page above them is bad. Empty where the list of
  // free pages is damaged too, as pages of deleted rows could not be told from them.
  std::vector<uint32_t> orphans() const;
  // Calls on_record for each row of one sound leaf; does nothing for another page.
  void read_leaf(uint32_t number, Tree tree, const std::function<void(Row&&)>& on_record);
  void forget_visits() { visited_.assign(visited_.size(), false); }

 private:
  struct Cell {
    uint32_t child = 0;  // interior pages
    Row record;
  };
  struct Page {
    bool sound = false;
    bool leaf = false;
    uint32_t right = 0;
    std::vector<Cell> cells;
  };
  struct Walk;

  static bool ascends(Tree tree, const Row& a, const Row& b);
  uint32_t header_field(size_t offset) const;
  std::string_view page(uint32_t number) const;  // empty when it is not there
  void apply_log(std::string_view log);
  Page parse(uint32_t number, Tree tree) const;
  bool parse_cell(std::string_view page, size_t at, Tree tree, bool leaf, Cell& cell, size_t& size) const;
  bool read_payload(std::string_view page, size_t at, size_t length, Tree tree, bool leaf, std::string& payload,
                    size_t& local) const;
  void visit(Walk& walk, uint32_t number, const Row* limit, int depth);

  std::string bytes_, log_;
  size_t page_size_ = 4096;
  size_t usable_ = 4096;
  std::unordered_map<uint32_t, size_t> in_log_;  // page number -> offset in log_
  std::vector<bool> visited_;                    // over all trees: a page belongs to one of them
};

}  // namespace hone::db
