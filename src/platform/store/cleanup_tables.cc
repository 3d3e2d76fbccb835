#include "platform/store/cleanup_tables.h"

#include <algorithm>
#include <limits>
#include <string>
#include <utility>

#include "text/convert.h"
#include "text/json.h"

namespace lockstep::store {
namespace {

using Int = std::int64_t;
using Text = std::string;

constexpr Int kSecond = 1'000'000;
constexpr Int kDay = 86'400 * kSecond;
// Fair shares count a week (core/step/starting/project_share.cc).
constexpr Int kUsageDays = 9;

Int number_of(Time time) { return time.time_since_epoch().count(); }

Int device_seconds(const model::Run& run) {
  if (model::is_external(run)) return 0;
  return model::rank_count(run.spec) *
         std::chrono::floor<std::chrono::seconds>(run.time_used).count();
}

void raise(Int& known, Int to) { known = std::max(known, to); }

// Jumps from project to project by the key.
Result<void> add_numbers(Database& database, model::State& state) {
  for (const auto* table : {"runs", "removed_runs"})
    for (const auto& [project, number] : TRY((database.rows<Text, Int>(
             format("with recursive projects(name) as ("
                    "  select min(project) from {0}"
                    "  union all"
                    "  select (select min(project) from {0} where project > name) from projects "
                    "    where name is not null) "
                    "select name, (select max(number) from {0} where project = name) from projects "
                    "where name is not null",
                    table)))))
      raise(state.numbers[project], number);
  return {};
}

Result<void> add_usage(Database& database, model::State& state) {
  for (const auto& [project, day, used] : TRY((database.rows<Text, Int, Int>(
           "select project, ended / :day, sum(((spec ->> 'nodes') * (spec ->> 'devices') + "
           "coalesce(spec ->> 'remainder', 0)) * (time_used / :second)) from runs "
           "where ended > (select max(ended) from runs) - :window and job = '' group by 1, 2",
           kDay, kSecond, kUsageDays * kDay))))
    state.usage[project].used_by_day[day] += used;
  for (const auto& [project, day, used] : TRY((database.rows<Text, Int, Int>(
           "select project, day, sum(device_seconds) from removed_runs group by 1, 2"))))
    state.usage[project].used_by_day[day] += used;
  return {};
}

Result<std::vector<model::NodeName>> parse_names(const std::string& json) {
  std::vector<model::NodeName> names;
  for (const auto& name : TRY(from_json<std::vector<std::string>>(TRY(parse_json(json)))))
    names.push_back(TRY(model::parse_node_name(name)));
  return names;
}

}  // namespace

Result<std::vector<EndedRun>> ended_runs_after(Database& database,
                                               const std::optional<EndedRun>& last, int most) {
  const EndedRun after =
      last.value_or(EndedRun{.id = {}, .ended = Time(Duration(std::numeric_limits<Int>::min()))});
  std::vector<EndedRun> found;
  for (auto& [project, number, ended, level] : TRY((database.rows<Text, Int, Int, Int>(
           "select r.project, r.number, r.ended, coalesce((select c.level from cleaned_runs as c "
           "where c.project = r.project and c.number = r.number and c.ended = r.ended), 0) "
           "from runs as r where (r.ended, r.project, r.number) > (:ended, :project, :number) "
           "order by r.ended, r.project, r.number limit :most",
           number_of(after.ended), after.id.project, after.id.number, most))))
    found.push_back({.id = {std::move(project), number},
                     .ended = Time(Duration(ended)),
                     .cleaned = static_cast<CleanupLevel>(level)});
  return found;
}

Result<CleanupLevel> cleanup_level_of(Database& database, const model::RunId& run, Time ended) {
  for (const auto& [level] : TRY((database.rows<Int>(
           "select level from cleaned_runs where project = :project and number = :number and ended "
           "= :ended",
           run.project, run.number, number_of(ended)))))
    return static_cast<CleanupLevel>(level);
  return CleanupLevel::none;
}

Result<void> record_cleaned(Database& database, const EndedRun& run) {
  return database.execute(
      "insert into cleaned_runs (project, number, ended, level) values (:project, :number, :ended, "
      ":level) on conflict do update set ended = excluded.ended, level = excluded.level",
      run.id.project, run.id.number, number_of(run.ended), static_cast<Int>(run.cleaned));
}

Result<std::vector<model::NodeName>> node_names_of(Database& database, const model::RunId& run) {
  std::vector<model::NodeName> names;
  for (auto& [generation, epoch, node] : TRY((database.rows<Text, Int, int>(
           "select a.generation, n.epoch, n.node from nodes as n join attempts as a "
           "using (project, number, epoch) where n.project = :project and n.number = :number "
           "order by n.epoch, n.node",
           run.project, run.number))))
    names.push_back({std::move(generation), {{run, epoch}, node}});
  return names;
}

Result<void> record_removed_run(Database& database, const model::RunRows& rows) {
  const model::Run& run = rows.run;
  std::vector<std::string> nodes;
  for (const model::NodeName& node : TRY(node_names_of(database, run.id)))
    nodes.push_back(text(node));
  TRY(database.execute("delete from cleaned_runs where project = :project and number = :number",
                       run.id.project, run.id.number));
  return database.execute(
      "insert into removed_runs (project, number, generation, day, device_seconds, nodes, pending) "
      "values (:project, :number, :generation, :day, :seconds, :nodes, 1)",
      run.id.project, run.id.number, run.generation, model::day_of(run.ended.value_or(Time{})),
      device_seconds(run), dump_json(to_json(nodes)));
}

Result<std::optional<RemovedRun>> next_removed_run(Database& database) {
  std::optional<RemovedRun> next;
  for (auto& [project, number, generation, nodes] : TRY((database.rows<Text, Int, Text, Text>(
           "select project, number, generation, nodes from removed_runs where pending limit 1"))))
    next = {.id = {std::move(project), number},
            .generation = std::move(generation),
            .nodes = TRY(parse_names(nodes))};
  return next;
}

Result<void> finish_removed_run(Database& database, const model::RunId& run) {
  return database.execute(
      "update removed_runs set pending = 0, nodes = '[]' where project = :project and "
      "number = :number",
      run.project, run.number);
}

Result<void> add_totals_of_ended_runs(Database& database, model::State& state) {
  TRY(add_numbers(database, state));
  return add_usage(database, state);
}

}  // namespace lockstep::store
