// InsightCalls: the handlers of the routes that show what the ranks of a run do: lines, metrics,
// collectives and traces.
#pragma once

#include "base/result.h"
#include "platform/api/routes.h"
#include "platform/server/agent_polls.h"
#include "platform/server/calls/call_context.h"
#include "platform/server/calls/rank_records.h"
#include "platform/server/long_polls.h"
#include "platform/server/route_call.h"

namespace lockstep::server {

class InsightCalls {
 public:
  // All outlive this.
  InsightCalls(const CallContext& context, RankRecords& records, LongPolls& long_polls,
               AgentPolls& agent_polls)
      : context_(context), records_(records), long_polls_(long_polls), agent_polls_(agent_polls) {}

  Result<void> logs(const RouteCall<api::kLogs>& call, const Reply<api::LogPage>& reply);
  Result<api::LogMatches> search_logs(const RouteCall<api::kSearchLogs>& call);
  Result<api::SeriesList> metrics(const RouteCall<api::kMetrics>& call);
  Result<void> flight(const RouteCall<api::kFlight>& call, const Reply<api::FlightView>& reply);
  Result<api::ProfileView> profile(const RouteCall<api::kProfile>& call);
  Result<void> profile_state(const RouteCall<api::kProfileState>& call,
                             const Reply<api::ProfileView>& reply);
  Result<api::TracePart> trace(const RouteCall<api::kTrace>& call);

 private:
  Result<model::Node> newest_node(const model::RunId& run, int index) const;

  const CallContext& context_;
  RankRecords& records_;
  LongPolls& long_polls_;
  AgentPolls& agent_polls_;
};

}  // namespace lockstep::server
