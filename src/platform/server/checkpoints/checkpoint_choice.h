// The choice of the checkpoint from which an attempt goes on, of those that the hosts of the run
// have. Pure. docs/design/host-checkpoints.md.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "platform/api/checkpoint_messages.h"

namespace lockstep::server {

struct HostLists {
  std::map<std::string, std::vector<api::HostCheckpoint>> lists{};  // by host
  std::map<std::string, std::string> silent{};                      // hosts that gave none: why
  std::optional<std::int64_t> reported{};  // the newest step that ranks reported as saved
};

struct CheckpointChoice {
  api::NodeCheckpoint checkpoint{};
  std::map<std::string, std::vector<std::string>> hosts{};  // of each file, by its name
};

// The newest checkpoint of which each file is on a host. None: there are no checkpoints.
// Code::peer_lost: there are, or ranks reported one, and none is whole; the message names the hosts
// that are missing.
Result<CheckpointChoice> choose_checkpoint(const HostLists& known);

}  // namespace lockstep::server
