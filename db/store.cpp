// State and writing of records (read.cpp has the reading).
//
// Every write is one IMMEDIATE transaction: it takes the write lock before it reads, so it never fails half way because
// another process wrote in between; waiting for the lock is the only conflict there is, and with_retry hides it. What a
// CHECK refuses is refused here first, since only here can the message name the record.
#include <unistd.h>

#include <cmath>
#include <ctime>
#include <random>

#include <fmt/format.h>

#include "db/limits_internal.h"
#include "db/store_internal.h"

namespace hone::db {
namespace {

std::string describe(const Candidate& c) {
  return fmt::format("{} {} with {} threads, program '{}'", c.codegen, c.codegen_version, c.threads, c.program);
}

Status check(const MachineLabel& machine) {
  if (machine.key.empty()) return invalid_argument("machine key is empty");
  if (machine.label.size() <= kMaxLabel && json_depth(machine.label) <= kMaxLabelDepth) return {};
  return invalid_argument(fmt::format("machine '{}': its label of {} bytes is too long or nested too deep", machine.key,
                                      machine.label.size()));
}

Status check(const ProblemKey& problem) {
  if (problem.text.empty()) return invalid_argument("problem text is empty");
  if (problem.m < 0)
    return invalid_argument(fmt::format("problem '{}': m is {}, must not be negative", problem.text, problem.m));
  return {};
}

Status check(const Candidate& candidate) {
  if (candidate.program.empty()) return invalid_argument("candidate has no program text");
  if (candidate.codegen.empty()) return invalid_argument("candidate has no code generator: " + describe(candidate));
  if (candidate.threads < 1) return invalid_argument("candidate needs at least 1 thread: " + describe(candidate));
  return {};
}

Status check(const Sample& sample, const ProblemKey& problem, const Candidate& candidate) {
  std::string_view fault;
  if (sample.ns <= 0) fault = "a time must be positive; the clock or the measurement is wrong";
  if (sample.ns > kMaxNs) fault = "that is no time of a kernel";
  if (sample.round < 0) fault = "a round must not be negative";
  if (sample.order < 0) fault = "an order must not be negative";
  if (sample.phase < Phase::kSearch || sample.phase > Phase::kNoise) fault = "unknown phase";
  if (fault.empty()) return {};
  return invalid_argument(fmt::format("sample of {} ns (round {}, order {}) of '{}', {} refused: {}", sample.ns,
                                      sample.round, sample.order, problem.text, describe(candidate), fault));
}

Status check(const Decision& d) {
  HONE_RETURN_IF_ERROR(check(d.problem));
  HONE_RETURN_IF_ERROR(check(d.winner));
  HONE_RETURN_IF_ERROR(check(d.fallback));
  const std::pair<const char*, double> positive[] = {{"ns", d.ns},
                                                     {"default_ns", d.default_ns},
                                                     {"speedup", d.speedup},
                                                     {"speedup_lo", d.speedup_lo},
                                                     {"speedup_hi", d.speedup_hi}};
  for (const auto& [name, value] : positive) {
    if (!std::isfinite(value) || value <= 0) {
      return invalid_argument(
          fmt::format("decision on '{}': {} is {}, must be positive and finite", d.problem.text, name, value));
    }
  }
  for (const auto& [name, value] : {std::pair{"ns", d.ns}, {"default_ns", d.default_ns}}) {
    if (value > static_cast<double>(kMaxNs)) {
      return invalid_argument(
          fmt::format("decision on '{}': {} is {}, which is no time of a kernel", d.problem.text, name, value));
    }
  }
  if (!is_unix_time(d.decided_at))
    return invalid_argument(fmt::format("decision on '{}': decided_at is {}, which is no date in unix seconds",
                                        d.problem.text, d.decided_at));
  if (!std::isfinite(d.noise_bound) || d.noise_bound < 0) {
    return invalid_argument(fmt::format("decision on '{}': noise_bound is {}, must be finite and not negative",
                                        d.problem.text, d.noise_bound));
  }
  return {};
}

Status check_noise(double noise_bound) {
  if (std::isfinite(noise_bound) && noise_bound >= 0) return {};
  return invalid_argument(fmt::format("noise bound of a run is {}, must be finite and not negative", noise_bound));
}

// A text that differs for different candidates, whatever they contain.
std::string identity(const Candidate& c) {
  return fmt::format("{} {} {}{}{}{} {}", c.codegen.size(), c.codegen_version.size(), c.numerics.size(), c.codegen,
                     c.codegen_version, c.numerics, c.threads)
      .append(c.program);
}

}  // namespace

int64_t unix_now() { return static_cast<int64_t>(std::time(nullptr)); }

std::string new_uid() {
  std::random_device random;
  return fmt::format("{:08x}{:08x}{:08x}{:08x}", random(), random(), random(), random());
}

Result<SqliteStore*> as_sqlite(Store& store) {
  auto* sqlite = dynamic_cast<SqliteStore*>(&store);
  if (sqlite == nullptr) return unsupported(fmt::format("{} is not a database file", store.path()));
  return sqlite;
}

SqliteStore::SqliteStore(std::unique_ptr<Connection> connection, StoreState state)
    : connection_(std::move(connection)), state_(std::move(state)), owner_(getpid()) {}

SqliteStore::~SqliteStore() {
  // In a forked child closing would touch the parent's locks and log: leak the connection, the child's exit frees it.
  if (getpid() != owner_) (void)connection_.release();
}

std::string SqliteStore::path() const { return connection_->path(); }

Status SqliteStore::usable() const {
  if (getpid() == owner_) return {};
  return failed_precondition(
      fmt::format("{} was opened before fork(); a child process must open its own store", path()));
}

Status SqliteStore::to_status(const SQLite::Exception& e) const {
  Status status = db::to_status(e, path());
  if (status.code() != Code::kInternal || state_.message.empty()) return status;
  return unsupported(
      fmt::format("{}: {} ({})", path(), e.what(), state_.message));  // a newer schema that lacks a column
}

// ---- writing ----

Result<int64_t> SqliteStore::begin_run(const MachineLabel& machine, const BuildLabel& build, const RunInfo& info) {
  HONE_RETURN_IF_ERROR(check(machine));
  HONE_RETURN_IF_ERROR(check_noise(info.noise_bound));
  if (!info.problem.text.empty()) HONE_RETURN_IF_ERROR(check(info.problem));
  return write([&]() -> Result<int64_t> {
    int64_t problem_row = 0;
    if (!info.problem.text.empty()) {
      HONE_ASSIGN_OR_RETURN(problem_row, problem_id(info.problem));
    }
    if (info.session_id != 0) HONE_RETURN_IF_ERROR(require_session(info.session_id));
    Query insert = connection_->query(
        "INSERT INTO runs(uid, machine_id, build_id, session_id, problem_id, started_at, seed, cache_mode, "
        "noise_bound, settings) VALUES(:uid, :machine, :build, nullif(:session, 0), nullif(:problem, 0), :started_at, "
        ":seed, :cache_mode, :noise_bound, :settings)");
    insert.bind(":uid", new_uid())
        .bind(":machine", machine_id(machine))
        .bind(":build", build_id(build))
        .bind(":session", info.session_id)
        .bind(":problem", problem_row)
        .bind(":started_at", unix_now())
        .bind(":seed", info.seed)
        .bind(":cache_mode", info.cache_mode)
        .bind(":noise_bound", info.noise_bound)
        .bind(":settings", info.settings)
        .run();
    const int64_t run_id = connection_->database().getLastInsertRowid();
    touch_session(run_id);
    return run_id;
  });
}

Status SqliteStore::set_noise_bound(int64_t run_id, double noise_bound) {
  HONE_RETURN_IF_ERROR(check_noise(noise_bound));
  return write([&]() -> Status {
    HONE_RETURN_IF_ERROR(require_run(run_id));
    connection_->query("UPDATE runs SET noise_bound = :noise_bound WHERE id = :run")
        .bind(":noise_bound", noise_bound)
        .bind(":run", run_id)
        .run();
    return {};
  });
}

Status SqliteStore::add_round(int64_t run_id, const ProblemKey& problem, const std::vector<SampleGroup>& groups,
                              double spent_seconds) {
  HONE_RETURN_IF_ERROR(check(problem));
  if (!(spent_seconds >= 0 && spent_seconds < 1e9)) {
    return invalid_argument(
        fmt::format("round of '{}': {} s spent, must be at least 0 and finite", problem.text, spent_seconds));
  }
  for (const SampleGroup& group : groups) {
    HONE_RETURN_IF_ERROR(check(group.candidate));
    for (const Sample& s : group.samples) HONE_RETURN_IF_ERROR(check(s, problem, group.candidate));
  }
  return write([&]() -> Status {
    HONE_RETURN_IF_ERROR(require_run(run_id));
    HONE_ASSIGN_OR_RETURN(const int64_t problem_row, problem_id(problem));
    for (const SampleGroup& group : groups) HONE_RETURN_IF_ERROR(insert_samples(run_id, problem_row, problem, group));
    connection_->query("UPDATE runs SET spent_ns = :spent WHERE id = :run AND spent_ns < :spent")
        .bind(":spent", static_cast<int64_t>(spent_seconds * 1e9))
        .bind(":run", run_id)
        .run();
    touch_session(run_id);
    return {};
  });
}

Status SqliteStore::insert_samples(int64_t run_id, int64_t problem_row, const ProblemKey& problem,
                                   const SampleGroup& group) {
  const int64_t candidate_row = candidate_id(group.candidate);
  Query insert = connection_->query(
      "INSERT INTO samples(run_id, problem_id, candidate_id, phase, round, position, ns) "
      "VALUES(:run, :problem, :candidate, :phase, :round, :position, :ns) ON CONFLICT DO NOTHING");
  insert.bind(":run", run_id).bind(":problem", problem_row).bind(":candidate", candidate_row);
  for (const Sample& s : group.samples) {
    insert.bind(":phase", static_cast<int64_t>(s.phase)).bind(":round", s.round).bind(":position", int64_t{s.order});
    insert.bind(":ns", s.ns).run();
    if (connection_->database().getChanges() == 0) {
      return invalid_argument(
          fmt::format("run {} of {} already has a sample of '{}' in phase {}, round {}, order {} "
                      "for {}",
                      run_id, path(), problem.text, phase_name(s.phase), s.round, s.order, describe(group.candidate)));
    }
  }
  return {};
}

Status SqliteStore::add_outcome(int64_t run_id, const ProblemKey& problem, const Candidate& candidate, Outcome outcome,
                                const std::string& detail, const std::string& command) {
  HONE_RETURN_IF_ERROR(check(problem));
  HONE_RETURN_IF_ERROR(check(candidate));
  return write([&]() -> Status {
    HONE_RETURN_IF_ERROR(require_run(run_id));
    HONE_ASSIGN_OR_RETURN(const int64_t problem_row, problem_id(problem));
    connection_
        ->query(
            "INSERT INTO outcomes(run_id, problem_id, candidate_id, outcome, detail, command, noted_at) "
            "VALUES(:run, :problem, :candidate, :outcome, :detail, :command, :noted_at)")
        .bind(":run", run_id)
        .bind(":problem", problem_row)
        .bind(":candidate", candidate_id(candidate))
        .bind(":outcome", std::string(outcome_name(outcome)))
        .bind(":detail", detail)
        .bind(":command", command)
        .bind(":noted_at", unix_now())
        .run();
    return {};
  });
}

Result<int64_t> SqliteStore::add_decision(int64_t run_id, const Decision& d) {
  HONE_RETURN_IF_ERROR(check(d));
  return write([&]() -> Result<int64_t> {
    HONE_RETURN_IF_ERROR(require_run(run_id));
    HONE_ASSIGN_OR_RETURN(const int64_t problem_row, problem_id(d.problem));
    Decision dated = d;
    if (dated.decided_at == 0) dated.decided_at = unix_now();
    return insert_decision(run_id, dated, problem_row, std::string(verdict_name(d.verdict)));
  });
}

int64_t SqliteStore::insert_decision(int64_t run_id, const Decision& d, int64_t problem_row,
                                     const std::string& verdict) {
  connection_
      ->query(
          "INSERT INTO decisions(run_id, problem_id, winner_id, fallback_id, verdict, ns, default_ns, speedup, "
          "speedup_lo, speedup_hi, noise_bound, decided_at) VALUES(:run, :problem, :winner, :fallback, :verdict, :ns, "
          ":default_ns, :speedup, :speedup_lo, :speedup_hi, :noise_bound, :decided_at)")
      .bind(":run", run_id)
      .bind(":problem", problem_row)
      .bind(":winner", candidate_id(d.winner))
      .bind(":fallback", candidate_id(d.fallback))
      .bind(":verdict", verdict)
      .bind(":ns", d.ns)
      .bind(":default_ns", d.default_ns)
      .bind(":speedup", d.speedup)
      .bind(":speedup_lo", d.speedup_lo)
      .bind(":speedup_hi", d.speedup_hi)
      .bind(":noise_bound", d.noise_bound)
      .bind(":decided_at", d.decided_at)
      .run();
  return connection_->database().getLastInsertRowid();
}

void SqliteStore::forget_ids_of_others() {
  Query q = connection_->query("PRAGMA data_version");
  (void)q.step();
  const int64_t version = q.integer("data_version");
  if (version != ids_.data_version) ids_ = {.candidates = {}, .problems = {}, .run = 0, .data_version = version};
}

Status SqliteStore::require_run(int64_t run_id) {
  if (ids_.run == run_id) return {};
  Query q = connection_->query("SELECT id FROM runs WHERE id = :run ORDER BY id");
  if (q.bind(":run", run_id).step()) {
    ids_.run = run_id;
    return {};
  }
  return invalid_argument(fmt::format("{} has no run {}; begin_run gives the number", path(), run_id));
}

int64_t SqliteStore::machine_id(const MachineLabel& machine) {
  Query find = connection_->query("SELECT id FROM machines WHERE key = :key AND label = :label ORDER BY id");
  if (find.bind(":key", machine.key).bind(":label", machine.label).step()) return find.integer("id");
  Query insert = connection_->query("INSERT INTO machines(key, label) VALUES(:key, :label)");
  insert.bind(":key", machine.key).bind(":label", machine.label).run();
  return connection_->database().getLastInsertRowid();
}

int64_t SqliteStore::build_id(const BuildLabel& build) {
  Query find = connection_->query("SELECT id FROM builds WHERE engine = :engine AND codegens = :codegens ORDER BY id");
  if (find.bind(":engine", build.engine).bind(":codegens", build.codegens).step()) return find.integer("id");
  Query insert = connection_->query("INSERT INTO builds(engine, codegens) VALUES(:engine, :codegens)");
  insert.bind(":engine", build.engine).bind(":codegens", build.codegens).run();
  return connection_->database().getLastInsertRowid();
}

// A problem's family and m follow from its text, so a text that comes back with others is a caller's bug that would
// misplace plans: refused.
Result<int64_t> SqliteStore::problem_id(const ProblemKey& problem) {
  const auto known = ids_.problems.find(problem.text);
  if (known != ids_.problems.end() && known->second.second == problem) return known->second.first;
  Query find = connection_->query("SELECT id, family, m FROM problems WHERE text = :text ORDER BY id");
  int64_t id = 0;
  if (find.bind(":text", problem.text).step()) {
    id = find.integer("id");
    if (find.text("family") != problem.family || find.integer("m") != problem.m) {
      return invalid_argument(fmt::format("problem '{}' is stored with family '{}' and m={}, not '{}' and m={}",
                                          problem.text, find.text("family"), find.integer("m"), problem.family,
                                          problem.m));
    }
  } else {
    connection_->query("INSERT INTO problems(text, family, m) VALUES(:text, :family, :m)")
        .bind(":text", problem.text)
        .bind(":family", problem.family)
        .bind(":m", problem.m)
        .run();
    id = connection_->database().getLastInsertRowid();
  }
  ids_.problems[problem.text] = {id, problem};
  return id;
}

int64_t SqliteStore::candidate_id(const Candidate& candidate) {
  std::string key = identity(candidate);
  const auto known = ids_.candidates.find(key);
  if (known != ids_.candidates.end()) return known->second;
  const int64_t id = find_or_insert(candidate);
  ids_.candidates.emplace(std::move(key), id);
  return id;
}

int64_t SqliteStore::find_or_insert(const Candidate& candidate) {
  Connection& c = *connection_;
  const auto bind = [&](Query& q) {
    q.bind(":program", candidate.program).bind(":codegen", candidate.codegen);
    q.bind(":codegen_version", candidate.codegen_version);
    q.bind(":threads", int64_t{candidate.threads}).bind(":numerics", candidate.numerics);
  };
  Query find = c.query(
      "SELECT c.id AS id FROM programs p JOIN candidates c ON c.program_id = p.id WHERE p.text = :program AND "
      "c.codegen = :codegen AND c.codegen_version = :codegen_version AND c.threads = :threads AND c.numerics = "
      ":numerics "
      "ORDER BY c.id");
  bind(find);
  if (find.step()) return find.integer("id");
  c.query("INSERT INTO programs(text) VALUES(:text) ON CONFLICT DO NOTHING").bind(":text", candidate.program).run();
  Query insert = c.query(
      "INSERT INTO candidates(program_id, codegen, codegen_version, threads, numerics) VALUES("
      "(SELECT id FROM programs WHERE text = :program), :codegen, :codegen_version, :threads, :numerics)");
  bind(insert);
  insert.run();
  return c.database().getLastInsertRowid();
}

}  // namespace hone::db
