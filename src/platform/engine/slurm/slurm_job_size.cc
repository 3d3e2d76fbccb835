#include "platform/engine/slurm/slurm_job_size.h"

#include <algorithm>
#include <cstddef>
#include <optional>
#include <set>
#include <utility>

#include "base/format.h"

namespace lockstep::engine {
namespace {

// The share of the host's cores that belongs to the GPUs of a node.
int cores_with_gpus(const Gang& gang, const SlurmHost& host) {
  return std::max({1, gang.cores, host.cores * gang.devices_per_node / host.gpus});
}

int cores_without_gpus(const Gang& gang) { return std::max(gang.devices_per_node, gang.cores); }

// If a host is a part: the type of its GPUs, which all hosts must have then.
Result<std::string> gpu_type_of_parts(const std::vector<const SlurmHost*>& hosts) {
  const auto part =
      std::ranges::find_if(hosts, [](const SlurmHost* host) { return !host->whole.empty(); });
  if (part == hosts.end()) return std::string();
  const std::string& type = (*part)->gpu_types.front().type;
  for (const SlurmHost* host : hosts)
    if (host->gpu_types.size() != 1 || host->gpu_types.front().type != type)
      return Error{Code::invalid,
                   format("its hosts have GPUs of several types ({} and {} are two of them), and a "
                          "job has one: ask for it by --slurm-gpu-type",
                          (*part)->name, host->name)};
  return type;
}

// A host of Slurm that is not listed any more counts as one with as many cores as the node needs.
Result<SlurmJobSize> size_on_chosen_hosts(const Gang& gang, const std::vector<SlurmHost>& hosts) {
  SlurmJobSize size;
  std::set<std::string> partitions;
  std::vector<const SlurmHost*> chosen;
  for (const NodePlacement& placement : gang.nodes) {
    const auto host = std::ranges::find(hosts, placement.host, &SlurmHost::name);
    if (host != hosts.end()) {
      partitions.insert(host->partition);
      chosen.push_back(&*host);
    }
    size.cores = cores_without_gpus(gang);
    if (!placement.gpus) continue;
    size.gpus = gang.devices_per_node;
    if (host != hosts.end() && host->gpus > 0) size.cores = cores_with_gpus(gang, *host);
  }
  if (partitions.size() > 1)
    return Error{Code::invalid,
                 format("its hosts are in several partitions of Slurm ({}), and a job has one: ask "
                        "for one kind of device by --device-kind",
                        joined(partitions, ", "))};
  if (!partitions.empty()) size.partition = *partitions.begin();
  size.gpu_type = TRY(gpu_type_of_parts(chosen));
  return size;
}

bool is_large_enough(const Gang& gang, const SlurmHost& host) {
  if (gang.nodes.front().gpus)
    return host.gpus >= gang.devices_per_node && host.cores >= gang.cores;
  return host.cores >= cores_without_gpus(gang);
}

bool is_in(const SlurmHost& host, const std::string& partition) {
  return host.partition == partition ||
         std::ranges::find(host.partitions, partition) != host.partitions.end();
}

bool is_excluded(const Gang& gang, const SlurmHost& host) {
  return std::ranges::find(gang.excluded_hosts, host.name) != gang.excluded_hosts.end();
}

// The first of the hosts' partitions with enough hosts for the gang, else the one with the most.
// Empty: no host is large enough.
std::string partition_for(const Gang& gang, const std::vector<const SlurmHost*>& suitable) {
  std::string best;
  std::ptrdiff_t most = 0;
  std::set<std::string> seen;
  for (const SlurmHost* host : suitable) {
    if (!seen.insert(host->partition).second) continue;
    const auto count = std::ranges::count_if(
        suitable, [&](const SlurmHost* one) { return is_in(*one, host->partition); });
    if (count <= most) continue;
    best = host->partition;
    most = count;
    if (std::cmp_greater_equal(most, gang.nodes.size())) break;
  }
  return best;
}

SlurmJobSize size_on_any_host(const Gang& gang, const std::vector<SlurmHost>& hosts) {
  const bool gpus = gang.nodes.front().gpus;
  SlurmJobSize size{.cores = cores_without_gpus(gang), .gpus = gpus ? gang.devices_per_node : 0};
  std::vector<const SlurmHost*> suitable;
  for (const SlurmHost& host : hosts)
    if (!is_excluded(gang, host) && is_large_enough(gang, host)) suitable.push_back(&host);
  const auto asked = gang.slurm ? gang.slurm->partition : std::nullopt;
  size.partition = asked ? *asked : partition_for(gang, suitable);
  std::optional<int> least;
  for (const SlurmHost* host : suitable) {
    if (!gpus || !is_in(*host, size.partition)) continue;
    const int cores = cores_with_gpus(gang, *host);
    least = std::min(least.value_or(cores), cores);
  }
  size.cores = least.value_or(size.cores);
  for (const SlurmHost& host : hosts)
    if (is_excluded(gang, host) && is_in(host, size.partition)) size.excluded.push_back(host.name);
  return size;
}

}  // namespace

bool slurm_places(const Gang& gang) { return gang.nodes.front().host.empty(); }

Result<SlurmJobSize> slurm_job_size(const Gang& gang, const std::vector<SlurmHost>& hosts) {
  if (slurm_places(gang)) return size_on_any_host(gang, hosts);
  return size_on_chosen_hosts(gang, hosts);
}

}  // namespace lockstep::engine
