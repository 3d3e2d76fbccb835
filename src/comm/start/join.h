// join(): from a launcher's environment to a communicator of all its ranks, for programs that use
// comm without the platform.
//
// Where ranks meet. Under `lockstep run` at the attempt's meeting place. Elsewhere rank 0 opens one
// on a free port and writes its address, with a fresh secret, into a file that only the user can
// read, named by the job: in LOCKSTEP_MEETING_FOLDER, else ~/.local/state/lockstep/meetings, which
// must be one folder on all hosts, as home folders on clusters are. The others wait for the file;
// rank 0 removes it when all have met. So no port is agreed upon, and none can be taken.
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

namespace lockstep {

struct JoinOptions {
  Duration timeout = std::chrono::minutes(10);  // of joining, and of every call
};

// What a rank has joined. The meeting place serves as long as rank 0 keeps it.
struct Joined {
  std::unique_ptr<RendezvousServer> server;  // of rank 0, where no agent holds one
  std::unique_ptr<Rendezvous> meeting_place;
  std::optional<CommunicatorOptions> options;  // of `world`
  std::unique_ptr<Communicator> world;

  // A group of some of world's ranks, in this order, which all of them call for by the same name,
  // used for nothing else. algorithm: as in CommunicatorOptions.
  Result<std::unique_ptr<Communicator>> group(const std::string& name, std::span<const int> ranks,
                                              const std::string& algorithm = {}) const;
};

// LOCKSTEP_HOST_ID overrides the machine's boot id; LOCKSTEP_INTERFACE, LOCKSTEP_ADDRESS,
// LOCKSTEP_PORT_RANGE, LOCKSTEP_FABRIC_PROVIDER and LOCKSTEP_CONNECTION_TIMEOUT say more of the
// network between hosts (fabric/address).
Result<Joined> join(const JoinOptions& options = {});

}  // namespace lockstep
