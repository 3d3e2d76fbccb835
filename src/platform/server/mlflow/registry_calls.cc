#include "platform/server/mlflow/registry_calls.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <map>
#include <set>
#include <utility>
#include <vector>

#include "base/format.h"
#include "platform/server/mlflow/match.h"
#include "platform/server/mlflow/model_tables.h"
#include "platform/server/mlflow/run_name.h"

namespace lockstep::mlflow {
namespace {

using registry::ModelName;
using registry::Version;

constexpr std::string_view kProxy = "mlflow-artifacts:/";
constexpr std::size_t kModelPage = 100, kVersionPage = 1'000;
constexpr std::string_view kModelAttributes[] = {"name", "creation_timestamp",
                                                 "last_updated_timestamp"};
constexpr std::string_view kVersionAttributes[] = {
    "name",     "version_number",     "run_id",
    "source",   "creation_timestamp", "last_updated_timestamp",
    "model_id", "source_path"};

Result<registry::Tags> tags_of(const std::vector<KeyValue>& entries) {
  registry::Tags tags;
  for (const KeyValue& entry : entries) {
    TRY(registry::check_tag(entry.key, entry.value));
    tags[entry.key] = entry.value;
  }
  return tags;
}

// The place of an artifact for clients. The experiment is any of the run's project.
std::string proxy_uri(const model::RunId& run, const std::string& path) {
  return format("{}0/{}/artifacts/{}", kProxy, run_name(run), path);
}

std::string download_uri_of(const Version& version) {
  return version.run && !version.step && !version.path.empty()
             ? proxy_uri(*version.run, version.path)
             : (version.step ? version.path : version.source);
}

ModelVersion view(const Version& version) {
  return {.name = version.model_name.name,
          .version = format("{}", version.number),
          .creation_timestamp = milliseconds(version.created),
          .last_updated_timestamp = milliseconds(version.updated),
          .user_id = version.user,
          .current_stage = version.stage,
          .description = version.description,
          .source = version.source.empty() ? download_uri_of(version) : version.source,
          .run_id = version.run ? run_name(*version.run) : "",
          .model_id = version.logged_model,
          .tags = entries_of(version.tags),
          .aliases = version.aliases};
}

// The newest of each stage, of versions that are newest first.
std::vector<ModelVersion> latest_of(const std::vector<Version>& versions,
                                    const std::vector<std::string>& stages) {
  std::vector<ModelVersion> latest;
  std::set<std::string_view> seen;
  for (const Version& version : versions)
    if ((stages.empty() || std::ranges::find(stages, version.stage) != stages.end()) &&
        seen.insert(version.stage).second)
      latest.push_back(view(version));
  return latest;
}

RegisteredModel view(const registry::Model& model, const std::vector<Version>& versions) {
  RegisteredModel shown{.name = model.id.name,
                        .creation_timestamp = milliseconds(model.created),
                        .last_updated_timestamp = milliseconds(model.updated),
                        .user_id = model.user,
                        .description = model.description,
                        .latest_versions = latest_of(versions, {}),
                        .tags = entries_of(model.tags)};
  for (const auto& [alias, number] : model.aliases)
    shown.aliases.push_back({alias, format("{}", number)});
  return shown;
}

Result<std::string> checked_stage(const std::string& stage) {
  for (const std::string_view known : {"None", "Staging", "Production", "Archived"})
    if (is_like(stage, known, LetterCase::any)) return std::string(known);
  return Error{Code::invalid,
               format("stage: '{}' is none of None, Staging, Production, Archived", stage)};
}

ColumnValue word_value(std::string text) {
  return std::variant<double, std::string>(std::move(text));
}
ColumnValue count_value(std::int64_t number) {
  return std::variant<double, std::string>(static_cast<double>(number));
}

ColumnValue value_of_tag(const registry::Tags& tags, const std::string& key) {
  const auto found = tags.find(key);
  return found == tags.end() ? std::nullopt : word_value(found->second);
}

ColumnOf columns_of(const registry::Model& model) {
  return [&model](const Column& column) {
    if (column.entity == Entity::tag) return value_of_tag(model.tags, column.key);
    if (column.key == "name") return word_value(model.id.name);
    return count_value(
        milliseconds(column.key == "creation_timestamp" ? model.created : model.updated));
  };
}

ColumnOf columns_of(const Version& version) {
  return [&version](const Column& column) -> ColumnValue {
    if (column.entity == Entity::tag) return value_of_tag(version.tags, column.key);
    if (column.key == "name") return word_value(version.model_name.name);
    if (column.key == "version_number") return count_value(version.number);
    if (column.key == "run_id") return word_value(version.run ? run_name(*version.run) : "");
    if (column.key == "model_id") return word_value(version.logged_model);
    if (column.key == "creation_timestamp") return count_value(milliseconds(version.created));
    if (column.key == "last_updated_timestamp") return count_value(milliseconds(version.updated));
    return word_value(view(version).source);
  };
}

// Models have no metrics and no parameters.
template <class T>
Result<void> check_column(const T& one) {
  if (one.column.entity == Entity::attribute || one.column.entity == Entity::tag) return {};
  return Error{Code::invalid, "models are searched by their attributes and tags"};
}

struct ModelSearch {
  std::vector<Comparison> filter;
  std::vector<Ordering> order;
};

Result<ModelSearch> search_of(const ModelRequest& request, Attributes attributes) {
  ModelSearch search{.filter = TRY(parse_filter(request.filter, attributes)), .order = {}};
  for (const Comparison& comparison : search.filter) TRY(check_column(comparison));
  for (const std::string& text : request.order_by.texts) {
    search.order.push_back(TRY(parse_ordering(text, attributes)));
    TRY(check_column(search.order.back()));
  }
  return search;
}

// The rows of the page that is asked for, and the token of the next one.
template <class Row>
struct Page {
  std::vector<Row> rows;
  std::string next{};
};
template <class Row>
Result<Page<Row>> page_of(std::vector<Row> rows, const ModelSearch& search,
                          const ModelRequest& request, std::size_t usual) {
  std::erase_if(rows, [&](const Row& row) { return !matches(search.filter, columns_of(row)); });
  std::ranges::stable_sort(rows, [&](const Row& a, const Row& b) {
    return is_before(search.order, columns_of(a), columns_of(b));
  });
  std::size_t offset = 0;
  if (!request.page_token.empty())
    offset = std::min(
        rows.size(), static_cast<std::size_t>(TRY(parse_number(request.page_token, "page_token"))));
  const std::size_t size =
      request.max_results && request.max_results->value > 0
          ? std::min(kVersionPage, static_cast<std::size_t>(request.max_results->value))
          : usual;
  Page<Row> page;
  if (rows.size() - offset > size) page.next = format("{}", offset + size);
  rows.resize(std::min(rows.size(), offset + size));
  rows.erase(rows.begin(), rows.begin() + static_cast<std::ptrdiff_t>(offset));
  page.rows = std::move(rows);
  return page;
}

std::string target_of(const ModelName& id) { return format("{}/{}", id.project, id.name); }
std::string target_of(const Version& version) {
  return format("{}/{}", version.model_name.project, registry::text(version));
}

// The rest of `text` after `prefix`.
std::optional<std::string_view> rest_after(std::string_view text, std::string_view prefix) {
  if (!text.starts_with(prefix)) return std::nullopt;
  return text.substr(prefix.size());
}

}  // namespace

// --- Calls ---

RegistryCalls::Method RegistryCalls::method_for(std::string_view method, std::string_view what) {
  using C = RegistryCalls;
  struct Row {
    std::string_view method, what;
    Method call;
  };
  static constexpr std::array kCalls = {
      Row{"POST", "registered-models/create", &C::create_model},
      Row{"GET", "registered-models/get", &C::get_model},
      Row{"PATCH", "registered-models/update", &C::update_model},
      Row{"POST", "registered-models/rename", &C::rename_model},
      Row{"DELETE", "registered-models/delete", &C::delete_model},
      Row{"GET", "registered-models/search", &C::search_models},
      Row{"GET", "registered-models/get-latest-versions", &C::latest_versions},
      Row{"POST", "registered-models/get-latest-versions", &C::latest_versions},
      Row{"POST", "registered-models/set-tag", &C::set_model_tag},
      Row{"DELETE", "registered-models/delete-tag", &C::delete_model_tag},
      Row{"POST", "registered-models/alias", &C::set_alias},
      Row{"DELETE", "registered-models/alias", &C::delete_alias},
      Row{"GET", "registered-models/alias", &C::get_by_alias},
      Row{"POST", "model-versions/create", &C::create_version},
      Row{"GET", "model-versions/get", &C::get_version},
      Row{"PATCH", "model-versions/update", &C::update_version},
      Row{"DELETE", "model-versions/delete", &C::delete_version},
      Row{"GET", "model-versions/search", &C::search_versions},
      Row{"GET", "model-versions/get-download-uri", &C::download_uri},
      Row{"POST", "model-versions/transition-stage", &C::set_stage},
      Row{"POST", "model-versions/set-tag", &C::set_version_tag},
      Row{"DELETE", "model-versions/delete-tag", &C::delete_version_tag}};
  for (const Row& row : kCalls)
    if (row.method == method && row.what == what) return row.call;
  return nullptr;
}

std::optional<Result<Json>> RegistryCalls::handle(std::string_view method, std::string_view what,
                                                  const Json& body, const Caller& caller) {
  const Method call = method_for(method, what);
  if (call == nullptr) return std::nullopt;
  const auto answer = [&]() -> Answer {
    auto request = TRY(read_message<ModelRequest>(body));
    return (this->*call)({caller, std::move(request), TRY(access_.default_project(caller))});
  };
  return answer();
}

Result<void> RegistryCalls::check_may_change(const Call& call) const {
  return access_.check(call.caller, identity::Action::submit_run, call.project);
}

Result<registry::Model> RegistryCalls::model_of(const Call& call) {
  return registry_.find({call.project, call.request.name});
}

Result<Version> RegistryCalls::version_of(const Call& call) {
  const auto number = parse_number(call.request.version, "version");
  if (!number)
    return Error{Code::invalid, format("version: '{}' is no number", call.request.version)};
  return registry_.find(ModelName{call.project, call.request.name}, *number);
}

RegistryCalls::Answer RegistryCalls::model_answer(const ModelName& id) {
  return Json{
      {"registered_model", to_json(view(TRY(registry_.find(id)), TRY(registry_.versions(id))))}};
}

RegistryCalls::Answer RegistryCalls::version_answer(const Version& version) {
  return Json{
      {"model_version", to_json(view(TRY(registry_.find(version.model_name, version.number))))}};
}

Result<void> RegistryCalls::save(const Call& call, const registry::Model& model,
                                 std::string_view action) {
  registry::Model changed = model;
  auto record = access_.record(call.caller, action, target_of(model.id), call.project);
  changed.updated = record.time;
  return registry_.save(changed, record);
}

Result<void> RegistryCalls::save(const Call& call, const Version& version, std::string_view action,
                                 std::string after) {
  return registry_.save(version, access_.record(call.caller, action, target_of(version),
                                                call.project, "", std::move(after)));
}

// --- Models ---

RegistryCalls::Answer RegistryCalls::create_model(const Call& call) {
  TRY(check_may_change(call));
  const ModelName id{call.project, call.request.name};
  auto record = access_.record(call.caller, "model.create", target_of(id), call.project);
  TRY(registry_.add({.id = id,
                     .user = call.caller.bearer.user,
                     .description = call.request.description.value_or(""),
                     .tags = TRY(tags_of(call.request.tags)),
                     .created = record.time,
                     .updated = record.time},
                    record));
  return model_answer(id);
}

RegistryCalls::Answer RegistryCalls::get_model(const Call& call) {
  return model_answer({call.project, call.request.name});
}

RegistryCalls::Answer RegistryCalls::update_model(const Call& call) {
  TRY(check_may_change(call));
  registry::Model model = TRY(model_of(call));
  model.description = call.request.description.value_or(model.description);
  TRY(save(call, model, "model.describe"));
  return model_answer(model.id);
}

RegistryCalls::Answer RegistryCalls::rename_model(const Call& call) {
  const registry::Model model = TRY(model_of(call));
  TRY(access_.check(call.caller, identity::Action::control_run, call.project, model.user));
  const ModelName to{call.project, call.request.new_name};
  TRY(registry_.rename(model.id, to.name,
                       access_.record(call.caller, "model.rename", target_of(model.id),
                                      call.project, model.id.name, to.name)));
  return model_answer(to);
}

RegistryCalls::Answer RegistryCalls::delete_model(const Call& call) {
  const registry::Model model = TRY(model_of(call));
  TRY(access_.check(call.caller, identity::Action::control_run, call.project, model.user));
  TRY(registry_.remove(
      model.id, access_.record(call.caller, "model.remove", target_of(model.id), call.project)));
  return Json::object();
}

RegistryCalls::Answer RegistryCalls::search_models(const Call& call) {
  const ModelSearch search = TRY(search_of(call.request, kModelAttributes));
  auto page = TRY(
      page_of(TRY(registry_.models(std::vector{call.project})), search, call.request, kModelPage));
  Json models = Json::array();
  for (const registry::Model& model : page.rows)
    models.push_back(to_json(view(model, TRY(registry_.versions(model.id)))));
  return Json{{"registered_models", std::move(models)}, {"next_page_token", page.next}};
}

RegistryCalls::Answer RegistryCalls::latest_versions(const Call& call) {
  std::vector<std::string> stages;
  for (const std::string& stage : call.request.stages.texts)
    stages.push_back(TRY(checked_stage(stage)));
  const registry::Model model = TRY(model_of(call));
  return Json{{"model_versions", to_json(latest_of(TRY(registry_.versions(model.id)), stages))}};
}

RegistryCalls::Answer RegistryCalls::set_model_tag(const Call& call) {
  TRY(check_may_change(call));
  registry::Model model = TRY(model_of(call));
  model.tags[call.request.key] = call.request.value;
  TRY(save(call, model, "model.tag"));
  return Json::object();
}

RegistryCalls::Answer RegistryCalls::delete_model_tag(const Call& call) {
  TRY(check_may_change(call));
  registry::Model model = TRY(model_of(call));
  if (model.tags.erase(call.request.key) != 0) TRY(save(call, model, "model.tag"));
  return Json::object();
}

// --- Aliases ---

RegistryCalls::Answer RegistryCalls::set_alias(const Call& call) {
  TRY(check_may_change(call));
  const Version version = TRY(version_of(call));
  TRY(registry_.set_alias(
      version.model_name, call.request.alias, version.number,
      access_.record(call.caller, "model.alias",
                     format("{}@{}", target_of(version.model_name), call.request.alias),
                     call.project, "", call.request.version)));
  return Json::object();
}

RegistryCalls::Answer RegistryCalls::delete_alias(const Call& call) {
  TRY(check_may_change(call));
  const ModelName id{call.project, call.request.name};
  TRY(registry_.set_alias(
      id, call.request.alias, std::nullopt,
      access_.record(call.caller, "model.alias", format("{}@{}", target_of(id), call.request.alias),
                     call.project)));
  return Json::object();
}

RegistryCalls::Answer RegistryCalls::get_by_alias(const Call& call) {
  return Json{
      {"model_version", to_json(view(TRY(registry_.find(ModelName{call.project, call.request.name},
                                                        call.request.alias))))}};
}

// --- Versions ---

// The run and the path of it that a source names. A source elsewhere stays as it is.
Result<void> RegistryCalls::find_source(const Call& call, Version& version) {
  const ModelRequest& request = call.request;
  if (request.source.empty()) return Error{Code::invalid, "source: is missing"};
  version.source = request.source;
  std::string run = request.run_id;
  std::string logged = request.model_id;
  if (const auto id = rest_after(request.source, "models:/"); id && logged.empty()) logged = *id;
  if (!logged.empty()) {
    const auto model = TRY(tables_.find(logged));
    if (!model || model->deleted)
      return Error{Code::not_found, format("there is no logged model {}", logged)};
    version.logged_model = logged;
    version.path = folder_of(*model);
    run = run_name(model->run);
  } else if (const auto place = rest_after(request.source, kProxy)) {
    const auto of_run = place->find('/');
    const auto path = place->find("/artifacts/");
    if (of_run != std::string_view::npos && path != std::string_view::npos && of_run < path) {
      run = place->substr(of_run + 1, path - of_run - 1);
      version.path = TRY(artifacts::checked_path(place->substr(path + 11)));
    }
  }
  if (run.empty()) return {};
  const RunRow row = TRY(access_.readable_run(call.caller, run));
  if (row.id.project != call.project)
    return Error{Code::invalid, format("run_id: {} is not of the project {}: a model has versions "
                                       "of its own project",
                                       run, call.project)};
  version.run = row.id;
  version.git_commit = row.git_commit;
  version.git_dirty = row.git_dirty;
  version.data_set = TRY(tables_.data_set_of(row.id));
  return {};
}

RegistryCalls::Answer RegistryCalls::create_version(const Call& call) {
  TRY(check_may_change(call));
  Version version{.model_name = {call.project, call.request.name},
                  .user = call.caller.bearer.user,
                  .description = call.request.description.value_or(""),
                  .tags = TRY(tags_of(call.request.tags))};
  TRY(find_source(call, version));
  auto record = access_.record(call.caller, "model.register", "", call.project, "",
                               version.run ? text(*version.run) : version.source);
  return version_answer(
      TRY(registry_.add(std::move(version), registry::Registry::IfMissing::refuse, record)));
}

RegistryCalls::Answer RegistryCalls::get_version(const Call& call) {
  return version_answer(TRY(version_of(call)));
}

RegistryCalls::Answer RegistryCalls::update_version(const Call& call) {
  TRY(check_may_change(call));
  Version version = TRY(version_of(call));
  version.description = call.request.description.value_or(version.description);
  TRY(save(call, version, "model.describe", ""));
  return version_answer(version);
}

RegistryCalls::Answer RegistryCalls::delete_version(const Call& call) {
  const Version version = TRY(version_of(call));
  TRY(access_.check(call.caller, identity::Action::control_run, call.project, version.user));
  TRY(registry_.remove(
      version, access_.record(call.caller, "model.remove", target_of(version), call.project)));
  return Json::object();
}

// Reads one model's versions if the filter names it, else those of all models of the project.
RegistryCalls::Answer RegistryCalls::search_versions(const Call& call) {
  const ModelSearch search = TRY(search_of(call.request, kVersionAttributes));
  ModelName id{call.project, ""};
  for (const Comparison& comparison : search.filter)
    if (comparison.column.key == "name" && comparison.column.entity == Entity::attribute &&
        comparison.is == Operator::equal)
      id.name = comparison.texts.front();
  auto page = TRY(page_of(TRY(registry_.versions(id)), search, call.request, kVersionPage));
  std::vector<ModelVersion> views;
  for (const Version& version : page.rows) views.push_back(view(version));
  return Json{{"model_versions", to_json(views)}, {"next_page_token", page.next}};
}

RegistryCalls::Answer RegistryCalls::download_uri(const Call& call) {
  return Json{{"artifact_uri", download_uri_of(TRY(version_of(call)))}};
}

// Others of the stage are archived if the call says so.
RegistryCalls::Answer RegistryCalls::set_stage(const Call& call) {
  TRY(check_may_change(call));
  const std::string stage = TRY(checked_stage(call.request.stage));
  Version version = TRY(version_of(call));
  if (call.request.archive_existing_versions)
    for (Version& other : TRY(registry_.versions(version.model_name))) {
      if (other.number == version.number || other.stage != stage) continue;
      other.stage = "Archived";
      TRY(save(call, other, "model.stage", other.stage));
    }
  version.stage = stage;
  TRY(save(call, version, "model.stage", stage));
  return version_answer(version);
}

RegistryCalls::Answer RegistryCalls::set_version_tag(const Call& call) {
  TRY(check_may_change(call));
  Version version = TRY(version_of(call));
  version.tags[call.request.key] = call.request.value;
  TRY(save(call, version, "model.tag", call.request.key));
  return Json::object();
}

RegistryCalls::Answer RegistryCalls::delete_version_tag(const Call& call) {
  TRY(check_may_change(call));
  Version version = TRY(version_of(call));
  if (version.tags.erase(call.request.key) != 0)
    TRY(save(call, version, "model.tag", call.request.key));
  return Json::object();
}

}  // namespace lockstep::mlflow
