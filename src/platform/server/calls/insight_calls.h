// InsightCalls: the handlers of the routes that show what the ranks of a run do: lines, metrics,
// collectives and traces.
#pragma once

#include <vector>

#include "base/result.h"
#include "platform/api/routes.h"
#include "platform/server/agent_polls.h"
#include "platform/server/calls/call_context.h"
#include "platform/server/calls/rank_records.h"
#include "platform/server/events/event_hub.h"
#include "platform/server/long_polls.h"
#include "platform/server/route_call.h"

namespace lockstep::server {

class InsightCalls {
 public:
  // All outlive this.
  InsightCalls(const CallContext& context, RankRecords& records, LongPolls& long_polls,
               AgentPolls& agent_polls, EventHub& events)
      : context_(context),
        records_(records),
        long_polls_(long_polls),
        agent_polls_(agent_polls),
        events_(events) {}

  Result<void> logs(const RouteCall<api::kLogs>& call, const Reply<api::LogPage>& reply);
  Result<api::LogMatches> search_logs(const RouteCall<api::kSearchLogs>& call);
  Result<api::SeriesList> metrics(const RouteCall<api::kMetrics>& call);
  Result<api::PointsAnswer> add_points(const RouteCall<api::kAddPoints>& call);
  Result<api::CurveList> curves(const RouteCall<api::kCurves>& call);
  Result<void> flight(const RouteCall<api::kFlight>& call, const Reply<api::FlightView>& reply);
  Result<api::ProfileView> profile(const RouteCall<api::kProfile>& call);
  Result<void> profile_state(const RouteCall<api::kProfileState>& call,
                             const Reply<api::ProfileView>& reply);
  Result<api::TracePart> trace(const RouteCall<api::kTrace>& call);

 private:
  // The runs of a query, and whether more match.
  struct CurveRuns {
    std::vector<model::RunId> runs{};
    bool more = false;
  };
  Result<CurveRuns> runs_of(const Principal& caller, const api::CurvesQuery& query) const;
  Result<CurveRuns> queried_runs(const Principal& caller, const api::RunsQuery& query) const;
  Result<model::Node> newest_node(const model::RunId& run, int index) const;

  const CallContext& context_;
  RankRecords& records_;
  LongPolls& long_polls_;
  AgentPolls& agent_polls_;
  EventHub& events_;
};

}  // namespace lockstep::server
