// Sessions: who works on which list of problems, and how a killed `hone tune` finds its own again.
#include "db/owner.h"
#include "db/store_internal.h"

namespace hone::db {
namespace {

// How stale seen_at may get while rounds are stored: far below what owner_is_gone waits for, and an update of the row
// with every round would cost a page of the log each time.
constexpr int64_t kTouchSeconds = 30;

}  // namespace

Result<SessionClaim> SqliteStore::claim_session(const MachineLabel& machine, const BuildLabel& build,
                                                const std::string& settings, bool fresh) {
  if (machine.key.empty()) return invalid_argument("machine key is empty");
  return write([&]() -> Result<SessionClaim> {
    const int64_t machine_row = machine_id(machine), build_row = build_id(build), now = unix_now();
    const std::string owner = process_owner();
    SessionClaim claim{.id = 0, .resumed = false, .started_at = now};
    Query open = connection_->query(
        "SELECT id, owner, seen_at, started_at FROM sessions WHERE state = 'open' AND machine_id = :machine AND "
        "build_id = :build AND settings = :settings ORDER BY id DESC");
    open.bind(":machine", machine_row).bind(":build", build_row).bind(":settings", settings);
    while (!fresh && !claim.resumed && open.step()) {
      if (!owner_is_gone(open.text("owner"), open.integer("seen_at"), now)) continue;
      claim = {.id = open.integer("id"), .resumed = true, .started_at = open.integer("started_at")};
    }
    if (claim.resumed) {
      connection_->query("UPDATE sessions SET owner = :owner, seen_at = :now WHERE id = :id")
          .bind(":owner", owner)
          .bind(":now", now)
          .bind(":id", claim.id)
          .run();
      return claim;
    }
    connection_
        ->query(
            "INSERT INTO sessions(uid, machine_id, build_id, settings, started_at, owner, seen_at, state) "
            "VALUES(:uid, :machine, :build, :settings, :now, :owner, :now, 'open')")
        .bind(":uid", new_uid())
        .bind(":machine", machine_row)
        .bind(":build", build_row)
        .bind(":settings", settings)
        .bind(":now", now)
        .bind(":owner", owner)
        .run();
    claim.id = connection_->database().getLastInsertRowid();
    return claim;
  });
}

Status SqliteStore::close_session(int64_t session_id) { return end_session(session_id, "done"); }

Status SqliteStore::release_session(int64_t session_id) { return end_session(session_id, "open"); }

Status SqliteStore::end_session(int64_t session_id, const char* state) {
  return write([&]() -> Status {
    HONE_RETURN_IF_ERROR(require_session(session_id));
    connection_->query("UPDATE sessions SET owner = '', state = :state, seen_at = :now WHERE id = :id")
        .bind(":state", std::string(state))
        .bind(":now", unix_now())
        .bind(":id", session_id)
        .run();
    return {};
  });
}

void SqliteStore::touch_session(int64_t run_id) {
  const int64_t now = unix_now();
  if (touched_run_ == run_id && now - touched_at_ < kTouchSeconds && now >= touched_at_) return;
  connection_->query("UPDATE sessions SET seen_at = :now WHERE id = (SELECT session_id FROM runs WHERE id = :run)")
      .bind(":now", now)
      .bind(":run", run_id)
      .run();
  touched_run_ = run_id;
  touched_at_ = now;
}

Status SqliteStore::require_session(int64_t session_id) {
  Query q = connection_->query("SELECT id FROM sessions WHERE id = :id ORDER BY id");
  if (q.bind(":id", session_id).step()) return {};
  return invalid_argument(fmt::format("{} has no session {}; claim_session gives the number", path(), session_id));
}

}  // namespace hone::db
