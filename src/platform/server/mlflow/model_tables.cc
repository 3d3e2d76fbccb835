#include "platform/server/mlflow/model_tables.h"

#include <utility>

#include "base/format.h"
#include "text/convert.h"

namespace lockstep::mlflow {

constexpr auto enum_names(LinkKind) {
  return names<LinkKind>(
      {{LinkKind::dataset, "dataset"}, {LinkKind::input, "input"}, {LinkKind::output, "output"}});
}

namespace {

using Int = std::int64_t;
using Text = std::string;
using Names = std::map<Text, Text>;

constexpr Int kModelsRead = 10'000;  // of a search
constexpr Int kLinksRead = 2'000;    // of a run

Result<Names> words_from(const Text& json) { return from_json<Names>(TRY(parse_json(json))); }

}  // namespace

Text folder_of(const LoggedModelRow& model) { return "models/" + model.id; }

Result<void> ModelTables::add(const LoggedModelRow& model) {
  return database_.execute(
      "insert into mlflow_models (id, project, number, experiment, name, type, status, "
      "status_message, params, tags, created, updated, deleted) values (:id, :project, :number, "
      ":experiment, :name, :type, :status, '', :params, :tags, :created, :updated, :deleted)",
      model.id, model.run.project, model.run.number, model.experiment, model.name, model.type,
      model.status, dump_json(to_json(model.params)), dump_json(to_json(model.tags)), model.created,
      model.updated, model.deleted);
}

Result<void> ModelTables::save(const LoggedModelRow& model) {
  return database_.execute(
      "update mlflow_models set status = :status, params = :params, tags = :tags, updated = "
      ":updated, deleted = :deleted where id = :id",
      model.status, dump_json(to_json(model.params)), dump_json(to_json(model.tags)), model.updated,
      model.deleted, model.id);
}

Result<std::vector<LoggedModelRow>> ModelTables::where(std::string_view condition,
                                                       const Text& value) {
  std::vector<LoggedModelRow> found;
  for (auto& [id, project, number, experiment, name, type, status, params, tags, created, updated,
              deleted] :
       TRY((database_.rows<Text, Text, Int, Int, Text, Text, Text, Text, Text, Time, Time, bool>(
           format("select id, project, number, experiment, name, type, status, params, tags, "
                  "created, updated, deleted from mlflow_models where {} limit :most",
                  condition),
           value, kModelsRead))))
    found.push_back({.id = std::move(id),
                     .run = {std::move(project), number},
                     .experiment = experiment,
                     .name = std::move(name),
                     .type = std::move(type),
                     .status = std::move(status),
                     .params = TRY(words_from(params)),
                     .tags = TRY(words_from(tags)),
                     .created = created,
                     .updated = updated,
                     .deleted = deleted});
  return found;
}

Result<std::optional<LoggedModelRow>> ModelTables::find(const Text& id) {
  auto found = TRY(where("id = :id", id));
  return found.empty() ? std::nullopt : std::optional(std::move(found.front()));
}

Result<std::vector<LoggedModelRow>> ModelTables::of_experiments(
    const std::vector<Int>& experiments) {
  return where(
      "experiment in (select value from json_each(:experiments)) and deleted = 0 order by created "
      "desc",
      dump_json(to_json(experiments)));
}

Result<Int> ModelTables::count_of(const model::RunId& run) {
  return std::get<0>(TRY(database_.rows<Int>("select count(*) from mlflow_models where project = "
                                             ":project and number = :number",
                                             run.project, run.number))
                         .front());
}

Result<void> ModelTables::add(const model::RunId& run, const Link& link) {
  return database_.execute(
      "insert into mlflow_links (project, number, kind, name, step, content) values (:project, "
      ":number, :kind, :name, :step, :content) on conflict do nothing",
      run.project, run.number, name_of(link.kind), link.name, link.step, link.content);
}

Result<std::vector<Link>> ModelTables::links(const model::RunId& run) {
  std::vector<Link> found;
  for (auto& [kind, name, step, content] : TRY((database_.rows<Text, Text, Int, Text>(
           "select kind, name, step, content from mlflow_links where project = :project and number "
           "= :number order by kind, name, step limit :most",
           run.project, run.number, kLinksRead))))
    found.push_back({TRY(parse_name<LinkKind>(kind)), std::move(name), step, std::move(content)});
  return found;
}

Result<Text> ModelTables::data_set_of(const model::RunId& run) {
  std::vector<Text> all;
  for (Link& link : TRY(links(run)))
    if (link.kind == LinkKind::dataset) all.push_back(std::move(link.name));
  return joined(all, ", ");
}

}  // namespace lockstep::mlflow
