#include "platform/store/run_list.h"

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

#include "base/format.h"
#include "platform/store/detail/run_conditions.h"

namespace lockstep::store {
namespace {

using detail::kNamedRuns;
using detail::RunConditions;
using detail::sql_integer;
using detail::sql_real;
using detail::sql_text;
using detail::sql_time;

// One of a user is small beside those of all, so that the other conditions read few rows. A list of
// a project has the order of the numbers, which is that of the submissions.
std::string_view index_for(const model::RunFilter& filter) {
  if (filter.runs) return kNamedRuns;
  if (filter.user) return "runs indexed by runs_by_user";
  if (filter.project) return "runs";  // its key begins with the project
  return filter.tag ? "runs indexed by runs_with_tags" : "runs indexed by runs_by_submission";
}

// Up to so many runs are compared by their values; the index of a metric finds more.
constexpr std::int64_t kFewRuns = 5000;

bool is_by_number(const model::RunFilter& filter) {
  return filter.project && !filter.user && !filter.runs;
}

}  // namespace

Result<std::vector<model::RunId>> listed_runs(Database& database, const model::RunFilter& filter) {
  RunConditions conditions(filter);
  if (filter.after) conditions.add_place(*filter.after, is_by_number(filter));
  std::vector<SqlValue> values = std::move(conditions.values());
  values.push_back(sql_integer(filter.limit));
  const std::string statement =
      format("select project, number from {}{}{} order by {} limit :limit", index_for(filter),
             conditions.sql().empty() ? "" : " where ", conditions.sql(),
             is_by_number(filter) ? "number desc" : "submitted desc, number desc, project");
  std::vector<model::RunId> runs;
  TRY(database.run(statement, values, {SqlType::text, SqlType::integer},
                   [&](std::vector<SqlValue>& row) -> Result<void> {
                     runs.push_back({std::move(row[0].text), row[1].integer});
                     return {};
                   }));
  return runs;
}

namespace {

Result<bool> has_few(Database& database, std::string_view from, const SqlValue& value) {
  bool few = false;
  TRY(database.run(format("select count(*) from (select 1 from {} limit {})", from, kFewRuns + 1),
                   {value}, {SqlType::integer}, [&](std::vector<SqlValue>& row) -> Result<void> {
                     few = row[0].integer <= kFewRuns;
                     return {};
                   }));
  return few;
}

// The table of runs by an index that has few of them; empty if there is none.
Result<std::string_view> few_runs(Database& database, const model::RunFilter& filter) {
  if (filter.runs) return kNamedRuns;
  constexpr std::string_view kOfUser = "runs indexed by runs_by_user";
  constexpr std::string_view kTagged = "runs indexed by runs_with_tags";
  constexpr std::string_view kRecent = "runs indexed by runs_by_submission";
  if (filter.user && TRY(has_few(database, format("{} where origin ->> 'user' = :user", kOfUser),
                                 sql_text(*filter.user))))
    return kOfUser;
  if (filter.tag &&
      TRY(has_few(database, format("{} where tags <> '{{}}' and submitted >= :since", kTagged),
                  sql_time(filter.since.value_or(Time::min())))))
    return kTagged;
  if (filter.since && TRY(has_few(database, format("{} where submitted >= :since", kRecent),
                                  sql_time(*filter.since))))
    return kRecent;
  return std::string_view();
}

std::string_view column_of(MetricValue value) {
  switch (value) {
    case MetricValue::last:
      return "value";
    case MetricValue::least:
      return "least";
    case MetricValue::greatest:
      return "greatest";
  }
  return "value";
}

}  // namespace

Result<std::vector<RankedRun>> ranked_runs(Database& database, const model::RunFilter& filter,
                                           const MetricOrder& order) {
  const std::string_view few = TRY(few_runs(database, filter));
  const std::string_view column = column_of(order.value);
  RunConditions conditions(filter, few.empty() ? "m" : "runs");
  conditions.add("m.name = :metric", {sql_text(order.metric)});
  conditions.add(format("m.{} is not null", column), {});
  const std::string_view way = order.descending ? " desc" : "";
  if (order.after)
    conditions.add(format("(m.{}, m.project, m.number) {} (:last_value, :last_project, :last)",
                          column, order.descending ? "<" : ">"),
                   {sql_real(order.after->value), sql_text(order.after->run.project),
                    sql_integer(order.after->run.number)});
  std::vector<SqlValue> values = std::move(conditions.values());
  values.push_back(sql_integer(filter.limit));
  const std::string tables =
      few.empty() ? format("latest_metrics as m indexed by latest_by_{} cross join runs", column)
                  : format("{} cross join latest_metrics as m", few);
  const std::string statement = format(
      "select m.project, m.number, m.{0} from {1} on runs.project = m.project and runs.number = "
      "m.number where {2} order by m.{0}{3}, m.project{3}, m.number{3} limit :limit",
      column, tables, conditions.sql(), way);
  std::vector<RankedRun> runs;
  TRY(database.run(statement, values, {SqlType::text, SqlType::integer, SqlType::real},
                   [&](std::vector<SqlValue>& row) -> Result<void> {
                     runs.push_back({{std::move(row[0].text), row[1].integer}, row[2].real});
                     return {};
                   }));
  return runs;
}

}  // namespace lockstep::store
