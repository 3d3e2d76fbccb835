// The environment of a rank: docs/design/rank-interface.md lists the variables.
#pragma once

#include <string>

#include "base/os/environment.h"
#include "platform/agent/ranks/nccl_network.h"
#include "platform/core/model/ids.h"
#include "platform/host/launch_spec.h"

namespace lockstep::agent {

// The agent's data for a rank, besides the launch.
struct RankLaunchInfo {
  std::string master_address;
  int master_port = 0;
  int store_port = 0;      // of torch's store on this host's loopback; 0: it is at MASTER_ADDR
  std::string rendezvous;  // host:port
  std::string secret_file;
  std::string report_socket;  // of this rank
  std::string token;          // LOCKSTEP_NODE_TOKEN
  std::string flight_folder;
  std::string profile_folder;
  std::string media_folder;
  std::string stand_ins;         // folder that comes first in PYTHONPATH; empty: none
  std::string socket_interface;  // with the node's address, for NCCL; empty: unknown
  NcclNetwork nccl_network;
  // Where and with which token the ranks log to MLflow's API; empty: they are told of none.
  std::string tracking_url{}, tracking_token{}, tracking_authorities{};
  bool is_restart = false;  // the rank was killed, and this process replaces it
};

// The variables of the agent's own environment that any program needs, or that describe the machine
// to NCCL, CUDA and libfabric; the rest is not passed on.
Environment base_environment();

// `base` with the run's own variables, which take precedence.
Environment user_environment(const host::LaunchSpec& launch, Environment base);

// Lockstep's own variables take precedence over those of the user. user: as above, or those of a
// software environment.
Environment rank_environment(const host::LaunchSpec& launch, const model::NodeId& node,
                             int local_rank, const RankLaunchInfo& info, Environment user);

}  // namespace lockstep::agent
