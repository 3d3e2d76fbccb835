// The input of a handler: a call, parsed by its route's declaration, and the means to answer it.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "base/result.h"
#include "net/http/http_server.h"
#include "platform/api/json.h"
#include "platform/api/routes.h"
#include "platform/core/model/ids.h"
#include "platform/server/principal.h"

namespace lockstep::server {

net::HttpResponse json_response(const Json& json);
net::HttpResponse error_response(const Error& error);

// A call of the route `kRoute`, such as RouteCall<api::kStop>.
template <const auto& kRoute>
struct RouteCall {
  using Route = std::remove_cvref_t<decltype(kRoute)>;

  Principal caller{};
  std::vector<std::string> path_parameters;  // in the order of the path
  typename Route::Query query{};
  typename Route::Request request{};
  std::string last_event_id{};  // of a reader of events that connects again
};

// A user's mistyped field is an error. An agent or a host service may be newer than its daemon.
constexpr UnknownFields unknown_fields_of(api::Caller caller) {
  return caller == api::Caller::agent || caller == api::Caller::host ? UnknownFields::ignore
                                                                     : UnknownFields::reject;
}

// An error in a query or a body names the field.
template <const auto& kRoute>
Result<RouteCall<kRoute>> read_route_call(const net::HttpRequest& request, Principal caller,
                                          std::vector<std::string> path_parameters) {
  using Call = RouteCall<kRoute>;
  Call call{.caller = std::move(caller), .path_parameters = std::move(path_parameters)};
  constexpr UnknownFields kUnknown = unknown_fields_of(kRoute.caller);
  auto query = from_query<typename Call::Route::Query>(request.query, kUnknown);
  if (!query) return std::move(query).error().with_context("the query");
  call.query = *std::move(query);
  call.last_event_id = request.headers.find("Last-Event-ID").value_or("");
  if constexpr (kRoute.request.schema != nullptr) {
    auto json = parse_json(request.body);
    if (!json) return std::move(json).error().with_context("the body");
    call.request = TRY(from_json<typename Call::Route::Request>(*json, kUnknown));
  }
  return call;
}

// Sends one answer; copies belong to the same call. If all copies are destroyed, the answer is 500.
template <class Answer>
class Reply {
 public:
  explicit Reply(net::Responder responder)
      : responder_(std::make_shared<net::Responder>(std::move(responder))) {}

  void send(const Result<Answer>& answer) const {
    responder_->send(answer ? json_response(to_json(*answer)) : error_response(answer.error()));
  }
  // With further headers.
  void send(const Answer& answer, const net::Headers& headers) const {
    net::HttpResponse response = json_response(to_json(answer));
    for (const auto& [name, value] : headers) response.headers.add(name, value);
    responder_->send(std::move(response));
  }
  // As net::Responder has them.
  bool can_upgrade(std::string_view protocol) const { return responder_->can_upgrade(protocol); }
  void upgrade(std::string_view protocol, net::Responder::UseConnection use) const {
    responder_->upgrade(protocol, std::move(use));
  }
  bool takes_events() const { return responder_->takes_events(); }
  void send_events(net::Responder::UseConnection use) const {
    responder_->send_events(std::move(use));
  }
  // The client has closed the connection.
  bool is_abandoned() const { return responder_->is_abandoned(); }

 private:
  // Shared because a std::function, which keeps it while it waits, must be copyable.
  std::shared_ptr<net::Responder> responder_;
};

Error no_such_run(const model::RunId& run);
// {project}/{number} of a path; Code::not_found if it cannot be a run.
Result<model::RunId> run_of(const std::vector<std::string>& parameters);
// ... and {epoch} and {index}.
Result<model::NodeId> node_of(const std::vector<std::string>& parameters);

}  // namespace lockstep::server
