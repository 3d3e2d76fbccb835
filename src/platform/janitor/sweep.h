// Sweep: removes files of a node that has ended. Each may be called again after it was cut short at
// any point, and what is gone already is no error. Nothing else in the node's folder is touched,
// and checkpoints are nowhere near it.
#pragma once

#include <span>

#include "base/result.h"
#include "platform/host/node_files.h"

namespace lockstep {

// What a killed agent left besides its spool's content: the spool, the secret, the folders of its
// sockets and last, since it says that there is work to do, the launch file.
Result<void> sweep_left(const NodeFiles& files,
                        std::span<const std::filesystem::path> socket_folders);

// The ranks' own files, the agent's log and lock, and the folders that are empty then.
Result<void> sweep_logs(const NodeFiles& files);

}  // namespace lockstep
