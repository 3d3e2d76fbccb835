// A program's own log: the file of its standard error, for a daemon in the background and for every
// agent. Its size is limited, with one older file beside it.
#pragma once

#include <filesystem>

#include "base/result.h"
#include "base/units.h"

namespace lockstep::host {

inline constexpr Bytes kDaemonLogMax = 16_MiB;
inline constexpr Bytes kAgentLogMax = 1_MiB;  // one for each node

// If standard error goes to this file and it has more than `most`, the file is renamed to
// rotated_log(), replacing an older one. Standard error and output continue in a new file. Cheap
// enough for every tick.
Result<void> rotate_own_log(const std::filesystem::path& log, Bytes most);
// NAME.1
std::filesystem::path rotated_log(const std::filesystem::path& log);

}  // namespace lockstep::host
