// A program's own log: the file that its standard error goes to, the daemon's in the background and
// every agent's. It is kept to a size, with one older file beside it.
#pragma once

#include <filesystem>

#include "base/result.h"
#include "base/units.h"

namespace lockstep {

inline constexpr Bytes kDaemonLogMax = 16_MiB;
inline constexpr Bytes kAgentLogMax = 1_MiB;  // there are as many as nodes

// When this is the file that standard error goes to and it has more than `most`, it becomes
// older_log(), in place of what was there, and standard error and output go on in a new one. Cheap
// enough for every tick.
Result<void> bound_own_log(const std::filesystem::path& log, Bytes most);
// NAME.1
std::filesystem::path older_log(const std::filesystem::path& log);

}  // namespace lockstep
