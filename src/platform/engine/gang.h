// Gang: the nodes of an attempt, which an engine starts as one. It has the program once; where each
// node runs is in its placement. Its files are below the home of Lockstep on that host.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "base/units.h"
#include "platform/core/model/ids.h"
#include "platform/core/model/slurm_request.h"
#include "platform/host/launch_spec.h"

namespace lockstep::engine {

// The fields of a LaunchSpec that differ between the nodes of a gang.
struct NodePlacement {
  int index = 0;     // of the node in its attempt
  std::string host;  // empty: the engine chooses it
  std::string address;
  std::vector<int> devices;
  bool gpus = false;
  std::vector<std::string> device_uuids;
  std::vector<std::vector<int>> islands;
};

struct Gang {
  model::AttemptName attempt;
  // Without the fields of NodePlacement. A relative checkpoint folder is below the home.
  host::LaunchSpec program;
  int devices_per_node = 1;
  bool make_checkpoint_folder = false;  // it is not the user's own
  std::vector<NodePlacement> nodes;
  std::string engine{};                        // of its hosts; empty: the only one
  std::optional<model::SlurmRequest> slurm{};  // of the run; other engines ignore it
  int cores = 0;                               // that each node needs at least
  Bytes memory{};                              // that each node needs; zero: not stated
  // The hosts that the engine must not choose, if it chooses those of the nodes.
  std::vector<std::string> excluded_hosts{};
};

model::NodeName node_name(const Gang& gang, const NodePlacement& node);
// `home`: the folder of Lockstep on the node's host, with the files of its nodes and the daemon
// file. Empty: the paths stay relative to it.
host::LaunchSpec launch_spec(const Gang& gang, const NodePlacement& node,
                             const std::filesystem::path& home);
// The gang of this node alone, from its launch with relative paths.
Gang gang_of_node(const model::NodeName& node, host::LaunchSpec launch,
                  bool make_checkpoint_folder);

}  // namespace lockstep::engine
