// The Unix accounts as which a daemon of root starts ranks; docs/design/isolation.md.
#pragma once

#include "base/result.h"
#include "platform/engine/local/node_worker.h"
#include "platform/host/home.h"

namespace lockstep::cli {

// True for a daemon of root on a machine with a table of users: ranks of its own machine run as
// their users. Without the table they run as root.
bool has_unix_users();

// For the engine of this machine. Empty: all ranks run as the daemon does.
engine::AccountOf local_accounts();
// For jobs of Slurm. Without the table only root's runs start, as root.
engine::AccountOf slurm_accounts();

// Code::invalid: the users of ranks cannot reach their files in the daemon's folder.
Result<void> check_users_reach(const host::Home& home);

}  // namespace lockstep::cli
