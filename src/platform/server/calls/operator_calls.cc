#include "platform/server/calls/operator_calls.h"

#include "platform/server/queue_views.h"

namespace lockstep::server {
namespace {

std::string devices_text(std::optional<int> devices) {
  return devices ? format("{} devices", *devices) : "all devices";
}

// None: the default, or no change.
Result<std::optional<Duration>> idle_stop_of(const api::LimitRequest& request) {
  const auto& words = request.idle_stop;
  if (words && request.scope != model::LimitScope::project)
    return Error{Code::invalid, "idle_stop: only projects have one"};
  if (!words || *words == "default") return std::optional<Duration>();
  if (*words == "off") return std::optional(Duration(0));
  auto time = parse_duration(*words);
  if (!time) return std::move(time).error().with_context("idle_stop");
  if (*time > Duration(0)) return std::optional(*time);
  return Error{Code::invalid, "idle_stop: write off, so that no run is stopped"};
}

}  // namespace

Result<map::ClusterMap> OperatorCalls::map(const RouteCall<api::kMap>&) {
  return context_.state().map;
}

Result<map::ClusterMap> OperatorCalls::set_measured(const RouteCall<api::kSetMeasured>& call) {
  TRY(context_.controller().apply_operator_event(model::SetMeasured{call.request},
                                                 context_.record(call, {.target = "map"})));
  return context_.state().map;
}

Result<api::HostList> OperatorCalls::list_hosts(const RouteCall<api::kHosts>& call) {
  return context_.limited(call.caller, host_list(context_.state()));
}

Result<api::HostList> OperatorCalls::set_host(const RouteCall<api::kSetHost>& call) {
  const api::HostRequest& request = call.request;
  const auto row = context_.state().hosts.find(request.host);
  const auto before =
      row == context_.state().hosts.end() ? model::HostState::open : row->second.state;
  TRY(context_.controller().apply_operator_event(
      model::SetHost{request.host, request.state, actor_of(call.caller), request.reason},
      context_.record(
          call, {.target = request.host,
                 .before = std::string(text(before)),
                 .after = format("{}{}{}", text(request.state), request.reason.empty() ? "" : ": ",
                                 request.reason)})));
  return context_.limited(call.caller, host_list(context_.state()));
}

Result<api::JoinTokenAnswer> OperatorCalls::host_token(const RouteCall<api::kHostToken>& call) {
  const std::string& host = call.path_parameters.front();
  auto token = TRY(host_calls_.make_token(host, call.request));
  TRY(context_.accounts().record(context_.record(call, {.target = host, .after = "join token"})));
  return token;
}

Result<api::HostList> OperatorCalls::remove_host(const RouteCall<api::kRemoveHost>& call) {
  const std::string& host = call.path_parameters.front();
  TRY(host_calls_.remove(
      {.host = host, .by = actor_of(call.caller), .lost = call.request.lost.value_or(false)},
      context_.record(call, {.target = host, .before = "joined"})));
  return context_.limited(call.caller, host_list(context_.state()));
}

Result<api::HostList> OperatorCalls::declare_host_dead(const RouteCall<api::kHostDead>& call) {
  const std::string& host = call.path_parameters.front();
  TRY(host_calls_.declare_dead({.host = host, .by = actor_of(call.caller)},
                               context_.record(call, {.target = host, .after = "dead"})));
  return context_.limited(call.caller, host_list(context_.state()));
}

Result<api::HostList> OperatorCalls::label_host(const RouteCall<api::kHostLabels>& call) {
  const std::string& host = call.path_parameters.front();
  const auto row = context_.state().hosts.find(host);
  TRY(context_.controller().apply_operator_event(
      model::LabelHost{host, call.request.labels, actor_of(call.caller)},
      context_.record(call, {.target = host,
                             .before = row == context_.state().hosts.end()
                                           ? ""
                                           : dump_json(to_json(row->second.labels)),
                             .after = dump_json(to_json(call.request.labels))})));
  return context_.limited(call.caller, host_list(context_.state()));
}

Result<api::LimitList> OperatorCalls::limits(const RouteCall<api::kLimits>& call) {
  return context_.limited(call.caller, limit_list(context_.state()));
}

Result<api::LimitList> OperatorCalls::set_limit(const RouteCall<api::kSetLimit>& call) {
  const api::LimitRequest& request = call.request;
  if (request.weight && request.scope != model::LimitScope::project)
    return Error{Code::invalid, "weight: only projects have one"};
  const auto idle_stop = TRY(idle_stop_of(request));
  const model::LimitId id{request.scope, request.name};
  const auto row = context_.state().limits.find(id);
  const model::LimitRow before =
      row == context_.state().limits.end() ? model::LimitRow{id} : row->second;
  CallContext::Details details{
      .target = text(id),
      .project = request.scope == model::LimitScope::project ? request.name : ""};
  if (request.devices || (!request.weight && !request.idle_stop)) {
    details.before = devices_text(before.devices);
    details.after = devices_text(request.devices);
    TRY(context_.controller().apply_operator_event(model::SetLimit{id, request.devices},
                                                   context_.record(call, details)));
  }
  if (request.weight) {
    details.before = format("weight {}", before.weight);
    details.after = format("weight {}", *request.weight);
    TRY(context_.controller().apply_operator_event(model::SetWeight{request.name, *request.weight},
                                                   context_.record(call, details)));
  }
  if (request.idle_stop) {
    details.before = "idle_stop " + (before.idle_stop ? idle_stop_text(before) : "default");
    details.after = "idle_stop " + *request.idle_stop;
    TRY(context_.controller().apply_operator_event(model::SetIdleStop{request.name, idle_stop},
                                                   context_.record(call, details)));
  }
  return context_.limited(call.caller, limit_list(context_.state()));
}

Result<api::OrphanList> OperatorCalls::orphans(const RouteCall<api::kOrphans>& call) {
  return context_.limited(call.caller, orphan_list(context_.state()));
}

Result<api::OrphanList> OperatorCalls::stop_orphan(const RouteCall<api::kStopOrphan>& call) {
  const model::RunId id = TRY(run_of(call.path_parameters));
  TRY(context_.controller().apply_operator_event(
      model::StopOrphan{id, actor_of(call.caller)},
      context_.record(call, {.target = text(id), .project = id.project, .after = "stopped"})));
  return context_.limited(call.caller, orphan_list(context_.state()));
}

Result<api::RunView> OperatorCalls::adopt_orphan(const RouteCall<api::kAdoptOrphan>& call) {
  const model::RunId id = TRY(run_of(call.path_parameters));
  TRY(context_.controller().apply_operator_event(
      model::AdoptOrphan{id, actor_of(call.caller)},
      context_.record(call, {.target = text(id), .project = id.project, .after = "adopted"})));
  return context_.view(call.caller, id);
}

}  // namespace lockstep::server
