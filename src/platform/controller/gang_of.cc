#include "platform/controller/gang_of.h"

#include <algorithm>
#include <chrono>
#include <map>
#include <utility>
#include <vector>

#include "comm/cost/costs.h"
#include "map/query.h"
#include "net/connection_timeout.h"
#include "platform/core/model/hosts_by_placement.h"
#include "platform/core/step/starting/host_choice.h"
#include "platform/host/node_files.h"
#include "text/exact.h"

namespace lockstep::controller {
namespace {

constexpr Duration kTelemetryInterval = std::chrono::seconds(1);

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

void set_devices(engine::NodePlacement& placed, const map::Host* host, const model::Node& node) {
  const auto all = host ? map::devices(*host) : std::vector<const map::Device*>{};
  std::vector<bool> gpus;
  for (int index : node.devices) {
    const auto i = static_cast<std::size_t>(index);
    placed.devices.push_back(i < all.size() ? all[i]->number : index);
    gpus.push_back(i < all.size() && all[i]->kind == map::DeviceKind::gpu);
    if (gpus.back() && !all[i]->uuid.empty()) placed.device_uuids.push_back(all[i]->uuid);
  }
  placed.gpus = std::ranges::find(gpus, false) == gpus.end();
  if (placed.device_uuids.size() != placed.devices.size()) placed.device_uuids.clear();
  if (host) placed.islands = islands_of(*host, node.devices);
}

// A user's own values have precedence.
std::map<std::string, std::string> environment_of(const model::Run& run, const model::State& state,
                                                  const GangSetup& setup) {
  auto env = run.spec.env;
  env.insert(setup.secrets.begin(), setup.secrets.end());
  if (!setup.costs.empty()) env.emplace(comm::kCostsVariable, setup.costs);
  const Duration timeout = state.settings.connection_timeout;
  if (timeout != model::Settings{}.connection_timeout)
    env.emplace(net::kConnectionTimeoutVariable, exact_text(timeout));
  return env;
}

engine::NodePlacement placement_of(const model::State& state, const model::Node& node) {
  const map::Host* host = map::find_host(state.map, node.host);
  engine::NodePlacement placed;
  placed.index = node.id.index;
  placed.host = node.host;
  placed.address = host ? map::address_of(*host) : node.host;
  set_devices(placed, host, node);
  return placed;
}

host::LaunchSpec program_of(const model::State& state, const model::Attempt& attempt,
                            const GangSetup& setup) {
  const model::AttemptName name = name_of(attempt);
  const model::Run& run = state.runs.at(attempt.id.run);
  host::LaunchSpec launch;
  launch.attempt = model::record_of(state, attempt.id);
  launch.world_size = model::rank_count(run.spec);
  launch.nodes = model::node_count(run.spec);
  launch.command = run.spec.command;
  launch.env = environment_of(run, state, setup);
  for (const auto& [variable, value] : setup.secrets) launch.secret_variables.push_back(variable);
  launch.user = run.origin.user;
  launch.software = model::software_environment(run.spec);
  launch.working_folder = run.spec.working_folder;
  launch.upload = run.spec.upload;
  launch.checkpoint_folder =
      run.spec.checkpoint_folder.empty()
          ? host::default_checkpoint_folder(setup.shared, run.generation, run.id).string()
          : run.spec.checkpoint_folder;
  launch.host_checkpoints =
      state.hosts_make_map && run.spec.checkpoint_folder.empty() && setup.shared.empty();
  launch.token = setup.keys.agent_token(name);
  launch.secret = setup.keys.attempt_secret(name);
  launch.hang_after = run.spec.hang_after;
  launch.on_failure = run.spec.on_failure;
  launch.time_left = model::time_left(run);
  launch.signal = run.spec.signal;
  launch.start_limit = state.settings.start_limit;
  launch.lease = attempt.lease.value_or(Duration(0));
  launch.telemetry_interval = kTelemetryInterval;
  return launch;
}

// Machines that another engine has, by their names. The engine that chooses may see them as well.
void exclude_hosts_of_others(const model::State& state, const std::string& engine,
                             std::vector<std::string>& excluded) {
  for (const map::Pod& pod : state.map.pods) {
    if (model::engine_of(state, pod) == engine) continue;
    for (const map::Host* host : map::hosts(pod)) excluded.push_back(host->id);
  }
}

// The devices of each node are those that it gets where it starts.
void leave_choice_to_engine(const model::State& state, const model::Attempt& attempt,
                            engine::Gang& gang) {
  step::HostChoice choice = step::host_choice_of(state, attempt);
  gang.excluded_hosts = std::move(choice.excluded);
  exclude_hosts_of_others(state, attempt.engine, gang.excluded_hosts);
  for (engine::NodePlacement& placed : gang.nodes) placed.gpus = choice.gpus;
}

}  // namespace

engine::Gang gang_of(const model::State& state, const model::Attempt& attempt,
                     const GangSetup& setup) {
  const model::RunSpec& spec = state.runs.at(attempt.id.run).spec;
  engine::Gang gang{.attempt = name_of(attempt),
                    .program = program_of(state, attempt, setup),
                    .devices_per_node = spec.devices,
                    .make_checkpoint_folder = spec.checkpoint_folder.empty(),
                    .nodes = {},
                    .engine = attempt.engine,
                    .slurm = spec.slurm,
                    .cores = spec.needs.cores,
                    .memory = spec.needs.memory};
  for (const model::Node* node : model::nodes_of(state, attempt.id))
    gang.nodes.push_back(placement_of(state, *node));
  if (!attempt.is_placed) leave_choice_to_engine(state, attempt, gang);
  return gang;
}

}  // namespace lockstep::controller
