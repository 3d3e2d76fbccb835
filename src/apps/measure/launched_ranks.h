// Commands that work as the ranks of a run if a launcher starts them so.
#pragma once

#include <optional>

#include "base/result.h"
#include "comm/collective/start/join.h"

namespace lockstep::cli {

// Joins the ranks that a launcher started. Returns nothing if no launcher started this process or
// if it is the only rank. Waits at most a minute for the other ranks.
Result<std::optional<comm::JoinedWorld>> join_launched_ranks();

}  // namespace lockstep::cli
