// Gang: the nodes of an attempt, which an engine starts as one. It has the program once; where each
// node runs, and where its files are on that host, is in its placement.
#pragma once

#include <string>
#include <vector>

#include "platform/core/model/ids.h"
#include "platform/host/launch_spec.h"

namespace lockstep::engine {

// The fields of a LaunchSpec that differ between the nodes of a gang.
struct NodePlacement {
  int index = 0;  // of the node in its attempt
  std::string host;
  std::string address;
  std::vector<int> devices;
  bool gpus = false;
  std::vector<std::string> device_uuids;
  std::vector<std::vector<int>> islands;
  std::string node_folder;
};

struct Gang {
  model::AttemptName attempt;
  host::LaunchSpec program;  // without the fields of NodePlacement
  int devices_per_node = 1;
  bool make_checkpoint_folder = false;  // it is not the user's own
  std::vector<NodePlacement> nodes;
};

model::NodeName node_name(const Gang& gang, const NodePlacement& node);
host::LaunchSpec launch_spec(const Gang& gang, const NodePlacement& node);

}  // namespace lockstep::engine
