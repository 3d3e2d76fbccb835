// Sweep: removes files of an ended node. Each function may be repeated after an interruption at any
// point; missing files are no error. No other files in the node's folder, and no checkpoints, are
// touched. The rights are those of the folder's owner, since a user may put links there.
#pragma once

#include <span>

#include "base/result.h"
#include "platform/host/node_files.h"

namespace lockstep::host {

// Removes the files of a killed agent besides its spool's content: the spool, the secret, the
// folders of its sockets and, as the last, the launch file, which marks the node as not yet swept.
Result<void> sweep_leftovers(const NodeFiles& files,
                             std::span<const std::filesystem::path> socket_folders);

// Removes the ranks' own files, the agent's log and lock, and folders that are empty then.
Result<void> sweep_logs(const NodeFiles& files);

}  // namespace lockstep::host
