#include "platform/server/server.h"

#include <functional>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "base/check.h"
#include "base/format.h"
#include "base/steady_clock.h"
#include "net/http/http_server.h"
#include "platform/api/error.h"
#include "platform/api/paths.h"
#include "platform/api/routes.h"
#include "platform/server/agent_polls.h"
#include "platform/server/events/event_hub.h"
#include "platform/server/host_calls.h"
#include "platform/server/long_polls.h"
#include "platform/server/metrics/metrics_page.h"
#include "platform/server/mlflow/mlflow_server.h"
#include "platform/server/page/page.h"
#include "platform/server/people/accounts.h"
#include "platform/server/people/gate.h"
#include "platform/server/principal.h"
#include "platform/server/route_handlers.h"
#include "platform/server/streams/stream_broker.h"

namespace lockstep::server {

namespace {

// An agent sends half a MiB of items at once, a little more if one item is large.
constexpr Bytes kBodyMax = 4_MiB;
constexpr int kConnectionsMax = 4096;
constexpr Duration kStopGrace = std::chrono::seconds(2);

struct RouteMatch {
  const api::Route* route = nullptr;
  std::vector<std::string> path_parameters;
  std::string other_methods;  // of the same path, if the method does not match
};

// HEAD is GET without the body, which the HTTP layer omits.
bool takes(const api::Route& route, std::string_view method) {
  return route.method == method || (route.method == "GET" && method == "HEAD");
}

RouteMatch match_route(const net::HttpRequest& request) {
  RouteMatch target;
  for (const api::Route* route : api::kRoutes) {
    if (!api::match_path(route->path, request.path, target.path_parameters)) continue;
    if (takes(*route, request.method)) {
      target.route = route;
      return target;
    }
    if (!target.other_methods.empty()) target.other_methods += ", ";
    target.other_methods += route->method == "GET" ? "GET, HEAD" : route->method;
  }
  return target;
}

// For the metrics: never the words of a caller.
std::pair<std::string_view, std::string_view> route_name_of(const net::HttpRequest& request) {
  if (MetricsPage::is_for(request)) return {kMetricsRoute.method, kMetricsRoute.path};
  if (BrowserLogin::is_for(request)) return {"GET", "/login"};
  if (mlflow::MlflowServer::is_for_artifacts(request))
    return {request.method == "GET" ? "GET" : "PUT", "/api/2.0/mlflow-artifacts"};
  if (mlflow::MlflowServer::is_for(request))
    return {request.method == "GET" ? "GET" : "POST", "/api/2.0/mlflow"};
  const RouteMatch match = match_route(request);
  if (match.route == nullptr) return {"other", "other"};
  return {match.route->method, match.route->path};
}

net::HttpResponse refusal_response(int status, std::string message) {
  net::HttpResponse response = error_response({api::code_of(status), std::move(message)});
  response.status = status;
  return response;
}

net::HttpResponse no_such_route(const net::HttpRequest& request, const RouteMatch& target) {
  if (target.other_methods.empty())
    return refusal_response(404, format("there is no {}", request.target));
  net::HttpResponse response =
      refusal_response(405, format("{} takes {}", request.target, target.other_methods));
  response.headers.add("Allow", target.other_methods);
  return response;
}

bool is_json(const net::HttpRequest& request) {
  const auto type = request.headers.find("Content-Type").value_or("");
  return net::equal_ignoring_case(type.substr(0, type.find(';')), "application/json");
}

// Checks the body's type and size, from the head alone.
std::optional<net::HttpResponse> check_body(const net::HttpRequest& request,
                                            const api::Route& route) {
  if (route.request.schema == nullptr) {
    if (!request.has_body) return std::nullopt;
    return refusal_response(400, format("{} {} takes no body", request.method, request.target));
  }
  if (!is_json(request)) return refusal_response(415, "the body must be application/json");
  if (request.headers.find("Content-Encoding"))
    return refusal_response(415, "the body must be sent as it is, without a Content-Encoding");
  return std::nullopt;
}

// For the gate: the handlers check the rights to each run.
constexpr api::TypedRoute<api::None, api::None, api::None> kMlflowRoute{
    "POST", "/api/2.0/mlflow",      api::Action::read_cluster, api::RouteErrors::none, "",
    "",     "MLflow's tracking API"};

std::variant<Principal, net::HttpResponse> admit_mlflow(Gate& gate,
                                                        const net::HttpRequest& request) {
  if (auto rank = gate.admit_rank(request)) return *std::move(rank);
  std::vector<std::string> none;
  auto admitted = gate.admit(request, kMlflowRoute, none);
  const auto* refused = std::get_if<net::HttpResponse>(&admitted);
  if (refused == nullptr) return admitted;
  return mlflow::refusal(refused->status,
                         "the call needs a token of this daemon: set MLFLOW_TRACKING_TOKEN");
}

std::optional<net::HttpResponse> check_mlflow_head(Gate& gate, const net::HttpRequest& request) {
  auto admitted = admit_mlflow(gate, request);
  if (auto* refused = std::get_if<net::HttpResponse>(&admitted)) return std::move(*refused);
  if (request.has_body && !is_json(request))
    return mlflow::refusal(415, "the body must be application/json");
  return std::nullopt;
}

// The page has each path that no route has.
bool is_of_page(const Page& page, const net::HttpRequest& request, const RouteMatch& target) {
  return target.route == nullptr && target.other_methods.empty() && page.takes(request);
}

// Refusals from the head alone.
std::optional<net::HttpResponse> check_request_head(Gate& gate, const Page& page,
                                                    const net::HttpRequest& request) {
  if (BrowserLogin::is_for(request)) return std::nullopt;
  if (MetricsPage::is_for(request)) return std::nullopt;
  if (mlflow::MlflowServer::is_for_artifacts(request)) return std::nullopt;  // open_artifacts()
  if (mlflow::MlflowServer::is_for(request)) return check_mlflow_head(gate, request);
  RouteMatch target = match_route(request);
  if (is_of_page(page, request, target)) return std::nullopt;
  if (target.route == nullptr) return no_such_route(request, target);
  auto admitted = gate.admit(request, *target.route, target.path_parameters);
  if (auto* refusal = std::get_if<net::HttpResponse>(&admitted)) return std::move(*refusal);
  return check_body(request, *target.route);
}

}  // namespace

struct Server::Impl {
  Impl(net::Loop& loop, ServerSetup setup_arg, std::unique_ptr<Accounts> accounts_arg)
      : setup(std::move(setup_arg)),
        accounts(std::move(accounts_arg)),
        gate(setup.keys, setup.controller, *accounts, setup.clock),
        page(setup.page),
        long_polls(std::make_shared<LongPolls>(loop)),
        agent_polls(std::make_shared<AgentPolls>(loop, setup.controller.state())),
        host_calls(loop, setup),
        streams(
            std::make_shared<StreamBroker>(loop, setup, *accounts, *agent_polls, setup.streams)),
        events(std::make_shared<EventHub>(loop, setup, *accounts)),
        artifacts(setup.database, setup.home.folder / "artifacts"),
        handlers(loop, setup, *accounts, artifacts, *long_polls, *agent_polls, host_calls, *streams,
                 *events),
        ended(std::make_shared<RunEnds>(setup.controller.state())),
        tracking(loop, {.controller = setup.controller,
                        .insight = setup.insight,
                        .database = setup.database,
                        .directory = accounts->directory(),
                        .clock = setup.clock,
                        .steady = steady,
                        .artifacts = artifacts}),
        metrics({handlers.context(), handlers.lag(), requests, *ended}) {}

  // The route or the file exists: check_request_head() accepted the request. Since then its token
  // may have been revoked, or the right taken away.
  void handle(const net::HttpRequest& request, net::Responder responder) {
    if (BrowserLogin::is_for(request))
      return handlers.browser().handle(request, std::move(responder));
    if (MetricsPage::is_for(request)) return responder.send(metrics_response(request));
    if (mlflow::MlflowServer::is_for(request)) return responder.send(mlflow_response(request));
    RouteMatch target = match_route(request);
    if (is_of_page(page, request, target)) return responder.send(page.answer(request));
    auto admitted = gate.admit(request, *target.route, target.path_parameters);
    if (auto* refusal = std::get_if<net::HttpResponse>(&admitted))
      return responder.send(std::move(*refusal));
    auto& caller = std::get<Principal>(admitted);
    if (caller.kind == Principal::Kind::user) accounts->record_use(caller.bearer);
    (handlers.*RouteHandlers::handler_for(*target.route))(
        request, std::move(caller), std::move(target.path_parameters), std::move(responder));
  }

  net::HttpResponse metrics_response(const net::HttpRequest& request) {
    std::vector<std::string> none;
    auto admitted = gate.admit(request, kMetricsRoute, none);
    if (auto* refusal = std::get_if<net::HttpResponse>(&admitted)) return std::move(*refusal);
    const Principal& caller = std::get<Principal>(admitted);
    accounts->record_use(caller.bearer);
    return metrics.page(caller, request);
  }

  net::HttpResponse mlflow_response(const net::HttpRequest& request) {
    auto admitted = admit_mlflow(gate, request);
    if (auto* refusal = std::get_if<net::HttpResponse>(&admitted)) return std::move(*refusal);
    const Principal& caller = std::get<Principal>(admitted);
    accounts->record_use(caller.bearer);
    return tracking.handle(request, {caller.bearer, caller.address, caller.rank});
  }

  mlflow::MlflowServer::Opened open_artifacts(const net::HttpRequest& request) {
    auto admitted = admit_mlflow(gate, request);
    if (auto* refusal = std::get_if<net::HttpResponse>(&admitted)) return std::move(*refusal);
    const Principal& caller = std::get<Principal>(admitted);
    accounts->record_use(caller.bearer);
    return tracking.open_artifacts(request, {caller.bearer, caller.address, caller.rank});
  }

  // Counts the answer under the path of its route.
  std::function<void(int)> observe(const net::HttpRequest& request) {
    const auto [method, path] = route_name_of(request);
    return [this, method, path](int status) { requests.add(method, path, status); };
  }

  ServerSetup setup;
  const MonotonicClock steady{};
  const std::unique_ptr<Accounts> accounts;
  Gate gate;
  Page page;
  // Shared with the controller's watcher, which cannot be removed.
  std::shared_ptr<LongPolls> long_polls;
  std::shared_ptr<AgentPolls> agent_polls;
  HostCalls host_calls;
  std::shared_ptr<StreamBroker> streams;
  std::shared_ptr<EventHub> events;
  artifacts::Artifacts artifacts;
  RouteHandlers handlers;
  RequestCounts requests;
  std::shared_ptr<RunEnds> ended;
  mlflow::MlflowServer tracking;
  MetricsPage metrics;
  std::optional<net::HttpServer> http;
};

Server::Server(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Server::~Server() = default;

Result<std::unique_ptr<Server>> Server::start(net::Loop& loop, ServerSetup setup) {
  for (const api::Route* route : api::kRoutes)
    LS_CHECK(RouteHandlers::handler_for(*route) != nullptr, "{} {} has no handler", route->method,
             route->path);
  auto accounts = TRY(Accounts::open(setup.identities, setup.clock, setup.user));
  auto impl = std::make_unique<Impl>(loop, std::move(setup), std::move(accounts));
  Impl& self = *impl;
  const net::HttpServerOptions options{
      .host = self.setup.host,
      .port = self.setup.port,
      .host_names = self.setup.host_names,
      .tls = self.setup.tls,
      .body_max = kBodyMax,
      .connections_max = kConnectionsMax,
      .refusal = refusal_response,
      .observe = [&self](const net::HttpRequest& request) { return self.observe(request); },
      .is_streamed = mlflow::MlflowServer::is_for_artifacts,
      .open_stream =
          [&self](const net::HttpRequest& request) { return self.open_artifacts(request); }};
  self.http.emplace(TRY(net::HttpServer::start(
      loop, options,
      [&self](const net::HttpRequest& request, net::Responder responder) {
        self.handle(request, std::move(responder));
      },
      [&self](const net::HttpRequest& request) {
        return check_request_head(self.gate, self.page, request);
      })));
  self.handlers.set_port(self.http->port());
  self.setup.controller.subscribe(
      [weak = std::weak_ptr(self.long_polls), weak_agents = std::weak_ptr(self.agent_polls),
       weak_streams = std::weak_ptr(self.streams), weak_events = std::weak_ptr(self.events),
       weak_ended = std::weak_ptr(self.ended)](const model::RunId& run, std::int64_t version) {
        if (auto waiting = weak.lock()) waiting->notify(run);
        if (auto agents = weak_agents.lock()) agents->handle_change(run, version);
        if (auto streams = weak_streams.lock()) streams->handle_change(run);
        if (auto events = weak_events.lock()) events->handle_run(run, version);
        if (auto ended = weak_ended.lock()) ended->handle_change(run);
      });
  self.setup.controller.subscribe_changes(
      [weak_events = std::weak_ptr(self.events)](const std::vector<model::Change>& changes) {
        if (auto events = weak_events.lock()) events->handle_changes(changes);
      });
  return std::unique_ptr<Server>(new Server(std::move(impl)));
}

std::string Server::url() const { return impl_->http->url(); }
int Server::port() const { return impl_->http->port(); }

Result<void> Server::set_identity(const net::TlsIdentity& identity) {
  return impl_->http->set_identity(identity);
}

void Server::stop(std::function<void()> stopped) {
  impl_->handlers.flush();
  impl_->handlers.finish();
  impl_->long_polls->finish();
  impl_->agent_polls->finish();
  impl_->host_calls.finish();
  impl_->streams->finish();
  impl_->events->finish();
  impl_->http->stop(kStopGrace, std::move(stopped));
}

}  // namespace lockstep::server
