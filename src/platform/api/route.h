// How a route is declared: its method, path, caller, the records of its query, request and answer,
// and its errors. routes.h has all routes.
#pragma once

#include <array>
#include <string_view>

#include "platform/api/json.h"
#include "platform/api/messages.h"
#include "platform/identity/role.h"

namespace lockstep::api {

using identity::Action;

enum class Caller {
  anyone,   // no token
  user,     // the token of a user that may do the route's action
  agent,    // the token of the attempt that the path names
  host,     // the credential of the host that the path names first
  joining,  // a join token for the host that the path names first
};

// The caller of a route. For a user: the action on the project or the run that the path names, and
// its name in the audit if the route changes something.
struct Permission {
  Caller caller;
  Action action = Action::none;
  std::string_view record{};

  constexpr Permission(Caller caller_) : caller(caller_) {}
  constexpr Permission(Action action_, std::string_view record_ = "")
      : caller(Caller::user), action(action_), record(record_) {}
};

// The values that one parameter {name} of a path takes.
struct PathParameter {
  std::string_view name;
  std::string_view help;
  std::string_view pattern;
  std::string_view example;
};

inline constexpr std::array kPathParameters = {
    PathParameter{"project", "the project, such as that of the run",
                  "^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$", "demo"},
    PathParameter{"number", "the run's number in its project", "^[1-9][0-9]{0,17}$", "1"},
    PathParameter{"epoch", "the attempt's number in its run", "^[1-9][0-9]{0,17}$", "1"},
    PathParameter{"user", "the user's name", "^[a-z0-9][a-z0-9._-]{0,63}$", "ann"},
    PathParameter{"secret", "the secret's name", "^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$", "hf-token"},
    PathParameter{"model", "the model's name", "^[A-Za-z0-9][A-Za-z0-9._-]{0,127}$", "gpt"},
    PathParameter{"notice", "the number of a target of notices", "^[1-9][0-9]{0,17}$", "1"},
    PathParameter{"document", "the number of a view or a report", "^[1-9][0-9]{0,17}$", "1"},
    PathParameter{"token", "the token's id, its part that is no secret", "^[0-9A-Za-z]{12}$",
                  "4fGt2Lm9Qx7Z"},
    PathParameter{"host", "the host's id on the map", "^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$", "gpu1"},
    PathParameter{"stream", "the stream's id, of an order", "^[0-9a-f]{16}$", "9f86d081884c7d65"},
    PathParameter{"index", "the node's number in its attempt", "^(0|[1-9][0-9]{0,8})$", "0"},
};

// The schema of a record. Only openapi.cc defines it: otherwise each source that includes the
// routes would compile the schemas of all.
template <class T>
Json route_schema();

// A record in a request or answer; no schema: none.
struct Body {
  std::string_view name;
  Json (*schema)() = nullptr;
};

// Errors of a route of that kind besides those of all routes: a wrong query or body, a wrong token,
// refusals by HTTP, and a failing or overloaded daemon.
enum class RouteErrors {
  none,
  run_not_found,  // the run is not known
  storage_full,   // nothing more can be stored
  run_not_found_or_storage_full,
  login_refused,  // the user is not proven, or nothing more can be stored
};

// The form of the answer's record: one, or the data of each event of a stream without an end.
enum class AnswerForm { json, events };

// In `path`, {name} stands for one segment. A run is two segments: {project}/{number}.
struct Route {
  std::string_view method;
  std::string_view path;
  Caller caller;
  Action action;            // of a user
  std::string_view record;  // its name in the audit; empty: it changes nothing that users share
  RouteErrors errors;
  std::string_view summary;
  Json (*query)();  // schema of the query's record
  Body request;
  Body answer;
  AnswerForm form = AnswerForm::json;
};

template <class T>
constexpr Body body_of(std::string_view name) {
  if constexpr (std::same_as<T, None>)
    return {};
  else
    return {name, &route_schema<T>};
}

// A route with the types of its query, request and answer.
template <class QueryType, class RequestType, class AnswerType>
struct TypedRoute : Route {
  using Query = QueryType;
  using Request = RequestType;
  using Answer = AnswerType;

  constexpr TypedRoute(std::string_view method_, std::string_view path_, Permission permission,
                       RouteErrors refusals_, std::string_view request_name,
                       std::string_view answer_name, std::string_view summary_,
                       AnswerForm form_ = AnswerForm::json)
      : Route{method_,
              path_,
              permission.caller,
              permission.action,
              permission.record,
              refusals_,
              summary_,
              &route_schema<Query>,
              body_of<Request>(request_name),
              body_of<Answer>(answer_name),
              form_} {}
};

}  // namespace lockstep::api
