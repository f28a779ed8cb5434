// A store as records, in an order that depends on the content only: machines, problems and sessions, then run after run
// with everything of that run, so that a new run is a new block of lines; then what is known of whole machines. Rows
// are read as they are needed; nothing grows with the size of the store.
#include <fmt/format.h>

#include <limits>

#include "db/transfer_internal.h"

namespace hone::db {
namespace {

// Keeps a line below what a reader takes, and memory flat.
constexpr size_t kSamplesPerRecord = 100'000;

// Which runs are meant. The parameters are bound by select().
#define HONE_SELECTED_RUNS                                                                                  \
  "FROM runs r JOIN machines rm ON rm.id = r.machine_id WHERE (:machine = '' OR rm.key = :machine) AND "    \
  "(:problem = '' OR EXISTS (SELECT 1 FROM problems x WHERE x.text = :problem AND (r.problem_id = x.id OR " \
  "EXISTS (SELECT 1 FROM samples y WHERE y.run_id = r.id AND y.problem_id = x.id) OR "                      \
  "EXISTS (SELECT 1 FROM outcomes y WHERE y.run_id = r.id AND y.problem_id = x.id) OR "                     \
  "EXISTS (SELECT 1 FROM decisions y WHERE y.run_id = r.id AND y.problem_id = x.id)))) "

#define HONE_SELECTED_CODES                                                                               \
  "FROM codes k JOIN machines km ON km.id = k.machine_id JOIN problems kp ON kp.id = k.problem_id WHERE " \
  "(:machine = '' OR km.key = :machine) AND (:problem = '' OR kp.text = :problem) "

#define HONE_CANDIDATE_COLUMNS                                                                            \
  "g.text AS program, c.codegen AS codegen, c.codegen_version AS codegen_version, c.threads AS threads, " \
  "c.numerics AS numerics "
#define HONE_CANDIDATE_JOIN "JOIN candidates c ON c.id = e.candidate_id JOIN programs g ON g.id = c.program_id "
#define HONE_CANDIDATE_ORDER "g.text, c.codegen, c.codegen_version, c.threads, c.numerics"
#define HONE_PROBLEM_COLUMNS "p.text AS problem, p.family AS family, p.m AS m, "
#define HONE_PROBLEM_JOIN "JOIN problems p ON p.id = e.problem_id "
#define HONE_OF_RUN "WHERE e.run_id = :run AND (:problem = '' OR p.text = :problem) "

ProblemKey problem_of(const Query& q) {
  return {.text = q.text("problem"), .family = q.text("family"), .m = q.integer("m")};
}

class RecordReader {
 public:
  // `sent` becomes true with the first record.
  RecordReader(Connection& connection, const ExportOptions& options, const RecordSink& sink, bool& sent)
      : c_(connection), options_(options), sink_(sink), sent_(sent) {}

  Status run() {
    HONE_RETURN_IF_ERROR(machines());
    HONE_RETURN_IF_ERROR(problems());
    HONE_RETURN_IF_ERROR(sessions());
    HONE_RETURN_IF_ERROR(runs());
    HONE_RETURN_IF_ERROR(codes());
    if (options_.problem.empty()) HONE_RETURN_IF_ERROR(schedules());
    return options_.rankers ? rankers() : Status{};
  }

 private:
  // Values that no record can hold were noted while `record` was made; a file may say what it likes.
  Status emit(const Record& record) {
    HONE_RETURN_IF_ERROR(damage_);
    sent_ = true;
    return sink_(record);
  }

  int narrow(const char* what, int64_t value) {
    if (value >= 0 && value <= std::numeric_limits<int>::max()) return static_cast<int>(value);
    note(what, value);
    return 0;
  }

  void note(const char* what, int64_t value) {
    if (damage_.ok())
      damage_ = data_loss(fmt::format("{}: a {} is {}, which this hone never writes; `hone db verify` lists the faults",
                                      c_.path(), what, value));
  }

  Candidate candidate_of(const Query& q, const std::string& prefix = "") {
    auto text = [&](const char* column) { return q.text((prefix + column).c_str()); };
    return {.program = text("program"),
            .codegen = text("codegen"),
            .codegen_version = text("codegen_version"),
            .threads = narrow("thread count", q.integer((prefix + "threads").c_str())),
            .numerics = text("numerics")};
  }

  Sample sample_of(const Query& q) {
    const int64_t phase = q.integer("phase");
    const bool known = phase >= 0 && phase <= static_cast<int64_t>(Phase::kNoise);
    if (!known) note("phase", phase);
    return {.round = q.integer("round"),
            .order = narrow("position", q.integer("position")),
            .ns = q.integer("ns"),
            .phase = known ? static_cast<Phase>(phase) : Phase::kSearch};
  }

  Query& select(Query& q) const { return q.bind(":machine", options_.machine_key).bind(":problem", options_.problem); }

  Status machines() {
    Query q =
        c_.query("SELECT key, label FROM machines WHERE id IN (SELECT r.machine_id " HONE_SELECTED_RUNS
                 ") OR id IN (SELECT machine_id FROM sessions WHERE id IN (SELECT r.session_id " HONE_SELECTED_RUNS
                 ")) OR id IN (SELECT k.machine_id " HONE_SELECTED_CODES
                 ") OR (:problem = '' AND (:machine = '' OR key = :machine) AND id IN (SELECT machine_id FROM "
                 "schedules)) ORDER BY key, label");
    select(q);
    while (q.step()) HONE_RETURN_IF_ERROR(emit(MachineLabel{.key = q.text("key"), .label = q.text("label")}));
    return {};
  }

  Status problems() {
    Query q = c_.query("SELECT " HONE_PROBLEM_COLUMNS
                       "p.id FROM problems p WHERE p.id IN (SELECT r.problem_id " HONE_SELECTED_RUNS
                       ") OR p.id IN (SELECT k.problem_id " HONE_SELECTED_CODES
                       ") OR ((:problem = '' OR p.text = :problem) AND p.id IN ("
                       "SELECT problem_id FROM samples WHERE run_id IN (SELECT r.id " HONE_SELECTED_RUNS
                       ") UNION SELECT problem_id FROM outcomes WHERE run_id IN (SELECT r.id " HONE_SELECTED_RUNS
                       ") UNION SELECT problem_id FROM decisions WHERE run_id IN (SELECT r.id " HONE_SELECTED_RUNS
                       "))) ORDER BY p.family, p.m, p.text");
    select(q);
    while (q.step()) HONE_RETURN_IF_ERROR(emit(problem_of(q)));
    return {};
  }

  Status sessions() {
    Query q = c_.query(
        "SELECT s.uid AS uid, m.key AS key, m.label AS label, b.engine AS engine, b.codegens AS codegens, s.settings "
        "AS "
        "settings, s.started_at AS started_at FROM sessions s JOIN machines m ON m.id = s.machine_id JOIN builds b ON "
        "b.id = s.build_id WHERE s.id IN (SELECT r.session_id " HONE_SELECTED_RUNS ") ORDER BY s.started_at, s.uid");
    select(q);
    while (q.step()) {
      HONE_RETURN_IF_ERROR(emit(SessionRecord{.uid = q.text("uid"),
                                              .machine = {.key = q.text("key"), .label = q.text("label")},
                                              .build = {.engine = q.text("engine"), .codegens = q.text("codegens")},
                                              .settings = q.text("settings"),
                                              .started_at = q.integer("started_at")}));
    }
    return {};
  }

  Status runs() {
    Query q = c_.query(
        "SELECT r.id AS id, r.uid AS uid, rm.key AS key, rm.label AS label, "
        "(SELECT engine FROM builds WHERE id = r.build_id) AS engine, "
        "(SELECT codegens FROM builds WHERE id = r.build_id) AS codegens, "
        "ifnull((SELECT uid FROM sessions WHERE id = r.session_id), '') AS session, "
        "ifnull((SELECT text FROM problems WHERE id = r.problem_id), '') AS problem, "
        "ifnull((SELECT family FROM problems WHERE id = r.problem_id), '') AS family, "
        "ifnull((SELECT m FROM problems WHERE id = r.problem_id), 0) AS m, r.started_at AS started_at, r.seed AS seed, "
        "r.cache_mode AS cache_mode, r.noise_bound AS noise_bound, r.spent_ns AS spent_ns, r.settings AS "
        "settings " HONE_SELECTED_RUNS "ORDER BY r.started_at, r.uid");
    select(q);
    while (q.step()) {
      const RunRecord run{.uid = q.text("uid"),
                          .machine = {.key = q.text("key"), .label = q.text("label")},
                          .build = {.engine = q.text("engine"), .codegens = q.text("codegens")},
                          .session = q.text("session"),
                          .problem = problem_of(q),
                          .started_at = q.integer("started_at"),
                          .seed = q.integer("seed"),
                          .cache_mode = q.text("cache_mode"),
                          .noise_bound = q.real("noise_bound"),
                          .spent_ns = q.integer("spent_ns"),
                          .settings = q.text("settings")};
      HONE_RETURN_IF_ERROR(emit(run));
      const int64_t id = q.integer("id");
      HONE_RETURN_IF_ERROR(samples(id, run.uid));
      HONE_RETURN_IF_ERROR(outcomes(id, run.uid));
      HONE_RETURN_IF_ERROR(decisions(id, run.uid));
    }
    return {};
  }

  Query& of_run(Query& q, int64_t run) const { return q.bind(":run", run).bind(":problem", options_.problem); }

  Status samples(int64_t run, const std::string& uid) {
    Query groups = c_.query(
        "SELECT e.problem_id AS problem_id, e.candidate_id AS candidate_id, " HONE_PROBLEM_COLUMNS
            HONE_CANDIDATE_COLUMNS
        "FROM (SELECT DISTINCT run_id, problem_id, candidate_id FROM samples WHERE run_id = :run) e " HONE_PROBLEM_JOIN
            HONE_CANDIDATE_JOIN HONE_OF_RUN "ORDER BY p.text, " HONE_CANDIDATE_ORDER);
    of_run(groups, run);
    while (groups.step()) {
      SamplesRecord record{.run = uid, .problem = problem_of(groups), .candidate = candidate_of(groups), .samples = {}};
      Query q = c_.query(
          "SELECT phase, round, position, ns FROM samples WHERE run_id = :run AND problem_id = :problem AND "
          "candidate_id = :candidate ORDER BY phase, round, position");
      q.bind(":run", run).bind(":problem", groups.integer("problem_id"));
      q.bind(":candidate", groups.integer("candidate_id"));
      while (q.step()) {
        if (record.samples.size() == kSamplesPerRecord) {
          HONE_RETURN_IF_ERROR(emit(record));
          record.samples.clear();
        }
        record.samples.push_back(sample_of(q));
      }
      HONE_RETURN_IF_ERROR(emit(record));
    }
    return {};
  }

  // The same twice (which nothing keeps a store from holding) is once: a copy must be a copy.
  Status outcomes(int64_t run, const std::string& uid) {
    Query q = c_.query("SELECT DISTINCT " HONE_PROBLEM_COLUMNS
                       "e.outcome AS outcome, e.detail AS detail, e.command AS command, e.noted_at AS "
                       "noted_at, " HONE_CANDIDATE_COLUMNS
                       "FROM outcomes e " HONE_PROBLEM_JOIN HONE_CANDIDATE_JOIN HONE_OF_RUN
                       "ORDER BY p.text, " HONE_CANDIDATE_ORDER ", e.noted_at, e.outcome, e.detail, e.command");
    of_run(q, run);
    while (q.step()) {
      HONE_RETURN_IF_ERROR(emit(OutcomeRecord{.run = uid,
                                              .problem = problem_of(q),
                                              .candidate = candidate_of(q),
                                              .outcome = q.text("outcome"),
                                              .detail = q.text("detail"),
                                              .command = q.text("command"),
                                              .noted_at = q.integer("noted_at")}));
    }
    return {};
  }

  Status decisions(int64_t run, const std::string& uid) {
    Query q = c_.query(
        "SELECT DISTINCT " HONE_PROBLEM_COLUMNS
        "e.verdict AS verdict, e.ns AS ns, e.default_ns AS default_ns, e.speedup AS speedup, e.speedup_lo AS "
        "speedup_lo, e.speedup_hi AS speedup_hi, e.noise_bound AS noise_bound, e.decided_at AS decided_at, "
        "fg.text AS fallback_program, f.codegen AS fallback_codegen, f.codegen_version AS fallback_codegen_version, "
        "f.threads AS fallback_threads, f.numerics AS fallback_numerics, " HONE_CANDIDATE_COLUMNS
        "FROM decisions e " HONE_PROBLEM_JOIN
        "JOIN candidates c ON c.id = e.winner_id JOIN programs g ON g.id = c.program_id "
        "JOIN candidates f ON f.id = e.fallback_id JOIN programs fg ON fg.id = f.program_id " HONE_OF_RUN
        "ORDER BY e.decided_at, p.text, " HONE_CANDIDATE_ORDER
        ", fg.text, f.codegen, f.codegen_version, f.threads, f.numerics, e.ns, e.default_ns, e.speedup, e.verdict, "
        "e.speedup_lo, e.speedup_hi, e.noise_bound");
    of_run(q, run);
    while (q.step()) {
      HONE_RETURN_IF_ERROR(emit(DecisionRecord{.run = uid,
                                               .verdict = q.text("verdict"),
                                               .decision = {.problem = problem_of(q),
                                                            .winner = candidate_of(q),
                                                            .fallback = candidate_of(q, "fallback_"),
                                                            .ns = q.real("ns"),
                                                            .default_ns = q.real("default_ns"),
                                                            .speedup = q.real("speedup"),
                                                            .speedup_lo = q.real("speedup_lo"),
                                                            .speedup_hi = q.real("speedup_hi"),
                                                            .noise_bound = q.real("noise_bound"),
                                                            .decided_at = q.integer("decided_at")}}));
    }
    return {};
  }

  Status codes() {
    return read_codes(c_, {.problem = options_.problem, .machine_key = options_.machine_key},
                      [&](const CodeRecord& code) { return emit(code); });
  }

  Status schedules() {
    return read_schedules(c_, [&](const ScheduleChoice& choice) {
      const bool meant = options_.machine_key.empty() || options_.machine_key == choice.machine.key;
      return meant ? emit(choice) : Status{};
    });
  }

  Status rankers() {
    Query q = c_.query(
        "SELECT DISTINCT machine_key, features, trained_at, problems, samples, correlation, baseline_correlation, "
        "model "
        "FROM rankers WHERE :machine = '' OR machine_key = :machine ORDER BY machine_key, features, trained_at, model, "
        "problems, samples, correlation, baseline_correlation");
    q.bind(":machine", options_.machine_key);
    while (q.step()) {
      HONE_RETURN_IF_ERROR(emit(read_ranker(q)));
    }
    return {};
  }

  Connection& c_;
  const ExportOptions& options_;
  const RecordSink& sink_;
  Status damage_;
  bool& sent_;
};

}  // namespace

Status read_records(SqliteStore& store, const ExportOptions& options, const RecordSink& sink) {
  Connection& connection = store.connection();
  return store.read([&]() -> Status {
    return until_sent(connection, [&](bool& sent) {
      SQLite::Transaction snapshot(connection.database());
      return RecordReader(connection, options, sink, sent).run();
    });
  });
}

}  // namespace hone::db
