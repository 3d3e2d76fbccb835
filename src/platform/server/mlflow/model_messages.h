// The messages of MLflow's model registry and of its logged models, as MLflow 3 sends and reads
// them.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "platform/server/mlflow/messages.h"
#include "text/convert.h"

namespace lockstep::mlflow {

// A list in a body; in a query, whose values are texts, one entry.
struct WireList {
  using Form = Json;
  std::vector<std::string> texts{};

  Json form() const { return texts; }
  static Result<WireList> from_form(const Json& json);
};

// --- The registry ---

struct AliasEntry {
  std::string alias, version;

  static constexpr auto fields() {
    return record<AliasEntry>(field("alias", &AliasEntry::alias, "its name"),
                              field("version", &AliasEntry::version, "for which it stands"));
  }
};

struct ModelVersion {
  std::string name, version;
  std::int64_t creation_timestamp = 0, last_updated_timestamp = 0;
  std::string user_id{}, current_stage{}, description{}, source{}, run_id{};
  std::string status = "READY";
  std::string model_id{};
  std::vector<KeyValue> tags{};
  std::vector<std::string> aliases{};

  static constexpr auto fields() {
    return record<ModelVersion>(
        field("name", &ModelVersion::name, "of its model"),
        field("version", &ModelVersion::version, "its number"),
        field("creation_timestamp", &ModelVersion::creation_timestamp, "milliseconds since 1970"),
        field("last_updated_timestamp", &ModelVersion::last_updated_timestamp,
              "milliseconds since 1970"),
        field("user_id", &ModelVersion::user_id, "the user that registered it"),
        field("current_stage", &ModelVersion::current_stage, "None, Staging, Production, Archived"),
        field("description", &ModelVersion::description, "a text"),
        field("source", &ModelVersion::source, "where its files are"),
        field("run_id", &ModelVersion::run_id, "the run that made it"),
        field("status", &ModelVersion::status, "always READY"),
        field("model_id", &ModelVersion::model_id, "of its logged model"),
        field("tags", &ModelVersion::tags, "its tags"),
        field("aliases", &ModelVersion::aliases, "that stand for it"));
  }
};

struct RegisteredModel {
  std::string name;
  std::int64_t creation_timestamp = 0, last_updated_timestamp = 0;
  std::string user_id{}, description{};
  std::vector<ModelVersion> latest_versions{};
  std::vector<KeyValue> tags{};
  std::vector<AliasEntry> aliases{};

  static constexpr auto fields() {
    return record<RegisteredModel>(
        field("name", &RegisteredModel::name, "its name"),
        field("creation_timestamp", &RegisteredModel::creation_timestamp,
              "milliseconds since 1970"),
        field("last_updated_timestamp", &RegisteredModel::last_updated_timestamp,
              "milliseconds since 1970"),
        field("user_id", &RegisteredModel::user_id, "the user that made it"),
        field("description", &RegisteredModel::description, "a text"),
        field("latest_versions", &RegisteredModel::latest_versions, "the newest of each stage"),
        field("tags", &RegisteredModel::tags, "its tags"),
        field("aliases", &RegisteredModel::aliases, "its aliases"));
  }
};

// The fields of all requests about registered models and their versions.
struct ModelRequest {
  std::string name{}, new_name{}, version{}, alias{}, key{}, value{}, stage{};
  std::string source{}, run_id{}, model_id{};
  std::optional<std::string> description{};
  std::vector<KeyValue> tags{};
  bool archive_existing_versions = false;
  WireList stages{}, order_by{};
  std::string filter{}, page_token{};
  std::optional<WireInteger> max_results{};

  static constexpr auto fields() {
    return record<ModelRequest>(
        field("name", &ModelRequest::name, "of the model"),
        field("new_name", &ModelRequest::new_name, "of a renamed model"),
        field("version", &ModelRequest::version, "its number"),
        field("alias", &ModelRequest::alias, "its name"),
        field("key", &ModelRequest::key, "the name of a tag"),
        field("value", &ModelRequest::value, "of a tag"),
        field("stage", &ModelRequest::stage, "of a version"),
        field("source", &ModelRequest::source, "where the files of a version are"),
        field("run_id", &ModelRequest::run_id, "the run that made it"),
        field("model_id", &ModelRequest::model_id, "of a logged model"),
        field("description", &ModelRequest::description, "a text"),
        field("tags", &ModelRequest::tags, "of what is made"),
        field("archive_existing_versions", &ModelRequest::archive_existing_versions,
              "others of the stage"),
        field("stages", &ModelRequest::stages, "absent: all"),
        field("order_by", &ModelRequest::order_by, "columns, each with ASC or DESC"),
        field("filter", &ModelRequest::filter, "in MLflow's language"),
        field("page_token", &ModelRequest::page_token, "of the last answer"),
        field("max_results", &ModelRequest::max_results, "at most so many"));
  }
};

// --- Logged models ---

struct LoggedModelInfo {
  std::string model_id, experiment_id, name;
  std::int64_t creation_timestamp_ms = 0, last_updated_timestamp_ms = 0;
  std::string artifact_uri, status, model_type, source_run_id, status_message;
  std::vector<KeyValue> tags{};

  static constexpr auto fields() {
    return record<LoggedModelInfo>(
        field("model_id", &LoggedModelInfo::model_id, "its id"),
        field("experiment_id", &LoggedModelInfo::experiment_id, "its experiment"),
        field("name", &LoggedModelInfo::name, "its name"),
        field("creation_timestamp_ms", &LoggedModelInfo::creation_timestamp_ms,
              "milliseconds since 1970"),
        field("last_updated_timestamp_ms", &LoggedModelInfo::last_updated_timestamp_ms,
              "milliseconds since 1970"),
        field("artifact_uri", &LoggedModelInfo::artifact_uri, "the folder of its files"),
        field("status", &LoggedModelInfo::status, "as MLflow names it"),
        field("model_type", &LoggedModelInfo::model_type, "as its client names it"),
        field("source_run_id", &LoggedModelInfo::source_run_id, "the run that made it"),
        field("status_message", &LoggedModelInfo::status_message, "always empty"),
        field("tags", &LoggedModelInfo::tags, "its tags"));
  }
};

struct LoggedModelData {
  std::vector<KeyValue> params{};

  static constexpr auto fields() {
    return record<LoggedModelData>(field("params", &LoggedModelData::params, "its parameters"));
  }
};

struct LoggedModel {
  LoggedModelInfo info;
  LoggedModelData data;

  static constexpr auto fields() {
    return record<LoggedModel>(field("info", &LoggedModel::info, "what it is"),
                               field("data", &LoggedModel::data, "its parameters"));
  }
};

struct CreateLoggedModel {
  std::string experiment_id;
  std::string name{}, model_type{}, source_run_id{};
  std::vector<KeyValue> params{}, tags{};

  static constexpr auto fields() {
    return record<CreateLoggedModel>(
        required(field("experiment_id", &CreateLoggedModel::experiment_id, "its experiment")),
        field("name", &CreateLoggedModel::name, "empty: one is made"),
        field("model_type", &CreateLoggedModel::model_type, "as the client names it"),
        field("source_run_id", &CreateLoggedModel::source_run_id, "empty: a run is made"),
        field("params", &CreateLoggedModel::params, "at most 100"),
        field("tags", &CreateLoggedModel::tags, "at most 100"));
  }
};

// A change of a logged model: its status, parameters or tags.
struct ChangeLoggedModel {
  std::string status{};
  std::vector<KeyValue> params{}, tags{};

  static constexpr auto fields() {
    return record<ChangeLoggedModel>(field("status", &ChangeLoggedModel::status, "of its upload"),
                                     field("params", &ChangeLoggedModel::params, "more of them"),
                                     field("tags", &ChangeLoggedModel::tags, "new values"));
  }
};

struct ModelOrder {
  std::string field_name;
  bool ascending = true;

  static constexpr auto fields() {
    return record<ModelOrder>(required(field("field_name", &ModelOrder::field_name, "a column")),
                              field("ascending", &ModelOrder::ascending, "the least first"));
  }
};

struct SearchLoggedModels {
  std::vector<std::string> experiment_ids{};
  std::string filter{};
  std::optional<WireInteger> max_results{};
  std::vector<ModelOrder> order_by{};
  std::string page_token{};

  static constexpr auto fields() {
    return record<SearchLoggedModels>(
        field("experiment_ids", &SearchLoggedModels::experiment_ids, "their experiments"),
        field("filter", &SearchLoggedModels::filter, "in MLflow's language"),
        field("max_results", &SearchLoggedModels::max_results, "at most so many"),
        field("order_by", &SearchLoggedModels::order_by, "columns"),
        field("page_token", &SearchLoggedModels::page_token, "of the last answer"));
  }
};

// --- What a run reads and makes ---

// The part of a data set that Lockstep reads; the whole is kept.
struct DatasetName {
  std::string name, digest{};

  static constexpr auto fields() {
    return record<DatasetName>(required(field("name", &DatasetName::name, "its name")),
                               field("digest", &DatasetName::digest, "of its content"));
  }
};

struct DatasetInput {
  DatasetName dataset;

  static constexpr auto fields() {
    return record<DatasetInput>(required(field("dataset", &DatasetInput::dataset, "a data set")));
  }
};

struct ModelLink {
  std::string model_id;
  WireInteger step{};

  static constexpr auto fields() {
    return record<ModelLink>(required(field("model_id", &ModelLink::model_id, "a logged model")),
                             field("step", &ModelLink::step, "of the run"));
  }
};

struct LogLinks {
  std::vector<Json> datasets{};
  std::vector<ModelLink> models{};

  static constexpr auto fields() {
    return record<LogLinks>(field("datasets", &LogLinks::datasets, "what a run reads"),
                            field("models", &LogLinks::models, "what it reads, or makes"));
  }
};

}  // namespace lockstep::mlflow
