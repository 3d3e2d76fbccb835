// How long a host may be silent until the connections to it count as lost.
#pragma once

#include <chrono>

#include "base/environment.h"
#include "base/result.h"
#include "base/units.h"

namespace lockstep {

inline constexpr Duration kSilenceBound = std::chrono::seconds(5);

// LOCKSTEP_CONNECTION_TIMEOUT: one second to an hour; kSilenceBound where it is not set.
Result<Duration> silence_bound_of(const Environment& environment);

}  // namespace lockstep
