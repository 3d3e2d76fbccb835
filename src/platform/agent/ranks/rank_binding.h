// Binds a rank to processors of its host: to those of its GPU's NUMA node or, if its device is a
// core, to those of its island of the map. So memory that it touches first, and memory of comm's
// allocator, is near its device.
//
// Cores are bound only if the map has several islands for the host. LOCKSTEP_BIND=none in the run's
// environment disables all binding. Memory is not bound: a rank that needs more than its node has
// gets it elsewhere.
#pragma once

#include <string_view>
#include <vector>

#include "base/result.h"
#include "platform/host/launch_spec.h"

namespace lockstep::agent {

inline constexpr std::string_view kBindVariable = "LOCKSTEP_BIND";  // island (the default) or none

// By local rank, as ProcessSpec::processors. Empty: not bound. All are empty, with a warning, if
// this machine lacks a device that the map gives it. Code::invalid if the variable has another
// value.
Result<std::vector<std::vector<int>>> rank_processors(const host::LaunchSpec& launch);

}  // namespace lockstep::agent
