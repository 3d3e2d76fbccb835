// RunCalls: the handlers of the routes about runs: to start, list, watch and control them.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "platform/api/routes.h"
#include "platform/server/calls/call_context.h"
#include "platform/server/long_polls.h"
#include "platform/server/people/secret_calls.h"
#include "platform/server/route_call.h"

namespace lockstep::server {

class RunCalls {
 public:
  // All outlive this.
  RunCalls(const CallContext& context, const SecretCalls& secrets, LongPolls& long_polls)
      : context_(context), secrets_(secrets), long_polls_(long_polls) {}

  Result<api::RunView> submit(const RouteCall<api::kSubmit>& call);
  Result<api::RunView> fork(const RouteCall<api::kFork>& call);
  Result<api::ExternalNode> attach_external_node(const RouteCall<api::kExternalNode>& call);
  Result<api::RunList> runs(const RouteCall<api::kRuns>& call);
  Result<void> run(const RouteCall<api::kRun>& call, const Reply<api::RunView>& reply);
  Result<api::RunView> stop(const RouteCall<api::kStop>& call);
  Result<api::RunView> resume(const RouteCall<api::kResume>& call);
  Result<api::RemovedRun> remove(const RouteCall<api::kRemove>& call);
  Result<api::RunView> hold(const RouteCall<api::kHold>& call);
  Result<api::RunView> release(const RouteCall<api::kRelease>& call);
  Result<api::RunView> priority(const RouteCall<api::kPriority>& call);
  Result<api::RunView> extend(const RouteCall<api::kExtend>& call);
  Result<api::RunView> annotate(const RouteCall<api::kAnnotate>& call);
  Result<api::QueueView> queue(const RouteCall<api::kQueue>& call);
  Result<api::PlanView> plan(const RouteCall<api::kPlan>& call);
  Result<api::UploadAnswer> upload(const RouteCall<api::kUpload>& call);
  Result<api::UploadStored> upload_parts(const RouteCall<api::kUploadParts>& call);

 private:
  // The runs of a list, with the place of its rest and, if they are sorted, their values.
  struct FoundRuns {
    std::vector<model::Run> runs{};
    std::optional<std::string> next{};
    std::vector<double> values{};
    std::vector<std::string> sorted{};
    std::vector<api::RunGroup> groups{};
  };

  Result<FoundRuns> newest_runs(const api::RunsQuery& query, model::RunFilter filter);
  Result<FoundRuns> sorted_runs(const api::RunsQuery& query, const model::RunFilter& filter);
  Result<FoundRuns> queried_runs(const Principal& caller, const api::RunsQuery& query);
  Result<FoundRuns> found_runs(const Principal& caller, const api::RunsQuery& query);
  // Their rows by id: their attempts and nodes stay in the store.
  Result<std::map<model::RunId, model::Run>> rows_of(std::vector<model::RunId> runs);
  // The request as the caller's own, in a project where it may start runs.
  Result<api::SubmitRequest> submission(const Principal& caller, api::SubmitRequest request) const;
  model::ProjectKind kind_of_project(const std::string& name) const;

  // Submits the caller's own request.
  Result<api::RunView> start(const Principal& caller, const api::SubmitRequest& request,
                             const model::AuditRecord& record);

  const CallContext& context_;
  const SecretCalls& secrets_;
  LongPolls& long_polls_;
};

// Code::invalid: this daemon takes no uploaded folders.
Result<UploadStore*> uploads_of(const CallContext& context);

}  // namespace lockstep::server
