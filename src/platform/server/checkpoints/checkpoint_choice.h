// The choice of the checkpoint from which an attempt goes on, of those that the hosts of the run
// have. Pure. docs/design/host-checkpoints.md.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "base/result.h"
#include "platform/api/checkpoint_messages.h"

namespace lockstep::server {

// A host's copy of a file that does not have its checksum, or that the host cannot read.
struct DamagedFile {
  std::int64_t step = 0;
  std::string manifest{};
  std::string name{};
  std::string host{};

  auto operator<=>(const DamagedFile&) const = default;
};

struct HostLists {
  std::map<std::string, std::vector<api::HostCheckpoint>> lists{};  // by host
  std::map<std::string, std::string> silent{};                      // hosts that gave none: why
  std::optional<std::int64_t> reported{};  // the newest step that ranks reported as saved
  std::set<DamagedFile> damaged{};         // as agents found
};

struct CheckpointChoice {
  api::NodeCheckpoint checkpoint{};
  std::map<std::string, std::vector<std::string>> hosts{};  // of each file, by its name
};

// The newest checkpoint of which each file is on a host, undamaged. None: there are no checkpoints.
// Code::peer_lost: there are, or ranks reported one, and none is whole; the message names the hosts
// that are missing, and the damaged files.
Result<CheckpointChoice> choose_checkpoint(const HostLists& known);

}  // namespace lockstep::server
