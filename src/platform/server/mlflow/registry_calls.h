// RegistryCalls: MLflow's calls of registered models and their versions, over the registry of
// Lockstep (docs/design/registry.md). A model's project is the caller's default one.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "base/result.h"
#include "platform/registry/registry.h"
#include "platform/server/mlflow/access.h"
#include "platform/server/mlflow/model_messages.h"
#include "platform/server/mlflow/model_tables.h"
#include "text/json.h"

namespace lockstep::mlflow {

class RegistryCalls {
 public:
  // Both outlive this.
  RegistryCalls(const Setup& setup, Access& access)
      : access_(access), registry_(setup.database), tables_(setup.database) {}

  // `what` is "registered-models/create". None: there is no such call.
  std::optional<Result<Json>> handle(std::string_view method, std::string_view what,
                                     const Json& body, const Caller& caller);

 private:
  using Answer = Result<Json>;
  struct Call {
    const Caller& caller;
    ModelRequest request;
    std::string project;
  };
  using Method = Answer (RegistryCalls::*)(const Call&);
  static Method method_for(std::string_view method, std::string_view what);

  Answer create_model(const Call& call);
  Answer get_model(const Call& call);
  Answer update_model(const Call& call);
  Answer rename_model(const Call& call);
  Answer delete_model(const Call& call);
  Answer search_models(const Call& call);
  Answer latest_versions(const Call& call);
  Answer set_model_tag(const Call& call);
  Answer delete_model_tag(const Call& call);
  Answer set_alias(const Call& call);
  Answer delete_alias(const Call& call);
  Answer get_by_alias(const Call& call);
  Answer create_version(const Call& call);
  Answer get_version(const Call& call);
  Answer update_version(const Call& call);
  Answer delete_version(const Call& call);
  Answer search_versions(const Call& call);
  Answer download_uri(const Call& call);
  Answer set_stage(const Call& call);
  Answer set_version_tag(const Call& call);
  Answer delete_version_tag(const Call& call);

  Result<void> check_may_change(const Call& call) const;
  Result<registry::Model> model_of(const Call& call);
  Result<registry::Version> version_of(const Call& call);
  Result<void> find_source(const Call& call, registry::Version& version);
  Answer model_answer(const registry::ModelName& id);
  Answer version_answer(const registry::Version& version);
  Result<void> save(const Call& call, const registry::Model& model, std::string_view action);
  Result<void> save(const Call& call, const registry::Version& version, std::string_view action,
                    std::string after);

  Access& access_;
  registry::Registry registry_;
  ModelTables tables_;
};

}  // namespace lockstep::mlflow
