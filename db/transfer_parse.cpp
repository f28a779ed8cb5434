// Lines of JSON back to records. Trusts nothing: a file may be cut short, edited, or not be an export at all, and
// whoever gave it wants to know where and what.
#include <nlohmann/json.hpp>

#include <algorithm>
#include <functional>
#include <limits>

#include <fmt/format.h>

#include "db/limits_internal.h"
#include "db/transfer_text_internal.h"

namespace hone::db {
namespace {

using Json = nlohmann::ordered_json;

// An array of arrays in an object is the deepest there is; deeper only makes a parser hold more than the line.
constexpr int kMaxDepth = 3;

std::string shown(const Json& value) {
  std::string s = value.dump(-1, ' ', true, Json::error_handler_t::replace);
  if (s.size() > 40) s = s.substr(0, 40) + "...";
  return s;
}

bool from_hex(const std::string& hex, std::string& bytes) {
  constexpr std::string_view kDigits = "0123456789abcdef";
  if (hex.size() % 2 != 0) return false;
  bytes.clear();
  for (size_t i = 0; i < hex.size(); i += 2) {
    const size_t high = kDigits.find(hex[i]), low = kDigits.find(hex[i + 1]);
    if (high == std::string_view::npos || low == std::string_view::npos) return false;
    bytes += static_cast<char>(high << 4 | low);
  }
  return true;
}

// The fields of one object. The first fault is kept and the rest does nothing, so that reading is a list of fields.
class Fields {
 public:
  Fields(const Json& object, std::string path) : object_(object), path_(std::move(path)) {}

  const Json* find(const char* name) {
    known_.insert(name);
    const auto it = object_.find(name);
    if (it != object_.end()) return &*it;
    fault(name, "is missing");
    return nullptr;
  }
  bool has(const char* name) const { return object_.contains(name); }

  void text(const char* name, std::string& out) {
    const Json* value = find(name);
    if (!value || string_of(*value, out)) return;
    fault(name, fmt::format("is {}, must be a string or {{\"hex\": \"...\"}}", shown(*value)));
  }
  void text_or_null(const char* name, std::string& out) {
    const Json* value = find(name);
    if (value && !value->is_null()) text(name, out);
  }
  void whole(const char* name, int64_t& out) {
    const Json* value = find(name);
    if (value) whole_of(name, *value, out);
  }
  void whole(const char* name, int& out) {
    int64_t wide = 0;
    whole(name, wide);
    narrow(name, wide, out);
  }
  void real(const char* name, double& out) {
    const Json* value = find(name);
    if (!value) return;
    if (!value->is_number()) return fault(name, fmt::format("is {}, must be a number", shown(*value)));
    out = value->get<double>();
  }
  void real_or_null(const char* name, double& out) {
    const Json* value = find(name);
    if (value && !value->is_null()) real(name, out);
  }
  template <typename Read>
  void object(const char* name, Read read) {
    const Json* value = find(name);
    if (value) object_of(name, *value, read);
  }
  template <typename Read>
  void object_or_null(const char* name, Read read) {
    const Json* value = find(name);
    if (value && !value->is_null()) object_of(name, *value, read);
  }
  void wholes(const char* name, std::vector<int64_t>& out) {
    const Json* values = find(name);
    if (!values) return;
    if (!values->is_array()) return fault(name, fmt::format("is {}, must be an array", shown(*values)));
    for (size_t i = 0; i < values->size() && status_.ok(); ++i)
      whole_of(fmt::format("{}[{}]", name, i), (*values)[i], out.emplace_back());
  }
  // [{...}, ...]
  template <typename Read>
  void objects(const char* name, Read read) {
    const Json* values = find(name);
    if (!values) return;
    if (!values->is_array()) return fault(name, fmt::format("is {}, must be an array", shown(*values)));
    for (size_t i = 0; i < values->size(); ++i) object_of(fmt::format("{}[{}]", name, i), (*values)[i], read);
  }
  // [[round, order, ns], ...]
  void samples(Phase phase, std::vector<Sample>& out) {
    const std::string name(phase_name(phase));
    if (!has(name.c_str())) return;
    const Json& rows = *find(name.c_str());
    if (!rows.is_array()) return fault(name, fmt::format("is {}, must be an array", shown(rows)));
    for (size_t i = 0; i < rows.size() && status_.ok(); ++i) {
      const std::string at = fmt::format("{}[{}]", name, i);
      if (!rows[i].is_array() || rows[i].size() != 3)
        return fault(at, fmt::format("is {}, must be [round, order, ns]", shown(rows[i])));
      Sample s{.phase = phase};
      int64_t order = 0;
      whole_of(at, rows[i][0], s.round);
      whole_of(at, rows[i][1], order);
      narrow(at, order, s.order);
      whole_of(at, rows[i][2], s.ns);
      out.push_back(s);
    }
  }
  void fault(const std::string& name, const std::string& what) {
    if (status_.ok()) status_ = invalid_argument(fmt::format("{}{} {}", path_, name, what));
  }
  Status finish() {
    for (const auto& [name, value] : object_.items())
      if (!known_.contains(name)) fault(name, "is not a field of this record");
    return status_;
  }

 private:
  static bool string_of(const Json& value, std::string& out) {
    if (value.is_string()) {
      out = value.get<std::string>();
      return true;
    }
    return value.is_object() && value.size() == 1 && value.contains("hex") && value["hex"].is_string() &&
           from_hex(value["hex"].get<std::string>(), out);
  }
  template <typename Read>
  void object_of(const std::string& name, const Json& value, Read read) {
    if (!value.is_object()) return fault(name, fmt::format("is {}, must be an object", shown(value)));
    Fields inner(value, path_ + name + ".");
    read(inner);
    if (const Status s = inner.finish(); !s.ok() && status_.ok()) status_ = s;
  }
  void whole_of(const std::string& name, const Json& value, int64_t& out) {
    constexpr auto kMax = static_cast<uint64_t>(std::numeric_limits<int64_t>::max());
    const bool fits = value.is_number_integer() && (!value.is_number_unsigned() || value.get<uint64_t>() <= kMax);
    if (!fits) return fault(name, fmt::format("is {}, must be a whole number of at most 63 bits", shown(value)));
    out = value.get<int64_t>();
  }
  void narrow(const std::string& name, int64_t wide, int& out) {
    if (wide < std::numeric_limits<int>::min() || wide > std::numeric_limits<int>::max())
      return fault(name, fmt::format("is {}, which is too large", wide));
    out = static_cast<int>(wide);
  }

  const Json& object_;
  const std::string path_;
  std::set<std::string> known_{"type"};
  Status status_;
};

// Of two fields of one name, which is meant? The parser would take one and say nothing.
class NoFieldTwice {
 public:
  bool operator()(int /*depth*/, Json::parse_event_t event, Json& value) {
    if (event == Json::parse_event_t::object_start) open_.emplace_back();
    if (event == Json::parse_event_t::object_end && !open_.empty()) open_.pop_back();
    if (event == Json::parse_event_t::key && !open_.empty() && !open_.back().insert(value.get<std::string>()).second &&
        twice_.empty())
      twice_ = shown(value);
    return true;
  }
  Status status() const {
    return twice_.empty() ? Status{} : invalid_argument(fmt::format("the field {} is there twice", twice_));
  }

 private:
  std::vector<std::set<std::string>> open_;  // names so far, of each object around this place
  std::string twice_;
};

Result<Json> parse_line(const std::string& line) {
  if (json_depth(line) > kMaxDepth) return invalid_argument("no record of an export: nested too deep");
  try {
    NoFieldTwice no_field_twice;
    Json parsed = Json::parse(line, std::ref(no_field_twice));
    HONE_RETURN_IF_ERROR(no_field_twice.status());
    if (parsed.is_object() && parsed.contains("type") && parsed["type"].is_string()) return parsed;
    return invalid_argument("no record of an export: not a JSON object with a type");
  } catch (const Json::parse_error& e) {
    return invalid_argument(e.byte > line.size() ? std::string("the line is cut short")
                                                 : fmt::format("no JSON, from column {} on", e.byte));
  } catch (const Json::exception& e) {  // a number beyond a double
    return invalid_argument(fmt::format("no JSON that can be read ({})", e.what()));
  }
}

}  // namespace

// One line. The names of earlier records are in the reader.
class LineParser {
 public:
  LineParser(LineReader& reader, const Json& line) : reader_(reader), fields_(line, "") {}

  Result<Record> record(size_t type) {
    Record out;
    switch (type) {
      case 0:
        out = machine();
        break;
      case 1:
        out = problem();
        break;
      case 2:
        out = session();
        break;
      case 3:
        out = run();
        break;
      case 4:
        out = samples();
        break;
      case 5:
        out = outcome();
        break;
      case 6:
        out = decision();
        break;
      case 7:
        out = ranker();
        break;
      case 8:
        out = schedule();
        break;
      default:
        out = code();
        break;
    }
    HONE_RETURN_IF_ERROR(fields_.finish());
    return out;
  }

 private:
  MachineLabel machine() {
    MachineLabel m;
    std::string id;
    fields_.text("id", id);
    fields_.text("key", m.key);
    fields_.text("label", m.label);
    const auto [at, is_new] = reader_.machines_.try_emplace(id, m);
    if (!is_new && (at->second.key != m.key || at->second.label != m.label))
      fields_.fault("id", fmt::format("'{}' is another machine already", id));
    return m;
  }

  ProblemKey problem() {
    ProblemKey p;
    fields_.text("problem", p.text);
    fields_.text("family", p.family);
    fields_.whole("m", p.m);
    const auto [at, is_new] = reader_.problems_.try_emplace(p.text, p);
    if (!is_new && !(at->second == p))
      fields_.fault("problem", fmt::format("'{}' was here before with another family or m", p.text));
    return p;
  }

  SessionRecord session() {
    SessionRecord s;
    fields_.text("uid", s.uid);
    machine_named(s.machine);
    build(s.build);
    fields_.text("settings", s.settings);
    fields_.whole("started_at", s.started_at);
    reader_.sessions_.insert(s.uid);
    return s;
  }

  RunRecord run() {
    RunRecord r;
    fields_.text("uid", r.uid);
    machine_named(r.machine);
    build(r.build);
    fields_.text_or_null("session", r.session);
    if (!r.session.empty() && !reader_.sessions_.contains(r.session))
      fields_.fault("session", fmt::format("'{}' is not a session of an earlier line", r.session));
    std::string text;
    fields_.text_or_null("problem", text);
    if (!text.empty()) problem_named(text, r.problem);
    fields_.whole("started_at", r.started_at);
    fields_.whole("seed", r.seed);
    fields_.text("cache_mode", r.cache_mode);
    fields_.real("noise_bound", r.noise_bound);
    fields_.whole("spent_ns", r.spent_ns);
    fields_.text("settings", r.settings);
    reader_.runs_.insert(r.uid);
    return r;
  }

  SamplesRecord samples() {
    SamplesRecord s;
    run_and_problem(s.run, s.problem);
    candidate("candidate", s.candidate);
    for (const Phase phase : {Phase::kSearch, Phase::kConfirm, Phase::kNoise}) fields_.samples(phase, s.samples);
    return s;
  }

  OutcomeRecord outcome() {
    OutcomeRecord o;
    run_and_problem(o.run, o.problem);
    candidate("candidate", o.candidate);
    fields_.text("outcome", o.outcome);
    fields_.text("detail", o.detail);
    fields_.text("command", o.command);
    fields_.whole("noted_at", o.noted_at);
    return o;
  }

  DecisionRecord decision() {
    DecisionRecord r;
    Decision& d = r.decision;
    run_and_problem(r.run, d.problem);
    fields_.text("verdict", r.verdict);
    candidate("winner", d.winner);
    candidate("fallback", d.fallback);
    fields_.real("ns", d.ns);
    fields_.real("default_ns", d.default_ns);
    fields_.real("speedup", d.speedup);
    fields_.real("speedup_lo", d.speedup_lo);
    fields_.real("speedup_hi", d.speedup_hi);
    fields_.real("noise_bound", d.noise_bound);
    fields_.whole("decided_at", d.decided_at);
    return r;
  }

  Ranker ranker() {
    Ranker r;
    fields_.text("machine_key", r.machine_key);
    fields_.text("features", r.features);
    fields_.whole("trained_at", r.trained_at);
    fields_.whole("problems", r.problems);
    fields_.whole("samples", r.samples);
    fields_.real("correlation", r.correlation);
    fields_.real("baseline_correlation", r.baseline_correlation);
    fields_.text("model", r.model);
    return r;
  }

  ScheduleChoice schedule() {
    ScheduleChoice s;
    machine_named(s.machine);
    build(s.build);
    fields_.whole("threads", s.threads);
    fields_.text("schedule", s.schedule);
    fields_.whole("min_work", s.min_work);
    fields_.objects("fork_joins", [&](Fields& f) {
      ForkJoin& kind = s.fork_joins.emplace_back();
      f.text("schedule", kind.schedule);
      f.whole("median_ns", kind.median_ns);
      f.whole("p99_ns", kind.p99_ns);
      f.whole("paused_median_ns", kind.paused_median_ns);
      f.whole("paused_p99_ns", kind.paused_p99_ns);
    });
    fields_.whole("measured_at", s.measured_at);
    return s;
  }

  void part(const char* name, std::optional<CodePart>& out) {
    fields_.object_or_null(name, [&](Fields& f) {
      CodePart& p = out.emplace();
      f.whole("bytes", p.bytes);
      f.whole("total", p.total);
      f.whole("vector", p.vector);
      f.whole("fma", p.fma);
      f.whole("load", p.load);
      f.whole("store", p.store);
      f.whole("branch", p.branch);
      f.whole("address", p.address);
      f.whole("stack", p.stack);
      f.whole("spills", p.spills);
      f.whole("reloads", p.reloads);
    });
  }

  CodeRecord code() {
    CodeRecord c;
    machine_named(c.machine);
    build(c.build);
    std::string text;
    fields_.text("problem", text);
    problem_named(text, c.problem);
    candidate("candidate", c.candidate);
    fields_.text("cache_mode", c.cache_mode);
    fields_.text("bits", c.bits);
    fields_.real_or_null("compile_ns", c.compile_ns);
    part("whole", c.whole);
    part("loop", c.loop);
    fields_.whole("spilling_loops", c.spilling_loops);
    fields_.objects("models", [&](Fields& f) {
      CodeModel& m = c.models.emplace_back();
      f.text("cpu", m.cpu);
      f.real("block_rthroughput", m.block_rthroughput);
      f.real("cycles", m.cycles);
      f.real("ipc", m.ipc);
      f.real("uops", m.uops);
      f.text("bottleneck", m.bottleneck);
    });
    fields_.wholes("rounds_ns", c.rounds_ns);
    fields_.real_or_null("ns", c.ns);
    fields_.real_or_null("ratio", c.ratio);
    fields_.real_or_null("ratio_lo", c.ratio_lo);
    fields_.real_or_null("ratio_hi", c.ratio_hi);
    fields_.whole("measured_at", c.measured_at);
    return c;
  }

  void machine_named(MachineLabel& machine) {
    std::string id;
    fields_.text("machine", id);
    const auto it = reader_.machines_.find(id);
    if (it == reader_.machines_.end())
      return fields_.fault("machine", fmt::format("'{}' is not a machine of an earlier line", id));
    machine = it->second;
  }

  void problem_named(const std::string& text, ProblemKey& problem) {
    const auto it = reader_.problems_.find(text);
    if (it == reader_.problems_.end())
      return fields_.fault("problem", fmt::format("'{}' is not a problem of an earlier line", text));
    problem = it->second;
  }

  void run_and_problem(std::string& run, ProblemKey& problem) {
    fields_.text("run", run);
    if (!reader_.runs_.contains(run)) fields_.fault("run", fmt::format("'{}' is not a run of an earlier line", run));
    std::string text;
    fields_.text("problem", text);
    problem_named(text, problem);
  }

  void build(BuildLabel& out) {
    fields_.object("build", [&](Fields& f) {
      f.text("engine", out.engine);
      f.text("codegens", out.codegens);
    });
  }

  void candidate(const char* name, Candidate& out) {
    fields_.object(name, [&](Fields& f) {
      f.text("program", out.program);
      f.text("codegen", out.codegen);
      f.text("codegen_version", out.codegen_version);
      f.whole("threads", out.threads);
      f.text("numerics", out.numerics);
    });
  }

  LineReader& reader_;
  Fields fields_;
};

Result<std::optional<Record>> LineReader::read(const std::string& line) {
  if (line.find_first_not_of(" \t\r") == std::string::npos) return std::optional<Record>();
  HONE_ASSIGN_OR_RETURN(const Json parsed, parse_line(line));
  const auto type = parsed["type"].get<std::string>();
  if (type == kHeader) {
    if (in_export_) return invalid_argument("a header within an export: the one before it was cut short");
    int64_t format = 0, schema = 0;
    Fields fields(parsed, "");
    fields.whole("format", format);
    fields.whole("schema", schema);
    if (format > kFormat)
      return unsupported(fmt::format("format {} is newer than this hone reads ({}): update hone", format, kFormat));
    if (format < 1) fields.fault("format", fmt::format("is {}, must be from 1 to {}", format, kFormat));
    HONE_RETURN_IF_ERROR(fields.finish());
    in_export_ = any_ = true;
    return std::optional<Record>();
  }
  if (!in_export_)
    return invalid_argument("not an export of hone: it has to begin with a header (hone db export writes it)");
  if (type == kEnd) {
    in_export_ = false;
    return std::optional<Record>();
  }
  const auto* known = std::find(std::begin(kRecordTypes), std::end(kRecordTypes), type);
  if (known == std::end(kRecordTypes)) return invalid_argument(fmt::format("unknown type {}", shown(type)));
  Result<Record> record = LineParser(*this, parsed).record(static_cast<size_t>(known - std::begin(kRecordTypes)));
  Status status = record.ok() ? check(*record) : record.status();
  if (!status.ok()) return Status(status.code(), fmt::format("{}: {}", type, status.message()));
  return std::optional<Record>(std::move(*record));
}

Status LineReader::at_end() const {
  if (!any_) return invalid_argument("the file is empty, not an export of hone");
  if (in_export_) return invalid_argument("the file is cut short: the end record is missing");
  return {};
}

}  // namespace hone::db
