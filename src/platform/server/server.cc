#include "platform/server/server.h"

#include <optional>
#include <utility>
#include <vector>

#include "base/log.h"
#include "net/http_server.h"
#include "platform/api/error.h"
#include "platform/api/paths.h"
#include "platform/api/routes.h"
#include "platform/server/route_handlers.h"
#include "platform/server/waiting.h"

namespace lockstep {

namespace {

// An agent sends half a MiB of items at once, a little more when one item is large.
constexpr Bytes kBodyMax = 4_MiB;
constexpr int kConnectionsMax = 4096;
constexpr Duration kStopGrace = std::chrono::seconds(2);

struct Target {
  const api::Route* route = nullptr;
  std::vector<std::string> words;
  std::string other_methods;  // of the same path, if the method is not among them
};

// HEAD is GET without the body, which the HTTP layer leaves out.
bool takes(const api::Route& route, std::string_view method) {
  return route.method == method || (route.method == "GET" && method == "HEAD");
}

Target find(const HttpRequest& request) {
  Target target;
  for (const api::Route* route : api::kRoutes) {
    if (!api::matches(route->path, request.path, target.words)) continue;
    if (takes(*route, request.method)) {
      target.route = route;
      return target;
    }
    if (!target.other_methods.empty()) target.other_methods += ", ";
    target.other_methods += route->method == "GET" ? "GET, HEAD" : route->method;
  }
  return target;
}

HttpResponse refuse(int status, std::string message) {
  HttpResponse response = error_response({api::code_of(status), std::move(message)});
  response.status = status;
  return response;
}

HttpResponse no_such_route(const HttpRequest& request, const Target& target) {
  if (target.other_methods.empty()) return refuse(404, format("there is no {}", request.target));
  HttpResponse response = refuse(405, format("{} takes {}", request.target, target.other_methods));
  response.headers.add("Allow", target.other_methods);
  return response;
}

// The token of `Authorization: Bearer TOKEN`; empty if there is none.
std::string_view bearer_token(const HttpRequest& request) {
  constexpr std::string_view kScheme = "Bearer ";
  const auto header = request.headers.find("Authorization").value_or("");
  const std::string_view scheme = header.substr(0, kScheme.size());
  return equal_ignoring_case(scheme, kScheme) ? header.substr(kScheme.size()) : "";
}

// An agent's token is that of the attempt in the path, of the generation in the query.
bool is_agent(const Keys& keys, const Target& target, const HttpRequest& request,
              std::string_view token) {
  const auto node = node_of(target.words);
  const auto query = from_words<api::HeartbeatQuery>(request.query);
  return node && query &&
         keys.is_agent_token({query->generation.value_or(""), node->attempt}, token);
}

bool may_call(const Keys& keys, const Target& target, const HttpRequest& request) {
  const std::string_view token = bearer_token(request);
  switch (target.route->caller) {
    case api::Caller::anyone:
      return true;
    case api::Caller::user:
      return keys.is_user_token(token);
    case api::Caller::agent:
      break;
  }
  return is_agent(keys, target, request, token);
}

bool is_json(const HttpRequest& request) {
  const auto type = request.headers.find("Content-Type").value_or("");
  return equal_ignoring_case(type.substr(0, type.find(';')), "application/json");
}

// The body's form, by the head alone.
std::optional<HttpResponse> check_body(const HttpRequest& request, const api::Route& route) {
  if (route.request.schema == nullptr) {
    if (!request.has_body) return std::nullopt;
    return refuse(400, format("{} {} takes no body", request.method, request.target));
  }
  if (!is_json(request)) return refuse(415, "the body must be application/json");
  if (request.headers.find("Content-Encoding"))
    return refuse(415, "the body must be sent as it is, without a Content-Encoding");
  return std::nullopt;
}

// What is refused by the head alone.
std::optional<HttpResponse> gate(const Keys& keys, const HttpRequest& request) {
  const Target target = find(request);
  if (target.route == nullptr) return no_such_route(request, target);
  if (!may_call(keys, target, request)) {
    HttpResponse response =
        refuse(401, "the call needs the daemon's token in its head: Authorization: Bearer TOKEN");
    response.headers.add("WWW-Authenticate", "Bearer");
    return response;
  }
  return check_body(request, *target.route);
}

}  // namespace

struct Server::Impl {
  Impl(Loop& loop, ServerSetup setup_arg)
      : setup(std::move(setup_arg)),
        waiting(std::make_shared<Waiting>(loop)),
        handlers(setup, *waiting) {}

  void handle(const HttpRequest& request, Responder responder) {
    Target target = find(request);  // the gate let it through, so it is there
    (handlers.*Handlers::of(*target.route))(request, std::move(target.words), std::move(responder));
  }

  ServerSetup setup;
  // Shared with the controller's watcher, which cannot be taken back.
  std::shared_ptr<Waiting> waiting;
  Handlers handlers;
  std::optional<HttpServer> http;
};

Server::Server(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Server::~Server() = default;

Result<std::unique_ptr<Server>> Server::start(Loop& loop, ServerSetup setup) {
  for (const api::Route* route : api::kRoutes)
    LS_CHECK(Handlers::of(*route) != nullptr, "{} {} has no handler", route->method, route->path);
  auto impl = std::make_unique<Impl>(loop, std::move(setup));
  Impl& self = *impl;
  const ServerOptions options{.host = self.setup.host,
                              .port = self.setup.port,
                              .host_names = self.setup.host_names,
                              .body_max = kBodyMax,
                              .connections_max = kConnectionsMax,
                              .refusal = refuse};
  self.http.emplace(TRY(HttpServer::start(
      loop, options,
      [&self](const HttpRequest& request, Responder responder) {
        self.handle(request, std::move(responder));
      },
      [&self](const HttpRequest& request) { return gate(self.setup.keys, request); })));
  self.handlers.listens_at(self.http->port());
  self.setup.controller.subscribe(
      [weak = std::weak_ptr(self.waiting)](const RunId& run, std::int64_t) {
        if (auto waiting = weak.lock()) waiting->wake(run);
      });
  return std::unique_ptr<Server>(new Server(std::move(impl)));
}

std::string Server::url() const { return impl_->http->url(); }
int Server::port() const { return impl_->http->port(); }

void Server::stop(std::function<void()> stopped) {
  impl_->waiting->end();
  impl_->http->stop(kStopGrace, std::move(stopped));
}

}  // namespace lockstep
