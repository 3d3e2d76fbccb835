// Commands that do their work as the ranks of a run, when they are started as
// such.
#pragma once

#include <optional>

#include "base/result.h"
#include "comm/start/join.h"

namespace lockstep {

// What this process has joined as one of several ranks; nothing when no
// launcher has started it, or as the only one. Waits at most a minute for the
// others.
Result<std::optional<Joined>> join_launched_ranks();

}  // namespace lockstep
