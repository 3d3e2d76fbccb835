#include "platform/controller/launch_spec_of.h"

#include <algorithm>
#include <map>
#include <utility>
#include <vector>

#include "comm/cost/costs.h"
#include "map/query.h"
#include "net/connection_timeout.h"
#include "platform/host/node_files.h"
#include "text/exact.h"

namespace lockstep::controller {
namespace {

// For each of these devices all devices of its island, by their numbers on the machine.
std::vector<std::vector<int>> islands_of(const map::Host& host, const std::vector<int>& indices) {
  std::vector<std::vector<int>> by_device;
  for (const map::Island& island : host.islands) {
    std::vector<int> numbers;
    for (const map::Device& device : island.devices) {
      if (device.shared) return {};
      numbers.push_back(device.number);
    }
    by_device.resize(by_device.size() + numbers.size(), numbers);
  }
  if (host.islands.size() < 2) return {};
  std::vector<std::vector<int>> found;
  for (const int index : indices)
    if (std::cmp_less(index, by_device.size()))
      found.push_back(by_device[static_cast<std::size_t>(index)]);
  return found;
}

void set_devices(engine::LaunchSpec& launch, const map::Host* host, const model::Node& node) {
  const auto all = host ? map::devices(*host) : std::vector<const map::Device*>{};
  std::vector<bool> gpus;
  for (int index : node.devices) {
    const auto i = static_cast<std::size_t>(index);
    launch.devices.push_back(i < all.size() ? all[i]->number : index);
    gpus.push_back(i < all.size() && all[i]->kind == map::DeviceKind::gpu);
    if (gpus.back() && !all[i]->uuid.empty()) launch.device_uuids.push_back(all[i]->uuid);
  }
  launch.gpus = std::ranges::find(gpus, false) == gpus.end();
  if (launch.device_uuids.size() != launch.devices.size()) launch.device_uuids.clear();
  if (host) launch.islands = islands_of(*host, node.devices);
}

// A user's own values have precedence.
std::map<std::string, std::string> environment_of(const model::Run& run, const model::State& state,
                                                  const std::string& costs) {
  auto env = run.spec.env;
  if (!costs.empty()) env.emplace(comm::kCostsVariable, costs);
  const Duration timeout = state.settings.connection_timeout;
  if (timeout != model::Settings{}.connection_timeout)
    env.emplace(net::kConnectionTimeoutVariable, exact_text(timeout));
  return env;
}

}  // namespace

engine::LaunchSpec launch_spec_of(const model::State& state, const model::Node& node,
                                  const LaunchSetup& setup) {
  const model::NodeName name = name_of(state, node.id);
  const model::Run& run = state.runs.at(node.id.attempt.run);
  const map::Host* host = map::find_host(state.map, node.host);
  engine::LaunchSpec launch;
  launch.node = text(node.id);
  launch.generation = name.generation;
  launch.attempt = model::record_of(state, node.id.attempt);
  launch.host = node.host;
  launch.address = host ? map::address_of(*host) : node.host;
  set_devices(launch, host, node);
  launch.first_rank = node.id.index * run.spec.devices;
  launch.world_size = model::rank_count(run.spec);
  launch.nodes = model::node_count(run.spec);
  launch.command = run.spec.command;
  launch.env = environment_of(run, state, setup.costs);
  launch.working_folder = run.spec.working_folder;
  launch.checkpoint_folder = setup.checkpoint_folder.string();
  launch.node_folder = host::node_folder(setup.home, name).string();
  launch.daemon_file = (setup.home / "daemon.json").string();
  launch.token = setup.keys.agent_token(name.attempt());
  launch.secret = setup.keys.attempt_secret(name.attempt());
  launch.hang_after = run.spec.hang_after;
  launch.on_failure = run.spec.on_failure;
  launch.time_left = run.spec.timeout - run.time_used;
  launch.start_limit = state.settings.start_limit;
  return launch;
}

}  // namespace lockstep::controller
