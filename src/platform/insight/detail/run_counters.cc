#include "platform/insight/detail/run_counters.h"

namespace lockstep::insight {

Result<std::optional<RunCounters>> find_counters(store::Database& database,
                                                 const model::RunId& run) {
  using Int = std::int64_t;
  const auto rows = TRY(database.rows<Int, Int, Int, Int, Int, Int, Int, Int, Int>(
      "select id, next, bytes, cut, expired, series, refused, points, points_removed "
      "from run_counters where "
      "project = :project and number = :number",
      run.project, run.number));
  if (rows.empty()) return std::optional<RunCounters>();
  const auto& [id, next, bytes, cut, expired, series, refused, points, removed] = rows[0];
  return std::optional(
      RunCounters{id, next, bytes, cut, expired, series, refused, points, removed});
}

Result<RunCounters> find_or_create_counters(store::Database& database, const model::RunId& run) {
  if (auto found = TRY(find_counters(database, run))) return *found;
  TRY(database.execute("insert into run_counters (project, number) values (:project, :number)",
                       run.project, run.number));
  return *TRY(find_counters(database, run));
}

Result<void> save(store::Database& database, const RunCounters& counters) {
  return database.execute(
      "update run_counters set next = :next, bytes = :bytes, cut = :cut, expired = :expired, "
      "series = :series, refused = :refused, points = :points, points_removed = :removed "
      "where id = :id",
      counters.next, counters.bytes, counters.cut, counters.expired, counters.series,
      counters.refused, counters.points, counters.points_removed, counters.id);
}

}  // namespace lockstep::insight
