// Every route, declared once and whole: method, path, who may call, the query, the records of
// request and answer, and what it may refuse. The server dispatches and reads calls by it, the
// client calls by it, OpenAPI is made from it (openapi.h). docs/design/api.md says how to add one.
#pragma once

#include <array>
#include <string_view>

#include "base/result.h"
#include "map/map.h"
#include "platform/api/agent_messages.h"
#include "platform/api/json.h"
#include "platform/api/messages.h"

namespace lockstep::api {

enum class Caller {
  anyone,  // no token
  user,    // the daemon's user token
  agent,   // the token of the attempt that the path names
};

// What one place of a path, {name}, takes.
struct PathPlace {
  std::string_view name;
  std::string_view help;
  std::string_view pattern;
  std::string_view example;
};

inline constexpr std::array kPlaces = {
    PathPlace{"project", "the run's project", "^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$", "demo"},
    PathPlace{"number", "the run's number in its project", "^[1-9][0-9]{0,17}$", "1"},
    PathPlace{"epoch", "the attempt's number in its run", "^[1-9][0-9]{0,17}$", "1"},
    PathPlace{"index", "the node's number in its attempt", "^(0|[1-9][0-9]{0,8})$", "0"},
};

// A record that travels; no schema: there is none.
struct Body {
  std::string_view name;
  Json (*schema)() = nullptr;
};

// What a route of that kind may refuse besides what any may: a wrong query or body, a wrong token,
// what HTTP itself refuses, and a failing or overloaded daemon.
enum class Refusals {
  none,
  unknown,  // the run is not known
  full,     // nothing more can be stored
  unknown_or_full,
};

// In `path`, {name} stands for one segment. A run is two segments: {project}/{number}.
struct Route {
  std::string_view method;
  std::string_view path;
  Caller caller;
  Refusals refusals;
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
struct Call : Route {
  using Query = QueryType;
  using Request = RequestType;
  using Answer = AnswerType;

  constexpr Call(std::string_view method_, std::string_view path_, Caller caller_,
                 Refusals refusals_, std::string_view request_name, std::string_view answer_name,
                 std::string_view summary_)
      : Route{method_,
              path_,
              caller_,
              refusals_,
              summary_,
              &json_schema<Query>,
              body_of<Request>(request_name),
              body_of<Answer>(answer_name)} {}
};

inline constexpr Call<HealthQuery, None, Health> kHealth{
    "GET",
    "/health",
    Caller::anyone,
    Refusals::none,
    "",
    "Health",
    "is the daemon up, and is it the one that knows the token"};
inline constexpr Call<None, None, Json> kOpenapi{
    "GET", "/api/openapi.json", Caller::user, Refusals::none, "", "", "this description"};
inline constexpr Call<None, None, Version> kVersion{
    "GET", "/api/v1/version", Caller::user, Refusals::none, "", "Version", "version of the daemon"};
inline constexpr Call<None, None, Map> kMap{
    "GET", "/api/v1/map", Caller::user, Refusals::none, "", "Map", "the map of the cluster"};
inline constexpr Call<None, SubmitRequest, RunView> kSubmit{
    "POST",          "/api/v1/runs", Caller::user,  Refusals::full,
    "SubmitRequest", "RunView",      "submit a run"};
inline constexpr Call<RunsQuery, None, RunList> kRuns{
    "GET", "/api/v1/runs", Caller::user, Refusals::none, "", "RunList", "list runs, newest first"};
inline constexpr Call<RunQuery, None, RunView> kRun{
    "GET",     "/api/v1/runs/{project}/{number}",    Caller::user, Refusals::unknown, "",
    "RunView", "one run, now or when it has changed"};
inline constexpr Call<None, StopRequest, RunView> kStop{
    "POST",        "/api/v1/runs/{project}/{number}/stop",
    Caller::user,  Refusals::unknown_or_full,
    "StopRequest", "RunView",
    "stop a run"};
inline constexpr Call<None, ResumeRequest, RunView> kResume{
    "POST",
    "/api/v1/runs/{project}/{number}/resume",
    Caller::user,
    Refusals::unknown_or_full,
    "ResumeRequest",
    "RunView",
    "queue a run again that failed, timed out or was cancelled"};
inline constexpr Call<None, HoldRequest, RunView> kHold{"POST",
                                                        "/api/v1/runs/{project}/{number}/hold",
                                                        Caller::user,
                                                        Refusals::unknown_or_full,
                                                        "HoldRequest",
                                                        "RunView",
                                                        "keep a run that waits from starting"};
inline constexpr Call<None, ReleaseRequest, RunView> kRelease{
    "POST",
    "/api/v1/runs/{project}/{number}/release",
    Caller::user,
    Refusals::unknown_or_full,
    "ReleaseRequest",
    "RunView",
    "let a run start that was held"};
inline constexpr Call<None, PriorityRequest, RunView> kPriority{
    "POST",
    "/api/v1/runs/{project}/{number}/priority",
    Caller::user,
    Refusals::unknown_or_full,
    "PriorityRequest",
    "RunView",
    "bring a run forward among those of its project, or back"};
inline constexpr Call<QueueQuery, None, QueueView> kQueue{
    "GET",
    "/api/v1/queue",
    Caller::user,
    Refusals::none,
    "",
    "QueueView",
    "the runs that wait, why and until when, and the runs that hold devices"};
inline constexpr Call<None, SubmitRequest, PlanView> kPlan{
    "POST",
    "/api/v1/plan",
    Caller::user,
    Refusals::none,
    "SubmitRequest",
    "PlanView",
    "what would become of a run; nothing is submitted"};
inline constexpr Call<None, None, HostList> kHosts{
    "GET",      "/api/v1/hosts",          Caller::user, Refusals::none, "",
    "HostList", "the hosts and their use"};
inline constexpr Call<None, HostRequest, HostList> kSetHost{
    "POST",
    "/api/v1/hosts",
    Caller::user,
    Refusals::unknown_or_full,
    "HostRequest",
    "HostList",
    "give a host to runs, or keep it from them"};
inline constexpr Call<None, None, LimitList> kLimits{
    "GET",
    "/api/v1/limits",
    Caller::user,
    Refusals::none,
    "",
    "LimitList",
    "how many devices projects and users may hold"};
inline constexpr Call<None, LimitRequest, LimitList> kSetLimit{
    "POST",      "/api/v1/limits",          Caller::user, Refusals::full, "LimitRequest",
    "LimitList", "set or lift such a limit"};
inline constexpr Call<None, None, OrphanList> kOrphans{"GET",
                                                       "/api/v1/orphans",
                                                       Caller::user,
                                                       Refusals::none,
                                                       "",
                                                       "OrphanList",
                                                       "runs of another store that go on here"};
inline constexpr Call<None, OrphanRequest, OrphanList> kStopOrphan{
    "POST",          "/api/v1/orphans/{project}/{number}/stop",
    Caller::user,    Refusals::unknown_or_full,
    "OrphanRequest", "OrphanList",
    "end such a run"};
inline constexpr Call<None, OrphanRequest, RunView> kAdoptOrphan{
    "POST",
    "/api/v1/orphans/{project}/{number}/adopt",
    Caller::user,
    Refusals::unknown_or_full,
    "OrphanRequest",
    "RunView",
    "make such a run one of this store"};
inline constexpr Call<LogsQuery, None, LogPage> kLogs{
    "GET",
    "/api/v1/runs/{project}/{number}/logs",
    Caller::user,
    Refusals::unknown,
    "",
    "LogPage",
    "lines that the ranks wrote, now or when some come"};
inline constexpr Call<FlightQuery, None, FlightView> kFlight{
    "GET",
    "/api/v1/runs/{project}/{number}/flight",
    Caller::user,
    Refusals::unknown,
    "",
    "FlightView",
    "what the ranks of a node recorded of their collectives, as its agent delivered it"};
inline constexpr Call<MetricsQuery, None, SeriesList> kMetrics{
    "GET",
    "/api/v1/runs/{project}/{number}/metrics",
    Caller::user,
    Refusals::unknown,
    "",
    "SeriesList",
    "points that the ranks logged"};
// The path names the node, so that the token can be judged before the body is taken in.
inline constexpr Call<HeartbeatQuery, Heartbeat, HeartbeatAnswer> kHeartbeat{
    "POST",
    "/api/v1/runs/{project}/{number}/attempts/{epoch}/nodes/{index}/heartbeat",
    Caller::agent,
    Refusals::unknown_or_full,
    "Heartbeat",
    "HeartbeatAnswer",
    "an agent reports, and hears what to do"};

inline constexpr std::array<const Route*, 25> kRoutes = {
    &kHealth,  &kOpenapi,    &kVersion,     &kMap,      &kSubmit,  &kPlan,     &kRuns,
    &kRun,     &kStop,       &kResume,      &kHold,     &kRelease, &kPriority, &kLogs,
    &kFlight,  &kMetrics,    &kQueue,       &kHosts,    &kSetHost, &kLimits,   &kSetLimit,
    &kOrphans, &kStopOrphan, &kAdoptOrphan, &kHeartbeat};

}  // namespace lockstep::api
