// RouteHandlers: one handler for each route. They answer at once, or leave the answer to LongPolls.
#pragma once

#include "net/http/http_server.h"
#include "net/loop_lag.h"
#include "platform/server/agent_polls.h"
#include "platform/server/flight_record_cache.h"
#include "platform/server/heartbeat_batch.h"
#include "platform/server/heartbeat_pace.h"
#include "platform/server/host_calls.h"
#include "platform/server/login/login_calls.h"
#include "platform/server/long_polls.h"
#include "platform/server/people/people_calls.h"
#include "platform/server/people/reader.h"
#include "platform/server/people/secret_calls.h"
#include "platform/server/principal.h"
#include "platform/server/profile_requests.h"
#include "platform/server/route_call.h"
#include "platform/server/server.h"
#include "platform/server/unfinished_lines.h"
#include "platform/server/views.h"

namespace lockstep::server {

inline const std::filesystem::path& node_home_of(const ServerSetup& setup) {
  return setup.node_home.empty() ? setup.home.folder : setup.node_home;
}

class RouteHandlers {
 public:
  using Handler = void (RouteHandlers::*)(const net::HttpRequest&, Principal caller,
                                          std::vector<std::string> path_parameters, net::Responder);
  // Null only for a route without a handler.
  static Handler handler_for(const api::Route& route);

  RouteHandlers(net::Loop& loop, const ServerSetup& setup, Accounts& accounts, LongPolls& waiting,
                AgentPolls& agents, HostCalls& host_calls)
      : setup_(setup),
        accounts_(accounts),
        people_(accounts, setup.controller.state(), setup.clock),
        secrets_(accounts, setup.keys, setup.clock),
        login_(loop, setup.oidc, setup.tls.has_value(), accounts, setup.controller.state(),
               setup.clock),
        long_polls_(waiting),
        agent_polls_(agents),
        host_calls_(host_calls),
        batch_(loop, setup.controller, setup.insight,
               [this](const HeartbeatCall& call, std::int64_t acknowledged) {
                 answer_heartbeat(call, acknowledged);
               }),
        lag_(loop),
        flight_records_(setup.controller.state(), node_home_of(setup), setup.clock),
        profiles_(setup.controller.state(), node_home_of(setup), setup.clock) {}

  // Known once the server listens.
  void set_port(int port) { port_ = port; }
  BrowserLogin& browser() { return login_.browser(); }
  // Stores the calls of agents that have come.
  void flush() { batch_.flush(); }

 private:
  // The object whose methods handle calls: this, or a part of it.
  template <class Class>
  Class& part();
  // Parses the call by its declaration and passes it to the method of one of them, which either
  // returns the answer or keeps the Reply.
  template <const auto& kRoute, auto kMethod>
  auto invoke(const RouteCall<kRoute>& call,
              const Reply<typename RouteCall<kRoute>::Route::Answer>& reply);
  template <const auto& kRoute, auto kMethod>
  void handle(const net::HttpRequest& request, Principal caller,
              std::vector<std::string> path_parameters, net::Responder responder);

  Result<api::Health> health(const RouteCall<api::kHealth>& call);
  Result<Json> openapi(const RouteCall<api::kOpenapi>& call);
  Result<api::Version> version(const RouteCall<api::kVersion>& call);
  Result<map::ClusterMap> map(const RouteCall<api::kMap>& call);
  Result<map::ClusterMap> set_measured(const RouteCall<api::kSetMeasured>& call);
  Result<api::RunView> submit(const RouteCall<api::kSubmit>& call);
  Result<api::ExternalNode> attach_external_node(const RouteCall<api::kExternalNode>& call);
  Result<api::RunList> runs(const RouteCall<api::kRuns>& call);
  Result<api::RunView> stop(const RouteCall<api::kStop>& call);
  Result<api::RunView> resume(const RouteCall<api::kResume>& call);
  Result<api::RemovedRun> remove(const RouteCall<api::kRemove>& call);
  Result<api::RunView> hold(const RouteCall<api::kHold>& call);
  Result<api::RunView> release(const RouteCall<api::kRelease>& call);
  Result<api::RunView> priority(const RouteCall<api::kPriority>& call);
  Result<api::QueueView> queue(const RouteCall<api::kQueue>& call);
  Result<api::PlanView> plan(const RouteCall<api::kPlan>& call);
  Result<api::HostList> list_hosts(const RouteCall<api::kHosts>& call);
  Result<api::HostList> set_host(const RouteCall<api::kSetHost>& call);
  Result<api::LimitList> limits(const RouteCall<api::kLimits>& call);
  Result<api::LimitList> set_limit(const RouteCall<api::kSetLimit>& call);
  Result<api::OrphanList> orphans(const RouteCall<api::kOrphans>& call);
  Result<api::OrphanList> stop_orphan(const RouteCall<api::kStopOrphan>& call);
  Result<api::RunView> adopt_orphan(const RouteCall<api::kAdoptOrphan>& call);
  Result<api::SeriesList> metrics(const RouteCall<api::kMetrics>& call);
  Result<api::JoinTokenAnswer> host_token(const RouteCall<api::kHostToken>& call);
  Result<api::JoinAnswer> join_host(const RouteCall<api::kJoinHost>& call);
  Result<api::HostList> remove_host(const RouteCall<api::kRemoveHost>& call);
  Result<api::HostList> declare_host_dead(const RouteCall<api::kHostDead>& call);
  Result<api::HostList> label_host(const RouteCall<api::kHostLabels>& call);
  Result<void> host_report(const RouteCall<api::kHostReport>& call,
                           const Reply<api::ServiceOrders>& reply);
  Result<api::CollectAnswer> collect(const RouteCall<api::kCollect>& call);
  Result<api::RunFolders> kept_files(const RouteCall<api::kKeptFiles>& call);
  Result<void> run(const RouteCall<api::kRun>& call, const Reply<api::RunView>& reply);
  Result<void> logs(const RouteCall<api::kLogs>& call, const Reply<api::LogPage>& reply);
  Result<void> flight(const RouteCall<api::kFlight>& call, const Reply<api::FlightView>& reply);
  Result<api::ProfileView> profile(const RouteCall<api::kProfile>& call);
  Result<void> profile_state(const RouteCall<api::kProfileState>& call,
                             const Reply<api::ProfileView>& reply);
  Result<api::TracePart> trace(const RouteCall<api::kTrace>& call);
  Result<void> heartbeat(const RouteCall<api::kHeartbeat>& call,
                         const Reply<api::HeartbeatAnswer>& reply);

  Result<api::UploadAnswer> upload(const RouteCall<api::kUpload>& call);
  Result<api::UploadStored> upload_parts(const RouteCall<api::kUploadParts>& call);
  Result<model::UploadManifest> node_upload(const RouteCall<api::kNodeUpload>& call);
  Result<api::UploadParts> node_files(const RouteCall<api::kNodeFiles>& call);

  Result<api::HostFilesTaken> host_files(const RouteCall<api::kHostFiles>& call);
  Result<void> node_checkpoint(const RouteCall<api::kNodeCheckpoint>& call,
                               const Reply<api::NodeCheckpoint>& reply);
  Result<void> node_checkpoint_part(const RouteCall<api::kNodeCheckpointPart>& call,
                                    const Reply<api::CheckpointPart>& reply);

  void answer_heartbeat(const HeartbeatCall& call, std::int64_t acknowledged);

  // A record of the call for the audit. Its target is of a project or, without one, of the cluster.
  struct Details {
    std::string target{}, project{}, before{}, after{};
  };
  template <const auto& kRoute>
  model::AuditRecord record(const RouteCall<kRoute>& call, Details details) const;
  // The same of a run, whose state it has as `before`.
  template <const auto& kRoute>
  model::AuditRecord run_record(const RouteCall<kRoute>& call, const model::RunId& run,
                                std::string after) const;
  Result<std::string> proof(const api::HealthQuery& query) const;
  Result<std::string> token_named_by(const api::HealthQuery& query) const;
  // The request as the caller's own, in a project where it may start runs.
  Result<api::SubmitRequest> submission(const Principal& caller, api::SubmitRequest request) const;
  // The result of a request that may be refused because of other runs, which the error names.
  template <class T>
  Result<T> limited(const Principal& caller, Result<T> result) const;
  // A right may be missing that only the body asks for.
  void record_refusal(const api::Route& route, const Principal& caller,
                      const std::vector<std::string>& path_parameters, const Error& error);
  std::vector<std::string> problems() const;
  const model::State& state() const { return setup_.controller.state(); }
  Result<const model::Run*> find_run(const model::RunId& id) const;
  // Without what the caller may not read.
  Result<api::RunView> view(const Principal& caller, const model::RunId& id);
  Result<api::RunView> brief_view(const Principal& caller, const model::RunId& id);
  template <class View>
  View limited(const Principal& caller, View view) const {
    Reader(accounts_.directory(), caller.bearer, state()).limit(view);
    return view;
  }
  Result<model::Node> newest_node(const model::RunId& run, int index) const;
  bool is_flight_wanted(const model::NodeName& node);
  std::optional<api::ProfileOrder> profile_order(const model::NodeName& node) const;
  Result<UploadStore*> uploads() const;
  Result<const model::Run*> find_run_of_agent(const std::vector<std::string>& path_parameters,
                                              const api::HeartbeatQuery& query) const;
  void store_records(const model::NodeId& node, const api::Heartbeat& heartbeat);

  const ServerSetup& setup_;  // owned by the server
  Accounts& accounts_;        // owned by the server
  PeopleCalls people_;
  SecretCalls secrets_;
  LoginCalls login_;
  LongPolls& long_polls_;    // owned by the server
  AgentPolls& agent_polls_;  // owned by the server
  HostCalls& host_calls_;    // owned by the server
  HeartbeatBatch batch_;
  HeartbeatPace pace_;
  net::LoopLag lag_;
  FlightRecordCache flight_records_;
  ProfileRequests profiles_;
  UnfinishedLines unfinished_;
  int port_ = 0;
};

}  // namespace lockstep::server
