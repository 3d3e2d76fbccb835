#include "platform/insight/detail/tally.h"

namespace lockstep::insight {

Result<std::optional<Tally>> find_tally(Database& database, const RunId& run) {
  using Int = std::int64_t;
  const auto rows = TRY(database.rows<Int, Int, Int, Int, Int, Int, Int>(
      "select id, next, bytes, cut, expired, series, refused from tallies where "
      "project = :project and number = :number",
      run.project, run.number));
  if (rows.empty()) return std::optional<Tally>();
  const auto& [id, next, bytes, cut, expired, series, refused] = rows[0];
  return std::optional(Tally{id, next, bytes, cut, expired, series, refused});
}

Result<Tally> find_or_make_tally(Database& database, const RunId& run) {
  if (auto found = TRY(find_tally(database, run))) return *found;
  TRY(database.execute("insert into tallies (project, number) values (:project, :number)",
                       run.project, run.number));
  return *TRY(find_tally(database, run));
}

Result<void> save(Database& database, const Tally& tally) {
  return database.execute(
      "update tallies set next = :next, bytes = :bytes, cut = :cut, expired = :expired, "
      "series = :series, refused = :refused where id = :id",
      tally.next, tally.bytes, tally.cut, tally.expired, tally.series, tally.refused, tally.id);
}

}  // namespace lockstep::insight
