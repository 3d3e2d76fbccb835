#include "platform/store/audit_table.h"

#include <string>
#include <utility>

#include "text/convert.h"
#include "text/json.h"

namespace lockstep::store {
namespace {

SqlValue value_of(std::string text) { return {.type = SqlType::text, .text = std::move(text)}; }
SqlValue value_of(std::int64_t number) { return {.integer = number}; }
SqlValue value_of(Time time) { return value_of(time.time_since_epoch().count()); }

// The conditions that the filter has, so that the table's indices serve each list.
struct Condition {
  std::string sql = "where 1";
  std::vector<SqlValue> values;

  void add(std::string_view sql_of_one, SqlValue value) {
    sql += " and ";
    sql += sql_of_one;
    values.push_back(std::move(value));
  }
};

Condition condition_of(const model::AuditFilter& filter) {
  Condition condition;
  if (filter.user) condition.add("user = :user", value_of(*filter.user));
  if (filter.projects && filter.projects->size() == 1)
    condition.add("project = :project", value_of(filter.projects->front()));
  else if (filter.projects)
    condition.add("project in (select value from json_each(:projects))",
                  value_of(dump_json(to_json(*filter.projects))));
  if (filter.action) condition.add("action = :action", value_of(*filter.action));
  if (filter.since) condition.add("time >= :since", value_of(*filter.since));
  if (filter.until) condition.add("time < :until", value_of(*filter.until));
  if (filter.refused)
    condition.add("refused = :refused", value_of(static_cast<std::int64_t>(*filter.refused)));
  if (filter.before) condition.add("id < :before", value_of(*filter.before));
  return condition;
}

model::AuditRecord record_from(std::vector<SqlValue>& row) {
  return {.id = row[0].integer,
          .time = Time(Duration(row[1].integer)),
          .user = std::move(row[2].text),
          .token = std::move(row[3].text),
          .address = std::move(row[4].text),
          .action = std::move(row[5].text),
          .target = std::move(row[6].text),
          .project = std::move(row[7].text),
          .before = std::move(row[8].text),
          .after = std::move(row[9].text),
          .refused = row[10].integer != 0};
}

}  // namespace

Result<void> add(Database& database, const model::AuditRecord& record) {
  return database.execute(
      "insert into audit (time, user, token, address, action, target, project, before, after, "
      "refused) values (:time, :user, :token, :address, :action, :target, :project, :before, "
      ":after, :refused)",
      record.time, record.user, record.token, record.address, record.action, record.target,
      record.project, record.before, record.after, record.refused);
}

Result<std::vector<model::AuditRecord>> audit_records(Database& database,
                                                      const model::AuditFilter& filter) {
  using enum SqlType;
  Condition condition = condition_of(filter);
  condition.values.push_back(value_of(static_cast<std::int64_t>(filter.limit)));
  std::vector<model::AuditRecord> records;
  TRY(database.run(
      "select id, time, user, token, address, action, target, project, before, after, refused "
      "from audit " +
          condition.sql + " order by id desc limit :limit",
      condition.values, {integer, integer, text, text, text, text, text, text, text, text, integer},
      [&](std::vector<SqlValue>& row) -> Result<void> {
        records.push_back(record_from(row));
        return {};
      }));
  return records;
}

}  // namespace lockstep::store
