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

SqlValue sql_text(std::string value) {
  return {.type = SqlType::text, .text = std::move(value)};
}
SqlValue sql_integer(std::int64_t value) { return {.integer = value}; }

// One of a user is small beside those of all, so that the other conditions read few rows. A list of
// a project has the order of the numbers, which is that of the submissions.
std::string_view index_for(const model::RunFilter& filter) {
  if (filter.user) return "runs indexed by runs_by_user";
  if (filter.project) return "runs";  // its key begins with the project
  return filter.tag ? "runs indexed by runs_with_tags" : "runs indexed by runs_by_submission";
}

bool is_by_number(const model::RunFilter& filter) { return filter.project && !filter.user; }

// The conditions that the filter has, in SQL, and their values in order.
class RunConditions {
 public:
  explicit RunConditions(const model::RunFilter& filter) {
    if (filter.user) add("origin ->> 'user' = :user", {sql_text(*filter.user)});
    if (filter.project) add("project = :project", {sql_text(*filter.project)});
    if (filter.projects)
      add("project in (select value from json_each(:projects))",
          {sql_text(dump_json(to_json(*filter.projects)))});
    if (filter.state) add("state = :state", {sql_text(std::string(text(*filter.state)))});
    if (filter.tag) add_tag(*filter.tag);
    if (filter.after) add_place(*filter.after, is_by_number(filter));
  }

  const std::string& sql() const { return sql_; }
  std::vector<SqlValue>& values() { return values_; }

 private:
  void add(std::string_view condition, std::vector<SqlValue> values) {
    sql_ += sql_.empty() ? "" : " and ";
    sql_ += condition;
    for (SqlValue& value : values) values_.push_back(std::move(value));
  }

  void add_tag(const model::TagFilter& tag) {
    const std::string each =
        "tags <> '{}' and exists (select 1 from json_each(runs.tags) where key = :key";
    if (tag.value)
      add(each + " and value = :value)", {sql_text(tag.key), sql_text(*tag.value)});
    else
      add(each + ")", {sql_text(tag.key)});
  }

  void add_place(const model::RunListPlace& after, bool by_number) {
    const auto number = sql_integer(after.run.number);
    if (by_number) return add("number < :last", {number});
    const auto submitted = sql_integer(after.submitted.time_since_epoch().count());
    add("(submitted, number) <= (:submitted, :last)", {submitted, number});
    add("(submitted < :submitted_too or number < :last_too or project > :last_project)",
        {submitted, number, sql_text(after.run.project)});
  }

  std::string sql_;
  std::vector<SqlValue> values_;
};

}  // namespace

Result<std::vector<model::RunId>> listed_runs(Database& database, const model::RunFilter& filter) {
  RunConditions conditions(filter);
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

}  // namespace lockstep::store
