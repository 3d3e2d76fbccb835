// RouteHandlers: one handler for each route. They answer at once, or leave the answer to LongPolls.
#pragma once

#include "net/http/http_server.h"
#include "net/loop_lag.h"
#include "platform/server/calls/agent_calls.h"
#include "platform/server/calls/budget_calls.h"
#include "platform/server/calls/call_context.h"
#include "platform/server/calls/insight_calls.h"
#include "platform/server/calls/operator_calls.h"
#include "platform/server/calls/rank_records.h"
#include "platform/server/calls/run_calls.h"
#include "platform/server/documents/document_calls.h"
#include "platform/server/events/event_hub.h"
#include "platform/server/findings/finding_calls.h"
#include "platform/server/login/login_calls.h"
#include "platform/server/notices/notice_calls.h"
#include "platform/server/people/people_calls.h"
#include "platform/server/people/secret_calls.h"
#include "platform/server/principal.h"
#include "platform/server/route_call.h"
#include "platform/server/server.h"
#include "platform/server/shell/shell_calls.h"
#include "platform/server/streams/stream_broker.h"

namespace lockstep::server {

class RouteHandlers {
 public:
  using Handler = void (RouteHandlers::*)(const net::HttpRequest&, Principal caller,
                                          std::vector<std::string> path_parameters, net::Responder);
  // Null only for a route without a handler.
  static Handler handler_for(const api::Route& route);

  RouteHandlers(net::Loop& loop, const ServerSetup& setup, Accounts& accounts, LongPolls& waiting,
                AgentPolls& agents, HostCalls& host_calls, StreamBroker& streams, EventHub& events)
      : setup_(setup),
        accounts_(accounts),
        lag_(loop),
        context_(setup, accounts, lag_),
        records_{.flight = {context_.state(), node_home_of(setup), setup.clock},
                 .profiles = {context_.state(), node_home_of(setup), setup.clock}},
        people_(accounts, setup.controller.state(), setup.clock),
        secrets_(accounts, setup.keys, setup.clock),
        login_(loop, setup.oidc, setup.tls.has_value(), accounts, setup.keys,
               setup.controller.state(), setup.clock),
        runs_(context_, secrets_, waiting),
        insight_(context_, records_, waiting, agents, events),
        operators_(context_, host_calls),
        budgets_(context_),
        notices_(loop, context_),
        shells_(loop, context_, agents),
        findings_(context_),
        documents_(context_),
        agents_(loop, context_, records_, waiting, agents, host_calls, shells_, streams,
                findings_.watch(), events),
        streams_(streams),
        events_(events) {}

  // Known once the server listens.
  void set_port(int port) { port_ = port; }
  BrowserLogin& browser() { return login_.browser(); }
  const CallContext& context() const { return context_; }
  const net::LoopLag& lag() const { return lag_; }
  // Ends deliveries of notices.
  void finish() { notices_.outbox().finish(); }
  // Stores the calls of agents that have come.
  void flush() { agents_.flush(); }

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
  Result<std::string> proof(const api::HealthQuery& query) const;
  Result<std::string> token_named_by(const api::HealthQuery& query) const;
  // A right may be missing that only the body asks for.
  void record_refusal(const api::Route& route, const Principal& caller,
                      const std::vector<std::string>& path_parameters, const Error& error);

  const ServerSetup& setup_;  // owned by the server
  Accounts& accounts_;        // owned by the server
  net::LoopLag lag_;
  const CallContext context_;
  RankRecords records_;
  PeopleCalls people_;
  SecretCalls secrets_;
  LoginCalls login_;
  RunCalls runs_;
  InsightCalls insight_;
  OperatorCalls operators_;
  BudgetCalls budgets_;
  NoticeCalls notices_;
  ShellCalls shells_;
  FindingCalls findings_;
  DocumentCalls documents_;
  AgentCalls agents_;
  StreamBroker& streams_;  // owned by the server
  EventHub& events_;       // owned by the server
  int port_ = 0;
};

}  // namespace lockstep::server
