// The environment of a rank: docs/design/agent.md has the list and what each variable means.
#pragma once

#include <string>

#include "base/environment.h"
#include "platform/core/model/ids.h"
#include "platform/engine/launch.h"

namespace lockstep {

// What a rank learns from its agent beyond the launch.
struct Meeting {
  std::string master_address;
  int master_port = 0;
  int store_port = 0;      // where this host's loopback leads to torch's store; 0: MASTER_ADDR does
  std::string rendezvous;  // host:port
  std::string secret_file;
  std::string report_socket;  // of this rank
  std::string token;          // LOCKSTEP_NODE_TOKEN
  std::string flight_folder;
  bool replaces = false;  // the rank was killed, and this is another in its place
};

// What a program needs to run at all, from the agent's own environment; the rest is left behind.
Environment base_environment();

// Lockstep's own variables win over the user's (launch.env), and those over `base`.
Environment rank_environment(const Launch& launch, const NodeId& node, int local_rank,
                             const Meeting& meeting, Environment base);

}  // namespace lockstep
