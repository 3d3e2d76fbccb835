#include "platform/engine/slurm/slurm_map.h"

#include <algorithm>
#include <map>
#include <optional>
#include <utility>

#include "base/format.h"
#include "base/units.h"

namespace lockstep::engine {
namespace {

map::Host map_host_of(const SlurmHost& slurm) {
  map::Host host;
  host.id = slurm.name;
  if (slurm.address != slurm.name) host.address = slurm.address;
  if (slurm.memory_mib > 0) host.memory = Bytes(slurm.memory_mib << 20);
  host.cores = slurm.cores;
  const bool has_gpus = slurm.gpus > 0;
  map::Island island;
  for (int number = 0; number < (has_gpus ? slurm.gpus : slurm.cores); ++number)
    island.devices.push_back({.kind = has_gpus ? map::DeviceKind::gpu : map::DeviceKind::core,
                              .number = number,
                              .memory = std::nullopt});
  host.islands.push_back(std::move(island));
  return host;
}

// Switches above the one of this name; a damaged topology has no end, so their number is bounded.
std::string top_of(std::string name, const std::map<std::string, std::string>& above) {
  for (std::size_t steps = 0; steps < above.size(); ++steps) {
    const auto next = above.find(name);
    if (next == above.end()) break;
    name = next->second;
  }
  return name;
}

Result<std::string> find_slurm_partition(SlurmCommands& slurm, const std::string& wanted) {
  if (!wanted.empty()) return wanted;
  std::string found = default_slurm_partition(TRY(slurm.run({"sinfo", "-h", "-o", "%P"})));
  if (!found.empty()) return found;
  return Error{Code::invalid,
               "Slurm has no default partition: choose one with --slurm-partition NAME"};
}

}  // namespace

map::ClusterMap map_of_slurm(const std::vector<SlurmHost>& hosts,
                             const std::vector<SlurmSwitch>& switches) {
  std::map<std::string, std::string> leaf_of, above;
  for (const SlurmSwitch& one : switches) {
    for (const std::string& lower : one.switches) above[lower] = one.name;
    if (one.level == 0)
      for (const std::string& host : one.hosts) leaf_of[host] = one.name;
  }
  std::map<std::string, std::map<std::string, map::Leaf>> pods;
  for (const SlurmHost& host : hosts) {
    if (host.gpus == 0 && host.cores == 0) continue;
    const auto leaf = leaf_of.find(host.name);
    const std::string name = leaf == leaf_of.end() ? "hosts" : leaf->second;
    map::Leaf& found = pods[leaf == leaf_of.end() ? "slurm" : top_of(name, above)][name];
    found.name = name;
    found.hosts.push_back(map_host_of(host));
  }
  map::ClusterMap map;
  map.name = "slurm";
  for (auto& [name, leaves] : pods) {
    map::Pod pod;
    pod.name = name;
    for (auto& [leaf_name, leaf] : leaves) pod.leaves.push_back(std::move(leaf));
    map.pods.push_back(std::move(pod));
  }
  return map;
}

Result<std::vector<SlurmHost>> list_slurm_hosts(SlurmCommands& slurm,
                                                const std::string& partition) {
  const std::string name = TRY(find_slurm_partition(slurm, partition));
  return parse_slurm_hosts(
      TRY(slurm.run({"sinfo", "-h", "-N", "-p", name, "-o", std::string(kHostFormat)})));
}

Result<map::ClusterMap> discover_slurm(SlurmCommands& slurm, const std::string& partition) {
  const auto hosts = TRY(list_slurm_hosts(slurm, partition));
  // Without a topology some versions answer with an error.
  const auto topology = slurm.run({"scontrol", "show", "topology"});
  map::ClusterMap map =
      map_of_slurm(hosts, parse_slurm_switches(topology ? *topology : std::string()));
  if (map.pods.empty())
    return Error{Code::invalid,
                 format("Slurm's partition {} has no hosts; `sinfo` lists the partitions",
                        partition.empty() ? "by default" : "'" + partition + "'")};
  return map;
}

}  // namespace lockstep::engine
