// Removes what is too old, too much, or of a run that is removed, some at a time.
#include <algorithm>
#include <string_view>
#include <utility>

#include "base/format.h"
#include "platform/insight/detail/lines.h"
#include "platform/insight/detail/points.h"
#include "platform/insight/detail/run_counters.h"
#include "platform/insight/insight.h"
#include "platform/insight/series/series_store.h"

namespace lockstep::insight {
namespace {

// Each of these is a few milliseconds of work.
constexpr std::int64_t kChunksAtOnce = 64;
constexpr std::int64_t kPointsAtOnce = 4096;

Result<std::optional<model::RunId>> first_run(store::Database& database, std::string_view sql) {
  std::optional<model::RunId> run;
  for (auto& [project, number] : TRY((database.rows<std::string, std::int64_t>(sql))))
    run = {std::move(project), number};
  return run;
}

}  // namespace

Result<void> Insight::check_space() const {
  const auto disk = database_.disk_space();
  if (!disk) return {};
  const Bytes reserve = std::min(limits_.reserve, Bytes(disk->total.count() / 20));
  if (disk->free >= reserve) return {};
  return Error{Code::exhausted,
               format("{} are free beside {}, and {} are kept for the states of runs: their lines "
                      "and metrics stay with their agents until there is room; make some",
                      text(disk->free), database_.name(), text(reserve))};
}

Result<bool> Insight::expire_log(const model::RunId& run, Removal why) {
  auto counters = TRY(find_counters(database_, run));
  if (!counters || counters->bytes == 0) return false;
  bool more = false;
  TRY(database_.transaction([&]() -> Result<void> {
    more = TRY(expire_lines(database_, *counters, kChunksAtOnce, why));
    return save(database_, *counters);
  }));
  return more;
}

Result<bool> Insight::expire_points(const model::RunId& run) {
  auto counters = TRY(find_counters(database_, run));
  if (!counters || counters->points == 0) return false;
  if (TRY(remove_old_points(database_, run, kPointsAtOnce))) return true;
  TRY(series_.remove(series_run(*counters, run)));
  counters->points_removed += std::exchange(counters->points, 0);
  TRY(save(database_, *counters));
  return false;
}

Bytes Insight::points_size() { return series_.bytes(); }

Result<void> Insight::expire_ranks(const PointAges& before) {
  Expiry expiry{.ranks = before.ranks, .nodes = before.telemetry};
  for (auto& [project, number, generation, since, until] :
       TRY((database_.rows<std::string, std::int64_t, std::string, Time, Time>(
           "select f.project, f.number, c.generation, f.since, coalesce(f.ended, f.last_seen) "
           "from findings as f join run_counters as c using (project, number)"))))
    expiry.kept[series_run({.generation = std::move(generation)}, {std::move(project), number})]
        .push_back({since - before.around_findings, until + before.around_findings});
  series_.expire(std::move(expiry));
  return {};
}

Result<void> Insight::limit_points(Bytes most) {
  for (const model::RunId& stored : TRY(series_.remove_oldest(most))) {
    const model::RunId run = {stored.project.substr(0, stored.project.rfind('.')), stored.number};
    auto counters = TRY(find_counters(database_, run));
    if (!counters || series_run(*counters, run) != stored) continue;
    counters->points_removed += std::exchange(counters->points, 0);
    TRY(save(database_, *counters));
  }
  return {};
}

Result<bool> Insight::take_over_points() { return insight::take_over_points(database_, series_); }

std::vector<std::string> Insight::problems() const {
  std::vector<std::string> all = series_.problems();
  if (!points_problem_.empty()) all.push_back(points_problem_);
  return all;
}

Result<bool> Insight::remove(const model::RunId& run) {
  if (TRY(expire_log(run)) || TRY(expire_points(run))) return true;
  if (const auto counters = TRY(find_counters(database_, run)))
    TRY(series_.remove(series_run(*counters, run)));
  TRY(database_.transaction([&]() -> Result<void> {
    for (const auto* table :
         {"latest_metrics", "mlflow_values", "mlflow_runs", "events", "checkpoints", "progress",
          "findings", "finding_marks", "use_marks", "spools", "artifacts", "run_counters"})
      TRY(database_.execute(
          format("delete from {} where project = :project and number = :number", table),
          run.project, run.number));
    return {};
  }));
  return false;
}

// Counters are made with a run's first report, so their order is that of the runs.
Result<bool> Insight::free_some() {
  if (const auto run =
          TRY(first_run(database_,
                        "select c.project, c.number from run_counters as c join runs as r using "
                        "(project, number) "
                        "where c.bytes > 0 and r.ended is not null order by c.id limit 1"))) {
    TRY(expire_log(*run, Removal::space));
    return true;
  }
  const auto run = TRY(first_run(database_,
                                 "select project, number from run_counters where bytes > 0 "
                                 "order by bytes desc limit 1"));
  if (run) TRY(expire_log(*run, Removal::space));
  return run.has_value();
}

}  // namespace lockstep::insight
