// Records into a store. What is there already is left as it is, so that the same file twice, or two files that overlap,
// give the union. Two records that claim to be one and differ are refused: one of them is wrong.
#include <algorithm>
#include <cmath>
#include <tuple>

#include <fmt/format.h>

#include "db/limits_internal.h"
#include "db/transfer_internal.h"

namespace hone::db {
namespace {

Status fault(const char* field, const std::string& what) { return invalid_argument(fmt::format("{} {}", field, what)); }

Status not_empty(const char* field, const std::string& text) {
  return text.empty() ? fault(field, "is empty") : Status{};
}

Status not_negative(const char* field, int64_t value) {
  return value < 0 ? fault(field, fmt::format("is {}, must not be negative", value)) : Status{};
}

Status finite(const char* field, double value, bool positive) {
  if (std::isfinite(value) && (positive ? value > 0 : value >= 0)) return {};
  return fault(field, fmt::format("is {}, must be finite and {}", value, positive ? "positive" : "not negative"));
}

Status check_date(const char* field, int64_t t) {
  if (is_unix_time(t)) return {};
  return fault(field, fmt::format("is {}, must be seconds from 1970 on and before the year 10000", t));
}

Status check_time(const char* field, double ns) {
  HONE_RETURN_IF_ERROR(finite(field, ns, true));
  return ns > static_cast<double>(kMaxNs) ? fault(field, fmt::format("is {} ns, which is no time of a kernel", ns))
                                          : Status{};
}

Status check_one(const Candidate& c, const char* field) {
  for (const auto& [name, empty] : {std::pair{"program", c.program.empty()}, {"codegen", c.codegen.empty()}})
    if (empty) return fault(field, fmt::format("has an empty {}", name));
  return c.threads < 1 ? fault(field, fmt::format("has {} threads, must have at least 1", c.threads)) : Status{};
}

Status check_one(const MachineLabel& m) {
  HONE_RETURN_IF_ERROR(not_empty("key", m.key));
  if (m.label.size() > kMaxLabel)
    return fault("label", fmt::format("has {} bytes, must have at most {}", m.label.size(), kMaxLabel));
  return json_depth(m.label) > kMaxLabelDepth ? fault("label", "is nested too deep for a machine") : Status{};
}

Status check_one(const ProblemKey& p) {
  HONE_RETURN_IF_ERROR(not_empty("problem", p.text));
  return not_negative("m", p.m);
}

Status check_one(const SessionRecord& s) {
  HONE_RETURN_IF_ERROR(not_empty("uid", s.uid));
  return check_date("started_at", s.started_at);
}

Status check_one(const RunRecord& r) {
  HONE_RETURN_IF_ERROR(not_empty("uid", r.uid));
  HONE_RETURN_IF_ERROR(finite("noise_bound", r.noise_bound, false));
  HONE_RETURN_IF_ERROR(check_date("started_at", r.started_at));
  return not_negative("spent_ns", r.spent_ns);
}

Status check_one(const SamplesRecord& s) {
  HONE_RETURN_IF_ERROR(check_one(s.candidate, "candidate"));
  for (const Sample& sample : s.samples) {
    const std::string phase(phase_name(sample.phase));
    auto wrong = [&](const std::string& what) {
      return fault(phase.c_str(), fmt::format("[{}, {}, {}]: {}", sample.round, sample.order, sample.ns, what));
    };
    if (sample.ns <= 0) return wrong(fmt::format("the time is {} ns, must be positive", sample.ns));
    if (sample.ns > kMaxNs) return wrong(fmt::format("{} ns is no time of a kernel", sample.ns));
    if (sample.round < 0 || sample.order < 0) return wrong("round and order must not be negative");
  }
  return {};
}

template <size_t N>
Status one_of(const char* field, const std::string& value, const std::string_view (&names)[N]) {
  if (std::find(std::begin(names), std::end(names), value) != std::end(names)) return {};
  return fault(field, fmt::format("is '{}', must be one of {}", value, fmt::join(names, ", ")));
}

Status check_one(const OutcomeRecord& o) {
  HONE_RETURN_IF_ERROR(check_one(o.candidate, "candidate"));
  HONE_RETURN_IF_ERROR(check_date("noted_at", o.noted_at));
  const std::string_view names[] = {outcome_name(Outcome::kMeasured), outcome_name(Outcome::kWrong),
                                    outcome_name(Outcome::kCrashed), outcome_name(Outcome::kRefused)};
  return one_of("outcome", o.outcome, names);
}

Status check_one(const DecisionRecord& r) {
  const Decision& d = r.decision;
  const std::string_view names[] = {verdict_name(Verdict::kNew), verdict_name(Verdict::kKept),
                                    verdict_name(Verdict::kTie)};
  HONE_RETURN_IF_ERROR(one_of("verdict", r.verdict, names));
  HONE_RETURN_IF_ERROR(check_one(d.winner, "winner"));
  HONE_RETURN_IF_ERROR(check_one(d.fallback, "fallback"));
  HONE_RETURN_IF_ERROR(check_date("decided_at", d.decided_at));
  HONE_RETURN_IF_ERROR(check_time("ns", d.ns));
  HONE_RETURN_IF_ERROR(check_time("default_ns", d.default_ns));
  HONE_RETURN_IF_ERROR(finite("speedup", d.speedup, true));
  HONE_RETURN_IF_ERROR(finite("speedup_lo", d.speedup_lo, true));
  HONE_RETURN_IF_ERROR(finite("speedup_hi", d.speedup_hi, true));
  HONE_RETURN_IF_ERROR(finite("noise_bound", d.noise_bound, false));
  // The rule of verify.cpp, with its tolerance.
  if (d.speedup < d.speedup_lo * 0.999999 || d.speedup > d.speedup_hi * 1.000001)
    return fault("speedup", fmt::format("is {}, outside its interval [{}, {}]", d.speedup, d.speedup_lo, d.speedup_hi));
  return {};
}

Status check_one(const Ranker& r) {
  HONE_RETURN_IF_ERROR(not_empty("machine_key", r.machine_key));
  HONE_RETURN_IF_ERROR(not_empty("model", r.model));
  HONE_RETURN_IF_ERROR(check_date("trained_at", r.trained_at));
  HONE_RETURN_IF_ERROR(not_negative("problems", r.problems));
  HONE_RETURN_IF_ERROR(not_negative("samples", r.samples));
  HONE_RETURN_IF_ERROR(finite("correlation", std::abs(r.correlation), false));
  return finite("baseline_correlation", std::abs(r.baseline_correlation), false);
}

Status check_one(const ForkJoin& f) {
  HONE_RETURN_IF_ERROR(not_empty("schedule", f.schedule));
  HONE_RETURN_IF_ERROR(not_negative("median_ns", f.median_ns));
  HONE_RETURN_IF_ERROR(not_negative("paused_median_ns", f.paused_median_ns));
  for (const auto& [field, median, p99] :
       {std::tuple{"p99_ns", f.median_ns, f.p99_ns}, {"paused_p99_ns", f.paused_median_ns, f.paused_p99_ns}})
    if (p99 < median || p99 > kMaxNs)
      return fault(field, fmt::format("is {}, must be from the median of {} to {}", p99, median, kMaxNs));
  return {};
}

Status check_one(const ScheduleChoice& s) {
  HONE_RETURN_IF_ERROR(check_one(s.machine));
  if (s.threads < 1) return fault("threads", fmt::format("is {}, must be at least 1", s.threads));
  HONE_RETURN_IF_ERROR(not_empty("schedule", s.schedule));
  HONE_RETURN_IF_ERROR(not_negative("min_work", s.min_work));
  HONE_RETURN_IF_ERROR(check_date("measured_at", s.measured_at));
  for (size_t i = 0; i < s.fork_joins.size(); ++i) {
    if (const Status f = check_one(s.fork_joins[i]); !f.ok()) return fault("fork_joins", f.message());
    if (i > 0 && s.fork_joins[i - 1].schedule >= s.fork_joins[i].schedule)
      return fault("fork_joins", fmt::format("has '{}' out of order or twice", s.fork_joins[i].schedule));
  }
  const auto chosen = [&](const ForkJoin& f) { return f.schedule == s.schedule; };
  if (std::none_of(s.fork_joins.begin(), s.fork_joins.end(), chosen))
    return fault("schedule", fmt::format("is '{}', which is not among fork_joins", s.schedule));
  return {};
}

Status check_one(const CodePart& p) {
  HONE_RETURN_IF_ERROR(not_negative("bytes", p.bytes));
  for (const auto& [name, value] : {std::pair{"vector", p.vector},
                                    {"fma", p.fma},
                                    {"load", p.load},
                                    {"store", p.store},
                                    {"branch", p.branch},
                                    {"address", p.address},
                                    {"stack", p.stack},
                                    {"spills", p.spills},
                                    {"reloads", p.reloads}})
    if (value < 0 || value > p.total)
      return fault(name, fmt::format("is {}, must be from 0 to total {}", value, p.total));
  return {};
}

Status check_one(const CodeModel& m) {
  HONE_RETURN_IF_ERROR(not_empty("cpu", m.cpu));
  HONE_RETURN_IF_ERROR(finite("block_rthroughput", m.block_rthroughput, false));
  HONE_RETURN_IF_ERROR(finite("cycles", m.cycles, false));
  HONE_RETURN_IF_ERROR(finite("ipc", m.ipc, false));
  return finite("uops", m.uops, false);
}

// 0 is "not measured".
Status check_times(const CodeRecord& c) {
  for (const auto& [name, value] : {std::pair{"compile_ns", c.compile_ns}, {"ns", c.ns}})
    if (value != 0) HONE_RETURN_IF_ERROR(check_time(name, value));
  for (const int64_t ns : c.rounds_ns) HONE_RETURN_IF_ERROR(check_time("rounds_ns", static_cast<double>(ns)));
  if ((c.ns == 0) != c.rounds_ns.empty()) return fault("ns", "and rounds_ns: one is there, the other is not");
  if (c.ratio == 0 && c.ratio_lo == 0 && c.ratio_hi == 0) return {};
  for (const auto& [name, value] : {std::pair{"ratio", c.ratio}, {"ratio_lo", c.ratio_lo}, {"ratio_hi", c.ratio_hi}})
    HONE_RETURN_IF_ERROR(finite(name, value, true));
  if (c.ratio < c.ratio_lo * 0.999999 || c.ratio > c.ratio_hi * 1.000001)
    return fault("ratio", fmt::format("is {}, outside its interval [{}, {}]", c.ratio, c.ratio_lo, c.ratio_hi));
  return {};
}

Status check_one(const CodeRecord& c) {
  HONE_RETURN_IF_ERROR(check_one(c.machine));
  HONE_RETURN_IF_ERROR(check_one(c.problem));
  HONE_RETURN_IF_ERROR(check_one(c.candidate, "candidate"));
  constexpr std::string_view kCaches[] = {"warm", "cold"}, kBits[] = {"equal", "differ", "alone"};
  HONE_RETURN_IF_ERROR(one_of("cache_mode", c.cache_mode, kCaches));
  HONE_RETURN_IF_ERROR(one_of("bits", c.bits, kBits));
  HONE_RETURN_IF_ERROR(not_negative("spilling_loops", c.spilling_loops));
  for (const auto& [name, part] : {std::pair{"whole", &c.whole}, {"loop", &c.loop}})
    if (*part)
      if (const Status s = check_one(**part); !s.ok()) return fault(name, s.message());
  if (c.loop && (!c.whole || c.loop->bytes > c.whole->bytes)) return fault("loop", "is not within the whole");
  for (size_t i = 0; i < c.models.size(); ++i) {
    if (const Status s = check_one(c.models[i]); !s.ok()) return fault("models", s.message());
    if (i > 0 && c.models[i - 1].cpu >= c.models[i].cpu)
      return fault("models", fmt::format("has '{}' out of order or twice", c.models[i].cpu));
  }
  HONE_RETURN_IF_ERROR(check_times(c));
  return check_date("measured_at", c.measured_at);
}

}  // namespace

Status check(const Record& record) {
  return std::visit([](const auto& r) { return check_one(r); }, record);
}

Status RecordWriter::add(const Record& record) {
  HONE_RETURN_IF_ERROR(check(record));
  const auto changes = [&] { return c_.database().getTotalChanges(); };
  const int64_t before = changes();
  met_ = false;
  HONE_RETURN_IF_ERROR(std::visit([&](const auto& r) { return put(r); }, record));
  // Samples are counted one by one.
  if (!std::holds_alternative<SamplesRecord>(record)) count(record.index(), !met_ && changes() != before);
  return {};
}

std::vector<TransferCount> RecordWriter::counts() const {
  std::vector<TransferCount> all(std::begin(counts_), std::end(counts_));
  for (size_t i = 0; i < all.size(); ++i) all[i].type = kRecordCounts[i];
  return all;
}

void RecordWriter::count(size_t type, bool added) { ++(added ? counts_[type].added : counts_[type].present); }

Result<int64_t> RecordWriter::run_row(const std::string& uid) const {
  const auto it = runs_.find(uid);
  if (it == runs_.end()) return invalid_argument(fmt::format("run '{}' has no record before this one", uid));
  return it->second;
}

Status RecordWriter::put(const MachineLabel& machine) {
  (void)store_.machine_id(machine);
  return {};
}

Status RecordWriter::put(const ProblemKey& problem) {
  HONE_ASSIGN_OR_RETURN([[maybe_unused]] const int64_t row, store_.problem_id(problem));
  return {};
}

// A session is taken up again only where it was begun: elsewhere, two hosts of one kind would mix their samples in a
// run.
Status RecordWriter::put(const SessionRecord& s) {
  Query find = c_.query(
      "SELECT s.id AS id, m.key AS key, m.label AS label, b.engine AS engine, b.codegens AS codegens, "
      "s.settings AS settings, s.started_at AS started_at FROM sessions s JOIN machines m ON m.id = s.machine_id "
      "JOIN builds b ON b.id = s.build_id WHERE s.uid = :uid");
  if (find.bind(":uid", s.uid).step()) {
    const char* other = nullptr;
    if (find.integer("started_at") != s.started_at) other = "started_at";
    if (find.text("settings") != s.settings) other = "settings";
    if (find.text("engine") != s.build.engine || find.text("codegens") != s.build.codegens) other = "build";
    if (find.text("key") != s.machine.key || find.text("label") != s.machine.label) other = "machine";
    if (other) return fault("uid", fmt::format("'{}' is a session with another {} here", s.uid, other));
    sessions_[s.uid] = find.integer("id");
    return {};
  }
  const int64_t machine = store_.machine_id(s.machine), build = store_.build_id(s.build);
  c_.query(
        "INSERT INTO sessions(uid, machine_id, build_id, settings, started_at, owner, seen_at, state) "
        "VALUES(:uid, :machine, :build, :settings, :started_at, '', :started_at, 'done')")
      .bind(":uid", s.uid)
      .bind(":machine", machine)
      .bind(":build", build)
      .bind(":settings", s.settings)
      .bind(":started_at", s.started_at)
      .run();
  sessions_[s.uid] = c_.database().getLastInsertRowid();
  return {};
}

Status RecordWriter::put(const RunRecord& r) {
  int64_t problem = 0;
  if (!r.problem.text.empty()) {
    HONE_ASSIGN_OR_RETURN(problem, store_.problem_id(r.problem));
  }
  Query find = c_.query(
      "SELECT r.id AS id, m.key AS key, m.label AS label, b.engine AS engine, b.codegens AS codegens, r.started_at AS "
      "started_at, r.seed AS seed, r.cache_mode AS cache_mode, r.settings AS settings FROM runs r JOIN machines m ON "
      "m.id = r.machine_id JOIN builds b ON b.id = r.build_id WHERE r.uid = :uid");
  if (find.bind(":uid", r.uid).step()) return meet(r, find);
  const int64_t machine = store_.machine_id(r.machine), build = store_.build_id(r.build);
  if (!r.session.empty()) {
    Query of = c_.query("SELECT machine_id, build_id FROM sessions WHERE id = :session");
    const bool same = of.bind(":session", sessions_[r.session]).step() && of.integer("machine_id") == machine &&
                      of.integer("build_id") == build;
    if (!same) return fault("session", fmt::format("'{}' is of another machine or build than this run", r.session));
  }
  c_.query(
        "INSERT INTO runs(uid, machine_id, build_id, session_id, problem_id, started_at, seed, cache_mode, "
        "noise_bound, "
        "spent_ns, settings) VALUES(:uid, :machine, :build, nullif(:session, 0), nullif(:problem, 0), :started_at, "
        ":seed, :cache_mode, :noise_bound, :spent_ns, :settings)")
      .bind(":uid", r.uid)
      .bind(":machine", machine)
      .bind(":build", build)
      .bind(":session", r.session.empty() ? int64_t{0} : sessions_[r.session])
      .bind(":problem", problem)
      .bind(":started_at", r.started_at)
      .bind(":seed", r.seed)
      .bind(":cache_mode", r.cache_mode)
      .bind(":noise_bound", r.noise_bound)
      .bind(":spent_ns", r.spent_ns)
      .bind(":settings", r.settings)
      .run();
  runs_[r.uid] = c_.database().getLastInsertRowid();
  return {};
}

// The run is here already: the same, or one of the two was copied while it was under way, and the one that got further
// knows better.
Status RecordWriter::meet(const RunRecord& r, const Query& stored) {
  const auto differs = [&](const char* what) {
    return invalid_argument(fmt::format("uid '{}' is a run with another {} here", r.uid, what));
  };
  if (stored.text("key") != r.machine.key || stored.text("label") != r.machine.label) return differs("machine");
  if (stored.text("engine") != r.build.engine || stored.text("codegens") != r.build.codegens) return differs("build");
  if (stored.integer("started_at") != r.started_at) return differs("started_at");
  if (stored.integer("seed") != r.seed) return differs("seed");
  if (stored.text("cache_mode") != r.cache_mode) return differs("cache_mode");
  if (stored.text("settings") != r.settings) return differs("settings");
  runs_[r.uid] = stored.integer("id");
  met_ = true;
  c_.query(
        "UPDATE runs SET spent_ns = :spent, noise_bound = :noise WHERE id = :id AND (spent_ns, noise_bound) < "
        "(:spent, :noise)")
      .bind(":spent", r.spent_ns)
      .bind(":noise", r.noise_bound)
      .bind(":id", stored.integer("id"))
      .run();
  return {};
}

Status RecordWriter::put(const SamplesRecord& s) {
  HONE_ASSIGN_OR_RETURN(const int64_t run, run_row(s.run));
  HONE_ASSIGN_OR_RETURN(const int64_t problem, store_.problem_id(s.problem));
  const int64_t candidate = store_.candidate_id(s.candidate);
  Query insert = c_.query(
      "INSERT INTO samples(run_id, problem_id, candidate_id, phase, round, position, ns) "
      "VALUES(:run, :problem, :candidate, :phase, :round, :position, :ns) ON CONFLICT DO NOTHING");
  insert.bind(":run", run).bind(":problem", problem).bind(":candidate", candidate);
  const size_t type = Record(std::in_place_type<SamplesRecord>).index();
  for (const Sample& sample : s.samples) {
    const auto bind = [&](Query& q) -> Query& {
      return q.bind(":phase", static_cast<int64_t>(sample.phase))
          .bind(":round", sample.round)
          .bind(":position", int64_t{sample.order});
    };
    bind(insert).bind(":ns", sample.ns).run();
    const bool added = c_.database().getChanges() != 0;
    count(type, added);
    if (added) continue;
    Query there = c_.query(
        "SELECT ns FROM samples WHERE run_id = :run AND problem_id = :problem AND candidate_id = :candidate AND "
        "phase = :phase AND round = :round AND position = :position");
    there.bind(":run", run).bind(":problem", problem).bind(":candidate", candidate);
    const int64_t here = bind(there).step() ? there.integer("ns") : 0;
    if (here == sample.ns) continue;
    return fault(std::string(phase_name(sample.phase)).c_str(),
                 fmt::format("[{}, {}, {}]: this slot of run '{}' has a time of {} ns already", sample.round,
                             sample.order, sample.ns, s.run, here));
  }
  return {};
}

Status RecordWriter::put(const OutcomeRecord& o) {
  HONE_ASSIGN_OR_RETURN(const int64_t run, run_row(o.run));
  HONE_ASSIGN_OR_RETURN(const int64_t problem, store_.problem_id(o.problem));
  c_.query(
        "INSERT INTO outcomes(run_id, problem_id, candidate_id, outcome, detail, command, noted_at) SELECT :run, "
        ":problem, "
        ":candidate, :outcome, :detail, :command, :noted_at WHERE NOT EXISTS (SELECT 1 FROM outcomes WHERE run_id = "
        ":run "
        "AND problem_id = :problem AND candidate_id = :candidate AND outcome = :outcome AND detail = :detail AND "
        "command = :command AND noted_at = :noted_at)")
      .bind(":run", run)
      .bind(":problem", problem)
      .bind(":candidate", store_.candidate_id(o.candidate))
      .bind(":outcome", o.outcome)
      .bind(":detail", o.detail)
      .bind(":command", o.command)
      .bind(":noted_at", o.noted_at)
      .run();
  return {};
}

// A run decides a problem once: a second decision of it would be a changed copy, and win as the newer one.
Status RecordWriter::put(const DecisionRecord& r) {
  const Decision& d = r.decision;
  HONE_ASSIGN_OR_RETURN(const int64_t run, run_row(r.run));
  HONE_ASSIGN_OR_RETURN(const int64_t problem, store_.problem_id(d.problem));
  const int64_t winner = store_.candidate_id(d.winner), fallback = store_.candidate_id(d.fallback);
  Query find = c_.query(
      "SELECT winner_id = :winner AND fallback_id = :fallback AND verdict = :verdict AND ns = :ns AND "
      "default_ns = :default_ns AND speedup = :speedup AND speedup_lo = :speedup_lo AND speedup_hi = :speedup_hi AND "
      "noise_bound = :noise_bound AND decided_at = :decided_at AS same FROM decisions WHERE run_id = :run AND "
      "problem_id = :problem ORDER BY same DESC");
  find.bind(":run", run).bind(":problem", problem).bind(":winner", winner).bind(":fallback", fallback);
  find.bind(":verdict", r.verdict).bind(":ns", d.ns).bind(":default_ns", d.default_ns).bind(":speedup", d.speedup);
  find.bind(":speedup_lo", d.speedup_lo).bind(":speedup_hi", d.speedup_hi).bind(":noise_bound", d.noise_bound);
  if (find.bind(":decided_at", d.decided_at).step()) {
    if (find.integer("same") != 0) return {};
    return fault("run", fmt::format("'{}' has another decision on '{}' here", r.run, d.problem.text));
  }
  (void)store_.insert_decision(run, d, problem, r.verdict);  // its number is this file's business
  return {};
}

Status RecordWriter::put(const Ranker& r) {
  c_.query(
        "INSERT INTO rankers(machine_key, features, trained_at, problems, samples, correlation, baseline_correlation, "
        "model) SELECT :key, :features, :trained_at, :problems, :samples, :correlation, :baseline, :model WHERE NOT "
        "EXISTS (SELECT 1 FROM rankers WHERE machine_key = :key AND features = :features AND trained_at = :trained_at "
        "AND problems = :problems AND samples = :samples AND correlation = :correlation AND "
        "baseline_correlation = :baseline AND model = :model)")
      .bind(":key", r.machine_key)
      .bind(":features", r.features)
      .bind(":trained_at", r.trained_at)
      .bind(":problems", r.problems)
      .bind(":samples", r.samples)
      .bind(":correlation", r.correlation)
      .bind(":baseline", r.baseline_correlation)
      .bind_blob(":model", r.model)
      .run();
  return {};
}

Status RecordWriter::put(const ScheduleChoice& s) {
  Query find = c_.query(
      "SELECT id, schedule, min_work FROM schedules WHERE machine_id = :machine AND build_id = :build AND threads = "
      ":threads AND measured_at = :measured_at");
  find.bind(":machine", store_.machine_id(s.machine)).bind(":build", store_.build_id(s.build));
  if (!find.bind(":threads", int64_t{s.threads}).bind(":measured_at", s.measured_at).step()) {
    store_.insert_schedule(s);
    return {};
  }
  const bool same = find.text("schedule") == s.schedule && find.integer("min_work") == s.min_work &&
                    read_fork_joins(c_, find.integer("id")) == s.fork_joins;
  return same ? Status{} : fault("measured_at", fmt::format("{} is of another measurement here", s.measured_at));
}

Status RecordWriter::put(const CodeRecord& code) {
  HONE_ASSIGN_OR_RETURN(const int64_t there, store_.code_row(code));
  if (there == 0) return store_.insert_code(code);
  met_ = true;  // looking it up may have made rows of its texts
  std::string stored;
  HONE_RETURN_IF_ERROR(read_codes(c_, {.id = there}, [&](const CodeRecord& found) {
    stored = to_line(found);
    return Status{};
  }));
  return stored == to_line(code)
             ? Status{}
             : fault("measured_at", fmt::format("{} is of another measurement here", code.measured_at));
}

}  // namespace hone::db
