// DaemonLink: the connection from an agent to the daemon. The real one is in http_daemon_link.h;
// tests have their own.
#pragma once

#include <string>

#include "base/clock.h"
#include "base/result.h"
#include "net/http/upgrade.h"
#include "platform/api/messages.h"

namespace lockstep::agent {

class DaemonLink {
 public:
  virtual ~DaemonLink() = default;

  // Blocks until the answer comes, or fails at the deadline. Code::denied and Code::not_found mean
  // that the daemon answered and does not know the node, or no longer. Code::invalid means that it
  // will never accept this call. All other codes mean that it was not reached.
  virtual Result<api::HeartbeatAnswer> heartbeat(const api::Heartbeat& heartbeat,
                                                 Deadline deadline) = 0;
  // Opens the agent's end of a byte stream that the daemon ordered. Called on other threads, at the
  // same time as heartbeat(). Bounded.
  virtual Result<net::UpgradedConnection> open_stream(const std::string& id) = 0;
};

}  // namespace lockstep::agent
