// ModelCalls: the handlers of the routes about models and their versions (docs/design/registry.md).
#pragma once

#include <string>
#include <vector>

#include "base/result.h"
#include "platform/api/routes.h"
#include "platform/registry/registry.h"
#include "platform/server/calls/call_context.h"
#include "platform/server/route_call.h"

namespace lockstep::server {

class ModelCalls {
 public:
  // The context outlives this.
  explicit ModelCalls(const CallContext& context)
      : context_(context), registry_(context.setup().database) {}

  Result<api::ModelList> list(const RouteCall<api::kModels>& call);
  Result<api::ModelView> show(const RouteCall<api::kModel>& call);
  Result<api::ModelVersionView> add(const RouteCall<api::kRegisterModel>& call);
  Result<api::ModelView> set_alias(const RouteCall<api::kModelAlias>& call);
  Result<api::RemovedModel> remove(const RouteCall<api::kRemoveModel>& call);

 private:
  // The version that is asked for, with what is known of its run.
  Result<registry::Version> version_of(const RouteCall<api::kRegisterModel>& call) const;
  // The checkpoint, or the artifact, that is asked for.
  Result<void> find_source(const api::RegisterModelRequest& request,
                           registry::Version& version) const;
  Result<std::string> data_set_of(const model::Run& run) const;
  Result<void> check_may_remove(const Principal& caller, const std::string& project,
                                const std::string& user) const;

  const CallContext& context_;
  registry::Registry registry_;
};

// An error if a version of a model is of this run.
Result<void> check_no_models(registry::Registry registry, const model::RunId& run);

}  // namespace lockstep::server
