#include "platform/insight/detail/run_counters.h"

#include "base/format.h"

namespace lockstep::insight {

Result<std::optional<RunCounters>> find_counters(store::Database& database,
                                                 const model::RunId& run) {
  using Int = std::int64_t;
  const auto rows = TRY((database.rows<Int, Int, Int, Int, Int, Int, Int, Int, Int, std::string>(
      "select id, next, bytes, cut, expired, series, refused, points, points_removed, generation "
      "from run_counters where "
      "project = :project and number = :number",
      run.project, run.number)));
  if (rows.empty()) return std::optional<RunCounters>();
  const auto& [id, next, bytes, cut, expired, series, refused, points, removed, generation] =
      rows[0];
  return std::optional(
      RunCounters{id, next, bytes, cut, expired, series, refused, points, removed, generation});
}

Result<RunCounters> find_or_create_counters(store::Database& database, const model::RunId& run,
                                            const std::string& generation) {
  if (auto found = TRY(find_counters(database, run))) return *found;
  TRY(database.execute(
      "insert into run_counters (project, number, generation) values (:project, :number, "
      ":generation)",
      run.project, run.number, generation));
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

model::RunId series_run(const RunCounters& counters, const model::RunId& run) {
  if (counters.generation.empty()) return run;
  return {format("{}.{}", run.project, counters.generation), run.number};
}

}  // namespace lockstep::insight
