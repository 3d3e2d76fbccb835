// The checkpoints of runs on this host, for the daemon (docs/design/host-checkpoints.md): which
// there are, and parts of their files. The folder belongs to the user of the run, so it is read
// with the rights of that user.
#pragma once

#include <filesystem>

#include "platform/api/checkpoint_messages.h"

namespace lockstep::host_service {

// `home`: of the nodes' files. A failure is the error of the answer.
api::HostFileAnswer carry_out(const std::filesystem::path& home, const api::HostFileOrder& order);

}  // namespace lockstep::host_service
