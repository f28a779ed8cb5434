// Reading of records, and the names under which enumerators are stored.
#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <nlohmann/json.hpp>

#include "db/store_internal.h"

namespace hone::db {
namespace {

constexpr std::string_view kOutcomeNames[] = {"measured", "wrong", "crashed", "refused"};
constexpr std::string_view kVerdictNames[] = {"new", "kept", "tie"};
constexpr std::string_view kPhaseNames[] = {"search", "confirm", "noise"};

// A name that a newer version wrote is unknown here; the first enumerator would be a lie, so the row is left out.
template <typename Enum, size_t N>
bool parse_name(const std::string_view (&names)[N], const std::string& name, Enum& value) {
  for (size_t i = 0; i < N; ++i) {
    if (names[i] == name) {
      value = static_cast<Enum>(i);
      return true;
    }
  }
  return false;
}

template <typename Enum, size_t N>
std::string_view name_of(const std::string_view (&names)[N], Enum value) {
  const auto i = static_cast<size_t>(value);
  return i < N ? names[i] : "?";
}

Candidate read_candidate(const Query& q) {
  return {.program = q.text("program"),
          .codegen = q.text("codegen"),
          .codegen_version = q.text("codegen_version"),
          .threads = threads_of(q.integer("threads")),
          .numerics = q.text("numerics")};
}

}  // namespace

int threads_of(int64_t stored) { return static_cast<int>(std::min<int64_t>(stored, std::numeric_limits<int>::max())); }

std::string_view outcome_name(Outcome o) { return name_of(kOutcomeNames, o); }
std::string_view verdict_name(Verdict v) { return name_of(kVerdictNames, v); }
std::string_view phase_name(Phase p) { return name_of(kPhaseNames, p); }

std::string whole_settings(const Whole& whole) {
  return nlohmann::json{{"why", whole.why}, {"threads", whole.threads}}.dump(-1, ' ', false,
                                                                             nlohmann::json::error_handler_t::replace);
}

Whole read_whole_settings(const std::string& settings) {
  Whole whole;
  const nlohmann::json j = nlohmann::json::parse(settings, nullptr, /*allow_exceptions=*/false);
  if (!j.is_object()) return whole;
  if (const auto why = j.find("why"); why != j.end() && why->is_string()) whole.why = why->get<std::string>();
  if (const auto threads = j.find("threads"); threads != j.end() && threads->is_number_unsigned())
    whole.threads = static_cast<int>(std::min<uint64_t>(threads->get<uint64_t>(), 1 << 20));
  return whole;
}

#define HONE_DECISION_COLUMNS                                                                                        \
  "SELECT d.id AS id, d.run_id AS run_id, machines.key AS machine_key, machines.label AS machine_label, "            \
  "builds.engine AS engine, builds.codegens AS codegens, p.text AS problem, p.family AS family, p.m AS m, "          \
  "d.verdict AS verdict, d.ns AS ns, d.default_ns AS default_ns, d.speedup AS speedup, d.speedup_lo AS speedup_lo, " \
  "d.speedup_hi AS speedup_hi, d.noise_bound AS noise_bound, d.decided_at AS decided_at, "                           \
  "wp.text AS program, w.codegen AS codegen, w.codegen_version AS codegen_version, w.threads AS threads, "           \
  "w.numerics AS numerics, fp.text AS fallback_program, f.codegen AS fallback_codegen, "                             \
  "f.codegen_version AS fallback_codegen_version, f.threads AS fallback_threads, f.numerics AS fallback_numerics, "  \
  "runs.cache_mode AS cache_mode, runs.settings AS settings "                                                        \
  "FROM problems p JOIN decisions d ON d.problem_id = p.id JOIN runs ON runs.id = d.run_id "                         \
  "JOIN machines ON machines.id = runs.machine_id JOIN builds ON builds.id = runs.build_id "                         \
  "JOIN candidates w ON w.id = d.winner_id JOIN programs wp ON wp.id = w.program_id "                                \
  "JOIN candidates f ON f.id = d.fallback_id JOIN programs fp ON fp.id = f.program_id "

Result<std::vector<StoredDecision>> SqliteStore::decisions_for_problem(const std::string& problem_text) {
  return read_decisions(HONE_DECISION_COLUMNS "WHERE p.text = :key ORDER BY d.decided_at DESC, d.id DESC",
                        &problem_text);
}

Result<std::vector<StoredDecision>> SqliteStore::decisions_for_family(const std::string& family) {
  return read_decisions(HONE_DECISION_COLUMNS "WHERE p.family = :key ORDER BY p.m, d.decided_at DESC, d.id DESC",
                        &family);
}

Result<std::vector<StoredDecision>> SqliteStore::all_decisions() {
  return read_decisions<std::string>(
      HONE_DECISION_COLUMNS "ORDER BY p.family, p.m, p.text, d.decided_at DESC, d.id DESC", nullptr);
}

Result<std::vector<StoredDecision>> SqliteStore::decisions_of_run(int64_t run_id) {
  return read_decisions(HONE_DECISION_COLUMNS "WHERE d.run_id = :key ORDER BY d.decided_at DESC, d.id DESC", &run_id);
}

template <typename Key>
Result<std::vector<StoredDecision>> SqliteStore::read_decisions(const char* sql, const Key* key) {
  return read([&]() -> Result<std::vector<StoredDecision>> {
    std::vector<StoredDecision> rows;
    Query q = connection_->query(sql);
    if (key) q.bind(":key", *key);
    while (q.step()) {
      StoredDecision row{.id = q.integer("id"),
                         .run_id = q.integer("run_id"),
                         .machine = {.key = q.text("machine_key"), .label = q.text("machine_label")},
                         .build = {.engine = q.text("engine"), .codegens = q.text("codegens")},
                         .decision = {},
                         .whole = {}};
      if (q.text("cache_mode") == kInWhole) row.whole = read_whole_settings(q.text("settings"));
      Decision& d = row.decision;
      if (!parse_name(kVerdictNames, q.text("verdict"), d.verdict)) continue;
      d.problem = {.text = q.text("problem"), .family = q.text("family"), .m = q.integer("m")};
      d.winner = read_candidate(q);
      d.fallback = {.program = q.text("fallback_program"),
                    .codegen = q.text("fallback_codegen"),
                    .codegen_version = q.text("fallback_codegen_version"),
                    .threads = threads_of(q.integer("fallback_threads")),
                    .numerics = q.text("fallback_numerics")};
      d.ns = q.real("ns");
      d.default_ns = q.real("default_ns");
      d.speedup = q.real("speedup");
      d.speedup_lo = q.real("speedup_lo");
      d.speedup_hi = q.real("speedup_hi");
      d.noise_bound = q.real("noise_bound");
      d.decided_at = q.integer("decided_at");
      rows.push_back(std::move(row));
    }
    return rows;
  });
}

Result<std::vector<std::pair<Candidate, std::vector<Sample>>>> SqliteStore::samples(int64_t run_id,
                                                                                    const std::string& problem_text) {
  using Rows = std::vector<std::pair<Candidate, std::vector<Sample>>>;
  return read([&]() -> Result<Rows> {
    Rows rows;
    int64_t current = -1;
    Query q = connection_->query(
        "SELECT s.candidate_id AS candidate_id, s.phase AS phase, s.round AS round, s.position AS position, s.ns AS "
        "ns, "
        "p.text AS program, c.codegen AS codegen, c.codegen_version AS codegen_version, c.threads AS threads, "
        "c.numerics AS numerics FROM samples s JOIN candidates c ON c.id = s.candidate_id "
        "JOIN programs p ON p.id = c.program_id "
        "WHERE s.run_id = :run AND s.problem_id = (SELECT id FROM problems WHERE text = :problem) "
        "ORDER BY s.candidate_id, s.phase, s.round, s.position");
    q.bind(":run", run_id).bind(":problem", problem_text);
    while (q.step()) {
      const int64_t phase = q.integer("phase");
      if (phase < 0 || phase > static_cast<int64_t>(Phase::kNoise)) continue;  // of a newer version
      if (q.integer("candidate_id") != current) {
        current = q.integer("candidate_id");
        rows.emplace_back(read_candidate(q), std::vector<Sample>{});
      }
      rows.back().second.push_back({.round = q.integer("round"),
                                    .order = static_cast<int>(q.integer("position")),
                                    .ns = q.integer("ns"),
                                    .phase = static_cast<Phase>(phase)});
    }
    return rows;
  });
}

Result<std::vector<StoredOutcome>> SqliteStore::outcomes(int64_t run_id) {
  return read([&]() -> Result<std::vector<StoredOutcome>> {
    std::vector<StoredOutcome> rows;
    Query q = connection_->query(
        "SELECT p.text AS problem, o.outcome AS outcome, o.detail AS detail, o.command AS command, o.noted_at AS "
        "noted_at, "
        "g.text AS program, c.codegen AS codegen, c.codegen_version AS codegen_version, c.threads AS threads, "
        "c.numerics AS numerics FROM outcomes o JOIN problems p ON p.id = o.problem_id "
        "JOIN candidates c ON c.id = o.candidate_id JOIN programs g ON g.id = c.program_id "
        "WHERE o.run_id = :run ORDER BY o.id");
    q.bind(":run", run_id);
    while (q.step()) {
      StoredOutcome row{.problem = q.text("problem"),
                        .candidate = read_candidate(q),
                        .detail = q.text("detail"),
                        .command = q.text("command"),
                        .noted_at = q.integer("noted_at")};
      if (parse_name(kOutcomeNames, q.text("outcome"), row.outcome)) rows.push_back(std::move(row));
    }
    return rows;
  });
}

#define HONE_RUN_COLUMNS                                                                                              \
  "SELECT r.id AS id, r.uid AS uid, r.started_at AS started_at, m.key AS key, m.label AS label, b.engine AS engine, " \
  "b.codegens AS codegens, r.seed AS seed, r.cache_mode AS cache_mode, r.noise_bound AS noise_bound, "                \
  "r.settings AS settings, ifnull(r.session_id, 0) AS session_id, r.spent_ns AS spent_ns, "                           \
  "ifnull(p.text, '') AS problem, ifnull(p.family, '') AS family, ifnull(p.m, 0) AS m, "                              \
  "EXISTS (SELECT 1 FROM decisions d WHERE d.run_id = r.id) AS decided FROM runs r "                                  \
  "JOIN machines m ON m.id = r.machine_id JOIN builds b ON b.id = r.build_id LEFT JOIN problems p ON p.id = "         \
  "r.problem_id "

Result<std::vector<StoredRun>> SqliteStore::runs() {
  return read_runs(HONE_RUN_COLUMNS "ORDER BY r.started_at DESC, r.id DESC", nullptr);
}

Result<std::vector<StoredRun>> SqliteStore::session_runs(int64_t session_id) {
  return read_runs(HONE_RUN_COLUMNS "WHERE r.session_id = :session ORDER BY r.id", &session_id);
}

Result<std::vector<StoredRun>> SqliteStore::read_runs(const char* sql, const int64_t* session_id) {
  return read([&]() -> Result<std::vector<StoredRun>> {
    std::vector<StoredRun> rows;
    Query q = connection_->query(sql);
    if (session_id) q.bind(":session", *session_id);
    while (q.step()) {
      rows.push_back({.id = q.integer("id"),
                      .started_at = q.integer("started_at"),
                      .machine = {.key = q.text("key"), .label = q.text("label")},
                      .build = {.engine = q.text("engine"), .codegens = q.text("codegens")},
                      .info = {.seed = q.integer("seed"),
                               .cache_mode = q.text("cache_mode"),
                               .noise_bound = q.real("noise_bound"),
                               .settings = q.text("settings"),
                               .session_id = q.integer("session_id"),
                               .problem = {.text = q.text("problem"), .family = q.text("family"), .m = q.integer("m")}},
                      .uid = q.text("uid"),
                      .spent_seconds = static_cast<double>(q.integer("spent_ns")) * 1e-9,
                      .decided = q.integer("decided") != 0});
    }
    return rows;
  });
}

Result<std::vector<TableCount>> SqliteStore::counts() {
  return read([&]() -> Result<std::vector<TableCount>> {
    std::vector<TableCount> rows;
    for (const Table& table : tables()) {
      const std::string sql = fmt::format("SELECT count(*) FROM {}", table.name);
      rows.push_back({table.name, connection_->database().execAndGet(sql).getInt64()});
    }
    return rows;
  });
}

Result<std::vector<std::string>> SqliteStore::verify() {
  return read([&]() -> Result<std::vector<std::string>> {
    std::vector<std::string> faults = find_faults(*connection_);
    if (!state_.damage.empty()) faults.insert(faults.begin(), fmt::format("file: {}", state_.damage));
    return faults;
  });
}

}  // namespace hone::db
