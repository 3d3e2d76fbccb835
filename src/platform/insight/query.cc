// Questions about what was stored.
#include <algorithm>
#include <limits>

#include "platform/insight/insight.h"

namespace lockstep::insight {
namespace {

using Int = std::int64_t;
using Text = std::string;

Time time_of(Int stamp) { return Time(Duration(stamp)); }

double value_of(const std::optional<double>& sql) {
  return sql.value_or(std::numeric_limits<double>::quiet_NaN());
}

using LineRow = std::tuple<Int, Int, int, Int, Text>;

std::vector<Line> lines_of(std::vector<LineRow> rows) {
  std::vector<Line> lines;
  for (auto& [cursor, epoch, rank, time, text] : rows)
    lines.push_back({cursor, epoch, rank, time_of(time), std::move(text)});
  return lines;
}

}  // namespace

Result<std::vector<Line>> Insight::log(const RunId& run, const LogQuery& query) {
  return lines_of(TRY(database_.rows<Int, Int, int, Int, Text>(
      "select cursor, epoch, rank, time, line from log_lines where project = :project and "
      "number = :number and cursor > :after and (:any or rank = :rank) order by cursor "
      "limit :limit",
      run.project, run.number, query.after, !query.rank, query.rank.value_or(0), query.limit)));
}

Result<std::vector<Line>> Insight::log_tail(const RunId& run, std::int64_t lines,
                                            std::optional<int> rank) {
  auto newest_first = lines_of(TRY(database_.rows<Int, Int, int, Int, Text>(
      "select cursor, epoch, rank, time, line from log_lines where project = :project and "
      "number = :number and (:any or rank = :rank) order by cursor desc limit :limit",
      run.project, run.number, !rank, rank.value_or(0), lines)));
  std::ranges::reverse(newest_first);
  return newest_first;
}

Result<std::vector<Series>> Insight::series(const RunId& run, const SeriesQuery& query) {
  const Int after = query.after_step.value_or(std::numeric_limits<Int>::min());
  auto rows = TRY(database_.rows<Text, int, Int, Int, Int, std::optional<double>>(
      "select s.name, s.rank, p.step, p.epoch, p.time, p.value from series s join points p on "
      "p.series = s.id where s.project = :project and s.number = :number and "
      "(:any_name or s.name = :name) and (:any_rank or s.rank = :rank) and p.step > :after "
      "order by s.name, s.rank, p.step",
      run.project, run.number, !query.name, query.name.value_or(""), !query.rank,
      query.rank.value_or(0), after));
  std::vector<Series> all;
  for (auto& [name, rank, step, epoch, time, value] : rows) {
    if (all.empty() || all.back().name != name || all.back().rank != rank)
      all.push_back({name, rank, {}});
    all.back().points.push_back({step, epoch, time_of(time), value_of(value)});
  }
  return all;
}

Result<std::map<std::string, double>> Insight::latest(const RunId& run) {
  std::map<std::string, double> latest;
  for (auto& [name, value] : TRY(database_.rows<Text, std::optional<double>>(
           "select name, value from series where project = :project and number = :number "
           "order by name, rank",
           run.project, run.number)))
    latest.emplace(std::move(name), value_of(value));  // keeps the first, of the lowest rank
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
  std::vector<Checkpoint> all;
  for (auto& [step, epoch, path, time] : TRY(database_.rows<Int, Int, Text, Int>(
           "select step, epoch, path, time from checkpoints where project = :project and "
           "number = :number order by step",
           run.project, run.number)))
    all.push_back({step, epoch, std::move(path), time_of(time)});
  return all;
}

}  // namespace lockstep::insight
