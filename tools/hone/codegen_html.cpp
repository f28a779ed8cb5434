// See codegen_html.h. Tables are those that people get on a terminal; charts are inline SVG.
#include "tools/hone/codegen_html.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "tools/hone/codegen_align.h"
#include "tools/hone/codegen_report.h"

namespace hone::cli {
namespace {

constexpr std::string_view kStyle = R"css(
:root { color-scheme: light dark; --fg: #1c1e21; --bg: #ffffff; --soft: #f1f3f5; --line: #d0d4d9; --dim: #6a7178;
  --fma: #1d5fbf; --load: #8a5a00; --store: #a03070; --branch: #2f7d32; --bad: #c62828; --diff: #fff3d6; }
@media (prefers-color-scheme: dark) { :root { --fg: #e4e6e9; --bg: #16181b; --soft: #202327; --line: #3a3f45;
  --dim: #9aa1a9; --fma: #7fb2ff; --load: #e0b060; --store: #f090c0; --branch: #80d084; --bad: #ff7b72; --diff: #3a3218; } }
body { font: 14px/1.45 system-ui, sans-serif; color: var(--fg); background: var(--bg); margin: 2em auto; max-width: 78em;
  padding: 0 1em; }
h1 { font-size: 1.5em; } h2 { font-size: 1.15em; margin-top: 2.2em; border-top: 1px solid var(--line); padding-top: 1em; }
code, .code { font: 12px/1.4 ui-monospace, monospace; } p, dl { color: var(--dim); } dl { display: grid;
  grid-template-columns: max-content 1fr; gap: 0 1em; } dt { font-weight: 600; } dd { margin: 0; overflow-wrap: anywhere; }
.wide { overflow-x: auto; } table { border-collapse: collapse; margin: 0.8em 0; } th, td { padding: 2px 8px; text-align: left;
  border-bottom: 1px solid var(--line); white-space: nowrap; } th { background: var(--soft); } td.n { text-align: right;
  font-variant-numeric: tabular-nums; } a { color: var(--fma); } .bad { color: var(--bad); font-weight: 600; }
.code td { border: 0; padding: 0 10px; white-space: pre; } .code td.sign { color: var(--dim); text-align: center; }
tr.d td { background: var(--diff); } .fma { color: var(--fma); } .load { color: var(--load); } .store { color: var(--store); }
.branch { color: var(--branch); } .spill { color: var(--bad); } svg text { fill: var(--fg); font: 12px system-ui, sans-serif; }
svg .grid { stroke: var(--line); } svg .whisker { stroke: var(--fg); } svg .b0 { fill: #4c86d8; } svg .b1 { fill: #d98a3d; }
svg .b2 { fill: #5aa469; } svg .b3 { fill: #a878c8; } svg .b4 { fill: #c85a6a; } svg .b5 { fill: #7a8894; }
summary { cursor: pointer; }
)css";

// For text and for attributes. Everything of ours is ASCII; what is not, and what a reader would not see, is shown as a
// number.
std::string escaped(std::string_view text) {
  std::string out;
  for (const char c : text) {
    switch (c) {
      case '&':
        out += "&amp;";
        break;
      case '<':
        out += "&lt;";
        break;
      case '>':
        out += "&gt;";
        break;
      case '"':
        out += "&quot;";
        break;
      case '\'':
        out += "&#39;";
        break;
      default:
        out += c >= ' ' && c <= '~' ? std::string(1, c) : fmt::format("\\x{:02x}", static_cast<unsigned char>(c));
    }
  }
  return out;
}

std::string html_table(const Table& table) {
  if (table.rows.empty()) return "";
  std::string out = "<div class=\"wide\"><table>\n<tr>";
  for (const Column& column : table.columns)
    if (column.whom != For::kMachines)
      out += fmt::format("<th>{}</th>", escaped(column.title.empty() ? column.name : column.title));
  out += "</tr>\n";
  for (const std::vector<Cell>& row : table.rows) {
    out += "<tr>";
    for (size_t c = 0; c < row.size(); ++c) {
      if (table.columns[c].whom == For::kMachines) continue;
      const bool text = std::holds_alternative<std::string>(row[c]);
      out += fmt::format("<td{}>{}</td>", text ? "" : " class=\"n\"", escaped(for_people(row[c])));
    }
    out += "</tr>\n";
  }
  return out + "</table></div>\n";
}

// ---- charts ----

struct Bar {
  std::string label;                  // before it
  std::string value;                  // behind it
  double length = 0, lo = 0, hi = 0;  // lo < hi: an interval around its end
  size_t color = 0;
  bool first_of_group = false;
};

constexpr int kLabelWidth = 150, kBarWidth = 460, kValueWidth = 190, kRow = 18, kGap = 8;

// Horizontal bars, as long as their numbers are large.
std::string bar_chart(const std::string& title, const std::vector<Bar>& bars) {
  double most = 0;
  for (const Bar& b : bars) most = std::max({most, b.length, b.hi});
  if (bars.empty() || !(most > 0) || !std::isfinite(most)) return "";
  std::string shapes;
  int y = 22;
  for (const Bar& b : bars) {
    if (b.first_of_group) y += kGap;
    const auto at = [&](double value) { return kLabelWidth + kBarWidth * value / most; };
    shapes +=
        fmt::format("<text x=\"{}\" y=\"{}\" text-anchor=\"end\">{}</text>", kLabelWidth - 6, y + 13, escaped(b.label));
    shapes += fmt::format("<rect class=\"b{}\" x=\"{}\" y=\"{}\" width=\"{:.1f}\" height=\"{}\"/>", b.color % 6,
                          kLabelWidth, y + 2, at(b.length) - kLabelWidth, kRow - 4);
    if (b.hi > b.lo)
      shapes += fmt::format("<line class=\"whisker\" x1=\"{:.1f}\" x2=\"{:.1f}\" y1=\"{}\" y2=\"{}\"/>", at(b.lo),
                            at(b.hi), y + kRow / 2, y + kRow / 2);
    shapes += fmt::format("<text x=\"{:.1f}\" y=\"{}\">{}</text>\n", at(std::max(b.length, b.hi)) + 6, y + 13,
                          escaped(b.value));
    y += kRow;
  }
  const int width = kLabelWidth + kBarWidth + kValueWidth;
  return fmt::format(
      "<div class=\"wide\"><svg role=\"img\" width=\"{0}\" height=\"{1}\" viewBox=\"0 0 {0} {1}\"><title>{2}</title>"
      "<text x=\"{3}\" y=\"14\">{2}</text>\n{4}</svg></div>\n",
      width, y + 6, escaped(title), kLabelWidth, shapes);
}

std::string time_chart(const Study& s) {
  std::vector<Bar> bars;
  for (size_t i = 0; i < s.codes.size(); ++i) {
    const GeneratorCode& code = s.codes[i];
    if (code.rounds_ns.empty()) continue;
    const autotune::Interval t = autotune::median_interval(code.rounds_ns, 0.95);
    bars.push_back({code.codegen, fmt::format("{} us", for_people(Cell(t.mid / 1e3))), t.mid, t.lo, t.hi, i});
  }
  return bar_chart("time of a call", bars);
}

std::string class_chart(const Study& s) {
  std::vector<Bar> bars;
  const auto add = [&](const CountColumn& column) {
    bool first = true;
    for (size_t i = 0; i < s.codes.size(); ++i) {
      const KernelCode* const hot = s.hot(s.codes[i]);
      const std::optional<CodePart> loop = hot != nullptr ? hot->inner_loop() : std::nullopt;
      if (!loop) continue;
      const int count = loop->counts.*column.value;
      bars.push_back({fmt::format("{}{}", first ? fmt::format("{}: ", column.name) : "", s.codes[i].codegen),
                      std::to_string(count), static_cast<double>(count), 0, 0, i, first});
      first = false;
    }
  };
  for (const CountColumn& column : kInstructionClasses) add(column);
  for (const CountColumn& column : kSpillColumns) add(column);
  return bar_chart("instructions of the inner loop", bars);
}

// Each problem's ratio with its interval, around a line at 1.
std::string ratio_chart(std::span<const Study> studies, const std::string& codegen) {
  struct Point {
    std::string problem;
    autotune::Interval ratio;
  };
  std::vector<Point> points;
  double lo = 0.95, hi = 1.1;
  for (const Study& s : studies) {
    const GeneratorCode* const code = s.find(codegen);
    const std::optional<autotune::Interval> ratio = code != nullptr ? s.ratio(*code) : std::nullopt;
    if (!ratio) continue;
    points.push_back({op::to_string(s.problem), *ratio});
    lo = std::min(lo, ratio->mid), hi = std::max(hi, ratio->mid);
  }
  if (points.size() < 2) return "";
  constexpr int kNames = 560, kPlot = 420;
  const auto at = [&](double v) { return kNames + kPlot * (std::clamp(v, lo, hi) - lo) / (hi - lo); };
  const int height = 40 + kRow * static_cast<int>(points.size());
  std::string shapes;
  // Where ratios are far apart the two ticks would stand on each other.
  for (const double tick : {1.0, hi - lo < 0.6 ? 1.05 : hi}) {
    shapes +=
        fmt::format("<line class=\"grid\" x1=\"{0:.1f}\" x2=\"{0:.1f}\" y1=\"28\" y2=\"{1}\"/>", at(tick), height - 8);
    shapes +=
        fmt::format("<text x=\"{:.1f}\" y=\"26\" text-anchor=\"middle\">{}</text>", at(tick), for_people(Cell(tick)));
  }
  int y = 34;
  for (const Point& p : points) {
    shapes +=
        fmt::format("<text x=\"{}\" y=\"{}\" text-anchor=\"end\">{}</text>", kNames - 8, y + 12, escaped(p.problem));
    shapes += fmt::format("<line class=\"whisker\" x1=\"{:.1f}\" x2=\"{:.1f}\" y1=\"{}\" y2=\"{}\"/>", at(p.ratio.lo),
                          at(p.ratio.hi), y + 8, y + 8);
    shapes += fmt::format("<circle class=\"b0\" cx=\"{:.1f}\" cy=\"{}\" r=\"4\"><title>{:.3f}</title></circle>\n",
                          at(p.ratio.mid), y + 8, p.ratio.mid);
    y += kRow;
  }
  return fmt::format(
      "<div class=\"wide\"><svg role=\"img\" width=\"{0}\" height=\"{1}\" viewBox=\"0 0 {0} {1}\"><title>{2}</title>"
      "<text x=\"{3}\" y=\"14\">{2}</text>\n{4}</svg></div>\n",
      kNames + kPlot + 40, height, escaped(fmt::format("time of {} / time of {}", codegen, kNative)), kNames, shapes);
}

// ---- listings ----

std::string_view color_of(const jit::Classes& c) {
  if (c.spill || c.reload) return "spill";
  if (c.fma) return "fma";
  if (c.store) return "store";
  if (c.branch) return "branch";
  return c.load ? "load" : "other";
}

std::string listing_cell(std::span<const jit::Instruction> listing, int index) {
  if (index < 0) return "<td></td>";
  const jit::Instruction& i = listing[static_cast<size_t>(index)];
  return fmt::format("<td class=\"{}\">{}</td>", color_of(i.classes), escaped(i.text));
}

std::string listings(const Study& s, const GeneratorCode& left, const GeneratorCode& right, bool open) {
  const std::vector<jit::Instruction> l = s.hot(left)->inner_instructions(), r = s.hot(right)->inner_instructions();
  std::string rows;
  int same = 0;
  for (const AlignedLine& line : align(l, r)) {
    same += line.same;
    const char* const sign = line.same ? "=" : line.left < 0 ? "&gt;" : line.right < 0 ? "&lt;" : "|";
    rows += fmt::format("<tr{}>{}<td class=\"sign\">{}</td>{}</tr>\n", line.same ? "" : " class=\"d\"",
                        listing_cell(l, line.left), sign, listing_cell(r, line.right));
  }
  return fmt::format(
      "<details{}><summary>inner loop of {} ({} instructions) beside that of {} ({}), {} of one shape</summary>\n"
      "<div class=\"wide\"><table "
      "class=\"code\">\n<tr><th>{}</th><th></th><th>{}</th></tr>\n{}</table></div></details>\n",
      open ? " open=\"open\"" : "", escaped(left.codegen), l.size(), escaped(right.codegen), r.size(), same,
      escaped(left.codegen), escaped(right.codegen), rows);
}

// Each beside the first; that one alone when there is no other.
std::string all_listings(const Study& s) {
  const std::vector<const GeneratorCode*> codes = s.with_inner_loop();
  std::string out;
  for (size_t i = 1; i < codes.size(); ++i) out += listings(s, *codes[0], *codes[i], i == 1);
  if (codes.size() != 1) return out;
  const std::vector<jit::Instruction> listing = s.hot(*codes[0])->inner_instructions();
  std::string rows;
  for (int i = 0; i < static_cast<int>(listing.size()); ++i) rows += "<tr>" + listing_cell(listing, i) + "</tr>\n";
  return fmt::format(
      "<div class=\"wide\"><table class=\"code\">\n<tr><th>inner loop of {}</th></tr>\n{}</table></div>\n",
      escaped(codes[0]->codegen), rows);
}

std::string section(const Study& s, size_t number) {
  std::string out = fmt::format("<h2 id=\"p{}\">{}</h2>\n", number, escaped(op::to_string(s.problem)));
  const bool bad = s.bits_equal && !*s.bits_equal;
  out += fmt::format("<p><code>{}</code> ({}), {} thread(s), caches {}; {}; <span{}>{}</span></p>\n",
                     escaped(op::to_string(s.program)), escaped(s.reason), s.threads, escaped(s.cache),
                     escaped(ratio_text(s)), bad ? " class=\"bad\"" : "", escaped(bits_text(s)));
  for (const Table& table : study_tables(s)) out += html_table(table);
  return out + time_chart(s) + class_chart(s) + all_listings(s);
}

}  // namespace

std::string codegen_html(std::span<const Study> studies, const PageFacts& facts) {
  std::string out = fmt::format(
      "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"/>"
      "<meta name=\"viewport\" content=\"width=device-width\"/><title>hone codegen</title>\n<style>{}</style></head>\n"
      "<body>\n<h1>One LoopIR, several code generators</h1>\n<dl>",
      kStyle);
  for (const auto& [name, value] : {std::pair{"machine", &facts.machine},
                                    {"build", &facts.build},
                                    {"date", &facts.date},
                                    {"command", &facts.command}})
    out += fmt::format("<dt>{}</dt><dd>{}</dd>", name, escaped(*value));
  out += "</dl>\n";
  out += html_table(distribution_table(studies)) + html_table(overview_table(studies));
  std::vector<std::string> drawn;
  for (const Study& s : studies) {
    for (const GeneratorCode& code : s.codes) {
      if (code.codegen == kNative || std::find(drawn.begin(), drawn.end(), code.codegen) != drawn.end()) continue;
      drawn.push_back(code.codegen);
      out += ratio_chart(studies, code.codegen);
    }
  }
  if (studies.size() > 1) {
    out += "<ol>";
    for (size_t i = 0; i < studies.size(); ++i)
      out += fmt::format("<li><a href=\"#p{}\">{}</a></li>", i, escaped(op::to_string(studies[i].problem)));
    out += "</ol>\n";
  }
  for (size_t i = 0; i < studies.size(); ++i) out += section(studies[i], i);
  return out + "</body></html>\n";
}

}  // namespace hone::cli
