// The routes that open a byte stream to a node. Both calls ask for an upgrade, and are answered
// 101.
#pragma once

#include "platform/api/agent_messages.h"
#include "platform/api/route.h"
#include "platform/api/stream_messages.h"

namespace lockstep::api {

inline constexpr TypedRoute<StreamQuery, None, None> kStream{
    "GET",
    "/api/v1/runs/{project}/{number}/nodes/{index}/stream",
    {Action::open_shell, "run.stream"},
    RouteErrors::run_not_found_or_storage_full,
    "",
    "",
    "a byte stream to a port of a node, or to a shell of it"};
inline constexpr TypedRoute<HeartbeatQuery, None, None> kNodeStream{
    "GET",
    "/api/v1/runs/{project}/{number}/attempts/{epoch}/nodes/{index}/streams/{stream}",
    Caller::agent,
    RouteErrors::run_not_found,
    "",
    "",
    "the agent's end of a stream that the daemon ordered"};

}  // namespace lockstep::api
