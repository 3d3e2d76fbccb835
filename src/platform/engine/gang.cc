#include "platform/engine/gang.h"

#include <utility>

#include "platform/host/home.h"
#include "platform/host/node_files.h"

namespace lockstep::engine {

model::NodeName node_name(const Gang& gang, const NodePlacement& node) {
  return {gang.attempt.generation, {gang.attempt.id, node.index}};
}

host::LaunchSpec launch_spec(const Gang& gang, const NodePlacement& node,
                             const std::filesystem::path& home) {
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
  launch.node_folder = host::node_folder(home, node_name(gang, node)).string();
  if (launch.upload) launch.working_folder = host::NodeFiles{launch.node_folder}.upload().string();
  launch.daemon_file = host::Home{home}.daemon_file().string();
  if (!launch.checkpoint_folder.empty())
    launch.checkpoint_folder = (home / launch.checkpoint_folder).string();
  return launch;
}

Gang gang_of_node(const model::NodeName& node, host::LaunchSpec launch,
                  bool make_checkpoint_folder) {
  NodePlacement placement{.index = node.id.index,
                          .host = launch.host,
                          .address = launch.address,
                          .devices = launch.devices,
                          .gpus = launch.gpus,
                          .device_uuids = launch.device_uuids,
                          .islands = launch.islands};
  const auto devices = static_cast<int>(launch.devices.size());
  return {.attempt = node.attempt(),
          .program = std::move(launch),
          .devices_per_node = devices,
          .make_checkpoint_folder = make_checkpoint_folder,
          .nodes = {std::move(placement)}};
}

}  // namespace lockstep::engine
