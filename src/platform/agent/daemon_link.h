// DaemonLink: how an agent's word reaches the daemon. The real one is in client_link.h; tests have
// their own.
#pragma once

#include "base/clock.h"
#include "base/result.h"
#include "platform/api/messages.h"

namespace lockstep {

class DaemonLink {
 public:
  virtual ~DaemonLink() = default;

  // Blocks until the answer, or fails by the deadline. Code::denied and Code::not_found mean that
  // the daemon answered and does not know the node (any more); Code::invalid that it will never
  // take this call; all else that it was not reached.
  virtual Result<api::HeartbeatAnswer> heartbeat(const api::Heartbeat& heartbeat,
                                                 Deadline deadline) = 0;
};

}  // namespace lockstep
