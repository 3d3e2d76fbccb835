// On which of its host's processors a rank runs: on those of its island of the map, so that what it
// touches first, and what it asks of comm's allocator, lies in the memory near its device.
//
// Only where the map has several islands for the host; LOCKSTEP_BIND=none in the run's environment
// turns it off. Memory is not bound: a rank that needs more than its island has gets it elsewhere.
#pragma once

#include <string_view>
#include <vector>

#include "base/result.h"
#include "platform/engine/launch.h"

namespace lockstep {

inline constexpr std::string_view kBindVariable = "LOCKSTEP_BIND";  // island (the default) or none

// By local rank, as Program::processors. Empty: not bound; so are all, with a warning, where this
// machine lacks a device that the map gives it. Code::invalid when the variable has another value.
Result<std::vector<std::vector<int>>> rank_processors(const Launch& launch);

}  // namespace lockstep
