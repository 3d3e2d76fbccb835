#include "platform/engine/gang.h"

namespace lockstep::engine {

model::NodeName node_name(const Gang& gang, const NodePlacement& node) {
  return {gang.attempt.generation, {gang.attempt.id, node.index}};
}

host::LaunchSpec launch_spec(const Gang& gang, const NodePlacement& node) {
  host::LaunchSpec launch = gang.program;
  launch.node = text(node_name(gang, node).id);
  launch.generation = gang.attempt.generation;
  launch.host = node.host;
  launch.address = node.address;
  launch.devices = node.devices;
  launch.gpus = node.gpus;
  launch.device_uuids = node.device_uuids;
  launch.islands = node.islands;
  launch.first_rank = node.index * gang.devices_per_node;
  launch.node_folder = node.node_folder;
  return launch;
}

}  // namespace lockstep::engine
