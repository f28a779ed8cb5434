// Learned orders of candidates, stored as the bytes of a model with what it was trained on.
#include <cmath>

#include "db/limits_internal.h"
#include "db/store_internal.h"

namespace hone::db {

Result<int64_t> SqliteStore::save_ranker(const Ranker& r) {
  if (r.machine_key.empty()) return invalid_argument("ranker: machine key is empty");
  if (r.model.empty()) return invalid_argument("ranker for " + r.machine_key + ": the model is empty");
  if (!std::isfinite(r.correlation) || !std::isfinite(r.baseline_correlation) || r.problems < 0 || r.samples < 0) {
    return invalid_argument(
        fmt::format("ranker for {}: correlations {} and {} must be finite, {} problems and {} "
                    "samples not negative",
                    r.machine_key, r.correlation, r.baseline_correlation, r.problems, r.samples));
  }
  if (!is_unix_time(r.trained_at))
    return invalid_argument(
        fmt::format("ranker for {}: trained_at is {}, which is no date in unix seconds", r.machine_key, r.trained_at));
  return write([&]() -> Result<int64_t> {
    connection_
        ->query(
            "INSERT INTO rankers(machine_key, features, trained_at, problems, samples, correlation, "
            "baseline_correlation, model) VALUES(:key, :features, :trained_at, :problems, :samples, :correlation, "
            ":baseline, :model)")
        .bind(":key", r.machine_key)
        .bind(":features", r.features)
        .bind(":trained_at", r.trained_at != 0 ? r.trained_at : unix_now())
        .bind(":problems", r.problems)
        .bind(":samples", r.samples)
        .bind(":correlation", r.correlation)
        .bind(":baseline", r.baseline_correlation)
        .bind_blob(":model", r.model)
        .run();
    return connection_->database().getLastInsertRowid();
  });
}

Ranker read_ranker(const Query& q) {
  return {.machine_key = q.text("machine_key"),
          .features = q.text("features"),
          .trained_at = q.integer("trained_at"),
          .problems = q.integer("problems"),
          .samples = q.integer("samples"),
          .correlation = q.real("correlation"),
          .baseline_correlation = q.real("baseline_correlation"),
          .model = q.text("model")};
}

Result<std::optional<Ranker>> SqliteStore::newest_ranker(const std::string& machine_key, const std::string& features) {
  return read([&]() -> Result<std::optional<Ranker>> {
    Query q = connection_->query(
        "SELECT id, machine_key, features, trained_at, problems, samples, correlation, baseline_correlation, model "
        "FROM rankers WHERE machine_key = :key AND features = :features ORDER BY trained_at DESC, id DESC LIMIT 1");
    if (!q.bind(":key", machine_key).bind(":features", features).step()) return std::optional<Ranker>();
    Ranker ranker = read_ranker(q);
    ranker.id = q.integer("id");
    return std::optional<Ranker>(std::move(ranker));
  });
}

}  // namespace hone::db
