// Every route, declared once and completely: method, path, caller, query, the records of request
// and answer, and its errors. The server dispatches and parses calls by it, the client calls by it,
// and OpenAPI is generated from it (openapi.h). docs/howto/add-a-route.md explains how to add one.
#pragma once

#include <array>
#include <string_view>

#include "base/result.h"
#include "map/map.h"
#include "platform/api/agent_messages.h"
#include "platform/api/host_service_messages.h"
#include "platform/api/json.h"
#include "platform/api/messages.h"
#include "platform/api/profile_messages.h"
#include "platform/api/upload_messages.h"

namespace lockstep::api {

enum class Caller {
  anyone,   // no token
  user,     // the daemon's user token
  agent,    // the token of the attempt that the path names
  host,     // the credential of the host that the path names first
  joining,  // a join token for the host that the path names first
};

// The values that one parameter {name} of a path takes.
struct PathParameter {
  std::string_view name;
  std::string_view help;
  std::string_view pattern;
  std::string_view example;
};

inline constexpr std::array kPathParameters = {
    PathParameter{"project", "the run's project", "^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$", "demo"},
    PathParameter{"number", "the run's number in its project", "^[1-9][0-9]{0,17}$", "1"},
    PathParameter{"epoch", "the attempt's number in its run", "^[1-9][0-9]{0,17}$", "1"},
    PathParameter{"host", "the host's id on the map", "^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$", "gpu1"},
    PathParameter{"index", "the node's number in its attempt", "^(0|[1-9][0-9]{0,8})$", "0"},
};

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
};

// In `path`, {name} stands for one segment. A run is two segments: {project}/{number}.
struct Route {
  std::string_view method;
  std::string_view path;
  Caller caller;
  RouteErrors errors;
  std::string_view summary;
  Json (*query)();  // schema of the query's record
  Body request;
  Body answer;
};

template <class T>
constexpr Body body_of(std::string_view name) {
  if constexpr (std::same_as<T, None>)
    return {};
  else
    return {name, &json_schema<T>};
}

// A route with the types of its query, request and answer.
template <class QueryType, class RequestType, class AnswerType>
struct TypedRoute : Route {
  using Query = QueryType;
  using Request = RequestType;
  using Answer = AnswerType;

  constexpr TypedRoute(std::string_view method_, std::string_view path_, Caller caller_,
                       RouteErrors refusals_, std::string_view request_name,
                       std::string_view answer_name, std::string_view summary_)
      : Route{method_,
              path_,
              caller_,
              refusals_,
              summary_,
              &json_schema<Query>,
              body_of<Request>(request_name),
              body_of<Answer>(answer_name)} {}
};

inline constexpr TypedRoute<HealthQuery, None, Health> kHealth{
    "GET",
    "/health",
    Caller::anyone,
    RouteErrors::none,
    "",
    "Health",
    "is the daemon up, and is it the one that knows the token"};
inline constexpr TypedRoute<None, None, Json> kOpenapi{
    "GET", "/api/openapi.json", Caller::user, RouteErrors::none, "", "", "this description"};
inline constexpr TypedRoute<None, None, Version> kVersion{
    "GET", "/api/v1/version", Caller::user,           RouteErrors::none,
    "",    "Version",         "version of the daemon"};
inline constexpr TypedRoute<None, None, map::ClusterMap> kMap{
    "GET", "/api/v1/map", Caller::user, RouteErrors::none, "", "Map", "the map of the cluster"};
inline constexpr TypedRoute<None, map::Measured, map::ClusterMap> kSetMeasured{
    "POST",
    "/api/v1/map/measured",
    Caller::user,
    RouteErrors::run_not_found_or_storage_full,
    "Measured",
    "Map",
    "replace what was measured between hosts that joined"};
inline constexpr TypedRoute<None, SubmitRequest, RunView> kSubmit{
    "POST",          "/api/v1/runs", Caller::user,  RouteErrors::storage_full,
    "SubmitRequest", "RunView",      "submit a run"};
inline constexpr TypedRoute<RunsQuery, None, RunList> kRuns{
    "GET",     "/api/v1/runs",           Caller::user, RouteErrors::none, "",
    "RunList", "list runs, newest first"};
inline constexpr TypedRoute<RunQuery, None, RunView> kRun{
    "GET",     "/api/v1/runs/{project}/{number}",    Caller::user, RouteErrors::run_not_found, "",
    "RunView", "one run, now or when it has changed"};
inline constexpr TypedRoute<None, StopRequest, RunView> kStop{
    "POST",        "/api/v1/runs/{project}/{number}/stop",
    Caller::user,  RouteErrors::run_not_found_or_storage_full,
    "StopRequest", "RunView",
    "stop a run"};
inline constexpr TypedRoute<None, ResumeRequest, RunView> kResume{
    "POST",
    "/api/v1/runs/{project}/{number}/resume",
    Caller::user,
    RouteErrors::run_not_found_or_storage_full,
    "ResumeRequest",
    "RunView",
    "queue a run again that failed, timed out or was cancelled"};
inline constexpr TypedRoute<None, None, RemovedRun> kRemove{
    "POST",
    "/api/v1/runs/{project}/{number}/remove",
    Caller::user,
    RouteErrors::run_not_found_or_storage_full,
    "",
    "RemovedRun",
    "remove an ended run for good, with its lines, metrics, checkpoints and files"};
inline constexpr TypedRoute<None, HoldRequest, RunView> kHold{
    "POST",
    "/api/v1/runs/{project}/{number}/hold",
    Caller::user,
    RouteErrors::run_not_found_or_storage_full,
    "HoldRequest",
    "RunView",
    "keep a run that waits from starting"};
inline constexpr TypedRoute<None, ReleaseRequest, RunView> kRelease{
    "POST",
    "/api/v1/runs/{project}/{number}/release",
    Caller::user,
    RouteErrors::run_not_found_or_storage_full,
    "ReleaseRequest",
    "RunView",
    "let a run start that was held"};
inline constexpr TypedRoute<None, PriorityRequest, RunView> kPriority{
    "POST",
    "/api/v1/runs/{project}/{number}/priority",
    Caller::user,
    RouteErrors::run_not_found_or_storage_full,
    "PriorityRequest",
    "RunView",
    "bring a run forward among those of its project, or back"};
inline constexpr TypedRoute<QueueQuery, None, QueueView> kQueue{
    "GET",
    "/api/v1/queue",
    Caller::user,
    RouteErrors::none,
    "",
    "QueueView",
    "the runs that wait, why and until when, and the runs that hold devices"};
inline constexpr TypedRoute<None, SubmitRequest, PlanView> kPlan{
    "POST",
    "/api/v1/plan",
    Caller::user,
    RouteErrors::none,
    "SubmitRequest",
    "PlanView",
    "what would become of a run; nothing is submitted"};
inline constexpr TypedRoute<None, None, HostList> kHosts{
    "GET",      "/api/v1/hosts",          Caller::user, RouteErrors::none, "",
    "HostList", "the hosts and their use"};
inline constexpr TypedRoute<None, HostRequest, HostList> kSetHost{
    "POST",
    "/api/v1/hosts",
    Caller::user,
    RouteErrors::run_not_found_or_storage_full,
    "HostRequest",
    "HostList",
    "give a host to runs, or keep it from them"};
inline constexpr TypedRoute<None, None, LimitList> kLimits{
    "GET",
    "/api/v1/limits",
    Caller::user,
    RouteErrors::none,
    "",
    "LimitList",
    "how many devices projects and users may hold"};
inline constexpr TypedRoute<None, LimitRequest, LimitList> kSetLimit{
    "POST",      "/api/v1/limits",          Caller::user, RouteErrors::storage_full, "LimitRequest",
    "LimitList", "set or lift such a limit"};
inline constexpr TypedRoute<None, None, OrphanList> kOrphans{
    "GET",
    "/api/v1/orphans",
    Caller::user,
    RouteErrors::none,
    "",
    "OrphanList",
    "runs of another store that go on here"};
inline constexpr TypedRoute<None, OrphanRequest, OrphanList> kStopOrphan{
    "POST",          "/api/v1/orphans/{project}/{number}/stop",
    Caller::user,    RouteErrors::run_not_found_or_storage_full,
    "OrphanRequest", "OrphanList",
    "end such a run"};
inline constexpr TypedRoute<None, OrphanRequest, RunView> kAdoptOrphan{
    "POST",
    "/api/v1/orphans/{project}/{number}/adopt",
    Caller::user,
    RouteErrors::run_not_found_or_storage_full,
    "OrphanRequest",
    "RunView",
    "make such a run one of this store"};
inline constexpr TypedRoute<LogsQuery, None, LogPage> kLogs{
    "GET",
    "/api/v1/runs/{project}/{number}/logs",
    Caller::user,
    RouteErrors::run_not_found,
    "",
    "LogPage",
    "lines that the ranks wrote, now or when some come"};
inline constexpr TypedRoute<FlightQuery, None, FlightView> kFlight{
    "GET",
    "/api/v1/runs/{project}/{number}/flight",
    Caller::user,
    RouteErrors::run_not_found,
    "",
    "FlightView",
    "what the ranks of a node recorded of their collectives, as its agent delivered it"};
inline constexpr TypedRoute<None, ProfileRequest, ProfileView> kProfile{
    "POST",
    "/api/v1/runs/{project}/{number}/profile",
    Caller::user,
    RouteErrors::run_not_found,
    "ProfileRequest",
    "ProfileView",
    "ask running ranks for traces of their next steps"};
inline constexpr TypedRoute<ProfileQuery, None, ProfileView> kProfileState{
    "GET",
    "/api/v1/runs/{project}/{number}/profile",
    Caller::user,
    RouteErrors::run_not_found,
    "",
    "ProfileView",
    "how far the traces are; a request ends half a minute after the last such call"};
inline constexpr TypedRoute<TraceQuery, None, TracePart> kTrace{
    "GET",
    "/api/v1/runs/{project}/{number}/trace",
    Caller::user,
    RouteErrors::run_not_found,
    "",
    "TracePart",
    "a part of the trace of a rank"};
inline constexpr TypedRoute<MetricsQuery, None, SeriesList> kMetrics{
    "GET",
    "/api/v1/runs/{project}/{number}/metrics",
    Caller::user,
    RouteErrors::run_not_found,
    "",
    "SeriesList",
    "points that the ranks logged"};
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
    Caller::user,
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
    Caller::user,
    RouteErrors::run_not_found_or_storage_full,
    "HostActionRequest",
    "HostList",
    "take a host off the map, and make the credential of its service void"};
inline constexpr TypedRoute<None, HostDeadRequest, HostList> kHostDead{
    "POST",
    "/api/v1/hosts/{host}/dead",
    Caller::user,
    RouteErrors::run_not_found_or_storage_full,
    "HostDeadRequest",
    "HostList",
    "say that a host's machine is off: its nodes count as gone, and their runs start elsewhere"};
inline constexpr TypedRoute<None, HostLabelsRequest, HostList> kHostLabels{
    "POST",
    "/api/v1/hosts/{host}/labels",
    Caller::user,
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
    Caller::user,
    RouteErrors::storage_full,
    "UploadRequest",
    "UploadAnswer",
    "what a folder has that is to be sent; the answer says which files the daemon lacks"};
inline constexpr TypedRoute<None, UploadParts, UploadStored> kUploadParts{
    "POST",
    "/api/v1/uploads/parts",
    Caller::user,
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

inline constexpr std::array<const Route*, 45> kRoutes = {
    &kHealth,      &kOpenapi,      &kVersion,        &kMap,
    &kSubmit,      &kPlan,         &kRuns,           &kRun,
    &kStop,        &kResume,       &kRemove,         &kHold,
    &kRelease,     &kPriority,     &kLogs,           &kFlight,
    &kProfile,     &kProfileState, &kTrace,          &kMetrics,
    &kQueue,       &kHosts,        &kSetHost,        &kLimits,
    &kSetLimit,    &kHostToken,    &kJoinHost,       &kRemoveHost,
    &kHostReport,  &kCollect,      &kKeptFiles,      &kOrphans,
    &kStopOrphan,  &kAdoptOrphan,  &kHeartbeat,      &kUpload,
    &kUploadParts, &kNodeUpload,   &kNodeFiles,      &kHostDead,
    &kSetMeasured, &kHostFiles,    &kNodeCheckpoint, &kNodeCheckpointPart,
    &kHostLabels};

}  // namespace lockstep::api
