// Brings the checkpoint from which an attempt goes on into the folder of this host, with the files
// that it does not have yet; docs/design/host-checkpoints.md.
#pragma once

#include <filesystem>
#include <functional>
#include <string>

#include "base/result.h"
#include "platform/agent/fetch/checkpoint_source.h"

namespace lockstep::agent {

// Why it is not a newer one; empty: it is the newest, or there is none. `name` is one that no other
// node uses. The checkpoint appears at once, and checked. Errors as in copy_folder.h.
Result<std::string> fetch_checkpoint(CheckpointSource& source, const std::filesystem::path& folder,
                                     const std::string& name,
                                     const std::function<bool()>& is_stopped);

}  // namespace lockstep::agent
