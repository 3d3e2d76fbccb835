// Every route, declared once: the server dispatches by this table, the client calls by it.
#pragma once

#include <array>
#include <string_view>

namespace lockstep::api {

enum class Caller {
  anyone,  // no token
  user,    // the daemon's user token
  agent,   // the token of the attempt that the path names
};

// In `path`, {name} stands for one segment. A run is two segments: {project}/{number}.
struct Route {
  std::string_view method;
  std::string_view path;
  Caller caller;
  std::string_view summary;
};

inline constexpr Route kHealth{"GET", "/health", Caller::anyone, "is the daemon up"};
inline constexpr Route kVersion{"GET", "/api/v1/version", Caller::user, "version of the daemon"};
inline constexpr Route kMap{"GET", "/api/v1/map", Caller::user, "the map of the cluster"};
inline constexpr Route kSubmit{"POST", "/api/v1/runs", Caller::user, "submit a run"};
// ?project=P&state=S&limit=N
inline constexpr Route kRuns{"GET", "/api/v1/runs", Caller::user, "list runs, newest first"};
// ?after_version=V&wait=SECONDS: answers when the run's version is over V, or the time is up
inline constexpr Route kRun{"GET", "/api/v1/runs/{project}/{number}", Caller::user, "one run"};
inline constexpr Route kStop{"POST", "/api/v1/runs/{project}/{number}/stop", Caller::user,
                             "stop a run"};
// ?after=CURSOR&rank=R&limit=LINES&wait=SECONDS; or ?tail=LINES
inline constexpr Route kLogs{"GET", "/api/v1/runs/{project}/{number}/logs", Caller::user,
                             "lines that the ranks wrote"};
// ?name=METRIC&rank=R&after_step=S
inline constexpr Route kMetrics{"GET", "/api/v1/runs/{project}/{number}/metrics", Caller::user,
                                "points that the ranks logged"};
// The path names the node, so that the token can be judged before the body is taken in.
inline constexpr Route kHeartbeat{
    "POST", "/api/v1/runs/{project}/{number}/attempts/{epoch}/nodes/{index}/heartbeat",
    Caller::agent, "an agent reports, and hears what to do"};

inline constexpr std::array kRoutes = {kHealth, kVersion, kMap,  kSubmit,  kRuns,
                                       kRun,    kStop,    kLogs, kMetrics, kHeartbeat};

}  // namespace lockstep::api
