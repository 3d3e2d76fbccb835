// The routes about shells on nodes.
#pragma once

#include "platform/api/agent_messages.h"
#include "platform/api/route.h"
#include "platform/api/shell_messages.h"

namespace lockstep::api {

inline constexpr TypedRoute<None, ShellRequest, ShellAccess> kShell{
    "POST",
    "/api/v1/runs/{project}/{number}/nodes/{index}/shell",
    {Action::open_shell, "run.shell"},
    RouteErrors::run_not_found,
    "ShellRequest",
    "ShellAccess",
    "what ssh needs to open shells on a node of a running run"};
inline constexpr TypedRoute<HeartbeatQuery, NodeShell, NodeShellAnswer> kNodeShell{
    "POST",
    "/api/v1/runs/{project}/{number}/attempts/{epoch}/nodes/{index}/shell",
    Caller::agent,
    RouteErrors::run_not_found,
    "NodeShell",
    "NodeShellAnswer",
    "an agent says how its node starts shells, and gets the certificate of its host key"};

}  // namespace lockstep::api
