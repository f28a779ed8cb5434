// What must be true of a database, as queries that return what is not: each row is one fault, as a line for people. The
// constraints of the schema repeat some of it, but a file may come from an import, a merge or a damaged disk.
#include "db/store_internal.h"

#include <set>

#include <fmt/format.h>

namespace hone::db {
namespace {

// Which samples a decision rests on: those of the confirmation rounds. The search before them measures a plan while
// others are compared, and what it saw is not in the medians that are stored.
static_assert(static_cast<int>(Phase::kConfirm) == 1);
#define HONE_CONFIRMED "phase = 1"

// Faults of decisions, by their numbers: what salvage() may have made of sound ones.
constexpr const char* kDecisionRules[] = {
    "SELECT id AS decision, 'time of ' || ns || ' ns, default ' || default_ns || ' ns; both must be positive' AS fault "
    "FROM decisions WHERE ns <= 0 OR default_ns <= 0 ORDER BY id",
    // decisions rest on samples of their own run
    "SELECT d.id AS decision, 'run ' || d.run_id || ' has no sample of its winner for problem ' || d.problem_id || "
    "' in its confirmation' AS fault FROM decisions d WHERE NOT EXISTS (SELECT 1 FROM samples s WHERE s.run_id = "
    "d.run_id "
    "AND s.problem_id = d.problem_id AND s.candidate_id = d.winner_id AND s." HONE_CONFIRMED ") ORDER BY d.id",
    "SELECT d.id AS decision, 'run ' || d.run_id || ' has no sample of the default plan for problem ' || d.problem_id "
    "|| ' in its confirmation' AS fault FROM decisions d WHERE NOT EXISTS (SELECT 1 FROM samples s WHERE s.run_id = "
    "d.run_id AND s.problem_id = d.problem_id AND s.candidate_id = d.fallback_id AND s." HONE_CONFIRMED
    ") ORDER BY d.id",
    // speed-ups (transfer_write.cpp has the same rule)
    "SELECT id AS decision, 'speedup ' || speedup || ' is outside its interval [' || speedup_lo || ', ' || speedup_hi "
    "|| ']' AS fault FROM decisions WHERE speedup < speedup_lo * 0.999999 OR speedup > speedup_hi * 1.000001 ORDER BY "
    "id",
    // What a decision says are medians of its run's confirmation: of the winner's samples, of the default plan's, and
    // of their quotients within rounds. Nothing narrower holds of sound decisions: when the load of a machine changes
    // between rounds, the quotient of the medians is far from the median of the quotients.
    "SELECT d.id AS decision, 'ns ' || d.ns || ' is outside of what its run measured of the winner, ' || min(s.ns) || "
    "' to ' || max(s.ns) AS fault FROM decisions d JOIN samples s ON s.run_id = d.run_id AND s.problem_id = "
    "d.problem_id AND s.candidate_id = d.winner_id AND s." HONE_CONFIRMED
    " GROUP BY d.id HAVING d.ns < min(s.ns) OR d.ns > max(s.ns) ORDER BY d.id",
    "SELECT d.id AS decision, 'default_ns ' || d.default_ns || ' is outside of what its run measured of the default "
    "plan, ' || min(s.ns) || ' to ' || max(s.ns) AS fault FROM decisions d JOIN samples s ON s.run_id = d.run_id AND "
    "s.problem_id = d.problem_id AND s.candidate_id = d.fallback_id AND s." HONE_CONFIRMED
    " GROUP BY d.id HAVING d.default_ns < min(s.ns) OR d.default_ns > max(s.ns) ORDER BY d.id",
    "SELECT d.id AS decision, 'speedup ' || d.speedup || ' is outside of the ratios that its run measured, ' || "
    "min(1.0 * f.ns / w.ns) || ' to ' || max(1.0 * f.ns / w.ns) AS fault FROM decisions d JOIN samples w ON "
    "w.run_id = d.run_id AND w.problem_id = d.problem_id AND w.candidate_id = d.winner_id AND w." HONE_CONFIRMED
    " JOIN samples f ON f.run_id = w.run_id AND f.problem_id = w.problem_id AND f.candidate_id = d.fallback_id AND "
    "f.phase = w.phase AND f.round = w.round WHERE d.winner_id <> d.fallback_id AND w.ns > 0 GROUP BY d.id HAVING "
    "d.speedup < min(1.0 * f.ns / w.ns) * 0.999 OR d.speedup > max(1.0 * f.ns / w.ns) * 1.001 ORDER BY d.id",
    // a plan that is the default plan is as fast as itself
    "SELECT id AS decision, 'the winner is the default plan, yet speedup is ' || speedup AS fault FROM decisions "
    "WHERE winner_id = fallback_id AND abs(speedup - 1) > 0.01 AND (speedup_lo > 1.01 OR speedup_hi < 0.99) ORDER BY "
    "id",
    "SELECT d.id AS decision, 'is about problem ' || d.problem_id || ', its run ' || r.id || ' about problem ' || "
    "r.problem_id AS fault FROM decisions d JOIN runs r ON r.id = d.run_id WHERE r.problem_id <> d.problem_id ORDER BY "
    "d.id",
};

constexpr const char* kRules[] = {
    // times
    "SELECT 'sample of run ' || run_id || ', problem ' || problem_id || ', candidate ' || candidate_id || ', round ' "
    "|| round "
    "|| ': time of ' || ns || ' ns is not positive' AS fault FROM samples WHERE ns <= 0 "
    "ORDER BY run_id, problem_id, candidate_id, round",
    // runs and sessions
    "SELECT 'run ' || id || ': has no uid' AS fault FROM runs WHERE uid = '' ORDER BY id",
    "SELECT 'run ' || r.id || ': its machine or build is not that of session ' || s.id AS fault FROM runs r "
    "JOIN sessions s ON s.id = r.session_id WHERE r.machine_id <> s.machine_id OR r.build_id <> s.build_id ORDER BY "
    "r.id",
    "SELECT 'session ' || id || ': is done, yet owned by ' || owner AS fault FROM sessions WHERE state = 'done' AND "
    "owner <> '' ORDER BY id",
    // what was chosen was measured
    "SELECT 'schedule ' || id || ': ' || schedule || ' was chosen, yet not measured' AS fault FROM schedules s WHERE "
    "NOT "
    "EXISTS (SELECT 1 FROM fork_joins f WHERE f.schedule_id = s.id AND f.schedule = s.schedule) ORDER BY id",
    // code: a loop is a part of it, a ratio is within its interval, a time has rounds
    "SELECT 'code ' || l.code_id || ': its loop has ' || l.bytes || ' bytes, more than all of it' AS fault FROM "
    "code_parts "
    "l WHERE l.part = 'loop' AND NOT EXISTS (SELECT 1 FROM code_parts w WHERE w.code_id = l.code_id AND w.part = "
    "'whole' "
    "AND w.bytes >= l.bytes) ORDER BY l.code_id",
    "SELECT 'code ' || id || ': ratio ' || ratio || ' is outside its interval [' || ratio_lo || ', ' || ratio_hi || "
    "']' AS "
    "fault FROM codes WHERE ratio < ratio_lo * 0.999999 OR ratio > ratio_hi * 1.000001 ORDER BY id",
    "SELECT 'code ' || id || ': a time of ' || ns || ' ns, yet no round' AS fault FROM codes c WHERE ns IS NOT NULL "
    "AND NOT "
    "EXISTS (SELECT 1 FROM code_samples s WHERE s.code_id = c.id) ORDER BY id",
    // a correlation is one
    "SELECT 'ranker ' || id || ': correlation ' || correlation || ' or ' || baseline_correlation || ' is outside "
    "[-1, 1]' AS fault FROM rankers WHERE abs(correlation) > 1.000001 OR abs(baseline_correlation) > 1.000001 ORDER BY "
    "id",
};

template <typename Found>
void for_each_faulty_decision(Connection& connection, Found found) {
  for (const char* rule : kDecisionRules) {
    Query q = connection.query(rule);
    while (q.step()) found(q.integer("decision"), q.text("fault"));
  }
}

void check_file(SQLite::Database& database, std::vector<std::string>& faults) {
  SQLite::Statement integrity(database, "PRAGMA integrity_check");
  while (integrity.executeStep()) {
    const std::string line = integrity.getColumn("integrity_check").getString();
    if (line != "ok") faults.push_back("file: " + line);
  }
  SQLite::Statement keys(database, "PRAGMA foreign_key_check");
  while (keys.executeStep()) {
    faults.push_back(fmt::format("table {}: row {} refers to a row of {} that does not exist",
                                 keys.getColumn("table").getString(), keys.getColumn("rowid").getString(),
                                 keys.getColumn("parent").getString()));
  }
}

}  // namespace

std::vector<std::string> find_faults(Connection& connection) {
  std::vector<std::string> faults;
  try {
    check_file(connection.database(), faults);
    for_each_faulty_decision(connection, [&](int64_t id, const std::string& fault) {
      faults.push_back(fmt::format("decision {}: {}", id, fault));
    });
    for (const char* rule : kRules) {
      Query q = connection.query(rule);
      while (q.step()) faults.push_back(q.text("fault"));
    }
  } catch (const SQLite::Exception& e) {
    if (!is_damage(e)) throw;
    faults.push_back(fmt::format("file: {}; the checks end here", e.what()));
  }
  return faults;
}

int64_t drop_faulty_decisions(Connection& connection) {
  std::set<int64_t> ids;  // one may break several rules
  for_each_faulty_decision(connection, [&](int64_t id, const std::string&) { ids.insert(id); });
  for (const int64_t id : ids) connection.query("DELETE FROM decisions WHERE id = :id").bind(":id", id).run();
  return static_cast<int64_t>(ids.size());
}

}  // namespace hone::db
