// Where an agent gets the checkpoint from which its attempt goes on: the daemon, or a test.
#pragma once

#include "base/result.h"
#include "platform/api/checkpoint_messages.h"

namespace lockstep::agent {

class CheckpointSource {
 public:
  virtual ~CheckpointSource() = default;
  virtual Result<api::NodeCheckpoint> choice() = 0;
  virtual Result<api::CheckpointPart> part(const api::CheckpointPartRequest& request) = 0;
};

}  // namespace lockstep::agent
