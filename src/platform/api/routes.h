// Every route, declared once and completely: method, path, caller, query, the records of request
// and answer, and its errors. The server dispatches and parses calls by it, the client calls by it,
// and OpenAPI is generated from it (openapi.h). docs/howto/add-a-route.md explains how to add one.
#pragma once

#include <algorithm>
#include <array>

#include "map/map.h"
#include "platform/api/agent_messages.h"
#include "platform/api/artifact_routes.h"
#include "platform/api/budget_routes.h"
#include "platform/api/document_routes.h"
#include "platform/api/event_messages.h"
#include "platform/api/external_messages.h"
#include "platform/api/finding_routes.h"
#include "platform/api/host_service_messages.h"
#include "platform/api/identity_routes.h"
#include "platform/api/import_routes.h"
#include "platform/api/json.h"
#include "platform/api/login_routes.h"
#include "platform/api/messages.h"
#include "platform/api/model_routes.h"
#include "platform/api/notice_routes.h"
#include "platform/api/profile_messages.h"
#include "platform/api/route.h"
#include "platform/api/secret_routes.h"
#include "platform/api/shell_routes.h"
#include "platform/api/stream_routes.h"
#include "platform/api/upload_messages.h"

namespace lockstep::api {

inline constexpr TypedRoute<HealthQuery, None, Health> kHealth{
    "GET",
    "/health",
    Caller::anyone,
    RouteErrors::none,
    "",
    "Health",
    "is the daemon up, and is it the one that knows the token"};
inline constexpr TypedRoute<None, None, Json> kOpenapi{
    "GET", "/api/openapi.json", Action::read_cluster, RouteErrors::none, "",
    "",    "this description"};
inline constexpr TypedRoute<None, None, Version> kVersion{
    "GET", "/api/v1/version", Action::read_cluster,   RouteErrors::none,
    "",    "Version",         "version of the daemon"};
inline constexpr TypedRoute<None, None, Changes> kEvents{
    "GET",
    "/api/v1/events",
    Action::read_cluster,
    RouteErrors::none,
    "",
    "Changes",
    "server-sent events that tell what has changed; Last-Event-ID goes on after that one",
    AnswerForm::events};
inline constexpr TypedRoute<None, None, map::ClusterMap> kMap{
    "GET", "/api/v1/map", Action::read_cluster,    RouteErrors::none,
    "",    "Map",         "the map of the cluster"};
inline constexpr TypedRoute<None, map::Measured, map::ClusterMap> kSetMeasured{
    "POST",
    "/api/v1/map/measured",
    {Action::manage_cluster, "map.measure"},
    RouteErrors::run_not_found_or_storage_full,
    "Measured",
    "Map",
    "replace what was measured between hosts that joined"};
inline constexpr TypedRoute<None, SubmitRequest, RunView> kSubmit{
    "POST",
    "/api/v1/runs",
    {Action::submit_run, "run.submit"},
    RouteErrors::storage_full,
    "SubmitRequest",
    "RunView",
    "submit a run"};
// A fork has the values of env, so it needs the right to a shell, which shows them.
inline constexpr TypedRoute<None, SubmitRequest, RunView> kFork{
    "POST",
    "/api/v1/runs/{project}/{number}/fork",
    {Action::open_shell, "run.fork"},
    RouteErrors::run_not_found_or_storage_full,
    "SubmitRequest",
    "RunView",
    "submit a run from the changed spec of another: a value *** of env is that of the other run"};
inline constexpr TypedRoute<None, ExternalNodeRequest, ExternalNode> kExternalNode{
    "POST",
    "/api/v1/external-nodes",
    {Action::submit_run, "run.attach"},
    RouteErrors::storage_full,
    "ExternalNodeRequest",
    "ExternalNode",
    "attach the agent of ranks that another launcher has started"};
inline constexpr TypedRoute<RunsQuery, None, RunList> kRuns{
    "GET", "/api/v1/runs", Action::read_cluster,     RouteErrors::none,
    "",    "RunList",      "list runs, newest first"};
inline constexpr TypedRoute<RunQuery, None, RunView> kRun{"GET",
                                                          "/api/v1/runs/{project}/{number}",
                                                          Action::read_run,
                                                          RouteErrors::run_not_found,
                                                          "",
                                                          "RunView",
                                                          "one run, now or when it has changed"};
inline constexpr TypedRoute<None, StopRequest, RunView> kStop{
    "POST",
    "/api/v1/runs/{project}/{number}/stop",
    {Action::control_run, "run.stop"},
    RouteErrors::run_not_found_or_storage_full,
    "StopRequest",
    "RunView",
    "stop a run"};
inline constexpr TypedRoute<None, ResumeRequest, RunView> kResume{
    "POST",
    "/api/v1/runs/{project}/{number}/resume",
    {Action::control_run, "run.resume"},
    RouteErrors::run_not_found_or_storage_full,
    "ResumeRequest",
    "RunView",
    "queue a run again that failed, timed out or was cancelled"};
inline constexpr TypedRoute<None, None, RemovedRun> kRemove{
    "POST",
    "/api/v1/runs/{project}/{number}/remove",
    {Action::control_run, "run.remove"},
    RouteErrors::run_not_found_or_storage_full,
    "",
    "RemovedRun",
    "remove an ended run for good, with its lines, metrics, checkpoints and files"};
inline constexpr TypedRoute<None, HoldRequest, RunView> kHold{
    "POST",
    "/api/v1/runs/{project}/{number}/hold",
    {Action::control_run, "run.hold"},
    RouteErrors::run_not_found_or_storage_full,
    "HoldRequest",
    "RunView",
    "keep a run that waits from starting"};
inline constexpr TypedRoute<None, ReleaseRequest, RunView> kRelease{
    "POST",
    "/api/v1/runs/{project}/{number}/release",
    {Action::control_run, "run.release"},
    RouteErrors::run_not_found_or_storage_full,
    "ReleaseRequest",
    "RunView",
    "let a run start that was held"};
inline constexpr TypedRoute<None, PriorityRequest, RunView> kPriority{
    "POST",
    "/api/v1/runs/{project}/{number}/priority",
    {Action::control_run, "run.priority"},
    RouteErrors::run_not_found_or_storage_full,
    "PriorityRequest",
    "RunView",
    "bring a run forward among those of its project, or back"};
inline constexpr TypedRoute<None, ExtendRequest, RunView> kExtend{
    "POST",
    "/api/v1/runs/{project}/{number}/extend",
    {Action::control_run, "run.extend"},
    RouteErrors::run_not_found_or_storage_full,
    "ExtendRequest",
    "RunView",
    "give a run that has not ended a longer time limit"};
inline constexpr TypedRoute<None, AnnotateRequest, RunView> kAnnotate{
    "POST",
    "/api/v1/runs/{project}/{number}/annotate",
    {Action::control_run, "run.annotate"},
    RouteErrors::run_not_found_or_storage_full,
    "AnnotateRequest",
    "RunView",
    "change the tags and the note of a run, also after its end"};
inline constexpr TypedRoute<QueueQuery, None, QueueView> kQueue{
    "GET",
    "/api/v1/queue",
    Action::read_cluster,
    RouteErrors::none,
    "",
    "QueueView",
    "the runs that wait, why and until when, and the runs that hold devices"};
inline constexpr TypedRoute<None, SubmitRequest, PlanView> kPlan{
    "POST",
    "/api/v1/plan",
    Action::submit_run,
    RouteErrors::none,
    "SubmitRequest",
    "PlanView",
    "what would become of a run; nothing is submitted"};
inline constexpr TypedRoute<None, None, HostList> kHosts{
    "GET", "/api/v1/hosts", Action::read_cluster,     RouteErrors::none,
    "",    "HostList",      "the hosts and their use"};
inline constexpr TypedRoute<None, HostRequest, HostList> kSetHost{
    "POST",
    "/api/v1/hosts",
    {Action::manage_cluster, "host.set"},
    RouteErrors::run_not_found_or_storage_full,
    "HostRequest",
    "HostList",
    "give a host to runs, or keep it from them"};
inline constexpr TypedRoute<None, None, LimitList> kLimits{
    "GET",
    "/api/v1/limits",
    Action::read_cluster,
    RouteErrors::none,
    "",
    "LimitList",
    "how many devices projects and users may hold"};
inline constexpr TypedRoute<None, LimitRequest, LimitList> kSetLimit{
    "POST",
    "/api/v1/limits",
    {Action::manage_cluster, "limit.set"},
    RouteErrors::storage_full,
    "LimitRequest",
    "LimitList",
    "set or lift such a limit"};
inline constexpr TypedRoute<None, None, OrphanList> kOrphans{
    "GET",
    "/api/v1/orphans",
    Action::read_cluster,
    RouteErrors::none,
    "",
    "OrphanList",
    "runs of another store that go on here"};
inline constexpr TypedRoute<None, OrphanRequest, OrphanList> kStopOrphan{
    "POST",
    "/api/v1/orphans/{project}/{number}/stop",
    {Action::manage_cluster, "orphan.stop"},
    RouteErrors::run_not_found_or_storage_full,
    "OrphanRequest",
    "OrphanList",
    "end such a run"};
inline constexpr TypedRoute<None, OrphanRequest, RunView> kAdoptOrphan{
    "POST",
    "/api/v1/orphans/{project}/{number}/adopt",
    {Action::manage_cluster, "orphan.adopt"},
    RouteErrors::run_not_found_or_storage_full,
    "OrphanRequest",
    "RunView",
    "make such a run one of this store"};
inline constexpr TypedRoute<LogsQuery, None, LogPage> kLogs{
    "GET",
    "/api/v1/runs/{project}/{number}/logs",
    Action::read_run,
    RouteErrors::run_not_found,
    "",
    "LogPage",
    "lines that the ranks wrote, now or when some come"};
inline constexpr TypedRoute<LogSearchQuery, None, LogMatches> kSearchLogs{
    "GET",
    "/api/v1/runs/{project}/{number}/logs/search",
    Action::read_run,
    RouteErrors::run_not_found,
    "",
    "LogMatches",
    "lines of the ranks that match a pattern"};
inline constexpr TypedRoute<FlightQuery, None, FlightView> kFlight{
    "GET",
    "/api/v1/runs/{project}/{number}/flight",
    Action::read_run,
    RouteErrors::run_not_found,
    "",
    "FlightView",
    "what the ranks of a node recorded of their collectives, as its agent delivered it"};
inline constexpr TypedRoute<None, ProfileRequest, ProfileView> kProfile{
    "POST",
    "/api/v1/runs/{project}/{number}/profile",
    {Action::control_run, "run.profile"},
    RouteErrors::run_not_found,
    "ProfileRequest",
    "ProfileView",
    "ask running ranks for traces of their next steps"};
inline constexpr TypedRoute<ProfileQuery, None, ProfileView> kProfileState{
    "GET",
    "/api/v1/runs/{project}/{number}/profile",
    Action::read_run,
    RouteErrors::run_not_found,
    "",
    "ProfileView",
    "how far the traces are; a request ends half a minute after the last such call"};
inline constexpr TypedRoute<TraceQuery, None, TracePart> kTrace{
    "GET",
    "/api/v1/runs/{project}/{number}/trace",
    Action::read_run,
    RouteErrors::run_not_found,
    "",
    "TracePart",
    "a part of the trace of a rank"};
inline constexpr TypedRoute<MetricsQuery, None, SeriesList> kMetrics{
    "GET",
    "/api/v1/runs/{project}/{number}/metrics",
    Action::read_run,
    RouteErrors::run_not_found,
    "",
    "SeriesList",
    "points that the ranks logged"};
// Points that no agent brings: of a client, or of an import.
inline constexpr TypedRoute<None, PointsRequest, PointsAnswer> kAddPoints{
    "POST",
    "/api/v1/runs/{project}/{number}/points",
    {Action::control_run, "run.points"},
    RouteErrors::run_not_found_or_storage_full,
    "PointsRequest",
    "PointsAnswer",
    "add points to a run, many in one call"};
// Runs that the caller may not read are unknown ones.
inline constexpr TypedRoute<CurvesQuery, None, CurveList> kCurves{
    "GET", "/api/v1/curves", Action::read_cluster,   RouteErrors::none,
    "",    "CurveList",      "a metric of many runs"};
// The path names the node, so that the token is checked before the body is read.
inline constexpr TypedRoute<HeartbeatQuery, Heartbeat, HeartbeatAnswer> kHeartbeat{
    "POST",
    "/api/v1/runs/{project}/{number}/attempts/{epoch}/nodes/{index}/heartbeat",
    Caller::agent,
    RouteErrors::run_not_found_or_storage_full,
    "Heartbeat",
    "HeartbeatAnswer",
    "an agent reports, and hears what to do"};

inline constexpr TypedRoute<None, JoinTokenRequest, JoinTokenAnswer> kHostToken{
    "POST",
    "/api/v1/hosts/{host}/token",
    {Action::manage_cluster, "host.token"},
    RouteErrors::none,
    "JoinTokenRequest",
    "JoinTokenAnswer",
    "make a token with which a machine joins the cluster as this host, once, within an hour"};
inline constexpr TypedRoute<None, JoinRequest, JoinAnswer> kJoinHost{
    "POST",
    "/api/v1/hosts/{host}/join",
    Caller::joining,
    RouteErrors::storage_full,
    "JoinRequest",
    "JoinAnswer",
    "a machine joins, and gets the credential of its host service"};
inline constexpr TypedRoute<None, HostActionRequest, HostList> kRemoveHost{
    "POST",
    "/api/v1/hosts/{host}/remove",
    {Action::manage_cluster, "host.remove"},
    RouteErrors::run_not_found_or_storage_full,
    "HostActionRequest",
    "HostList",
    "take a host off the map, and make the credential of its service void"};
inline constexpr TypedRoute<None, HostDeadRequest, HostList> kHostDead{
    "POST",
    "/api/v1/hosts/{host}/dead",
    {Action::manage_cluster, "host.dead"},
    RouteErrors::run_not_found_or_storage_full,
    "HostDeadRequest",
    "HostList",
    "say that a host's machine is off: its nodes count as gone, and their runs start elsewhere"};
inline constexpr TypedRoute<None, HostLabelsRequest, HostList> kHostLabels{
    "POST",
    "/api/v1/hosts/{host}/labels",
    {Action::manage_cluster, "host.label"},
    RouteErrors::run_not_found_or_storage_full,
    "HostLabelsRequest",
    "HostList",
    "set labels of a host, for which runs may ask"};
inline constexpr TypedRoute<HostReportQuery, ServiceReport, ServiceOrders> kHostReport{
    "POST",
    "/api/v1/hosts/{host}/report",
    Caller::host,
    RouteErrors::storage_full,
    "ServiceReport",
    "ServiceOrders",
    "a host service reports, and hears which nodes to start and to end"};
inline constexpr TypedRoute<None, CollectRequest, CollectAnswer> kCollect{
    "POST",
    "/api/v1/hosts/{host}/items",
    Caller::host,
    RouteErrors::storage_full,
    "CollectRequest",
    "CollectAnswer",
    "a host service delivers what an agent that was killed could not"};
inline constexpr TypedRoute<None, RunFolders, RunFolders> kKeptFiles{
    "POST",
    "/api/v1/hosts/{host}/folders",
    Caller::host,
    RouteErrors::none,
    "RunFolders",
    "RunFolders",
    "a host service asks which files of ended runs stay"};

inline constexpr TypedRoute<None, UploadRequest, UploadAnswer> kUpload{
    "POST",
    "/api/v1/uploads",
    Action::submit_run,
    RouteErrors::storage_full,
    "UploadRequest",
    "UploadAnswer",
    "what a folder has that is to be sent; the answer says which files the daemon lacks"};
inline constexpr TypedRoute<None, UploadParts, UploadStored> kUploadParts{
    "POST",
    "/api/v1/uploads/parts",
    Action::submit_run,
    RouteErrors::storage_full,
    "UploadParts",
    "UploadStored",
    "parts of files that the daemon lacks; those at another place than the next are ignored"};
inline constexpr TypedRoute<HeartbeatQuery, None, model::UploadManifest> kNodeUpload{
    "GET",
    "/api/v1/runs/{project}/{number}/attempts/{epoch}/nodes/{index}/upload",
    Caller::agent,
    RouteErrors::run_not_found,
    "",
    "UploadManifest",
    "an agent asks what the uploaded folder of its run has"};
inline constexpr TypedRoute<HeartbeatQuery, UploadPartsRequest, UploadParts> kNodeFiles{
    "POST",
    "/api/v1/runs/{project}/{number}/attempts/{epoch}/nodes/{index}/files",
    Caller::agent,
    RouteErrors::run_not_found,
    "UploadPartsRequest",
    "UploadParts",
    "an agent gets parts of these files"};

inline constexpr TypedRoute<None, HostFileAnswers, HostFilesTaken> kHostFiles{
    "POST",
    "/api/v1/hosts/{host}/files",
    Caller::host,
    RouteErrors::none,
    "HostFileAnswers",
    "HostFilesTaken",
    "a host service sends lists and parts of checkpoints that the daemon ordered"};
inline constexpr TypedRoute<HeartbeatQuery, None, NodeCheckpoint> kNodeCheckpoint{
    "GET",
    "/api/v1/runs/{project}/{number}/attempts/{epoch}/nodes/{index}/checkpoint",
    Caller::agent,
    RouteErrors::run_not_found,
    "",
    "NodeCheckpoint",
    "an agent asks from which checkpoint its attempt goes on"};
inline constexpr TypedRoute<HeartbeatQuery, CheckpointPartRequest, CheckpointPart>
    kNodeCheckpointPart{
        "POST",
        "/api/v1/runs/{project}/{number}/attempts/{epoch}/nodes/{index}/checkpoint",
        Caller::agent,
        RouteErrors::run_not_found,
        "CheckpointPartRequest",
        "CheckpointPart",
        "an agent gets a part of a file of that checkpoint from a host that has it"};

inline constexpr std::array<const Route*, 120> kRoutes = {&kHealth,
                                                          &kOpenapi,
                                                          &kVersion,
                                                          &kMap,
                                                          &kSubmit,
                                                          &kFork,
                                                          &kPlan,
                                                          &kRuns,
                                                          &kRun,
                                                          &kStop,
                                                          &kResume,
                                                          &kRemove,
                                                          &kHold,
                                                          &kRelease,
                                                          &kPriority,
                                                          &kExtend,
                                                          &kAnnotate,
                                                          &kLogs,
                                                          &kSearchLogs,
                                                          &kFlight,
                                                          &kProfile,
                                                          &kProfileState,
                                                          &kTrace,
                                                          &kMetrics,
                                                          &kQueue,
                                                          &kHosts,
                                                          &kSetHost,
                                                          &kLimits,
                                                          &kSetLimit,
                                                          &kHostToken,
                                                          &kJoinHost,
                                                          &kRemoveHost,
                                                          &kHostReport,
                                                          &kCollect,
                                                          &kKeptFiles,
                                                          &kOrphans,
                                                          &kStopOrphan,
                                                          &kAdoptOrphan,
                                                          &kHeartbeat,
                                                          &kUpload,
                                                          &kUploadParts,
                                                          &kNodeUpload,
                                                          &kNodeFiles,
                                                          &kHostDead,
                                                          &kSetMeasured,
                                                          &kHostFiles,
                                                          &kNodeCheckpoint,
                                                          &kNodeCheckpointPart,
                                                          &kHostLabels,
                                                          &kWhoAmI,
                                                          &kUsers,
                                                          &kAddUser,
                                                          &kChangeUser,
                                                          &kRemoveUser,
                                                          &kProjects,
                                                          &kAddProject,
                                                          &kRemoveProject,
                                                          &kSetMember,
                                                          &kAddService,
                                                          &kTokens,
                                                          &kAddToken,
                                                          &kRevokeToken,
                                                          &kAudit,
                                                          &kLogin,
                                                          &kDeviceLogin,
                                                          &kDevicePoll,
                                                          &kLoginOptions,
                                                          &kSession,
                                                          &kEndSession,
                                                          &kSessionCode,
                                                          &kLogout,
                                                          &kPassword,
                                                          &kFirstPassword,
                                                          &kLinkUser,
                                                          &kSecrets,
                                                          &kSetSecret,
                                                          &kRemoveSecret,
                                                          &kExternalNode,
                                                          &kBudgets,
                                                          &kGrantBudget,
                                                          &kWithdrawBudget,
                                                          &kMoveBudget,
                                                          &kLiftBudget,
                                                          &kPostings,
                                                          &kSetRate,
                                                          &kUsage,
                                                          &kStream,
                                                          &kNodeStream,
                                                          &kShell,
                                                          &kNodeShell,
                                                          &kNotices,
                                                          &kAddNotice,
                                                          &kRemoveNotice,
                                                          &kTestNotice,
                                                          &kFindings,
                                                          &kRunFindings,
                                                          &kDeviceUse,
                                                          &kDocuments,
                                                          &kDocument,
                                                          &kSaveDocument,
                                                          &kRemoveDocument,
                                                          &kEvents,
                                                          &kModels,
                                                          &kModel,
                                                          &kRegisterModel,
                                                          &kModelAlias,
                                                          &kRemoveModel,
                                                          &kArtifacts,
                                                          &kArtifactPart,
                                                          &kAddArtifactPart,
                                                          &kCurves,
                                                          &kAddPoints,
                                                          &kImport,
                                                          &kImportPoints,
                                                          &kAddItems,
                                                          &kAddMedia,
                                                          &kNodeMedia,
                                                          &kImages,
                                                          &kImage,
                                                          &kHistograms};

// So no route of users is without a check of their rights.
static_assert(std::ranges::all_of(kRoutes, [](const Route* route) {
  return (route->caller == Caller::user) == (route->action != Action::none);
}));

}  // namespace lockstep::api
