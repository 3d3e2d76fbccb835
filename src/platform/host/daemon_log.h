// The daemon's own log, daemon.log: standard error of a daemon that was started in the background.
#pragma once

#include <filesystem>

#include "base/result.h"
#include "base/units.h"

namespace lockstep {

inline constexpr Bytes kDaemonLogMax = 16_MiB;

// When this is the file that standard error goes to and it has more than `most`, it becomes
// NAME.1, in place of what was there, and standard error and output go on in a new one. Cheap
// enough for every tick.
Result<void> bound_daemon_log(const std::filesystem::path& log, Bytes most = kDaemonLogMax);

}  // namespace lockstep
