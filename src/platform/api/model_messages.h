// Messages about models and their versions; see messages.h.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/units.h"
#include "text/record.h"

namespace lockstep::api {

struct ModelVersionView {
  std::string project;
  std::string model;
  std::int64_t version = 0;
  std::optional<std::string> run{};
  std::optional<std::int64_t> step{};
  std::string path{};
  std::string source{};
  std::string git_commit{};
  bool git_dirty = false;
  std::string data_set{};
  std::string user{};
  std::string description{};
  std::map<std::string, std::string> tags{};
  std::vector<std::string> aliases{};
  Time created{};

  static constexpr auto fields() {
    return record<ModelVersionView>(
        field("project", &ModelVersionView::project, "the project of the model"),
        field("model", &ModelVersionView::model, "the model's name"),
        field("version", &ModelVersionView::version, "its number in the model"),
        field("run", &ModelVersionView::run, "the run that made it; null: not known"),
        field("step", &ModelVersionView::step, "of its checkpoint; null: it is none"),
        field("path", &ModelVersionView::path,
              "the folder of the checkpoint, or the path of the artifact in its run"),
        field("source", &ModelVersionView::source, "as an MLflow client named it; empty: none did"),
        field("git_commit", &ModelVersionView::git_commit, "of the run's working folder"),
        field("git_dirty", &ModelVersionView::git_dirty, "that folder had uncommitted changes"),
        field("data_set", &ModelVersionView::data_set, "with which it was trained; empty: unknown"),
        field("user", &ModelVersionView::user, "the user that registered it"),
        field("description", &ModelVersionView::description, "a text of its users"),
        field("tags", &ModelVersionView::tags, "of its users"),
        field("aliases", &ModelVersionView::aliases, "that stand for this version"),
        field("created", &ModelVersionView::created, "when it was registered"));
  }
};

struct ModelView {
  std::string project;
  std::string name;
  std::string user{};
  std::string description{};
  std::map<std::string, std::string> tags{};
  std::map<std::string, std::int64_t> aliases{};
  std::int64_t last_version = 0;
  Time created{};
  Time updated{};
  std::vector<ModelVersionView> versions{};
  bool more = false;

  static constexpr auto fields() {
    return record<ModelView>(
        field("project", &ModelView::project, "its project"),
        field("name", &ModelView::name, "its name"),
        field("user", &ModelView::user, "the user that made it"),
        field("description", &ModelView::description, "a text of its users"),
        field("tags", &ModelView::tags, "of its users"),
        field("aliases", &ModelView::aliases, "each with the version for which it stands"),
        field("last_version", &ModelView::last_version, "the newest version, maybe a removed one"),
        field("created", &ModelView::created, "when it was made"),
        field("updated", &ModelView::updated, "when it, or a version of it, last changed"),
        field("versions", &ModelView::versions, "newest first; empty in lists"),
        field("more", &ModelView::more, "there are older versions"));
  }
};

struct ModelList {
  std::vector<ModelView> models;
  bool more = false;

  static constexpr auto fields() {
    return record<ModelList>(
        field("models", &ModelList::models, "by project and name"),
        field("more", &ModelList::more, "there are more than the query asked for"));
  }
};

struct ModelsQuery {
  std::optional<std::string> project{};
  int limit = 100;

  static constexpr auto fields() {
    return record<ModelsQuery>(
        field("project", &ModelsQuery::project, "only of this project; absent: of all"),
        between(1, 1000, field("limit", &ModelsQuery::limit, "at most so many models")));
  }
};

struct ModelQuery {
  std::optional<std::int64_t> version{};
  std::optional<std::string> alias{};
  int limit = 100;

  static constexpr auto fields() {
    return record<ModelQuery>(
        field("version", &ModelQuery::version, "only this version; absent: all"),
        field("alias", &ModelQuery::alias, "only the version for which this alias stands"),
        between(1, 1000, field("limit", &ModelQuery::limit, "at most so many versions")));
  }
};

struct RegisterModelRequest {
  std::string run;
  std::optional<std::int64_t> step{};
  std::optional<std::string> artifact{};
  std::optional<std::int64_t> version{};
  std::optional<std::string> data_set{};
  std::optional<std::string> description{};

  static constexpr auto fields() {
    return record<RegisterModelRequest>(
        required(
            field("run", &RegisterModelRequest::run, "the run of the project, such as demo/42")),
        field("step", &RegisterModelRequest::step,
              "of the checkpoint; absent, without an artifact: the newest one"),
        field("artifact", &RegisterModelRequest::artifact,
              "the path of an artifact of the run, or of a folder of them"),
        field("version", &RegisterModelRequest::version,
              "the version's number, above all used ones; absent: the next, or the version that "
              "this source has already"),
        field("data_set", &RegisterModelRequest::data_set,
              "with which it was trained; absent: as the run's tags or MLflow inputs name it"),
        field("description", &RegisterModelRequest::description, "a text"));
  }
};

struct ModelAliasRequest {
  std::string alias;
  std::optional<std::int64_t> version{};

  static constexpr auto fields() {
    return record<ModelAliasRequest>(
        required(field("alias", &ModelAliasRequest::alias, "such as production")),
        field("version", &ModelAliasRequest::version,
              "for which it stands from now on; null: the alias is removed"));
  }
};

struct RemoveModelRequest {
  std::optional<std::int64_t> version{};

  static constexpr auto fields() {
    return record<RemoveModelRequest>(
        field("version", &RemoveModelRequest::version, "null: the model with all its versions"));
  }
};

struct RemovedModel {
  std::string project, model;
  std::int64_t versions = 0;

  static constexpr auto fields() {
    return record<RemovedModel>(
        field("project", &RemovedModel::project, "the project of the model"),
        field("model", &RemovedModel::model, "the model's name"),
        field("versions", &RemovedModel::versions, "how many versions were removed"));
  }
};

}  // namespace lockstep::api
