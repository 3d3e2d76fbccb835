// The routes about findings, and about the energy and use of devices.
#pragma once

#include "platform/api/finding_messages.h"
#include "platform/api/route.h"

namespace lockstep::api {

inline constexpr TypedRoute<FindingQuery, None, FindingList> kFindings{
    "GET",
    "/api/v1/findings",
    Action::read_cluster,
    RouteErrors::none,
    "",
    "FindingList",
    "findings about the runs that the caller may read"};
inline constexpr TypedRoute<FindingQuery, None, FindingList> kRunFindings{
    "GET",
    "/api/v1/runs/{project}/{number}/findings",
    Action::read_run,
    RouteErrors::run_not_found,
    "",
    "FindingList",
    "findings about a run"};
inline constexpr TypedRoute<DeviceUseQuery, None, DeviceUseList> kDeviceUse{
    "GET",
    "/api/v1/device-use",
    Action::read_cluster,
    RouteErrors::none,
    "",
    "DeviceUseList",
    "energy, idle devices and FLOPs of the runs that the caller may read"};

}  // namespace lockstep::api
