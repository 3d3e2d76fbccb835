#include "platform/server/mlflow/tracking.h"

#include <limits>
#include <tuple>

#include "base/format.h"
#include "platform/server/mlflow/run_query.h"
#include "text/convert.h"

namespace lockstep::mlflow {
namespace {

using Int = std::int64_t;
using Text = std::string;

constexpr Int kMetricsShown = 1'000;  // of a run

using ExperimentColumns = std::tuple<Int, Text, Text, Time, Time, bool, Text>;
constexpr std::string_view kExperimentFields = "id, project, name, created, updated, deleted, tags";

Result<ExperimentRow> experiment_from(ExperimentColumns& columns) {
  auto& [id, project, name, created, updated, deleted, tags] = columns;
  return ExperimentRow{.id = id,
                       .project = std::move(project),
                       .name = std::move(name),
                       .created = created,
                       .updated = updated,
                       .deleted = deleted,
                       .tags = TRY((from_json<std::map<Text, Text>>(TRY(parse_json(tags)))))};
}

template <class... Args>
Result<std::vector<ExperimentRow>> experiments_where(store::Database& database,
                                                     std::string_view condition,
                                                     const Args&... args) {
  std::vector<ExperimentRow> found;
  for (auto& row : TRY((database.rows<Int, Text, Text, Time, Time, bool, Text>(
           format("select {} from mlflow_experiments where {}", kExperimentFields, condition),
           args...))))
    found.push_back(TRY(experiment_from(row)));
  return found;
}

std::optional<ExperimentRow> first_of(std::vector<ExperimentRow> rows) {
  return rows.empty() ? std::nullopt : std::optional(std::move(rows.front()));
}

std::string_view kind_name(ValueKind kind) { return kind == ValueKind::param ? "param" : "tag"; }

}  // namespace

Result<Int> Tracking::add_experiment(const ExperimentRow& row) {
  if (TRY(find_experiment(row.project, row.name)))
    return Error{Code::already_exists,
                 format("the project {} has an experiment {} already; it may be a deleted one",
                        row.project, row.name)};
  TRY(database_.execute(
      "insert into mlflow_experiments (project, name, created, updated, deleted, tags) values "
      "(:project, :name, :created, :updated, 0, :tags)",
      row.project, row.name, row.created, row.updated, dump_json(to_json(row.tags))));
  return TRY(find_experiment(row.project, row.name)).value().id;
}

Result<void> Tracking::save_experiment(const ExperimentRow& row) {
  return database_.execute(
      "update mlflow_experiments set name = :name, updated = :updated, deleted = :deleted, tags = "
      ":tags where id = :id",
      row.name, row.updated, row.deleted, dump_json(to_json(row.tags)), row.id);
}

Result<std::optional<ExperimentRow>> Tracking::find_experiment(Int id) {
  return first_of(TRY(experiments_where(database_, "id = :id", id)));
}

Result<std::optional<ExperimentRow>> Tracking::find_experiment(const Text& project,
                                                               const Text& name) {
  return first_of(
      TRY(experiments_where(database_, "project = :project and name = :name", project, name)));
}

Result<std::vector<ExperimentRow>> Tracking::experiments(const Text& project, Int after,
                                                         Int limit) {
  return experiments_where(database_, "project = :project and id > :after order by id limit :limit",
                           project, after, limit);
}

Result<void> Tracking::add_run(const model::RunId& run, Int experiment, const Text& name, Int start,
                               const Text& parent) {
  return database_.execute(
      "insert into mlflow_runs (project, number, experiment, name, made, status, start, deleted, "
      "parent) values (:project, :number, :experiment, :name, 1, 'RUNNING', :start, 0, :parent) "
      "on conflict do nothing",
      run.project, run.number, experiment, name, start, parent);
}

Result<void> Tracking::set_experiment(const model::RunId& run, Int experiment) {
  return database_.execute(
      "insert into mlflow_runs (project, number, experiment, name, made, deleted) values "
      "(:project, :number, :experiment, '', 0, 0) on conflict do update set experiment = "
      "excluded.experiment",
      run.project, run.number, experiment);
}

// A run that Lockstep started has a row once a client changes something of it.
Result<void> Tracking::set_status(const model::RunId& run, const Text& status,
                                  std::optional<Int> end) {
  return database_.execute(
      "insert into mlflow_runs (project, number, experiment, name, made, status, finish, deleted) "
      "values (:project, :number, 0, '', 0, :status, :finish, 0) on conflict do update set "
      "status = excluded.status, finish = excluded.finish",
      run.project, run.number, status, end);
}

Result<void> Tracking::set_name(const model::RunId& run, const Text& name) {
  return database_.execute(
      "insert into mlflow_runs (project, number, experiment, name, made, deleted) values "
      "(:project, :number, 0, :name, 0, 0) on conflict do update set name = excluded.name",
      run.project, run.number, name);
}

Result<void> Tracking::set_deleted(const model::RunId& run, bool deleted) {
  return database_.execute(
      "insert into mlflow_runs (project, number, experiment, name, made, deleted) values "
      "(:project, :number, 0, '', 0, :deleted) on conflict do update set deleted = "
      "excluded.deleted",
      run.project, run.number, deleted);
}

Result<std::optional<RunRow>> Tracking::find_run(const model::RunId& run) {
  auto found = TRY(run_rows(database_, run_query(run)));
  return found.empty() ? std::nullopt : std::optional(std::move(found.front()));
}

Result<std::vector<RunRow>> Tracking::search(const RunSearch& search) {
  return run_rows(database_, run_query(search));
}

Result<std::vector<model::RunId>> Tracking::open_runs() {
  std::vector<model::RunId> open;
  for (auto& [project, number] : TRY((database_.rows<Text, Int>(
           "select m.project, m.number from mlflow_runs m join runs r using (project, number) "
           "where m.made = 1 and r.ended is null"))))
    open.push_back({std::move(project), number});
  return open;
}

Result<void> Tracking::put(const model::RunId& run, ValueKind kind, const KeyValue& value) {
  if (kind == ValueKind::param) {
    const auto known = TRY(database_.rows<Text>(
        "select value from mlflow_values where project = :project and number = :number and kind = "
        "'param' and name = :name",
        run.project, run.number, value.key));
    if (!known.empty() && std::get<0>(known.front()) != value.value)
      return Error{Code::invalid,
                   format("the parameter {} is '{}' and cannot become '{}': parameters do not "
                          "change",
                          value.key, std::get<0>(known.front()), value.value)};
  }
  return database_.execute(
      "insert into mlflow_values (project, number, kind, name, value) values (:project, :number, "
      ":kind, :name, :value) on conflict do update set value = excluded.value",
      run.project, run.number, kind_name(kind), value.key, value.value);
}

Result<Int> Tracking::count_values(const model::RunId& run) {
  return std::get<0>(TRY(database_.rows<Int>("select count(*) from mlflow_values where project = "
                                             ":project and number = :number",
                                             run.project, run.number))
                         .front());
}

Result<bool> Tracking::remove_tag(const model::RunId& run, const Text& key) {
  return !TRY(database_.rows<Text>(
                  "delete from mlflow_values where project = :project and number = :number and "
                  "kind = 'tag' and name = :name returning name",
                  run.project, run.number, key))
              .empty();
}

Result<RunData> Tracking::data(const model::RunId& run) {
  RunData data;
  for (auto& [name, value, time, step] :
       TRY((database_.rows<Text, std::optional<double>, Time, Int>(
           "select name, value, time, step from latest_metrics where project = :project and "
           "number = :number order by name limit :most",
           run.project, run.number, kMetricsShown))))
    data.metrics.push_back({std::move(name),
                            value.value_or(std::numeric_limits<double>::quiet_NaN()),
                            {time.time_since_epoch().count() / 1000},
                            {step}});
  for (auto& [kind, name, value] : TRY((database_.rows<Text, Text, Text>(
           "select kind, name, value from mlflow_values where project = :project and number = "
           ":number order by kind, name",
           run.project, run.number))))
    (kind == "param" ? data.params : data.tags).push_back({std::move(name), std::move(value)});
  return data;
}

}  // namespace lockstep::mlflow
