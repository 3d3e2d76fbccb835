#include "platform/store/run_values.h"

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "base/format.h"
#include "platform/run_query/query.h"
#include "platform/run_query/settings.h"
#include "platform/run_query/value.h"
#include "platform/store/tables.h"  // IWYU pragma: keep (the table of runs)

namespace lockstep::store {
namespace {

constexpr std::size_t kSettingsMax = 1000;

struct StoredValue {
  std::string text;
  SqlValue value;  // what sorts it; null: nothing
};

SqlValue real(double number) { return {.type = SqlType::real, .real = number}; }

StoredValue of_text(std::string text) {
  SqlValue value{.type = SqlType::text, .null = text.empty(), .text = run_query::natural_key(text)};
  return {std::move(text), std::move(value)};
}
StoredValue of_number(double number) { return {format("{}", number), real(number)}; }

StoredValue of_setting(std::string text) {
  if (const auto number = run_query::plain_number(text)) return {std::move(text), real(*number)};
  return of_text(std::move(text));
}

std::map<std::string, StoredValue> values_of_run(const model::Run& run) {
  std::map<std::string, StoredValue> values;
  const model::RunSpec& spec = run.spec;
  for (auto& [name, setting] : run_query::settings_of(spec.command))
    if (!run_query::is_field(name) && values.size() < kSettingsMax)
      values.emplace(name, of_setting(setting));
  if (!spec.name.empty()) values.emplace("name", of_text(spec.name));
  values.emplace("user", of_text(run.origin.user));
  values.emplace("command", StoredValue{joined(spec.command, " "), {.null = true}});
  values.emplace("class", of_text(std::string(name_of(spec.run_class))));
  values.emplace("nodes", of_number(spec.nodes));
  values.emplace("devices", of_number(spec.nodes * spec.devices + spec.remainder));
  if (spec.timeout) values.emplace("timeout", of_number(in_seconds(*spec.timeout)));
  if (!run.origin.git_commit.empty()) values.emplace("commit", of_text(run.origin.git_commit));
  return values;
}

Result<bool> has_values(Database& database, const model::RunId& run) {
  return !TRY(database.rows<std::int64_t>("select 1 from run_values where project = :project and "
                                          "number = :number limit 1",
                                          run.project, run.number))
              .empty();
}

}  // namespace

Result<void> add_run_values(Database& database, const model::Run& run) {
  if (TRY(has_values(database, run.id))) return {};
  for (auto& [name, stored] : values_of_run(run))
    TRY(
        database.run("insert into run_values (project, number, name, text, value) values "
                     "(:project, :number, :name, :text, :value)",
                     {{.type = SqlType::text, .text = run.id.project},
                      {.integer = run.id.number},
                      {.type = SqlType::text, .text = name},
                      {.type = SqlType::text, .text = stored.text},
                      stored.value},
                     {}, {}));
  return {};
}

Result<void> remove_run_values(Database& database, const model::RunId& run) {
  for (const auto* table : {"run_values", "unread_runs"})
    TRY(database.execute(
        format("delete from {} where project = :project and number = :number", table), run.project,
        run.number));
  return {};
}

Result<bool> take_over_run_values(Database& database, int most) {
  const auto unread = TRY((database.rows<std::int64_t, std::string, std::int64_t>(
      "select id, project, number from unread_runs order by id desc limit :most", most)));
  if (unread.empty()) return false;
  TRY(database.transaction([&]() -> Result<void> {
    for (const auto& [id, project, number] : unread) {
      const Where of{"project = :project and number = :number",
                     {{.type = SqlType::text, .text = project}, {.integer = number}}};
      std::vector<model::Run> runs;
      TRY(for_each_row<model::Run>(database, of, [&](model::Run&& run) -> Result<void> {
        runs.push_back(std::move(run));
        return {};
      }));
      for (const model::Run& run : runs) TRY(add_run_values(database, run));
      TRY(database.execute("delete from unread_runs where id = :id", id));
    }
    return {};
  }));
  return true;
}

Result<std::int64_t> runs_without_values(Database& database) {
  return std::get<0>(TRY(database.rows<std::int64_t>("select count(*) from unread_runs")).front());
}

}  // namespace lockstep::store
