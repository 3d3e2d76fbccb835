#include "platform/store/run_list.h"

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

#include "base/format.h"
#include "text/convert.h"
#include "text/json.h"

namespace lockstep::store {
namespace {

SqlValue sql_text(std::string value) { return {.type = SqlType::text, .text = std::move(value)}; }
SqlValue sql_integer(std::int64_t value) { return {.integer = value}; }
SqlValue sql_time(Time time) { return sql_integer(time.time_since_epoch().count()); }
SqlValue sql_real(double value) { return {.type = SqlType::real, .real = value}; }

// Those that the filter names, each by its key.
constexpr std::string_view kNamedRuns =
    "json_each(:runs) as wanted cross join runs on runs.project = wanted.value ->> 0 and "
    "runs.number = wanted.value ->> 1";

// [["demo",1],["demo",2]].
SqlValue sql_runs(const std::vector<model::RunId>& runs) {
  Json all = Json::array();
  for (const model::RunId& run : runs) all.push_back(Json::array({run.project, run.number}));
  return sql_text(dump_json(all));
}

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

// The conditions that the filter has, in SQL, and their values in order.
class RunConditions {
 public:
  // `table` has the project, too.
  explicit RunConditions(const model::RunFilter& filter, std::string_view table = "runs") {
    if (filter.runs) values_.push_back(sql_runs(*filter.runs));  // of kNamedRuns
    if (filter.user) add("origin ->> 'user' = :user", {sql_text(*filter.user)});
    if (filter.project) add(format("{}.project = :project", table), {sql_text(*filter.project)});
    if (filter.projects)
      add(format("{}.project in (select value from json_each(:projects))", table),
          {sql_text(dump_json(to_json(*filter.projects)))});
    if (filter.state) add("state = :state", {sql_text(std::string(text(*filter.state)))});
    if (filter.tag) add_tag(*filter.tag);
    if (filter.since) add("submitted >= :since", {sql_time(*filter.since)});
    if (filter.until) add("submitted < :until", {sql_time(*filter.until)});
  }

  void add(std::string_view condition, std::vector<SqlValue> values) {
    sql_ += sql_.empty() ? "" : " and ";
    sql_ += condition;
    for (SqlValue& value : values) values_.push_back(std::move(value));
  }
  void add_place(const model::RunListPlace& after, bool by_number) {
    const auto number = sql_integer(after.run.number);
    if (by_number) return add("number < :last", {number});
    const auto submitted = sql_time(after.submitted);
    add("(submitted, number) <= (:submitted, :last)", {submitted, number});
    add("(submitted < :submitted_too or number < :last_too or project > :last_project)",
        {submitted, number, sql_text(after.run.project)});
  }

  const std::string& sql() const { return sql_; }
  std::vector<SqlValue>& values() { return values_; }

 private:
  void add_tag(const model::TagFilter& tag) {
    const std::string each =
        "tags <> '{}' and exists (select 1 from json_each(runs.tags) where key = :key";
    if (tag.value)
      add(each + " and value = :value)", {sql_text(tag.key), sql_text(*tag.value)});
    else
      add(each + ")", {sql_text(tag.key)});
  }

  std::string sql_;
  std::vector<SqlValue> values_;
};

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
