// join(): creates a communicator of all ranks from a launcher's environment, for programs that use
// comm without the platform.
//
// The rendezvous. Under `lockstep run` it is that of the attempt. Elsewhere rank 0 starts a server
// on a free port and tells the others its address, with a new secret, by a MeetingExchange. So no
// port is configured, and none can be in use already.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>

#include "base/result.h"
#include "base/units.h"
#include "comm/collective/communicator.h"
#include "comm/rendezvous/rendezvous.h"
#include "comm/rendezvous/server.h"

namespace lockstep::comm {

struct JoinOptions {
  Duration timeout = std::chrono::minutes(10);  // of joining, and of every call
};

// The result of join(). The rendezvous exists as long as rank 0 keeps this.
struct JoinedWorld {
  std::unique_ptr<RendezvousServer> server;  // of rank 0, where no agent has one
  std::unique_ptr<Rendezvous> rendezvous;
  std::optional<CommunicatorOptions> options;  // of `world`
  std::unique_ptr<Communicator> world;

  // A group of some of world's ranks, in this order. All of them request it by the same name, which
  // is used for nothing else. algorithm: as in CommunicatorOptions.
  Result<std::unique_ptr<Communicator>> group(const std::string& name, std::span<const int> ranks,
                                              const std::string& algorithm = {}) const;
};

// LOCKSTEP_HOST_ID overrides the machine's boot id. LOCKSTEP_INTERFACE, LOCKSTEP_ADDRESS,
// LOCKSTEP_PORT_RANGE, LOCKSTEP_FABRIC_PROVIDER and LOCKSTEP_CONNECTION_TIMEOUT configure the
// network between hosts (fabric/address).
Result<JoinedWorld> join(const JoinOptions& options = {});

}  // namespace lockstep::comm
