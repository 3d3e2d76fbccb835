#include "platform/engine/slurm/slurm_map.h"

#include <algorithm>
#include <map>
#include <optional>
#include <utility>

#include "base/format.h"
#include "base/units.h"
#include "map/labels.h"
#include "map/map_of_leaves.h"
#include "platform/core/model/slurm_labels.h"
#include "platform/engine/slurm/slurm_parts.h"

namespace lockstep::engine {
namespace {

// Names that are no words, and those beyond the most labels of a host, are left out.
map::Labels labels_of_slurm_host(const SlurmHost& slurm, HostsChosenBy chosen_by) {
  map::Labels labels;
  const auto add = [&](const std::string& key, std::string_view value = model::kSlurmLabelValue) {
    const map::Labels one{{key, std::string(value)}};
    if (labels.size() < map::kLabelsMax && map::check_labels(one))
      labels.insert(one.begin(), one.end());
  };
  for (const std::string& name : slurm.partitions) add(model::slurm_partition_label(name));
  // The map counts devices of all types together. So only Slurm can tell which of them are free.
  const bool has_type = slurm.gpu_types.size() == 1 || chosen_by == HostsChosenBy::slurm;
  for (const SlurmGpus& gpus : slurm.gpu_types)
    if (!gpus.type.empty())
      add(model::slurm_gpu_type_label(gpus.type),
          has_type ? model::kSlurmLabelValue : model::kSlurmOneOfSeveral);
  for (const std::string& name : slurm.features) add(model::slurm_feature_label(name));
  return labels;
}

map::Host map_host_of(const SlurmHost& slurm, HostsChosenBy chosen_by) {
  map::Host host;
  host.id = slurm.name;
  if (slurm.address != slurm.name) host.address = slurm.address;
  if (slurm.memory_mib > 0) host.memory = Bytes(slurm.memory_mib << 20);
  host.cores = slurm.cores;
  host.labels = labels_of_slurm_host(slurm, chosen_by);
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

Result<std::vector<SlurmPartition>> find_slurm_partitions(
    SlurmCommands& slurm, const std::vector<SlurmPartition>& wanted) {
  if (!wanted.empty()) return wanted;
  std::string found = default_slurm_partition(TRY(slurm.run({"sinfo", "-h", "-o", "%P"})));
  if (!found.empty()) return std::vector<SlurmPartition>{{.name = std::move(found)}};
  return Error{Code::invalid,
               "Slurm has no default partition: choose one with --slurm-partition NAME"};
}

}  // namespace

map::ClusterMap map_of_slurm(const std::vector<SlurmHost>& hosts,
                             const std::vector<SlurmSwitch>& switches, HostsChosenBy chosen_by) {
  std::map<std::string, std::string> leaf_of, above;
  for (const SlurmSwitch& one : switches) {
    for (const std::string& lower : one.switches) above[lower] = one.name;
    if (one.level == 0)
      for (const std::string& host : one.hosts) leaf_of[host] = one.name;
  }
  // A gang is in one pod if it can be, and its job must be in one partition.
  const bool has_partitions = std::ranges::any_of(
      hosts, [&](const SlurmHost& host) { return host.partition != hosts.front().partition; });
  map::LeavesByPod pods;
  for (const SlurmHost& host : hosts) {
    if (host.gpus == 0 && host.cores == 0) continue;
    const auto leaf = leaf_of.find(name_for_slurm(host));
    const std::string name = leaf == leaf_of.end() ? "hosts" : leaf->second;
    std::string pod = leaf == leaf_of.end() ? "slurm" : top_of(name, above);
    if (has_partitions) pod = format("{}-{}", host.partition, pod);
    if (!host.whole.empty()) pod += format("-{}", host.gpu_types.front().type);
    pods[pod][name].hosts.push_back(map_host_of(host, chosen_by));
  }
  return map::map_of_leaves("slurm", std::move(pods));
}

Result<std::vector<SlurmHost>> list_slurm_hosts(SlurmCommands& slurm,
                                                const std::vector<SlurmPartition>& partitions,
                                                HostsChosenBy chosen_by) {
  const auto used = TRY(find_slurm_partitions(slurm, partitions));
  auto hosts = hosts_of_partitions(parse_slurm_hosts(TRY(slurm.run({"sinfo", "-h", "-a", "-N", "-o",
                                                                    std::string(kHostFormat)}))),
                                   used);
  if (chosen_by == HostsChosenBy::slurm) return hosts;
  return parts_by_gpu_type(std::move(hosts));
}

// Without a topology some versions answer with an error.
std::vector<SlurmSwitch> list_slurm_switches(SlurmCommands& slurm) {
  const auto topology = slurm.run({"scontrol", "show", "topology"});
  return parse_slurm_switches(topology ? *topology : std::string());
}

Result<map::ClusterMap> discover_slurm(SlurmCommands& slurm,
                                       const std::vector<SlurmPartition>& partitions,
                                       HostsChosenBy chosen_by) {
  const auto hosts = TRY(list_slurm_hosts(slurm, partitions, chosen_by));
  map::ClusterMap map = map_of_slurm(hosts, list_slurm_switches(slurm), chosen_by);
  if (!map.pods.empty()) return map;
  std::vector<std::string> names;
  for (const SlurmPartition& one : partitions) names.push_back(format("'{}'", one.name));
  return Error{Code::invalid,
               format("Slurm's partition {} has no hosts; `sinfo` lists the partitions",
                      names.empty() ? "by default" : joined(names, " or "))};
}

}  // namespace lockstep::engine
