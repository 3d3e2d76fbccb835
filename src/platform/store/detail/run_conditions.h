// Conditions on runs in SQL, and the values of their parameters, in order.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/format.h"
#include "platform/core/model/ended_runs.h"
#include "platform/store/database.h"
#include "text/convert.h"
#include "text/json.h"

namespace lockstep::store::detail {

inline SqlValue sql_text(std::string value) {
  return {.type = SqlType::text, .text = std::move(value)};
}
inline SqlValue sql_integer(std::int64_t value) { return {.integer = value}; }
inline SqlValue sql_time(Time time) { return sql_integer(time.time_since_epoch().count()); }
inline SqlValue sql_real(double value) { return {.type = SqlType::real, .real = value}; }

// Those that the filter names, each by its key.
inline constexpr std::string_view kNamedRuns =
    "json_each(:runs) as wanted cross join runs on runs.project = wanted.value ->> 0 and "
    "runs.number = wanted.value ->> 1";

// [["demo",1],["demo",2]].
inline SqlValue sql_runs(const std::vector<model::RunId>& runs) {
  Json all = Json::array();
  for (const model::RunId& run : runs) all.push_back(Json::array({run.project, run.number}));
  return sql_text(dump_json(all));
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

}  // namespace lockstep::store::detail
