// The variables that torch needs in a rank that a launcher without MASTER_ADDR has started, such as
// srun and mpirun (docs/design/launchers.md).
#pragma once

#include <map>
#include <optional>
#include <string>

#include "base/result.h"
#include "base/units.h"
#include "net/crypto.h"

namespace lockstep::comm {

// RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT, and LOCAL_RANK and LOCAL_WORLD_SIZE if the
// launcher says them. Empty if no launcher of that kind has started this process, or one of the
// four is set. Waits for the other ranks, which call it too. From then on launcher_secret() is that
// of the ranks.
Result<std::map<std::string, std::string>> meet_by_launcher(Duration timeout);

// Call it when they are connected, or will not be: rank 0 removes what told the others the place.
void end_launcher_meeting();

// The secret that the ranks of meet_by_launcher() share; nullopt: it did not make them meet.
std::optional<net::Secret> launcher_secret();

}  // namespace lockstep::comm
