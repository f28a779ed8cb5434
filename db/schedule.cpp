// How machines run regions: one row a measurement, one more for each kind of Schedule in it.
#include <algorithm>

#include "db/store_internal.h"
#include "db/transfer_internal.h"

namespace hone::db {

Status SqliteStore::save_schedule(const ScheduleChoice& choice) {
  ScheduleChoice dated = choice;
  if (dated.measured_at == 0) dated.measured_at = unix_now();
  if (const Status s = check(dated); !s.ok()) return invalid_argument("schedule: " + s.message());
  return write([&]() -> Status {
    // By engine, as readers do: they ask for no build's code generators.
    const int64_t machine = machine_id(dated.machine);
    for (const char* sql : {"DELETE FROM fork_joins WHERE schedule_id IN (SELECT id FROM schedules WHERE machine_id = "
                            ":machine AND build_id IN (SELECT id FROM builds WHERE engine = :engine) AND threads = "
                            ":threads AND measured_at >= :measured_at)",
                            "DELETE FROM schedules WHERE machine_id = :machine AND build_id IN (SELECT id FROM builds "
                            "WHERE engine = :engine) AND threads = :threads AND measured_at >= :measured_at"}) {
      connection_->query(sql)
          .bind(":machine", machine)
          .bind(":engine", dated.build.engine)
          .bind(":threads", int64_t{dated.threads})
          .bind(":measured_at", dated.measured_at)
          .run();
    }
    insert_schedule(dated);
    return {};
  });
}

void SqliteStore::insert_schedule(const ScheduleChoice& choice) {
  connection_
      ->query(
          "INSERT INTO schedules(machine_id, build_id, threads, schedule, min_work, measured_at) VALUES(:machine, "
          ":build, :threads, :schedule, :min_work, :measured_at)")
      .bind(":machine", machine_id(choice.machine))
      .bind(":build", build_id(choice.build))
      .bind(":threads", int64_t{choice.threads})
      .bind(":schedule", choice.schedule)
      .bind(":min_work", choice.min_work)
      .bind(":measured_at", choice.measured_at)
      .run();
  const int64_t id = connection_->database().getLastInsertRowid();
  for (const ForkJoin& f : choice.fork_joins) {
    connection_
        ->query(
            "INSERT INTO fork_joins(schedule_id, schedule, median_ns, p99_ns, paused_median_ns, paused_p99_ns) "
            "VALUES(:id, :schedule, :median, :p99, :paused_median, :paused_p99)")
        .bind(":id", id)
        .bind(":schedule", f.schedule)
        .bind(":median", f.median_ns)
        .bind(":p99", f.p99_ns)
        .bind(":paused_median", f.paused_median_ns)
        .bind(":paused_p99", f.paused_p99_ns)
        .run();
  }
}

std::vector<ForkJoin> read_fork_joins(Connection& connection, int64_t schedule) {
  std::vector<ForkJoin> kinds;
  Query q = connection.query(
      "SELECT schedule, median_ns, p99_ns, paused_median_ns, paused_p99_ns FROM fork_joins WHERE schedule_id = :id "
      "ORDER BY schedule");
  q.bind(":id", schedule);
  while (q.step()) {
    kinds.push_back({.schedule = q.text("schedule"),
                     .median_ns = q.integer("median_ns"),
                     .p99_ns = q.integer("p99_ns"),
                     .paused_median_ns = q.integer("paused_median_ns"),
                     .paused_p99_ns = q.integer("paused_p99_ns")});
  }
  return kinds;
}

Status read_schedules(Connection& connection, const std::function<Status(const ScheduleChoice&)>& sink) {
  Query q = connection.query(
      "SELECT s.id AS id, m.key AS key, m.label AS label, b.engine AS engine, b.codegens AS codegens, s.threads AS "
      "threads, s.schedule AS schedule, s.min_work AS min_work, s.measured_at AS measured_at FROM schedules s "
      "JOIN machines m ON m.id = s.machine_id JOIN builds b ON b.id = s.build_id "
      "ORDER BY s.measured_at, m.key, m.label, b.engine, b.codegens, s.threads");
  while (q.step()) {
    const ScheduleChoice choice{.machine = {.key = q.text("key"), .label = q.text("label")},
                                .build = {.engine = q.text("engine"), .codegens = q.text("codegens")},
                                .threads = threads_of(q.integer("threads")),
                                .schedule = q.text("schedule"),
                                .min_work = q.integer("min_work"),
                                .fork_joins = read_fork_joins(connection, q.integer("id")),
                                .measured_at = q.integer("measured_at")};
    HONE_RETURN_IF_ERROR(sink(choice));
  }
  return {};
}

Result<std::vector<ScheduleChoice>> SqliteStore::schedules() {
  return read([&]() -> Result<std::vector<ScheduleChoice>> {
    std::vector<ScheduleChoice> all;
    HONE_RETURN_IF_ERROR(read_schedules(*connection_, [&](const ScheduleChoice& choice) {
      all.push_back(choice);
      return Status{};
    }));
    std::reverse(all.begin(), all.end());
    return all;
  });
}

}  // namespace hone::db
