// AgentCalls: the handlers of the routes of agents and of host services.
#pragma once

#include "base/result.h"
#include "platform/api/routes.h"
#include "platform/server/agent_polls.h"
#include "platform/server/calls/call_context.h"
#include "platform/server/calls/rank_records.h"
#include "platform/server/events/event_hub.h"
#include "platform/server/heartbeat_batch.h"
#include "platform/server/heartbeat_pace.h"
#include "platform/server/host_calls.h"
#include "platform/server/long_polls.h"
#include "platform/server/route_call.h"
#include "platform/server/shell/shell_calls.h"
#include "platform/server/streams/stream_broker.h"

namespace lockstep::server {

class AgentCalls {
 public:
  // All outlive this.
  AgentCalls(net::Loop& loop, const CallContext& context, RankRecords& records,
             LongPolls& long_polls, AgentPolls& agent_polls, HostCalls& host_calls,
             ShellCalls& shells, StreamBroker& streams, FindingWatch& findings, EventHub& events)
      : context_(context),
        records_(records),
        long_polls_(long_polls),
        agent_polls_(agent_polls),
        host_calls_(host_calls),
        shells_(shells),
        streams_(streams),
        findings_(findings),
        events_(events),
        batch_(loop, context.controller(), context.insight(), findings,
               [this](const HeartbeatCall& call, std::int64_t acknowledged) {
                 answer_heartbeat(call, acknowledged);
               }) {}

  // Stores the heartbeats that have come.
  void flush() { batch_.flush(); }

  Result<void> heartbeat(const RouteCall<api::kHeartbeat>& call,
                         const Reply<api::HeartbeatAnswer>& reply);
  Result<model::UploadManifest> node_upload(const RouteCall<api::kNodeUpload>& call);
  Result<api::UploadParts> node_files(const RouteCall<api::kNodeFiles>& call);
  Result<void> node_checkpoint(const RouteCall<api::kNodeCheckpoint>& call,
                               const Reply<api::NodeCheckpoint>& reply);
  Result<void> node_checkpoint_part(const RouteCall<api::kNodeCheckpointPart>& call,
                                    const Reply<api::CheckpointPart>& reply);
  Result<api::JoinAnswer> join_host(const RouteCall<api::kJoinHost>& call);
  Result<void> host_report(const RouteCall<api::kHostReport>& call,
                           const Reply<api::ServiceOrders>& reply);
  Result<api::CollectAnswer> collect(const RouteCall<api::kCollect>& call);
  Result<api::RunFolders> kept_files(const RouteCall<api::kKeptFiles>& call);
  Result<api::HostFilesTaken> host_files(const RouteCall<api::kHostFiles>& call);

 private:
  void answer_heartbeat(const HeartbeatCall& call, std::int64_t acknowledged);
  void tell_readers(const model::RunId& run, const api::Heartbeat& heartbeat, bool has_lines);
  void store_records(const model::NodeId& node, const api::Heartbeat& heartbeat);
  bool is_flight_wanted(const model::NodeName& node);
  std::optional<api::ProfileOrder> profile_order(const model::NodeName& node) const;
  Result<const model::Run*> find_run_of_agent(const std::vector<std::string>& path_parameters,
                                              const api::HeartbeatQuery& query) const;

  const CallContext& context_;
  RankRecords& records_;
  LongPolls& long_polls_;
  AgentPolls& agent_polls_;
  HostCalls& host_calls_;
  ShellCalls& shells_;
  StreamBroker& streams_;
  FindingWatch& findings_;
  EventHub& events_;
  HeartbeatBatch batch_;
  HeartbeatPace pace_{};
};

}  // namespace lockstep::server
