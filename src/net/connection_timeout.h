// How long a host may be silent until its connections count as lost.
#pragma once

#include <chrono>

#include "base/os/environment.h"
#include "base/result.h"
#include "base/units.h"

namespace lockstep::net {

inline constexpr Duration kConnectionTimeout = std::chrono::seconds(5);
inline constexpr auto kConnectionTimeoutVariable = "LOCKSTEP_CONNECTION_TIMEOUT";

// LOCKSTEP_CONNECTION_TIMEOUT: one second to an hour; kConnectionTimeout if it is not set.
Result<Duration> connection_timeout_from(const Environment& environment);

}  // namespace lockstep::net
