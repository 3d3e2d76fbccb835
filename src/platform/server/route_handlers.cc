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

// The class of a method; only its type is used.
template <class Class, class Signature>
Class class_of(Signature Class::*);

}  // namespace

template <class Class>
Class& RouteHandlers::part() {
  if constexpr (std::same_as<Class, PeopleCalls>)
    return people_;
  else if constexpr (std::same_as<Class, RunCalls>)
    return runs_;
  else if constexpr (std::same_as<Class, InsightCalls>)
    return insight_;
  else if constexpr (std::same_as<Class, OperatorCalls>)
    return operators_;
  else if constexpr (std::same_as<Class, BudgetCalls>)
    return budgets_;
  else if constexpr (std::same_as<Class, NoticeCalls>)
    return notices_;
  else if constexpr (std::same_as<Class, FindingCalls>)
    return findings_;
  else if constexpr (std::same_as<Class, DocumentCalls>)
    return documents_;
  else if constexpr (std::same_as<Class, ModelCalls>)
    return models_;
  else if constexpr (std::same_as<Class, ArtifactCalls>)
    return artifacts_;
  else if constexpr (std::same_as<Class, ImportCalls>)
    return imports_;
  else if constexpr (std::same_as<Class, AgentCalls>)
    return agents_;
  else if constexpr (std::same_as<Class, ShellCalls>)
    return shells_;
  else if constexpr (std::same_as<Class, SecretCalls>)
    return secrets_;
  else if constexpr (std::same_as<Class, LoginCalls>)
    return login_;
  else if constexpr (std::same_as<Class, SessionLogin>)
    return login_.sessions();
  else if constexpr (std::same_as<Class, StreamBroker>)
    return streams_;
  else if constexpr (std::same_as<Class, EventHub>)
    return events_;
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
      {&api::kEvents, &H::handle<api::kEvents, &EventHub::open>},
      {&api::kMap, &H::handle<api::kMap, &OperatorCalls::map>},
      {&api::kSetMeasured, &H::handle<api::kSetMeasured, &OperatorCalls::set_measured>},
      {&api::kSubmit, &H::handle<api::kSubmit, &RunCalls::submit>},
      {&api::kFork, &H::handle<api::kFork, &RunCalls::fork>},
      {&api::kExternalNode, &H::handle<api::kExternalNode, &RunCalls::attach_external_node>},
      {&api::kRuns, &H::handle<api::kRuns, &RunCalls::runs>},
      {&api::kRun, &H::handle<api::kRun, &RunCalls::run>},
      {&api::kStop, &H::handle<api::kStop, &RunCalls::stop>},
      {&api::kResume, &H::handle<api::kResume, &RunCalls::resume>},
      {&api::kRemove, &H::handle<api::kRemove, &RunCalls::remove>},
      {&api::kHold, &H::handle<api::kHold, &RunCalls::hold>},
      {&api::kRelease, &H::handle<api::kRelease, &RunCalls::release>},
      {&api::kPriority, &H::handle<api::kPriority, &RunCalls::priority>},
      {&api::kExtend, &H::handle<api::kExtend, &RunCalls::extend>},
      {&api::kAnnotate, &H::handle<api::kAnnotate, &RunCalls::annotate>},
      {&api::kQueue, &H::handle<api::kQueue, &RunCalls::queue>},
      {&api::kPlan, &H::handle<api::kPlan, &RunCalls::plan>},
      {&api::kHosts, &H::handle<api::kHosts, &OperatorCalls::list_hosts>},
      {&api::kSetHost, &H::handle<api::kSetHost, &OperatorCalls::set_host>},
      {&api::kHostToken, &H::handle<api::kHostToken, &OperatorCalls::host_token>},
      {&api::kJoinHost, &H::handle<api::kJoinHost, &AgentCalls::join_host>},
      {&api::kRemoveHost, &H::handle<api::kRemoveHost, &OperatorCalls::remove_host>},
      {&api::kHostDead, &H::handle<api::kHostDead, &OperatorCalls::declare_host_dead>},
      {&api::kHostLabels, &H::handle<api::kHostLabels, &OperatorCalls::label_host>},
      {&api::kHostReport, &H::handle<api::kHostReport, &AgentCalls::host_report>},
      {&api::kCollect, &H::handle<api::kCollect, &AgentCalls::collect>},
      {&api::kKeptFiles, &H::handle<api::kKeptFiles, &AgentCalls::kept_files>},
      {&api::kLimits, &H::handle<api::kLimits, &OperatorCalls::limits>},
      {&api::kSetLimit, &H::handle<api::kSetLimit, &OperatorCalls::set_limit>},
      {&api::kOrphans, &H::handle<api::kOrphans, &OperatorCalls::orphans>},
      {&api::kStopOrphan, &H::handle<api::kStopOrphan, &OperatorCalls::stop_orphan>},
      {&api::kAdoptOrphan, &H::handle<api::kAdoptOrphan, &OperatorCalls::adopt_orphan>},
      {&api::kLogs, &H::handle<api::kLogs, &InsightCalls::logs>},
      {&api::kSearchLogs, &H::handle<api::kSearchLogs, &InsightCalls::search_logs>},
      {&api::kFlight, &H::handle<api::kFlight, &InsightCalls::flight>},
      {&api::kProfile, &H::handle<api::kProfile, &InsightCalls::profile>},
      {&api::kProfileState, &H::handle<api::kProfileState, &InsightCalls::profile_state>},
      {&api::kTrace, &H::handle<api::kTrace, &InsightCalls::trace>},
      {&api::kMetrics, &H::handle<api::kMetrics, &InsightCalls::metrics>},
      {&api::kCurves, &H::handle<api::kCurves, &InsightCalls::curves>},
      {&api::kAddPoints, &H::handle<api::kAddPoints, &InsightCalls::add_points>},
      {&api::kHeartbeat, &H::handle<api::kHeartbeat, &AgentCalls::heartbeat>},
      {&api::kUpload, &H::handle<api::kUpload, &RunCalls::upload>},
      {&api::kUploadParts, &H::handle<api::kUploadParts, &RunCalls::upload_parts>},
      {&api::kNodeUpload, &H::handle<api::kNodeUpload, &AgentCalls::node_upload>},
      {&api::kNodeFiles, &H::handle<api::kNodeFiles, &AgentCalls::node_files>},
      {&api::kHostFiles, &H::handle<api::kHostFiles, &AgentCalls::host_files>},
      {&api::kNodeCheckpoint, &H::handle<api::kNodeCheckpoint, &AgentCalls::node_checkpoint>},
      {&api::kNodeCheckpointPart,
       &H::handle<api::kNodeCheckpointPart, &AgentCalls::node_checkpoint_part>},
      {&api::kShell, &H::handle<api::kShell, &ShellCalls::open>},
      {&api::kNodeShell, &H::handle<api::kNodeShell, &ShellCalls::prepared>},
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
      {&api::kLoginOptions, &H::handle<api::kLoginOptions, &LoginCalls::options>},
      {&api::kSession, &H::handle<api::kSession, &SessionLogin::begin>},
      {&api::kEndSession, &H::handle<api::kEndSession, &SessionLogin::end>},
      {&api::kSessionCode, &H::handle<api::kSessionCode, &SessionLogin::make_code>},
      {&api::kDeviceLogin, &H::handle<api::kDeviceLogin, &LoginCalls::start_device>},
      {&api::kDevicePoll, &H::handle<api::kDevicePoll, &LoginCalls::poll_device>},
      {&api::kLogout, &H::handle<api::kLogout, &LoginCalls::logout>},
      {&api::kPassword, &H::handle<api::kPassword, &LoginCalls::change_password>},
      {&api::kFirstPassword, &H::handle<api::kFirstPassword, &LoginCalls::set_first_password>},
      {&api::kLinkUser, &H::handle<api::kLinkUser, &LoginCalls::link_user>},
      {&api::kSecrets, &H::handle<api::kSecrets, &SecretCalls::list>},
      {&api::kSetSecret, &H::handle<api::kSetSecret, &SecretCalls::set>},
      {&api::kStream, &H::handle<api::kStream, &StreamBroker::open>},
      {&api::kNodeStream, &H::handle<api::kNodeStream, &StreamBroker::connect>},
      {&api::kRemoveSecret, &H::handle<api::kRemoveSecret, &SecretCalls::remove>},
      {&api::kBudgets, &H::handle<api::kBudgets, &BudgetCalls::list>},
      {&api::kGrantBudget, &H::handle<api::kGrantBudget, &BudgetCalls::grant>},
      {&api::kWithdrawBudget, &H::handle<api::kWithdrawBudget, &BudgetCalls::withdraw>},
      {&api::kMoveBudget, &H::handle<api::kMoveBudget, &BudgetCalls::move>},
      {&api::kLiftBudget, &H::handle<api::kLiftBudget, &BudgetCalls::lift>},
      {&api::kPostings, &H::handle<api::kPostings, &BudgetCalls::postings>},
      {&api::kSetRate, &H::handle<api::kSetRate, &BudgetCalls::set_rate>},
      {&api::kNotices, &H::handle<api::kNotices, &NoticeCalls::list>},
      {&api::kAddNotice, &H::handle<api::kAddNotice, &NoticeCalls::add>},
      {&api::kRemoveNotice, &H::handle<api::kRemoveNotice, &NoticeCalls::remove>},
      {&api::kTestNotice, &H::handle<api::kTestNotice, &NoticeCalls::test>},
      {&api::kUsage, &H::handle<api::kUsage, &BudgetCalls::usage>},
      {&api::kFindings, &H::handle<api::kFindings, &FindingCalls::list>},
      {&api::kRunFindings, &H::handle<api::kRunFindings, &FindingCalls::of_run>},
      {&api::kDeviceUse, &H::handle<api::kDeviceUse, &FindingCalls::device_use>},
      {&api::kDocuments, &H::handle<api::kDocuments, &DocumentCalls::list>},
      {&api::kDocument, &H::handle<api::kDocument, &DocumentCalls::read>},
      {&api::kSaveDocument, &H::handle<api::kSaveDocument, &DocumentCalls::save>},
      {&api::kRemoveDocument, &H::handle<api::kRemoveDocument, &DocumentCalls::remove>},
      {&api::kArtifacts, &H::handle<api::kArtifacts, &ArtifactCalls::list>},
      {&api::kArtifactPart, &H::handle<api::kArtifactPart, &ArtifactCalls::part>},
      {&api::kAddArtifactPart, &H::handle<api::kAddArtifactPart, &ArtifactCalls::add_part>},
      {&api::kModels, &H::handle<api::kModels, &ModelCalls::list>},
      {&api::kModel, &H::handle<api::kModel, &ModelCalls::show>},
      {&api::kRegisterModel, &H::handle<api::kRegisterModel, &ModelCalls::add>},
      {&api::kModelAlias, &H::handle<api::kModelAlias, &ModelCalls::set_alias>},
      {&api::kRemoveModel, &H::handle<api::kRemoveModel, &ModelCalls::remove>},
      {&api::kImport, &H::handle<api::kImport, &ImportCalls::import>},
      {&api::kImportPoints, &H::handle<api::kImportPoints, &ImportCalls::add_points>},
      {&api::kAddItems, &H::handle<api::kAddItems, &ImportCalls::add_items>},
      {&api::kAddMedia, &H::handle<api::kAddMedia, &ImportCalls::add_media>},
      {&api::kNodeMedia, &H::handle<api::kNodeMedia, &ImportCalls::add_node_media>},
      {&api::kImages, &H::handle<api::kImages, &ImportCalls::images>},
      {&api::kImage, &H::handle<api::kImage, &ImportCalls::image>},
      {&api::kHistograms, &H::handle<api::kHistograms, &ImportCalls::histograms>},
  };
  const auto found =
      std::ranges::find(table, &route, [](const auto& entry) { return entry.first; });
  return found == table.end() ? nullptr : found->second;
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
  if (query.host)
    return setup_.keys.host_token(*query.host, host_credential(context_.state(), *query.host));
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
                       .problems = context_.problems(),
                       .notices = setup_.controller.notices(),
                       .loop_lag_seconds = in_seconds(lag_.longest()),
                       .upload_limit = context_.state().settings.upload_limit};
  return context_.limited(call.caller, std::move(version));
}

}  // namespace lockstep::server
