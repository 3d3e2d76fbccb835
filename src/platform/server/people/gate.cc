#include "platform/server/people/gate.h"

#include "base/format.h"
#include "platform/api/error.h"
#include "platform/core/step/ending/reason_text.h"
#include "platform/server/login/cookies.h"
#include "platform/server/route_call.h"

namespace lockstep::server {
namespace {

using identity::Target;

bool is_on_project(const api::Route& route) {
  return route.path.find("{project}") != std::string_view::npos &&
         route.action != api::Action::manage_users && route.action != api::Action::manage_cluster;
}

bool is_on_run(const api::Route& route) {
  return is_on_project(route) && route.path.find("{number}") != std::string_view::npos;
}

bool names_model(const api::Route& route) {
  return route.path.find("{model}") != std::string_view::npos;
}

// The name in the path, if it can be one.
std::string target_of(const std::vector<std::string>& path_parameters) {
  std::string target;
  for (const std::string& part : path_parameters) {
    if (!model::check_name("a part", part)) return "";
    target += (target.empty() ? "" : "/") + part;
  }
  return target;
}

// By the caller's token alone; the handler is told whether it is the user's own.
net::HttpResponse unknown_caller(const api::Route& route) {
  net::HttpResponse response = error_response(
      {Code::denied,
       route.caller == api::Caller::user
           ? "the call needs a token of this daemon in its head: Authorization: Bearer TOKEN; one "
             "that has ended or was revoked, or whose user is disabled, is none"
           : "the call needs the daemon's token in its head: Authorization: Bearer TOKEN"});
  response.status = 401;
  response.headers.add("WWW-Authenticate", "Bearer");
  return response;
}

}  // namespace

std::variant<Principal, net::HttpResponse> Gate::admit(const net::HttpRequest& request,
                                                       const api::Route& route,
                                                       std::vector<std::string>& path_parameters) {
  if (route.caller == api::Caller::user && is_by_session(request))
    if (const auto own = check_own_page(request); !own) return error_response(own.error());
  const Credentials credentials{.keys = keys_,
                                .directory = accounts_.directory(),
                                .state = &controller_.state(),
                                .now = clock_.now()};
  auto caller = principal_of(credentials, route.caller, request, path_parameters);
  if (!caller) return unknown_caller(route);
  if (route.caller != api::Caller::user) return *std::move(caller);
  if (is_on_run(route) || names_model(route))
    path_parameters.front() =
        readable_project(accounts_.directory(), caller->bearer, path_parameters.front());
  const auto checked = check_right(*caller, route, path_parameters);
  if (checked) return *std::move(caller);
  if (checked.error().code == Code::denied || checked.error().code == Code::not_found)
    accounts_.record_refusal(
        refusal_record(*caller, route, path_parameters, checked.error(), clock_.now()));
  return error_response(checked.error());
}

std::optional<Principal> Gate::admit_rank(const net::HttpRequest& request) const {
  return calling_rank({.keys = keys_,
                       .directory = accounts_.directory(),
                       .state = &controller_.state(),
                       .now = clock_.now()},
                      request);
}

Result<void> Gate::check_right(const Principal& caller, const api::Route& route,
                               const std::vector<std::string>& path_parameters) {
  const identity::Bearer& bearer = caller.bearer;
  if (is_on_run(route)) {
    const auto run = run_of(path_parameters);
    return run ? check_run(bearer, route, *run) : Result<void>();  // the handler answers
  }
  if (!is_on_project(route)) {
    if (identity::may(accounts_.directory(), bearer, route.action)) return {};
    return Error{Code::denied, identity::refusal(bearer, route.action, {})};
  }
  const Target target{.project = path_parameters.front()};
  if (identity::may(accounts_.directory(), bearer, route.action, target)) return {};
  if (!identity::can_read(accounts_.directory(), bearer, target.project))
    return identity::no_such_project(target.project);
  return Error{Code::denied, identity::refusal(bearer, route.action, target)};
}

Result<void> Gate::check_run(const identity::Bearer& bearer, const api::Route& route,
                             const model::RunId& run) {
  if (!identity::can_read(accounts_.directory(), bearer, run.project)) return no_such_run(run);
  TRY(controller_.fetch(run));
  const auto found = controller_.state().runs.find(run);
  if (found == controller_.state().runs.end()) return {};  // the handler answers
  const Target target{.project = run.project, .owner = found->second.origin.user};
  if (identity::may(accounts_.directory(), bearer, route.action, target)) return {};
  return Error{Code::denied, identity::refusal(bearer, route.action, target)};
}

model::AuditRecord record_of(const Principal& caller, const api::Route& route, Time now) {
  return {.time = now,
          .user = caller.bearer.user,
          .token = caller.bearer.token,
          .address = caller.address,
          .action = std::string(route.record.empty() ? name_of(route.action) : route.record),
          .target = {}};
}

model::AuditRecord refusal_record(const Principal& caller, const api::Route& route,
                                  const std::vector<std::string>& path_parameters,
                                  const Error& refusal, Time now) {
  model::AuditRecord record = record_of(caller, route, now);
  record.target = target_of(path_parameters);
  if (is_on_project(route) && !record.target.empty()) record.project = path_parameters.front();
  record.after = step::one_line(refusal.message);
  return record;
}

}  // namespace lockstep::server
