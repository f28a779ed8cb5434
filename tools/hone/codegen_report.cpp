// See codegen_report.h.
#include "tools/hone/codegen_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "tools/hone/codegen_align.h"

namespace hone::cli {
namespace {

// What the goal calls slower: by more than this a row counts.
constexpr double kSlower = 1.05;

Json or_null(std::optional<double> value) { return value ? Json(*value) : Json(nullptr); }
Json text_or_null(const std::string& text) { return text.empty() ? Json(nullptr) : Json(text); }
Cell or_empty(std::optional<double> value) { return value ? Cell(*value) : Cell(); }

std::optional<double> median_or_nothing(const std::vector<double>& values) {
  if (values.empty()) return std::nullopt;
  return autotune::median(values);
}

std::optional<double> loads_per_fma(const CodePart& part) {
  if (part.counts.fma == 0) return std::nullopt;
  return part.counts.loads_per_fma();
}

Json part_json(const CodePart& part, const char* bytes_name) {
  Json classes = Json::object();
  for (const CountColumn& c : kInstructionClasses) classes[std::string(c.name)] = part.counts.*c.value;
  Json json = {{bytes_name, part.bytes}, {"instructions", classes}};
  for (const CountColumn& c : kSpillColumns) json[std::string(c.name)] = part.counts.*c.value;
  json["loads_per_fma"] = or_null(loads_per_fma(part));
  return json;
}

Json loop_json(const KernelCode& kernel) {
  const std::optional<CodePart> loop = kernel.inner_loop();
  if (!loop) return nullptr;
  Json json = part_json(*loop, "bytes");
  json["kernel"] = kernel.name;
  Json& listing = json["listing"] = Json::array();
  for (const jit::Instruction& i : kernel.inner_instructions()) listing.push_back(i.text);
  return json;
}

Json model_json(const LoopModel& m) {
  Json json = {{"cpu", text_or_null(m.cpu)}};
  const jit::StaticThroughput* const r = m.result ? &*m.result : nullptr;
  json["block_rthroughput"] = r ? Json(r->block_rthroughput) : Json(nullptr);
  json["cycles"] = r ? Json(r->cycles) : Json(nullptr);
  json["ipc"] = r ? Json(r->ipc) : Json(nullptr);
  json["uops"] = r ? Json(r->uops) : Json(nullptr);
  json["bottleneck"] = r ? Json(r->bottleneck) : Json(nullptr);
  if (!m.why_not.empty()) json["why_not"] = m.why_not;
  return json;
}

Json kernels_json(const GeneratorCode& code) {
  Json all = Json::array();
  for (const KernelCode& k : code.kernels) {
    Json json = {{"name", k.name}};
    json.update(part_json({k.facts.bytes, k.facts.counts}, "code_bytes"));
    json["inner_loop"] = loop_json(k);
    // All that contain no other: a kernel may have several that matter.
    json["inner_loops"] = Json::array();
    for (size_t l = 0; l < k.facts.loops.size(); ++l)
      if (k.facts.loops[l].innermost) json["inner_loops"].push_back(part_json(k.part(static_cast<int>(l)), "bytes"));
    all.push_back(std::move(json));
  }
  return all;
}

void add_time(const Study& study, const GeneratorCode& code, Json& json) {
  const bool timed = !code.rounds_ns.empty();
  const autotune::Interval t = autotune::median_interval(code.rounds_ns, 0.95);
  json["ns"] = timed ? Json(t.mid) : Json(nullptr);
  json["ns_ci95"] = timed ? Json{t.lo, t.hi} : Json(nullptr);
  json["gflops"] = timed ? Json(op::flops(study.problem) / t.mid) : Json(nullptr);
  const std::optional<autotune::Interval> ratio = study.ratio(code);
  json["ratio_to_native"] = ratio ? Json(ratio->mid) : Json(nullptr);
  json["ratio_to_native_ci95"] = ratio ? Json{ratio->lo, ratio->hi} : Json(nullptr);
  json["rounds_ns"] = code.rounds_ns;
  for (const Counter c : kAllCounters) json["counters"][std::string(counter_name(c))] = or_null(code.counters[c]);
}

Json generator_json(const Study& study, const GeneratorCode& code) {
  Json json = {{"codegen", code.codegen}, {"version", code.version}};
  json["compile_ns"] = or_null(median_or_nothing(code.compile_ns));
  Json whole = part_json(code.whole(), "code_bytes");
  if (code.kernels.empty())
    for (auto& [key, value] : whole.items()) value = nullptr;
  json.update(whole);
  json["spilling_loops"] = code.kernels.empty() ? Json(nullptr) : Json(code.spilling_loops());
  const KernelCode* const hot = study.hot(code);
  json["inner_loop"] = hot != nullptr ? loop_json(*hot) : Json(nullptr);
  json["mca"] = code.models.empty() ? Json(nullptr) : model_json(code.models.front());
  json["mca_others"] = Json::array();
  for (size_t i = 1; i < code.models.size(); ++i) json["mca_others"].push_back(model_json(code.models[i]));
  json["kernels"] = kernels_json(code);
  add_time(study, code, json);
  json["no_code"] = text_or_null(code.no_code);
  json["no_time"] = text_or_null(code.no_time);
  return json;
}

// ---- tables ----

void add_columns(const std::string& prefix, std::vector<Column>& columns) {
  for (const CountColumn& c : kInstructionClasses) columns.push_back({prefix + std::string(c.name)});
  for (const CountColumn& c : kSpillColumns) columns.push_back({prefix + std::string(c.name)});
  columns.push_back({prefix + "loads_per_fma"});
}

void add_counts(const CodePart* part, std::vector<Cell>& row) {
  for (const CountColumn& c : kInstructionClasses) row.push_back(part ? Cell(int64_t{part->counts.*c.value}) : Cell());
  for (const CountColumn& c : kSpillColumns) row.push_back(part ? Cell(int64_t{part->counts.*c.value}) : Cell());
  row.push_back(part ? or_empty(loads_per_fma(*part)) : Cell());
}

Cell bytes_cell(const CodePart* part) { return part ? Cell(static_cast<int64_t>(part->bytes)) : Cell(); }

Cell range_cell(const std::optional<autotune::Interval>& i) { return i ? Cell(Range{i->lo, i->hi}) : Cell(); }

void add_model(const GeneratorCode& code, std::vector<Cell>& row) {
  const LoopModel* const m = code.models.empty() ? nullptr : &code.models.front();
  const jit::StaticThroughput* const r = m != nullptr && m->result ? &*m->result : nullptr;
  row.push_back(m != nullptr ? Cell(m->cpu) : Cell());
  for (double jit::StaticThroughput::*value :
       {&jit::StaticThroughput::block_rthroughput, &jit::StaticThroughput::cycles, &jit::StaticThroughput::ipc})
    row.push_back(r != nullptr ? Cell(r->*value) : Cell());
  row.push_back(r != nullptr ? Cell(r->bottleneck) : Cell());
}

std::string reason_of(const GeneratorCode& code) {
  if (code.no_code.empty() || code.no_code == code.no_time) return code.no_time;
  return code.no_time.empty() ? code.no_code : fmt::format("{}; {}", code.no_code, code.no_time);
}

std::vector<Cell> row_of(const Study& s, const GeneratorCode& code) {
  const CodePart sum = code.whole();
  const CodePart* const whole = code.kernels.empty() ? nullptr : &sum;
  const KernelCode* const hot = s.hot(code);
  const std::optional<CodePart> inner = hot != nullptr ? hot->inner_loop() : std::nullopt;
  const bool timed = !code.rounds_ns.empty();
  const autotune::Interval t = autotune::median_interval(code.rounds_ns, 0.95);
  const std::optional<autotune::Interval> ratio = s.ratio(code);
  std::vector<Cell> row = {op::to_string(s.problem),
                           op::to_string(s.program),
                           s.reason,
                           std::string(isa_info(op::isa(s.program)).name),
                           int64_t{s.threads},
                           s.cache,
                           code.codegen,
                           code.version,
                           or_empty(median_or_nothing(code.compile_ns))};
  row.push_back(bytes_cell(whole));
  add_counts(whole, row);
  row.push_back(whole ? Cell(int64_t{code.spilling_loops()}) : Cell());
  row.push_back(bytes_cell(inner ? &*inner : nullptr));
  add_counts(inner ? &*inner : nullptr, row);
  add_model(code, row);
  for (double value : {t.mid, t.lo, t.hi, timed ? op::flops(s.problem) / t.mid : 0})
    row.push_back(timed ? Cell(value) : Cell());
  for (const Counter c : kAllCounters) row.push_back(or_empty(code.counters[c]));
  row.push_back(ratio ? Cell(ratio->mid) : Cell());
  row.push_back(range_cell(ratio));
  row.push_back(s.bits_equal ? Cell(std::string(*s.bits_equal ? "true" : "false")) : Cell());
  row.push_back(reason_of(code));
  return row;
}

// ---- for people ----

Table times(const Study& s) {
  Table table{"times",
              {{"codegen"},
               {"us"},
               {"us_ci95", For::kAll, "95%"},
               {"gflops", For::kAll, "GFLOP/s"},
               {"ratio", For::kAll, fmt::format("time / {}", kNative)},
               {"ratio_ci95", For::kAll, "95%"},
               {"compile_ms", For::kAll, "compile ms"},
               {"why_not"}},
              {}};
  for (const GeneratorCode& code : s.codes) {
    const bool timed = !code.rounds_ns.empty();
    const autotune::Interval t = autotune::median_interval(code.rounds_ns, 0.95);
    const std::optional<autotune::Interval> ratio = s.ratio(code);
    const std::optional<double> compile = median_or_nothing(code.compile_ns);
    table.add({code.codegen, timed ? Cell(t.mid / 1e3) : Cell(), timed ? Cell(Range{t.lo / 1e3, t.hi / 1e3}) : Cell(),
               timed ? Cell(op::flops(s.problem) / t.mid) : Cell(), ratio ? Cell(ratio->mid) : Cell(),
               range_cell(ratio), compile ? Cell(*compile / 1e6) : Cell(), reason_of(code)});
  }
  const bool all_there = std::all_of(table.rows.begin(), table.rows.end(),
                                     [](const auto& row) { return std::get<std::string>(row.back()).empty(); });
  if (all_there) table.columns.back().whom = For::kMachines;
  return table;
}

Table code_facts(const Study& s) {
  Table table{"code", {{"codegen"}, {"of"}, {"bytes"}}, {}};
  add_columns("", table.columns);
  const auto add = [&](const GeneratorCode& code, const std::string& of, const CodePart& part) {
    std::vector<Cell> row = {code.codegen, of, bytes_cell(&part)};
    add_counts(&part, row);
    table.add(std::move(row));
  };
  for (const GeneratorCode& code : s.codes) {
    if (code.kernels.size() > 1) add(code, "all", code.whole());
    for (const KernelCode& k : code.kernels) {
      add(code, code.kernels.size() > 1 ? k.name : "all", {k.facts.bytes, k.facts.counts});
      if (const std::optional<CodePart> loop = k.inner_loop()) add(code, "inner loop", *loop);
    }
  }
  return table;
}

Table models(const Study& s) {
  Table table{"mca",
              {{"codegen"},
               {"cpu"},
               {"cycles", For::kAll, "mca cycles"},
               {"block_rthroughput", For::kAll, "block rthroughput"},
               {"ipc"},
               {"uops"},
               {"bottleneck"}},
              {}};
  for (const GeneratorCode& code : s.codes) {
    for (const LoopModel& m : code.models) {
      if (m.result) {
        table.add({code.codegen, m.cpu, m.result->cycles, m.result->block_rthroughput, m.result->ipc, m.result->uops,
                   m.result->bottleneck});
      } else {
        table.add({code.codegen, m.cpu, Cell(), Cell(), Cell(), Cell(), m.why_not});
      }
    }
  }
  return table;
}

Table counted(const Study& s) {
  Table table{"counters", {{"codegen"}}, {}};
  for (const Counter c : kAllCounters) table.columns.push_back({std::string(counter_name(c))});
  for (const GeneratorCode& code : s.codes) {
    std::vector<Cell> row = {code.codegen};
    for (const Counter c : kAllCounters) row.push_back(or_empty(code.counters[c]));
    if (std::any_of(row.begin() + 1, row.end(),
                    [](const Cell& c) { return !std::holds_alternative<std::monostate>(c); }))
      table.add(std::move(row));
  }
  return table;
}

// Two columns; between them = where both do the same, | where they differ, < and > where only one has something.
std::string side_by_side(const Study& s, const GeneratorCode& left, const GeneratorCode& right) {
  const std::vector<jit::Instruction> l = s.hot(left)->inner_instructions(), r = s.hot(right)->inner_instructions();
  const std::string title = fmt::format("inner loop of {}", left.codegen);
  size_t width = title.size();
  for (const jit::Instruction& i : l) width = std::max(width, i.text.size());
  std::string out = fmt::format("    {:<{}}     inner loop of {}\n", title, width, right.codegen);
  for (const AlignedLine& line : align(l, r)) {
    const std::string left_text = line.left < 0 ? "" : l[static_cast<size_t>(line.left)].text;
    const std::string right_text = line.right < 0 ? "" : r[static_cast<size_t>(line.right)].text;
    const char* const sign = line.same ? "=" : line.left < 0 ? ">" : line.right < 0 ? "<" : "|";
    out += fmt::format("    {:<{}}  {}  {}", left_text, width, sign, right_text);
    out.erase(out.find_last_not_of(' ') + 1);
    out += "\n";
  }
  return out;
}

// Of the first two generators that have one; of one alone.
std::string inner_loops(const Study& s) {
  const std::vector<const GeneratorCode*> codes = s.with_inner_loop();
  if (codes.empty()) return "";
  if (codes.size() > 1) return side_by_side(s, *codes[0], *codes[1]);
  std::string out = fmt::format("    inner loop of {}\n", codes[0]->codegen);
  for (const jit::Instruction& i : s.hot(*codes[0])->inner_instructions()) out += fmt::format("    {}\n", i.text);
  return out;
}

// ---- over all problems ----

struct Ratio {
  double value;
  std::string problem;
};

std::vector<Ratio> sorted_ratios(std::span<const Study> studies, const std::string& codegen) {
  std::vector<Ratio> all;
  for (const Study& s : studies) {
    const GeneratorCode* const code = s.find(codegen);
    const std::optional<autotune::Interval> ratio = code != nullptr ? s.ratio(*code) : std::nullopt;
    if (ratio) all.push_back({ratio->mid, op::to_string(s.problem)});
  }
  std::sort(all.begin(), all.end(), [](const Ratio& a, const Ratio& b) { return a.value < b.value; });
  return all;
}

double median_of_sorted(const std::vector<Ratio>& r) {
  return (r[(r.size() - 1) / 2].value + r[r.size() / 2].value) / 2;
}

// The least value that at least nine of ten do not exceed.
double p90_of_sorted(const std::vector<Ratio>& r) { return r[(r.size() * 9 + 9) / 10 - 1].value; }

}  // namespace

Json failed_json(const std::string& problem, const std::string& why) {
  return {{"problem", problem}, {"generators", Json::array()}, {"ratio_llvm_to_native", nullptr}, {"why_not", why}};
}

Json study_json(const Study& s) {
  Json json = {{"problem", op::to_string(s.problem)},
               {"program", op::to_string(s.program)},
               {"reason", s.reason},
               {"isa", isa_info(op::isa(s.program)).name},
               {"numerics", op::numerics(s.program)},
               {"threads", s.threads},
               {"cache", s.cache},
               {"generators", Json::array()}};
  for (const GeneratorCode& code : s.codes) json["generators"].push_back(generator_json(s, code));
  const LlvmToNative r = llvm_to_native(s);
  json["ratio_llvm_to_native"] = r.ratio ? Json(r.ratio->mid) : Json(nullptr);
  json["ratio_ci95"] = r.ratio ? Json{r.ratio->lo, r.ratio->hi} : Json(nullptr);
  json["no_ratio"] = text_or_null(r.why_not);
  json["bits_equal"] = s.bits_equal ? Json(*s.bits_equal) : Json(nullptr);
  json["bits_why"] = text_or_null(s.bits_why);
  json["no_counters"] = text_or_null(s.no_counters);
  return json;
}

Table codegen_table(std::span<const Study> studies) {
  Table table{"codegen",
              {{"problem"},
               {"program"},
               {"reason"},
               {"isa"},
               {"threads"},
               {"cache"},
               {"codegen"},
               {"version"},
               {"compile_ns"},
               {"code_bytes"}},
              {}};
  add_columns("", table.columns);
  table.columns.push_back({"spilling_loops"});
  table.columns.push_back({"loop_bytes"});
  add_columns("loop_", table.columns);
  for (const char* name : {"mca_cpu", "mca_block_rthroughput", "mca_cycles", "mca_ipc", "mca_bottleneck", "ns", "ns_lo",
                           "ns_hi", "gflops"})
    table.columns.push_back({name});
  for (const Counter c : kAllCounters) table.columns.push_back({std::string(counter_name(c))});
  for (const char* name : {"ratio_to_native", "ratio_to_native_ci95", "bits_equal", "why_not"})
    table.columns.push_back({name});
  for (const Study& s : studies)
    for (const GeneratorCode& code : s.codes) table.add(row_of(s, code));
  return table;
}

std::string ratio_text(const Study& s) {
  const LlvmToNative r = llvm_to_native(s);
  if (!r.ratio) return fmt::format("no ratio {} / {}: {}", kLlvm, kNative, r.why_not);
  return fmt::format("{} / {} {:.3f} [{:.3f}, {:.3f}]", kLlvm, kNative, r.ratio->mid, r.ratio->lo, r.ratio->hi);
}

std::string bits_text(const Study& s) {
  if (!s.bits_equal) return fmt::format("bits not compared: {}", s.bits_why);
  return *s.bits_equal ? "bits equal" : fmt::format("BITS DIFFER: {}", s.bits_why);
}

std::vector<Table> study_tables(const Study& s) {
  std::vector<Table> tables;
  for (Table& table : std::array{times(s), code_facts(s), models(s), counted(s)})
    if (!table.rows.empty()) tables.push_back(std::move(table));
  return tables;
}

std::string study_text(const Study& s) {
  std::string out = fmt::format("{}\n    {}  ({})\n    {} thread(s), caches {}; {}; {}\n", op::to_string(s.problem),
                                op::to_string(s.program), s.reason, s.threads, s.cache, ratio_text(s), bits_text(s));
  for (const GeneratorCode& code : s.codes)
    if (const int loops = code.spilling_loops(); loops > 0)
      out += fmt::format("    {} inner loop(s) of {} spill\n", loops, code.codegen);
  for (const Table& table : study_tables(s)) out += "\n" + render(table, Format::kMd);
  if (const std::string loops = inner_loops(s); !loops.empty()) out += "\n" + loops;
  return out;
}

Table overview_table(std::span<const Study> studies) {
  Table table{"overview", {{"problem"}}, {}};
  std::vector<std::string> names;
  for (const Study& s : studies)
    for (const GeneratorCode& code : s.codes)
      if (std::find(names.begin(), names.end(), code.codegen) == names.end()) names.push_back(code.codegen);
  for (const std::string& name : names) {
    table.columns.push_back({name, For::kAll, name + " us"});
    if (name != kNative) table.columns.push_back({name + "_ratio", For::kAll, "ratio"});
    if (name != kNative) table.columns.push_back({name + "_ci95", For::kAll, "95%"});
    table.columns.push_back({name + "_spills", For::kAll, "spilling loops"});
  }
  table.columns.push_back({"bits", For::kAll, "bits equal"});
  for (const Study& s : studies) {
    std::vector<Cell> row = {op::to_string(s.problem)};
    for (const std::string& name : names) {
      const GeneratorCode* const code = s.find(name);
      const std::optional<double> ns = code != nullptr ? median_or_nothing(code->rounds_ns) : std::nullopt;
      const std::optional<autotune::Interval> ratio = code != nullptr ? s.ratio(*code) : std::nullopt;
      row.push_back(ns ? Cell(*ns / 1e3) : Cell());
      if (name != kNative) row.push_back(ratio ? Cell(ratio->mid) : Cell());
      if (name != kNative) row.push_back(range_cell(ratio));
      row.push_back(code != nullptr && !code->kernels.empty() ? Cell(int64_t{code->spilling_loops()}) : Cell());
    }
    row.push_back(s.bits_equal ? Cell(std::string(*s.bits_equal ? "yes" : "NO")) : Cell(s.bits_why));
    table.add(std::move(row));
  }
  return table;
}

Table distribution_table(std::span<const Study> studies) {
  Table table{"codegen_summary",
              {{"codegen"},
               {"problems"},
               {"ratios"},
               {"geomean"},
               {"min"},
               {"median"},
               {"p90"},
               {"max"},
               {"worst_problem"},
               {"above_1_05"},
               {"inner_loops_spill"},
               {"bits_differ"}},
              {}};
  std::vector<std::string> names;
  for (const Study& s : studies)
    for (const GeneratorCode& code : s.codes)
      if (std::find(names.begin(), names.end(), code.codegen) == names.end()) names.push_back(code.codegen);
  for (const std::string& name : names) {
    int64_t problems = 0, spilling = 0, differ = 0;
    for (const Study& s : studies) {
      const GeneratorCode* const code = s.find(name);
      if (code == nullptr) continue;
      ++problems;
      spilling += code->spilling_loops() > 0;
      differ += code->wrong;
    }
    std::vector<Cell> row = {name, problems};
    const std::vector<Ratio> ratios = name == kNative ? std::vector<Ratio>() : sorted_ratios(studies, name);
    row.push_back(static_cast<int64_t>(ratios.size()));
    if (ratios.empty()) {
      row.resize(row.size() + 7);
    } else {
      double logs = 0;
      for (const Ratio& r : ratios) logs += std::log(r.value);
      const auto slow = std::count_if(ratios.begin(), ratios.end(), [](const Ratio& r) { return r.value > kSlower; });
      row.insert(row.end(),
                 {std::exp(logs / static_cast<double>(ratios.size())), ratios.front().value, median_of_sorted(ratios),
                  p90_of_sorted(ratios), ratios.back().value, ratios.back().problem, int64_t{slow}});
    }
    row.insert(row.end(), {spilling, differ});
    table.add(std::move(row));
  }
  return table;
}

}  // namespace hone::cli
