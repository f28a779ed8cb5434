// See table.h.
#include "tools/hone/table.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "tools/hone/cli.h"
#include "tools/hone/gbench.h"
#include "tools/hone/json.h"

namespace hone::cli {
namespace {

constexpr std::pair<Format, std::string_view> kFormats[] = {
#define HONE_FORMAT(id, text) {Format::id, text},
    HONE_CLI_FORMATS(HONE_FORMAT)
#undef HONE_FORMAT
};

// On one line of one column of a terminal, whatever the text holds.
std::string in_cell(const std::string& text) {
  std::string out;
  for (const char c : text) {
    if (c == '|' || c == '\\') out += '\\';
    out += c;
  }
  return printable(out);
}

std::string plain(const Cell& cell) {
  if (const auto* number = std::get_if<double>(&cell)) return std::isfinite(*number) ? fmt::format("{}", *number) : "";
  if (const auto* range = std::get_if<Range>(&cell)) return fmt::format("[{}, {}]", range->lo, range->hi);
  if (const auto* list = std::get_if<std::vector<double>>(&cell)) return fmt::format("[{}]", fmt::join(*list, ", "));
  return for_people(cell);
}

std::string exactly(const Cell& cell) {
  if (std::holds_alternative<std::monostate>(cell)) return "NULL";
  if (const auto* number = std::get_if<double>(&cell)) return fmt::format("{}", *number);
  return in_cell(plain(cell));
}

const std::string& title(const Column& column) { return column.title.empty() ? column.name : column.title; }

bool numeric(const Cell& cell) { return std::holds_alternative<double>(cell) || std::holds_alternative<int64_t>(cell); }

std::string render_md(const Table& table) {
  if (table.rows.empty()) return "";
  const auto shown_as = [&](const Cell& cell) { return table.exact ? exactly(cell) : in_cell(for_people(cell)); };
  std::vector<size_t> shown;
  for (size_t c = 0; c < table.columns.size(); ++c)
    if (table.columns[c].whom != For::kMachines) shown.push_back(c);
  std::vector<size_t> width;
  std::vector<bool> right;
  for (size_t c : shown) {
    size_t w = title(table.columns[c]).size();
    bool all_numbers = !table.rows.empty();
    for (const auto& row : table.rows) {
      w = std::max(w, shown_as(row[c]).size());
      all_numbers = all_numbers && (numeric(row[c]) || std::holds_alternative<std::monostate>(row[c]));
    }
    width.push_back(w);
    right.push_back(all_numbers);
  }
  std::string out = "|";
  for (size_t i = 0; i < shown.size(); ++i)
    out += right[i] ? fmt::format(" {:>{}} |", title(table.columns[shown[i]]), width[i])
                    : fmt::format(" {:<{}} |", title(table.columns[shown[i]]), width[i]);
  out += "\n|";
  for (size_t i = 0; i < shown.size(); ++i) out += fmt::format("{:-<{}}{}|", "", width[i] + 1, right[i] ? ":" : "-");
  for (const auto& row : table.rows) {
    out += "\n|";
    for (size_t i = 0; i < shown.size(); ++i) {
      const std::string text = shown_as(row[shown[i]]);
      out += right[i] ? fmt::format(" {:>{}} |", text, width[i]) : fmt::format(" {:<{}} |", text, width[i]);
    }
  }
  return out + "\n";
}

std::string quoted(std::string text, char quote) {
  for (size_t at = 0; (at = text.find(quote, at)) != std::string::npos; at += 2) text.insert(at, 1, quote);
  return quote + text + quote;
}

// The columns that are not for people only, as a table of its own.
Table for_machines(const Table& table) {
  Table out{table.name, {}, {}};
  out.rows.resize(table.rows.size());
  for (size_t c = 0; c < table.columns.size(); ++c) {
    if (table.columns[c].whom == For::kPeople) continue;
    out.columns.push_back(table.columns[c]);
    for (size_t r = 0; r < table.rows.size(); ++r) out.rows[r].push_back(table.rows[r][c]);
  }
  return out;
}

std::string render_csv(const Table& table) {
  std::string out;
  auto line = [&](auto&& field) {
    for (size_t c = 0; c < table.columns.size(); ++c) out += (c ? "," : "") + field(c);
    out += "\n";
  };
  line([&](size_t c) { return table.columns[c].name; });
  for (const auto& row : table.rows) {
    line([&](size_t c) {
      const std::string text = plain(row[c]);
      return text.find_first_of(",\"\r\n") == std::string::npos ? text : quoted(text, '"');
    });
  }
  return out;
}

Json to_json(const Cell& cell) {
  if (const auto* text = std::get_if<std::string>(&cell)) return *text;
  if (const auto* whole = std::get_if<int64_t>(&cell)) return *whole;
  if (const auto* number = std::get_if<double>(&cell)) return std::isfinite(*number) ? Json(*number) : Json(nullptr);
  if (const auto* range = std::get_if<Range>(&cell)) return {range->lo, range->hi};
  if (const auto* list = std::get_if<std::vector<double>>(&cell)) return *list;
  return nullptr;
}

Json rows_to_json(const Table& table) {
  Json all = Json::array();
  for (const auto& row : table.rows) all.push_back(row_to_json(table, row));
  return all;
}

std::string render_json(const Table& table, const Table* summary) {
  Json all = {{table.name, rows_to_json(table)}};
  if (summary != nullptr) all[summary->name] = rows_to_json(*summary);
  return dump(all, 2) + "\n";
}

std::string render_jsonl(const Table& table) {
  std::string out;
  for (const auto& row : table.rows) out += dump(row_to_json(table, row)) + "\n";
  return out;
}

std::string render_sql(const Table& table) {
  std::string out = fmt::format("CREATE TABLE IF NOT EXISTS {} (", table.name);
  for (size_t c = 0; c < table.columns.size(); ++c) {
    const bool number =
        std::any_of(table.rows.begin(), table.rows.end(), [&](const auto& row) { return numeric(row[c]); });
    out += fmt::format("{}{} {}", c ? ", " : "", quoted(table.columns[c].name, '"'), number ? "REAL" : "TEXT");
  }
  out += ");\n";
  for (const auto& row : table.rows) {
    out += fmt::format("INSERT INTO {} VALUES (", table.name);
    for (size_t c = 0; c < row.size(); ++c) {
      out += c ? ", " : "";
      const std::string text = plain(row[c]);
      const bool is_text = std::holds_alternative<std::string>(row[c]);
      out += text.empty() && !is_text ? "NULL" : numeric(row[c]) ? text : quoted(text, '\'');
    }
    out += ");\n";
  }
  return out;
}

}  // namespace

// Four significant digits, without an exponent for anything a person would read aloud.
std::string for_people(const Cell& cell) {
  if (const auto* text = std::get_if<std::string>(&cell)) return *text;
  if (const auto* whole = std::get_if<int64_t>(&cell)) return std::to_string(*whole);
  if (const auto* number = std::get_if<double>(&cell)) {
    if (!std::isfinite(*number)) return fmt::format("{}", *number);
    const double size = std::abs(*number);
    if (size >= 1000) return fmt::format("{:.0f}", *number);
    if (size >= 100) return fmt::format("{:.1f}", *number);
    return fmt::format("{:.{}f}", *number, size >= 10 ? 2 : 3);
  }
  if (const auto* range = std::get_if<Range>(&cell)) return fmt::format("[{:.3f}, {:.3f}]", range->lo, range->hi);
  return "";
}

Result<Format> parse_format(const std::string& name, bool times) {
  std::vector<std::string_view> names;
  for (const auto& [format, text] : kFormats) {
    if (format == Format::kGbench && !times) continue;
    if (name == text) return format;
    names.push_back(text);
  }
  return invalid_argument(fmt::format("unknown output format '{}': use one of {}", name, fmt::join(names, ", ")));
}

Json row_to_json(const Table& table, const std::vector<Cell>& row) {
  Json object = Json::object();
  for (size_t c = 0; c < table.columns.size(); ++c) object[table.columns[c].name] = to_json(row[c]);
  return object;
}

bool has_place_for_summary(Format format) { return format != Format::kCsv && format != Format::kJsonl; }

std::string render(const Table& everything, Format format, const Table* summary) {
  if (summary != nullptr && summary->rows.empty()) summary = nullptr;
  const Table table = for_machines(everything);
  switch (format) {
    case Format::kMd:
      return render_md(everything) + (summary == nullptr ? "" : "\n" + render_md(*summary));
    case Format::kCsv:
      return render_csv(table);
    case Format::kJson:
      return render_json(table, summary);
    case Format::kJsonl:
      return render_jsonl(table);
    case Format::kSql:
      return render_sql(table) + (summary == nullptr ? "" : render_sql(*summary));
    case Format::kGbench:
      return render_gbench(table, summary);
  }
  return "";
}

}  // namespace hone::cli
