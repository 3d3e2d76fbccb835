#include "platform/server/route_handlers.h"

#include <algorithm>
#include <chrono>
#include <concepts>

#include <unistd.h>

#include "base/log.h"
#include "base/steady_clock.h"
#include "platform/api/heartbeat_version.h"
#include "platform/api/openapi.h"
#include "platform/api/proof.h"
#include "platform/core/step/ending/reason_text.h"
#include "platform/core/step/starting/preconditions.h"
#include "platform/server/log_page.h"
#include "platform/server/people/gate.h"
#include "platform/server/queue_views.h"

namespace lockstep::server {
namespace {

// Agents give up a call after 10 s.
constexpr Duration kLagReported = std::chrono::seconds(5);

Duration steady_now() { return MonotonicClock().since_boot(); }

// The node has ended: no agent can deliver anything.
bool has_left(const model::Node& node) {
  return node.state == model::NodeState::released || node.state == model::NodeState::lost;
}

std::string devices_text(std::optional<int> devices) {
  return devices ? format("{} devices", *devices) : "all devices";
}

// The class of a method; only its type is used.
template <class Class, class Signature>
Class class_of(Signature Class::*);

}  // namespace

template <class Class>
Class& RouteHandlers::part() {
  if constexpr (std::same_as<Class, PeopleCalls>)
    return people_;
  else if constexpr (std::same_as<Class, SecretCalls>)
    return secrets_;
  else if constexpr (std::same_as<Class, LoginCalls>)
    return login_;
  else
    return *this;
}

template <const auto& kRoute, auto kMethod>
auto RouteHandlers::invoke(const RouteCall<kRoute>& call,
                           const Reply<typename RouteCall<kRoute>::Route::Answer>& reply) {
  using Call = RouteCall<kRoute>;
  auto& handler = part<decltype(class_of(kMethod))>();
  if constexpr (std::invocable<decltype(kMethod), decltype(handler), const Call&>)
    return (handler.*kMethod)(call);
  else
    return (handler.*kMethod)(call, reply);
}

template <const auto& kRoute, auto kMethod>
void RouteHandlers::handle(const net::HttpRequest& request, Principal caller,
                           std::vector<std::string> path_parameters, net::Responder responder) {
  const Reply<typename RouteCall<kRoute>::Route::Answer> reply(std::move(responder));
  const auto call = read_route_call<kRoute>(request, std::move(caller), std::move(path_parameters));
  if (!call) return reply.send(call.error());
  const auto answer = invoke<kRoute, kMethod>(*call, reply);
  if (!answer) record_refusal(kRoute, call->caller, call->path_parameters, answer.error());
  if constexpr (!std::same_as<std::remove_cvref_t<decltype(answer)>, Result<void>>)
    reply.send(answer);
  else if (!answer)
    reply.send(answer.error());
}

void RouteHandlers::record_refusal(const api::Route& route, const Principal& caller,
                                   const std::vector<std::string>& path_parameters,
                                   const Error& error) {
  if (error.code == Code::denied && caller.kind == Principal::Kind::user)
    accounts_.record_refusal(
        refusal_record(caller, route, path_parameters, error, setup_.clock.now()));
}

RouteHandlers::Handler RouteHandlers::handler_for(const api::Route& route) {
  using H = RouteHandlers;
  static const std::vector<std::pair<const api::Route*, Handler>> table = {
      {&api::kHealth, &H::handle<api::kHealth, &H::health>},
      {&api::kOpenapi, &H::handle<api::kOpenapi, &H::openapi>},
      {&api::kVersion, &H::handle<api::kVersion, &H::version>},
      {&api::kMap, &H::handle<api::kMap, &H::map>},
      {&api::kSetMeasured, &H::handle<api::kSetMeasured, &H::set_measured>},
      {&api::kSubmit, &H::handle<api::kSubmit, &H::submit>},
      {&api::kExternalNode, &H::handle<api::kExternalNode, &H::attach_external_node>},
      {&api::kRuns, &H::handle<api::kRuns, &H::runs>},
      {&api::kRun, &H::handle<api::kRun, &H::run>},
      {&api::kStop, &H::handle<api::kStop, &H::stop>},
      {&api::kResume, &H::handle<api::kResume, &H::resume>},
      {&api::kRemove, &H::handle<api::kRemove, &H::remove>},
      {&api::kHold, &H::handle<api::kHold, &H::hold>},
      {&api::kRelease, &H::handle<api::kRelease, &H::release>},
      {&api::kPriority, &H::handle<api::kPriority, &H::priority>},
      {&api::kQueue, &H::handle<api::kQueue, &H::queue>},
      {&api::kPlan, &H::handle<api::kPlan, &H::plan>},
      {&api::kHosts, &H::handle<api::kHosts, &H::list_hosts>},
      {&api::kSetHost, &H::handle<api::kSetHost, &H::set_host>},
      {&api::kHostToken, &H::handle<api::kHostToken, &H::host_token>},
      {&api::kJoinHost, &H::handle<api::kJoinHost, &H::join_host>},
      {&api::kRemoveHost, &H::handle<api::kRemoveHost, &H::remove_host>},
      {&api::kHostDead, &H::handle<api::kHostDead, &H::declare_host_dead>},
      {&api::kHostLabels, &H::handle<api::kHostLabels, &H::label_host>},
      {&api::kHostReport, &H::handle<api::kHostReport, &H::host_report>},
      {&api::kCollect, &H::handle<api::kCollect, &H::collect>},
      {&api::kKeptFiles, &H::handle<api::kKeptFiles, &H::kept_files>},
      {&api::kLimits, &H::handle<api::kLimits, &H::limits>},
      {&api::kSetLimit, &H::handle<api::kSetLimit, &H::set_limit>},
      {&api::kOrphans, &H::handle<api::kOrphans, &H::orphans>},
      {&api::kStopOrphan, &H::handle<api::kStopOrphan, &H::stop_orphan>},
      {&api::kAdoptOrphan, &H::handle<api::kAdoptOrphan, &H::adopt_orphan>},
      {&api::kLogs, &H::handle<api::kLogs, &H::logs>},
      {&api::kFlight, &H::handle<api::kFlight, &H::flight>},
      {&api::kProfile, &H::handle<api::kProfile, &H::profile>},
      {&api::kProfileState, &H::handle<api::kProfileState, &H::profile_state>},
      {&api::kTrace, &H::handle<api::kTrace, &H::trace>},
      {&api::kMetrics, &H::handle<api::kMetrics, &H::metrics>},
      {&api::kHeartbeat, &H::handle<api::kHeartbeat, &H::heartbeat>},
      {&api::kUpload, &H::handle<api::kUpload, &H::upload>},
      {&api::kUploadParts, &H::handle<api::kUploadParts, &H::upload_parts>},
      {&api::kNodeUpload, &H::handle<api::kNodeUpload, &H::node_upload>},
      {&api::kNodeFiles, &H::handle<api::kNodeFiles, &H::node_files>},
      {&api::kHostFiles, &H::handle<api::kHostFiles, &H::host_files>},
      {&api::kNodeCheckpoint, &H::handle<api::kNodeCheckpoint, &H::node_checkpoint>},
      {&api::kNodeCheckpointPart, &H::handle<api::kNodeCheckpointPart, &H::node_checkpoint_part>},
      {&api::kWhoAmI, &H::handle<api::kWhoAmI, &PeopleCalls::whoami>},
      {&api::kUsers, &H::handle<api::kUsers, &PeopleCalls::users>},
      {&api::kAddUser, &H::handle<api::kAddUser, &PeopleCalls::add_user>},
      {&api::kChangeUser, &H::handle<api::kChangeUser, &PeopleCalls::change_user>},
      {&api::kRemoveUser, &H::handle<api::kRemoveUser, &PeopleCalls::remove_user>},
      {&api::kProjects, &H::handle<api::kProjects, &PeopleCalls::projects>},
      {&api::kAddProject, &H::handle<api::kAddProject, &PeopleCalls::add_project>},
      {&api::kRemoveProject, &H::handle<api::kRemoveProject, &PeopleCalls::remove_project>},
      {&api::kSetMember, &H::handle<api::kSetMember, &PeopleCalls::set_member>},
      {&api::kAddService, &H::handle<api::kAddService, &PeopleCalls::add_service>},
      {&api::kTokens, &H::handle<api::kTokens, &PeopleCalls::tokens>},
      {&api::kAddToken, &H::handle<api::kAddToken, &PeopleCalls::add_token>},
      {&api::kRevokeToken, &H::handle<api::kRevokeToken, &PeopleCalls::revoke_token>},
      {&api::kAudit, &H::handle<api::kAudit, &PeopleCalls::audit>},
      {&api::kLogin, &H::handle<api::kLogin, &LoginCalls::login>},
      {&api::kDeviceLogin, &H::handle<api::kDeviceLogin, &LoginCalls::start_device>},
      {&api::kDevicePoll, &H::handle<api::kDevicePoll, &LoginCalls::poll_device>},
      {&api::kLogout, &H::handle<api::kLogout, &LoginCalls::logout>},
      {&api::kPassword, &H::handle<api::kPassword, &LoginCalls::change_password>},
      {&api::kFirstPassword, &H::handle<api::kFirstPassword, &LoginCalls::set_first_password>},
      {&api::kLinkUser, &H::handle<api::kLinkUser, &LoginCalls::link_user>},
      {&api::kSecrets, &H::handle<api::kSecrets, &SecretCalls::list>},
      {&api::kSetSecret, &H::handle<api::kSetSecret, &SecretCalls::set>},
      {&api::kRemoveSecret, &H::handle<api::kRemoveSecret, &SecretCalls::remove>},
  };
  const auto found =
      std::ranges::find(table, &route, [](const auto& entry) { return entry.first; });
  return found == table.end() ? nullptr : found->second;
}

template <const auto& kRoute>
model::AuditRecord RouteHandlers::record(const RouteCall<kRoute>& call, Details details) const {
  model::AuditRecord record = record_of(call.caller, kRoute, setup_.clock.now());
  record.target = std::move(details.target);
  record.project = std::move(details.project);
  record.before = step::one_line(details.before);
  record.after = step::one_line(details.after);
  return record;
}

template <const auto& kRoute>
model::AuditRecord RouteHandlers::run_record(const RouteCall<kRoute>& call, const model::RunId& run,
                                             std::string after) const {
  const auto found = state().runs.find(run);
  return record(
      call, {.target = text(run),
             .project = run.project,
             .before = found == state().runs.end() ? "" : std::string(text(found->second.state)),
             .after = std::move(after)});
}

template <class T>
Result<T> RouteHandlers::limited(const Principal& caller, Result<T> result) const {
  if (result) return result;
  const Reader reader(accounts_.directory(), caller.bearer, state());
  return Error{result.error().code, reader.without_names(result.error().message)};
}

std::vector<std::string> RouteHandlers::problems() const {
  auto all = setup_.problems ? setup_.problems() : std::vector<std::string>();
  if (const Duration lag = lag_.longest(); lag >= kLagReported)
    all.push_back(
        format("the daemon did not answer for {} in the last minutes: its disk or machine "
               "is too slow for its work",
               text(lag)));
  return all;
}

// Its rows are in the state until a later tick.
Result<const model::Run*> RouteHandlers::find_run(const model::RunId& id) const {
  TRY(setup_.controller.fetch(id));
  const auto found = state().runs.find(id);
  if (found == state().runs.end()) return no_such_run(id);
  return &found->second;
}

Result<api::RunView> RouteHandlers::view(const Principal& caller, const model::RunId& id) {
  auto view = TRY(brief_view(caller, id));
  view.events = event_views(state().runs.at(id).audit, TRY(setup_.insight.events(id)));
  view.attempts = attempt_views(state(), id);
  view.checkpoints = TRY(setup_.insight.checkpoints(id));
  return limited(caller, std::move(view));
}

// Its cost does not depend on the number of ranks of an ended run.
Result<api::RunView> RouteHandlers::brief_view(const Principal& caller, const model::RunId& id) {
  const model::Run& run = *TRY(find_run(id));
  auto view = run_view(state(), run, TRY(setup_.insight.summary(id)),
                       setup_.controller.checkpoint_folder(run), setup_.clock.now());
  if (run.state == model::RunState::queued)
    add_start_estimate(view, run, setup_.controller.scheduler());
  view.problems = problems();
  return limited(caller, std::move(view));
}

Result<api::Health> RouteHandlers::health(const RouteCall<api::kHealth>& call) {
  api::Health health;
  health.heartbeat_version = api::kHeartbeatVersion;
  if (!call.query.nonce) return health;
  TRY(api::check_nonce(*call.query.nonce));
  health.proof = TRY(proof(call.query));
  return health;
}

// The daemon has only the hash of a user's token. One that has ended is known, so that the next
// call says so.
Result<std::string> RouteHandlers::proof(const api::HealthQuery& query) const {
  if (!query.token) return api::daemon_proof(TRY(token_named_by(query)), port_, *query.nonce);
  const auto& tokens = accounts_.directory().tokens;
  const auto token = tokens.find(*query.token);
  if (token != tokens.end())
    return api::daemon_proof_by_hash(token->second.secret_hash, port_, *query.nonce);
  return Error{Code::denied,
               "this daemon does not know the token: it was revoked, or is one of "
               "another daemon; log in again with `lockstep login`"};
}

// The token whose knowledge the caller wants to see proven.
Result<std::string> RouteHandlers::token_named_by(const api::HealthQuery& query) const {
  if (query.attempt)
    return setup_.keys.agent_token(
        {query.generation.value_or(""), TRY(model::parse_attempt_id(*query.attempt))});
  if (query.host) return setup_.keys.host_token(*query.host, host_credential(state(), *query.host));
  if (!query.join) return setup_.keys.user_token();
  host::JoinToken token = TRY(host::parse_join_token_subject(*query.join));
  token.proof = setup_.keys.join_proof(token);
  return host::join_token_text(token);
}

Result<Json> RouteHandlers::openapi(const RouteCall<api::kOpenapi>&) { return api::openapi(); }

Result<api::Version> RouteHandlers::version(const RouteCall<api::kVersion>& call) {
  api::Version version{.version = setup_.version,
                       .home = setup_.home.folder.string(),
                       .pid = ::getpid(),
                       .problems = problems(),
                       .notices = setup_.controller.notices(),
                       .loop_lag_seconds = in_seconds(lag_.longest()),
                       .upload_limit = state().settings.upload_limit};
  return limited(call.caller, std::move(version));
}

Result<map::ClusterMap> RouteHandlers::map(const RouteCall<api::kMap>&) { return state().map; }

Result<map::ClusterMap> RouteHandlers::set_measured(const RouteCall<api::kSetMeasured>& call) {
  TRY(setup_.controller.apply_operator_event(model::SetMeasured{call.request},
                                             record(call, {.target = "map"})));
  return state().map;
}

// A client cannot choose the user. A run that the caller may not read is no run for it to wait for.
Result<api::SubmitRequest> RouteHandlers::submission(const Principal& caller,
                                                     api::SubmitRequest request) const {
  const identity::Directory& directory = accounts_.directory();
  model::RunSpec& spec = request.spec;
  request.origin.user = caller.name;
  if (spec.project == identity::kSharedProject)
    spec.project = identity::default_project(directory, caller.bearer);
  const identity::Target target{.project = spec.project};
  if (!identity::may(directory, caller.bearer, api::Action::submit_run, target))
    return Error{Code::denied, identity::refusal(caller.bearer, api::Action::submit_run, target)};
  TRY(secrets_.check_secrets_of(spec));
  for (std::string& name : spec.after) {
    model::RunId run = TRY(model::parse_run_id(name));
    run.project = identity::readable_project(directory, caller.bearer, run.project);
    if (!identity::can_read(directory, caller.bearer, run.project))
      return step::no_such_dependency(run);
    name = text(run);
  }
  return request;
}

Result<api::RunView> RouteHandlers::submit(const RouteCall<api::kSubmit>& call) {
  const auto request = TRY(submission(call.caller, call.request));
  const auto& uploaded = request.spec.upload;
  if (uploaded) TRY(TRY(uploads())->check_complete(*uploaded));
  const model::RunId run = TRY(limited(
      call.caller, setup_.controller.submit(
                       request.spec, request.origin, request.request_id,
                       record(call, {.project = request.spec.project, .after = "queued"}))));
  if (TRY(find_run(run))->origin.user != call.caller.name)
    return Error{Code::invalid,
                 "request_id: another user has used it; choose a new id for each "
                 "run"};
  if (uploaded)  // tried again when an agent asks
    if (const auto kept = setup_.uploads->keep_manifest(*TRY(find_run(run))); !kept)
      LS_LOG(warning, "the uploaded folder of {}: {}", text(run), kept.error().message);
  return view(call.caller, run);
}

Result<api::ExternalNode> RouteHandlers::attach_external_node(
    const RouteCall<api::kExternalNode>& call) {
  const api::ExternalNodeRequest& request = call.request;
  const auto run = TRY(submission(call.caller, {.spec = request.spec, .origin = request.origin}));
  const model::AgentIncarnation agent{
      .id = request.incarnation,
      .machine = request.machine,
      .started = request.agent_started.value_or(setup_.clock.now())};
  const model::NodeId node = TRY(setup_.controller.attach(
      {.job = request.job,
       .launcher = request.launcher,
       .spec = run.spec,
       .origin = run.origin,
       .agent = agent,
       .ranks = request.ranks},
      record(call, {.target = request.job, .project = run.spec.project, .after = "attached"})));
  const model::AttemptName attempt = name_of(state().attempts.at(node.attempt));
  return api::ExternalNode{.run = text(node.attempt.run),
                           .node = text(node),
                           .generation = attempt.generation,
                           .token = setup_.keys.agent_token(attempt)};
}

Result<api::RunView> RouteHandlers::stop(const RouteCall<api::kStop>& call) {
  const model::RunId id = TRY(run_of(call.path_parameters));
  TRY(setup_.controller.stop(
      id, call.request.reason,
      run_record(call, id,
                 call.request.reason.empty() ? "stopped" : "stopped: " + call.request.reason)));
  return view(call.caller, id);
}

Result<api::RunView> RouteHandlers::resume(const RouteCall<api::kResume>& call) {
  const model::RunId id = TRY(run_of(call.path_parameters));
  TRY(limited(call.caller, setup_.controller.resume(id, run_record(call, id, "queued"))));
  return view(call.caller, id);
}

Result<api::RemovedRun> RouteHandlers::remove(const RouteCall<api::kRemove>& call) {
  const model::RunId id = TRY(run_of(call.path_parameters));
  const std::string folder = TRY(find_run(id))->spec.checkpoint_folder;
  TRY(limited(call.caller, setup_.controller.remove(id, run_record(call, id, ""))));
  return api::RemovedRun{.run = text(id), .checkpoint_folder = folder};
}

Result<api::RunView> RouteHandlers::hold(const RouteCall<api::kHold>& call) {
  const model::RunId id = TRY(run_of(call.path_parameters));
  TRY(setup_.controller.apply_operator_event(
      model::HoldRun{id, actor_of(call.caller), call.request.reason},
      run_record(call, id, call.request.reason.empty() ? "held" : "held: " + call.request.reason)));
  return view(call.caller, id);
}

Result<api::RunView> RouteHandlers::release(const RouteCall<api::kRelease>& call) {
  const model::RunId id = TRY(run_of(call.path_parameters));
  TRY(setup_.controller.apply_operator_event(model::ReleaseRun{id, actor_of(call.caller)},
                                             run_record(call, id, "released")));
  return view(call.caller, id);
}

Result<api::RunView> RouteHandlers::priority(const RouteCall<api::kPriority>& call) {
  const model::RunId id = TRY(run_of(call.path_parameters));
  auto record = run_record(call, id, format("priority {}", call.request.priority));
  if (const auto run = state().runs.find(id); run != state().runs.end())
    record.before = format("priority {}", run->second.priority);
  TRY(setup_.controller.apply_operator_event(
      model::SetPriority{id, call.request.priority, actor_of(call.caller)}, record));
  return view(call.caller, id);
}

Result<api::QueueView> RouteHandlers::queue(const RouteCall<api::kQueue>& call) {
  auto view =
      queue_view(state(), setup_.controller.scheduler(), call.query.limit, setup_.clock.now());
  view.problems = problems();
  view.notices = setup_.controller.notices();
  return limited(call.caller, std::move(view));
}

Result<api::PlanView> RouteHandlers::plan(const RouteCall<api::kPlan>& call) {
  const auto request = TRY(submission(call.caller, call.request));
  const step::DryRunResult result =
      TRY(limited(call.caller, setup_.controller.plan(request.spec, request.origin)));
  return limited(call.caller, plan_view(result, request.spec, state()));
}

Result<api::HostList> RouteHandlers::list_hosts(const RouteCall<api::kHosts>& call) {
  return limited(call.caller, host_list(state()));
}

Result<api::HostList> RouteHandlers::set_host(const RouteCall<api::kSetHost>& call) {
  const api::HostRequest& request = call.request;
  const auto row = state().hosts.find(request.host);
  const auto before = row == state().hosts.end() ? model::HostState::open : row->second.state;
  TRY(setup_.controller.apply_operator_event(
      model::SetHost{request.host, request.state, actor_of(call.caller), request.reason},
      record(call, {.target = request.host,
                    .before = std::string(text(before)),
                    .after = format("{}{}{}", text(request.state),
                                    request.reason.empty() ? "" : ": ", request.reason)})));
  return limited(call.caller, host_list(state()));
}

Result<api::JoinTokenAnswer> RouteHandlers::host_token(const RouteCall<api::kHostToken>& call) {
  const std::string& host = call.path_parameters.front();
  auto token = TRY(host_calls_.make_token(host, call.request));
  TRY(accounts_.record(record(call, {.target = host, .after = "join token"})));
  return token;
}

Result<api::JoinAnswer> RouteHandlers::join_host(const RouteCall<api::kJoinHost>& call) {
  return host_calls_.join(*call.caller.join, call.request);
}

Result<api::HostList> RouteHandlers::remove_host(const RouteCall<api::kRemoveHost>& call) {
  const std::string& host = call.path_parameters.front();
  TRY(host_calls_.remove(
      {.host = host, .by = actor_of(call.caller), .lost = call.request.lost.value_or(false)},
      record(call, {.target = host, .before = "joined"})));
  return limited(call.caller, host_list(state()));
}

Result<api::HostList> RouteHandlers::declare_host_dead(const RouteCall<api::kHostDead>& call) {
  const std::string& host = call.path_parameters.front();
  TRY(host_calls_.declare_dead({.host = host, .by = actor_of(call.caller)},
                               record(call, {.target = host, .after = "dead"})));
  return limited(call.caller, host_list(state()));
}

Result<api::HostList> RouteHandlers::label_host(const RouteCall<api::kHostLabels>& call) {
  const std::string& host = call.path_parameters.front();
  const auto row = state().hosts.find(host);
  TRY(setup_.controller.apply_operator_event(
      model::LabelHost{host, call.request.labels, actor_of(call.caller)},
      record(call,
             {.target = host,
              .before = row == state().hosts.end() ? "" : dump_json(to_json(row->second.labels)),
              .after = dump_json(to_json(call.request.labels))})));
  return limited(call.caller, host_list(state()));
}

Result<void> RouteHandlers::host_report(const RouteCall<api::kHostReport>& call,
                                        const Reply<api::ServiceOrders>& reply) {
  return host_calls_.report(call.path_parameters.front(), call.request,
                            from_seconds(call.query.wait_seconds), reply);
}

Result<api::CollectAnswer> RouteHandlers::collect(const RouteCall<api::kCollect>& call) {
  return host_calls_.collect(call.path_parameters.front(), call.request);
}

Result<api::RunFolders> RouteHandlers::kept_files(const RouteCall<api::kKeptFiles>& call) {
  return host_calls_.kept_files(call.request);
}

Result<api::LimitList> RouteHandlers::limits(const RouteCall<api::kLimits>& call) {
  return limited(call.caller, limit_list(state()));
}

Result<api::LimitList> RouteHandlers::set_limit(const RouteCall<api::kSetLimit>& call) {
  const api::LimitRequest& request = call.request;
  if (request.weight && request.scope != model::LimitScope::project)
    return Error{Code::invalid, "weight: only projects have one"};
  const model::LimitId id{request.scope, request.name};
  const auto row = state().limits.find(id);
  const model::LimitRow before = row == state().limits.end() ? model::LimitRow{id} : row->second;
  Details details{.target = text(id),
                  .project = request.scope == model::LimitScope::project ? request.name : ""};
  if (request.devices || !request.weight) {
    details.before = devices_text(before.devices);
    details.after = devices_text(request.devices);
    TRY(setup_.controller.apply_operator_event(model::SetLimit{id, request.devices},
                                               record(call, details)));
  }
  if (request.weight) {
    details.before = format("weight {}", before.weight);
    details.after = format("weight {}", *request.weight);
    TRY(setup_.controller.apply_operator_event(model::SetWeight{request.name, *request.weight},
                                               record(call, details)));
  }
  return limited(call.caller, limit_list(state()));
}

Result<api::OrphanList> RouteHandlers::orphans(const RouteCall<api::kOrphans>& call) {
  return limited(call.caller, orphan_list(state()));
}

Result<api::OrphanList> RouteHandlers::stop_orphan(const RouteCall<api::kStopOrphan>& call) {
  const model::RunId id = TRY(run_of(call.path_parameters));
  TRY(setup_.controller.apply_operator_event(
      model::StopOrphan{id, actor_of(call.caller)},
      record(call, {.target = text(id), .project = id.project, .after = "stopped"})));
  return limited(call.caller, orphan_list(state()));
}

Result<api::RunView> RouteHandlers::adopt_orphan(const RouteCall<api::kAdoptOrphan>& call) {
  const model::RunId id = TRY(run_of(call.path_parameters));
  TRY(setup_.controller.apply_operator_event(
      model::AdoptOrphan{id, actor_of(call.caller)},
      record(call, {.target = text(id), .project = id.project, .after = "adopted"})));
  return view(call.caller, id);
}

Result<api::RunList> RouteHandlers::runs(const RouteCall<api::kRuns>& call) {
  const identity::Bearer& bearer = call.caller.bearer;
  model::RunFilter filter{.project = call.query.project,
                          .projects = Reader(accounts_.directory(), bearer, state()).projects(),
                          .state = call.query.state,
                          .limit = call.query.limit};
  if (filter.project)
    filter.project = identity::readable_project(accounts_.directory(), bearer, *filter.project);
  if (filter.project && !identity::can_read(accounts_.directory(), bearer, *filter.project))
    return api::RunList();
  const auto found = TRY(setup_.controller.list_runs(filter));
  std::vector<model::RunId> ids;
  for (const model::Run& run : found) ids.push_back(run.id);
  auto summary = TRY(setup_.insight.summaries(ids));
  api::RunList list{.runs = {}, .problems = problems()};
  for (const model::Run& run : found)
    list.runs.push_back(run_view(state(), run, std::move(summary.at(run.id)),
                                 setup_.controller.checkpoint_folder(run), setup_.clock.now()));
  add_wait_reasons(list.runs, found, setup_.controller.scheduler());
  list.notices = setup_.controller.notices();
  return limited(call.caller, std::move(list));
}

Result<api::SeriesList> RouteHandlers::metrics(const RouteCall<api::kMetrics>& call) {
  const model::RunId id = TRY(run_of(call.path_parameters));
  TRY(find_run(id));
  const insight::SeriesQuery query{.name = call.query.name,
                                   .rank = call.query.rank,
                                   .after_step = call.query.after_step,
                                   .points = call.query.points};
  return setup_.insight.series(id, query);
}

Result<api::ProfileView> RouteHandlers::profile(const RouteCall<api::kProfile>& call) {
  const model::RunId id = TRY(run_of(call.path_parameters));
  auto view = TRY(profiles_.begin(*TRY(find_run(id)), call.request));
  TRY(accounts_.record(run_record(call, id, "traces")));
  agent_polls_.notify(id);
  return view;
}

Result<api::TracePart> RouteHandlers::trace(const RouteCall<api::kTrace>& call) {
  const model::RunId id = TRY(run_of(call.path_parameters));
  TRY(find_run(id));
  return profiles_.part(id, call.query);
}

// --- Uploaded folders ---

Result<UploadStore*> RouteHandlers::uploads() const {
  if (setup_.uploads != nullptr) return setup_.uploads;
  return Error{Code::invalid, "this daemon takes no folders"};
}

Result<api::UploadAnswer> RouteHandlers::upload(const RouteCall<api::kUpload>& call) {
  return TRY(uploads())->add_manifest(call.request.manifest, state().settings.upload_limit);
}

Result<api::UploadStored> RouteHandlers::upload_parts(const RouteCall<api::kUploadParts>& call) {
  return api::UploadStored{.files = TRY(TRY(uploads())->add_parts(call.request.parts))};
}

// The run must be of this store: another one may have a run of that name.
Result<const model::Run*> RouteHandlers::find_run_of_agent(
    const std::vector<std::string>& path_parameters, const api::HeartbeatQuery& query) const {
  const model::NodeId node = TRY(node_of(path_parameters));
  const model::Run* run = TRY(find_run(node.attempt.run));
  if (model::has_node(state(), {query.generation.value_or(""), node})) return run;
  return Error{Code::not_found, format("there is no node {}", text(node))};
}

Result<model::UploadManifest> RouteHandlers::node_upload(const RouteCall<api::kNodeUpload>& call) {
  return TRY(uploads())->manifest_of(*TRY(find_run_of_agent(call.path_parameters, call.query)));
}

Result<api::UploadParts> RouteHandlers::node_files(const RouteCall<api::kNodeFiles>& call) {
  return TRY(uploads())->parts_of(*TRY(find_run_of_agent(call.path_parameters, call.query)),
                                  call.request);
}

// --- Checkpoints on hosts ---

Result<api::HostFilesTaken> RouteHandlers::host_files(const RouteCall<api::kHostFiles>& call) {
  return host_calls_.take_files(call.path_parameters.front(), call.request);
}

Result<void> RouteHandlers::node_checkpoint(const RouteCall<api::kNodeCheckpoint>& call,
                                            const Reply<api::NodeCheckpoint>& reply) {
  const model::Run* run = TRY(find_run_of_agent(call.path_parameters, call.query));
  const model::NodeId node = TRY(node_of(call.path_parameters));
  return host_calls_.choose_checkpoint(*run, node.attempt, reply);
}

Result<void> RouteHandlers::node_checkpoint_part(const RouteCall<api::kNodeCheckpointPart>& call,
                                                 const Reply<api::CheckpointPart>& reply) {
  TRY(find_run_of_agent(call.path_parameters, call.query));
  const model::NodeId node = TRY(node_of(call.path_parameters));
  return host_calls_.send_checkpoint_part(node.attempt, call.request, reply);
}

// --- Long polls ---

Result<void> RouteHandlers::run(const RouteCall<api::kRun>& call,
                                const Reply<api::RunView>& reply) {
  const model::RunId id = TRY(run_of(call.path_parameters));
  TRY(find_run(id));
  const auto look = [this, id, reply, query = call.query,
                     caller = call.caller](LongPolls::AttemptKind turn) {
    const auto run = find_run(id);
    if (turn == LongPolls::AttemptKind::early && run && (*run)->version <= query.after_version)
      return reply.is_abandoned();
    reply.send(query.brief.value_or(false) ? brief_view(caller, id) : view(caller, id));
    return true;
  };
  long_polls_.wait(id, from_seconds(call.query.wait_seconds), look);
  return {};
}

Result<void> RouteHandlers::logs(const RouteCall<api::kLogs>& call,
                                 const Reply<api::LogPage>& reply) {
  const model::RunId id = TRY(run_of(call.path_parameters));
  TRY(find_run(id));
  const auto look = [this, id, reply, query = call.query](LongPolls::AttemptKind turn) {
    const auto run = find_run(id);
    auto page = log_page(setup_.insight, id, query, run && model::is_final((*run)->state));
    const std::int64_t version = unfinished_.version(id);
    const bool nothing_new = page && page->lines.empty() && !page->ended &&
                             query.unfinished.value_or(version) == version;
    if (turn == LongPolls::AttemptKind::early && nothing_new) return reply.is_abandoned();
    if (page) {
      page->unfinished = unfinished_.of(state(), id, query.rank);
      page->unfinished_version = version;
    }
    reply.send(page);
    return true;
  };
  long_polls_.wait(id, from_seconds(call.query.tail ? 0 : call.query.wait_seconds), look);
  return {};
}

Result<model::Node> RouteHandlers::newest_node(const model::RunId& run, int index) const {
  const model::AttemptId attempt{run, TRY(find_run(run))->epoch};
  const auto found = state().nodes.find(model::NodeId{attempt, index});
  if (found != state().nodes.end()) return found->second;
  return Error{Code::not_found, format("{} has no node {}", text(attempt), index)};
}

// The agent of an ended node that has reported delivers no more.
Result<void> RouteHandlers::flight(const RouteCall<api::kFlight>& call,
                                   const Reply<api::FlightView>& reply) {
  const model::RunId id = TRY(run_of(call.path_parameters));
  const model::Node node = TRY(newest_node(id, call.query.node));
  const Time asked =
      call.query.after ? *call.query.after : flight_records_.request(node.id.attempt);
  const auto look = [this, node = node.id, asked, reply](LongPolls::AttemptKind turn) {
    const auto known = newest_node(node.attempt.run, node.index);
    const bool may_come = known && known->id == node && !has_left(*known);
    if (turn == LongPolls::AttemptKind::early && may_come &&
        !flight_records_.has_since(node, asked))
      return reply.is_abandoned();
    reply.send(known ? flight_records_.view(*known, asked) : known.error());
    return true;
  };
  long_polls_.wait(id, from_seconds(call.query.wait_seconds), look);
  agent_polls_.notify(id);
  return {};
}

Result<void> RouteHandlers::profile_state(const RouteCall<api::kProfileState>& call,
                                          const Reply<api::ProfileView>& reply) {
  const model::RunId id = TRY(run_of(call.path_parameters));
  TRY(find_run(id));
  const auto look = [this, id, reply, query = call.query](LongPolls::AttemptKind turn) {
    const auto view = profiles_.view(id, query.request_id);
    const bool nothing_new = view && !view->ended && view->version <= query.after_version;
    if (turn == LongPolls::AttemptKind::early && nothing_new) return reply.is_abandoned();
    reply.send(view);
    return true;
  };
  long_polls_.wait(id, from_seconds(call.query.wait_seconds), look);
  return {};
}

std::optional<api::ProfileOrder> RouteHandlers::profile_order(const model::NodeName& node) const {
  if (!model::has_node(state(), node)) return std::nullopt;
  return profiles_.order_for(node.id);
}

bool RouteHandlers::is_flight_wanted(const model::NodeName& node) {
  return model::has_node(state(), node) && flight_records_.is_wanted(state().nodes.at(node.id));
}

Result<void> RouteHandlers::heartbeat(const RouteCall<api::kHeartbeat>& call,
                                      const Reply<api::HeartbeatAnswer>& reply) {
  const api::Heartbeat& heartbeat = call.request;
  const model::NodeId node = TRY(node_of(call.path_parameters));
  const model::NodeName name{call.query.generation.value_or(""), node};
  if (heartbeat.node != text(node))
    return Error{Code::invalid,
                 format("node: '{}' is not the {} of the path", heartbeat.node, text(node))};
  batch_.add({name, heartbeat, reply});
  return {};
}

// The answer waits for a command that the agent does not execute yet.
void RouteHandlers::answer_heartbeat(const HeartbeatCall& call, std::int64_t acknowledged) {
  const model::NodeName& name = call.node;
  const api::Heartbeat& heartbeat = call.heartbeat;
  if (model::has_node(state(), name) && !is_refused(state(), call))
    store_records(name.id, heartbeat);
  pace_.record_call(name, item_bytes(heartbeat), steady_now());
  const bool has_news = !heartbeat.items.empty();
  const auto look = [this, name, acknowledged, has_news, reply = call.reply,
                     known = heartbeat.known_command, incarnation = heartbeat.incarnation,
                     known_profile = heartbeat.profile.value_or(api::ProfileReport{}).request_id](
                        LongPolls::AttemptKind turn) {
    // An agent may call long after its run's end.
    if (const auto fetched = setup_.controller.fetch(name.id.attempt.run); !fetched) {
      reply.send(fetched.error());
      return true;
    }
    const model::Command command = model::command_for(state(), name, incarnation);
    const bool flight_wanted = is_flight_wanted(name);
    const auto profile = profile_order(name);
    const bool profile_wanted = profile && profile->request_id != known_profile;
    if (turn == LongPolls::AttemptKind::early && command.kind == known && !flight_wanted &&
        !profile_wanted)
      return reply.is_abandoned();
    auto answer = heartbeat_answer(command, acknowledged);
    answer.flight_wanted = flight_wanted;
    answer.profile = profile;
    answer.interval_seconds = in_seconds(pace_.interval(has_news));
    answer.batch_pause_seconds = in_seconds(pace_.batch_pause(steady_now()));
    reply.send(answer);
    return true;
  };
  agent_polls_.wait(name.id.attempt.run, from_seconds(heartbeat.wait_seconds), look);
}

// Records of the ranks that are not kept in the store.
void RouteHandlers::store_records(const model::NodeId& node, const api::Heartbeat& heartbeat) {
  bool is_new = unfinished_.update(state(), node, heartbeat.unfinished) || !heartbeat.items.empty();
  if (heartbeat.profile && profiles_.store(node, *heartbeat.profile)) is_new = true;
  if (heartbeat.flight) {
    flight_records_.store(state().nodes.at(node), *heartbeat.flight);
    is_new = true;
  }
  if (is_new) long_polls_.notify(node.attempt.run);
}

}  // namespace lockstep::server
