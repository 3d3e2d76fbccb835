// Handlers: what each route does. They answer at once, or leave the answer to Waiting.
#pragma once

#include "net/http_server.h"
#include "platform/server/ask.h"
#include "platform/server/flight_desk.h"
#include "platform/server/server.h"
#include "platform/server/unfinished_lines.h"
#include "platform/server/views.h"
#include "platform/server/waiting.h"

namespace lockstep {

class Handlers {
 public:
  using Handler = void (Handlers::*)(const HttpRequest&, std::vector<std::string> words, Responder);
  // Null only for a route that nobody wrote a handler for.
  static Handler of(const api::Route& route);

  Handlers(const ServerSetup& setup, Waiting& waiting)
      : setup_(setup),
        waiting_(waiting),
        flight_(setup.controller.state(), setup.home.folder, setup.clock) {}

  // Known once the server listens.
  void listens_at(int port) { port_ = port; }

 private:
  // Reads the call by its declaration and gives it to the method, which either returns the answer
  // or keeps the Reply that it is given.
  template <const auto& kRoute, auto kMethod>
  void handle(const HttpRequest& request, std::vector<std::string> words, Responder responder);

  Result<api::Health> health(const Ask<api::kHealth>& ask);
  Result<Json> openapi(const Ask<api::kOpenapi>& ask);
  Result<api::Version> version(const Ask<api::kVersion>& ask);
  Result<Map> map(const Ask<api::kMap>& ask);
  Result<api::RunView> submit(const Ask<api::kSubmit>& ask);
  Result<api::RunList> runs(const Ask<api::kRuns>& ask);
  Result<api::RunView> stop(const Ask<api::kStop>& ask);
  Result<api::RunView> resume(const Ask<api::kResume>& ask);
  Result<api::RunView> hold(const Ask<api::kHold>& ask);
  Result<api::RunView> release(const Ask<api::kRelease>& ask);
  Result<api::RunView> priority(const Ask<api::kPriority>& ask);
  Result<api::QueueView> queue(const Ask<api::kQueue>& ask);
  Result<api::PlanView> plan(const Ask<api::kPlan>& ask);
  Result<api::HostList> list_hosts(const Ask<api::kHosts>& ask);
  Result<api::HostList> set_host(const Ask<api::kSetHost>& ask);
  Result<api::LimitList> limits(const Ask<api::kLimits>& ask);
  Result<api::LimitList> set_limit(const Ask<api::kSetLimit>& ask);
  Result<api::OrphanList> orphans(const Ask<api::kOrphans>& ask);
  Result<api::OrphanList> stop_orphan(const Ask<api::kStopOrphan>& ask);
  Result<api::RunView> adopt_orphan(const Ask<api::kAdoptOrphan>& ask);
  Result<api::SeriesList> metrics(const Ask<api::kMetrics>& ask);
  Result<void> run(const Ask<api::kRun>& ask, const Reply<api::RunView>& reply);
  Result<void> logs(const Ask<api::kLogs>& ask, const Reply<api::LogPage>& reply);
  Result<void> flight(const Ask<api::kFlight>& ask, const Reply<api::FlightView>& reply);
  Result<void> heartbeat(const Ask<api::kHeartbeat>& ask, const Reply<api::HeartbeatAnswer>& reply);

  std::vector<std::string> troubles() const;
  const State& state() const { return setup_.controller.state(); }
  Result<const Run*> find_run(const RunId& id) const;
  Result<api::RunView> view(const RunId& id);
  std::vector<const Run*> find_runs(const api::RunsQuery& query) const;
  Result<Node> newest_node(const RunId& run, int index) const;
  bool wants_flight(const NodeName& node);
  Result<std::int64_t> keep_items(const NodeName& node, const api::Heartbeat& heartbeat);

  const ServerSetup& setup_;  // the server's
  Waiting& waiting_;          // the server's
  FlightDesk flight_;
  UnfinishedLines unfinished_;
  int port_ = 0;
};

}  // namespace lockstep
