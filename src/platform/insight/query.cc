// Questions about what was stored.
#include <algorithm>
#include <limits>

#include "platform/insight/detail/lines.h"
#include "platform/insight/detail/points.h"
#include "platform/insight/detail/tally.h"
#include "platform/insight/insight.h"

namespace lockstep::insight {
namespace {

using Int = std::int64_t;
using Text = std::string;

// Of one answer: each costs some ten microseconds, however few points it has.
constexpr Int kSeriesMost = 1000;
constexpr Int kPointsMost = 1'000'000;
constexpr Int kNamesMost = 1000;
constexpr Int kCheckpointsMost = 1000;
// Removed at once: some milliseconds of work.
constexpr Int kExpireAtOnce = 64;

Time time_of(Int stamp) { return Time(Duration(stamp)); }

double value_of(const std::optional<double>& sql) {
  return sql.value_or(std::numeric_limits<double>::quiet_NaN());
}

}  // namespace

Result<LogPage> Insight::log(const RunId& run, const LogQuery& query) {
  const auto tally = TRY(find_tally(database_, run));
  return tally ? lines_after(database_, *tally, query) : LogPage{};
}

Result<std::vector<Line>> Insight::log_tail(const RunId& run, std::int64_t lines,
                                            std::optional<int> rank) {
  const auto tally = TRY(find_tally(database_, run));
  return tally ? last_lines(database_, *tally, lines, rank) : std::vector<Line>();
}

Result<bool> Insight::expire_log(const RunId& run) {
  auto tally = TRY(find_tally(database_, run));
  if (!tally || tally->bytes == 0) return false;
  bool more = false;
  TRY(database_.transaction([&]() -> Result<void> {
    more = TRY(expire_lines(database_, *tally, kExpireAtOnce));
    return save(database_, *tally);
  }));
  return more;
}

Result<bool> Insight::catch_up() { return summarize_some(database_); }

Result<SeriesPage> Insight::series(const RunId& run, const SeriesQuery& query) {
  const Int after = query.after_step.value_or(std::numeric_limits<Int>::min());
  const Int most = std::clamp<Int>(query.points, 1, kPointsMost);
  const auto rows = TRY(find_series(database_, run, query, std::min(kSeriesMost, most)));
  SeriesPage page;
  page.left_out = TRY(count_series(database_, run, query)) - static_cast<Int>(rows.size());
  const Int share = most / std::max<Int>(1, static_cast<Int>(rows.size()));
  for (const SeriesRow& row : rows) {
    Series series = TRY(points_of(database_, row, after, share));
    if (series.total > 0) page.series.push_back(std::move(series));
  }
  return page;
}

// From name to name by the index: a run of a thousand ranks has thousands of series and few names.
Result<std::map<std::string, double>> Insight::latest(const RunId& run) {
  std::map<std::string, double> latest;
  for (auto& [name, value] : TRY(database_.rows<Text, std::optional<double>>(
           "with recursive names(name) as ("
           "  select min(name) from series where project = :project and number = :number"
           "  union all"
           "  select (select min(name) from series where project = :project2 and "
           "number = :number2 and name > names.name) from names where name is not null) "
           "select name, (select value from series where project = :project3 and "
           "number = :number3 and name = names.name order by rank limit 1) "
           "from names where name is not null limit :most",
           run.project, run.number, run.project, run.number, run.project, run.number, kNamesMost)))
    latest.emplace(std::move(name), value_of(value));
  return latest;
}

Result<std::optional<Progress>> Insight::progress(const RunId& run) {
  const auto rows = TRY(database_.rows<Int, Int, Int, Int>(
      "select epoch, step, steps, time from progress where project = :project and "
      "number = :number",
      run.project, run.number));
  if (rows.empty()) return std::optional<Progress>();
  const auto& [epoch, step, steps, time] = rows[0];
  return std::optional(Progress{epoch, step, steps, time_of(time)});
}

Result<std::vector<Checkpoint>> Insight::checkpoints(const RunId& run) {
  std::vector<Checkpoint> newest_first;
  for (auto& [step, epoch, path, time] : TRY(database_.rows<Int, Int, Text, Int>(
           "select step, epoch, path, time from checkpoints where project = :project and "
           "number = :number order by step desc limit :most",
           run.project, run.number, kCheckpointsMost)))
    newest_first.push_back({step, epoch, std::move(path), time_of(time)});
  std::ranges::reverse(newest_first);
  return newest_first;
}

}  // namespace lockstep::insight
